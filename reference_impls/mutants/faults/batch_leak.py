"""From the third row of a batch on, a row's proposals are judged by the draft densities of the row before it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from reference_impls.mutants.base import Mutant, remade
from reference_impls.samplers.round import Draft, Work
from reference_impls.samplers.speculative import Speculative
from tppsd_bench.protocols import FloatArray, IntArray


class NeighboursQ(Speculative):
    def propose(self, work: Work, k: IntArray, u: FloatArray) -> Draft:
        draft = super().propose(work, k, u)
        rows = np.arange(len(k))
        rows[2:] -= 1
        return replace(draft, laws=[law.take(rows) for law in draft.laws])


MUTANT = Mutant(
    name="batch_leak",
    broken="Rows 2 and on of a batch are verified, and replaced, with the draft's laws of the row before them.",
    precedent="draft probabilities of a batch misaligned by one row: 1Cat-vLLM #656",
    change=lambda sampler, _: remade(NeighboursQ, sampler),
    killers=(
        "density_agreement.q",
        "support",
        "role_law",
        "strata",
        "pit_time",
    ),
    blessed_by=(
        "counts in a window",
        "mean log-likelihood",
        "acceptance",
    ),
)
