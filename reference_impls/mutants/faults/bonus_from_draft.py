"""The event after a fully accepted draft is one more proposal of the draft, which nobody verifies."""

from __future__ import annotations

import numpy as np

from reference_impls.base import Law
from reference_impls.mutants.base import Mutant, remade
from reference_impls.samplers.round import Draft, LastEvent, Work
from reference_impls.samplers.speculative import Speculative
from tppsd_bench.protocols import ROLE_TARGET, FloatArray, IntArray


class BonusFromDraft(Speculative):
    """The bonus comes from q at position K; it counts as the target's."""

    def bonus(self, work: Work, draft: Draft, p: Law, at: IntArray, u: FloatArray, last: LastEvent) -> IntArray:
        for j in np.unique(draft.k[at]):
            chosen = draft.k[at] == j
            rows = at[chosen]
            drafted = np.zeros_like(draft.k)
            drafted[rows] = j + 1
            q = self.draft_law(work, drafted, draft.gaps, draft.types, int(j)).take(rows)
            last.gap[rows], last.type[rows] = self.draw_proposal(q, u[chosen])
        last.gap_role[at], last.type_role[at] = ROLE_TARGET, ROLE_TARGET
        return at[:0]


MUTANT = Mutant(
    name="bonus_from_draft",
    broken="The bonus event is drawn from the draft.",
    precedent="vLLM issue 8320",
    change=lambda sampler, _: remade(BonusFromDraft, sampler),
    killers=("role_law.gap.target", "role_law.type.target", "strata.pit_time", "strata.pit_type", "draft_direction.type"),
    blessed_by=("acceptance_identity", "pit_type", "pair", "blackbox.gap_ks", "blackbox.count_fano"),
    gross=False,
)
