"""A refused gap is replaced from its residual, and the type that goes with it from its own residual too."""

from __future__ import annotations

import numpy as np

from reference_impls.base import Law
from reference_impls.mutants.base import Mutant, remade
from reference_impls.samplers.residual import residual_types
from reference_impls.samplers.round import Draft, LastEvent, Work
from reference_impls.samplers.speculative import Speculative
from tppsd_bench.protocols import ROLE_RESIDUAL, FloatArray, IntArray


class TypeResidualAfterGap(Speculative):
    """The draft proposed no type with the new gap, so that there is nothing to take off: its type should be the target's."""

    def replace_event(self, work: Work, draft: Draft, p: Law, at: IntArray, u: FloatArray, last: LastEvent) -> IntArray:
        again = super().replace_event(work, draft, p, at, u, last)
        if p.n_types > 1:
            q, gap = draft.laws_at(at, last.n_accepted[at]), last.gap[at]
            types, equal = residual_types(p.type_log_probs(gap), q.type_log_probs(gap), u[:, 2])
            last.type[at], last.type_role[at] = np.where(equal, last.type[at], types), ROLE_RESIDUAL
        return again


MUTANT = Mutant(
    name="type_residual_after_gap",
    broken="After a rejected gap the type is drawn from the residual of types, not from the target's types.",
    precedent="a reading of the published algorithm of speculative sampling for point processes",
    change=lambda sampler, _: remade(TypeResidualAfterGap, sampler),
    killers=("accounting.roles", "accounting.records.type", "pair.gap_type", "score.type", "pit_type"),
    blessed_by=("pit_time", "acceptance_identity", "blackbox.gap_ks", "blackbox.count_mean"),
)
