"""No bonus event: a round whose proposals all survive ends with the last of them."""

from __future__ import annotations

import numpy as np

from reference_impls.mutants.base import Mutant, remade
from reference_impls.samplers.round import Draft, LastEvent, Work
from reference_impls.samplers.speculative import Speculative
from tppsd_bench.protocols import BoolArray, FloatArray, IntArray


class NoBonus(Speculative):
    def compose(self, draft: Draft, last: LastEvent) -> tuple[FloatArray, IntArray, IntArray]:
        gaps, types, offered = super().compose(draft, last)
        full = (last.n_accepted == draft.k) & (draft.k > 0)  # a round without proposals lives on its bonus
        return gaps, types, offered - full

    def roll_back(self, work: Work, base: IntArray, n_accepted: IntArray, active: BoolArray) -> None:
        unfed = np.minimum(n_accepted, np.maximum(work.histories.lengths - base - 1, 0))  # the law after it is asked for next
        super().roll_back(work, base, unfed, active)


MUTANT = Mutant(
    name="no_bonus",
    broken="Nothing; a round of K accepted events ends without one more from the target.",
    precedent="speculative samplers that drop the bonus to keep the draft's cache in step",
    change=lambda sampler, _: remade(NoBonus, sampler),
    control=True,
)
