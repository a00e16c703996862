"""After a rejection the replacement is drawn from the draft itself, not from what the target has beyond the draft."""

from __future__ import annotations

from reference_impls.base import Law
from reference_impls.mutants.base import Mutant, remade
from reference_impls.mutants.faults.residual_from_target import Redrawn
from reference_impls.samplers.round import Draft
from tppsd_bench.protocols import IntArray


class RedrawnFromDraft(Redrawn):
    def law_of(self, draft: Draft, p: Law, at: IntArray, position: IntArray) -> Law:
        return draft.laws_at(at, position)


MUTANT = Mutant(
    name="residual_from_draft",
    broken="A rejected gap or type is replaced by a draw from the draft, not from the residual.",
    precedent="the same slip with the other law: no published case is known",
    change=lambda sampler, _: remade(RedrawnFromDraft, sampler),
    killers=(
        "support.gap",
        "support.type",
        "role_law.gap.residual",
        "role_law.type.residual",
        "pit_time",
        "pit_type",
        "pair.gap_type",
    ),
    blessed_by=("acceptance_identity", "draft_law", "blackbox.gap_acf"),
)
