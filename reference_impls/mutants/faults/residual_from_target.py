"""After a rejection the replacement is drawn from the target itself, not from what the target has beyond the draft."""

from __future__ import annotations

from reference_impls.base import Law
from reference_impls.heads.lognormal_mixture import sample_types
from reference_impls.mutants.base import Mutant, remade
from reference_impls.samplers.round import Draft, LastEvent, Work
from reference_impls.samplers.speculative import Speculative
from tppsd_bench.protocols import ROLE_ACCEPTED, ROLE_RESIDUAL, ROLE_TARGET, FloatArray, IntArray


class Redrawn(Speculative):
    """A refused gap is drawn anew from ``law_of``'s gaps, a refused type from its types."""

    def law_of(self, draft: Draft, p: Law, at: IntArray, position: IntArray) -> Law:
        """What replacements are drawn from: the target's own law."""
        return p

    def replace_event(self, work: Work, draft: Draft, p: Law, at: IntArray, u: FloatArray, last: LastEvent) -> IntArray:
        last.gap[at] = self.law_of(draft, p, at, last.n_accepted[at]).sample_gap(u[:, :2])
        last.gap_role[at], last.type_role[at] = ROLE_RESIDUAL, ROLE_TARGET
        if p.n_types > 1:
            last.type[at] = sample_types(p.type_log_probs(last.gap[at]), u[:, 2])
        work.counts.residual_draws += len(at)
        return at[:0]

    def replace_type(self, work: Work, draft: Draft, p: Law, at: IntArray, u: FloatArray, last: LastEvent) -> IntArray:
        position = last.n_accepted[at]
        last.gap[at] = draft.gaps[at, position]
        last.type[at] = sample_types(self.law_of(draft, p, at, position).type_log_probs(last.gap[at]), u[:, 2])
        last.gap_role[at], last.type_role[at] = ROLE_ACCEPTED, ROLE_RESIDUAL
        work.counts.residual_draws += len(at)
        return at[:0]


MUTANT = Mutant(
    name="residual_from_target",
    broken="A rejected gap or type is replaced by a draw from the target, not from the residual.",
    precedent="several speculative decoders, among them forks of EAGLE",
    change=lambda sampler, _: remade(Redrawn, sampler),
    killers=(
        "support.gap",
        "support.type",
        "role_law.gap.residual",
        "role_law.type.residual",
        "pit_time",
        "pit_type",
        "pair.gap_type",
    ),
    blessed_by=("acceptance_identity", "draft_law", "blackbox.gap_acf", "blackbox.count_fano"),
    gross=False,
)
