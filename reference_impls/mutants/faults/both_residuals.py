"""Whatever was refused, gap or type, both are replaced, each from its own residual."""

from __future__ import annotations

from reference_impls.base import Law
from reference_impls.mutants.base import Mutant, remade
from reference_impls.mutants.faults.type_residual_after_gap import TypeResidualAfterGap
from reference_impls.samplers.round import Draft, LastEvent, Work
from tppsd_bench.protocols import FloatArray, IntArray


class BothResiduals(TypeResidualAfterGap):
    """A refused type also throws away the gap that was accepted before it."""

    def replace_type(self, work: Work, draft: Draft, p: Law, at: IntArray, u: FloatArray, last: LastEvent) -> IntArray:
        return self.replace_event(work, draft, p, at, u, last)


MUTANT = Mutant(
    name="both_residuals",
    broken="On any rejection gap and type are both redrawn from their residuals.",
    precedent="the algorithm of speculative sampling for point processes as printed (the prose around it is right)",
    change=lambda sampler, _: remade(BothResiduals, sampler),
    killers=("accounting.roles", "accounting.records", "pair.gap_type", "score.type", "pit_type", "pit_time"),
    blessed_by=("acceptance_identity", "draft_law", "blackbox.gap_acf", "blackbox.count_fano"),
)
