"""A proposed type is kept only if a type drawn from the target is the same one; else the target's is used.

With p(k | gap) and q(k | gap): kept with mass p(k) q(k), replaced by k with p(k) (1 - q(k)); the sum is p(k). Exact, but accepted with
probability sum p q instead of sum min(p, q).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from reference_impls.base import Law
from reference_impls.heads.lognormal_mixture import sample_types
from reference_impls.mutants.base import Mutant, remade
from reference_impls.samplers.round import Draft, LastEvent, Work
from reference_impls.samplers.speculative import Speculative
from reference_impls.samplers.verification import TwoStep, Verification
from tppsd_bench.protocols import (
    ROLE_ACCEPTED,
    ROLE_RESIDUAL,
    Conditional,
    FloatArray,
    IntArray,
    Rule,
)


class ExactMatch(TwoStep):
    """Gaps as Leviathan's; a type by comparison with the target's own draw."""

    rule: Rule = "exact_match"

    def verify(
        self, p: Conditional, q: Conditional, gaps: FloatArray, types: IntArray, u_gap: FloatArray, u_type: FloatArray
    ) -> Verification:
        verified = super().verify(p, q, gaps, types, u_gap, u_type)
        own = sample_types(p.type_log_probs(gaps.ravel()), u_type.ravel()).reshape(types.shape)
        verified.type_accepted = own == types
        return verified


class ExactMatchTypes(Speculative):
    def replace_type(self, work: Work, draft: Draft, p: Law, at: IntArray, u: FloatArray, last: LastEvent) -> IntArray:
        """The target's own type is another one than the proposed; which of the others, its law says."""
        position = last.n_accepted[at]
        gap, proposed = draft.gaps[at, position], draft.types[at, position]
        others = p.type_log_probs(gap)
        others[np.arange(len(at)), proposed] = -np.inf
        last.gap[at], last.type[at] = gap, sample_types(others, u[:, 2])
        last.gap_role[at], last.type_role[at] = ROLE_ACCEPTED, ROLE_RESIDUAL
        work.counts.residual_draws += len(at)
        return at[:0]


MUTANT = Mutant(
    name="exact_match_types",
    broken="Nothing; types are accepted by exact match with the target's own draw, which costs acceptance.",
    precedent="speculative decoders that compare the target's sample with the draft's",
    change=lambda sampler, _: replace(remade(ExactMatchTypes, sampler), rule=ExactMatch()),
    control=True,
)
