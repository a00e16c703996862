"""Token logits made safe for the exponential by taking off their maximum, then compared without the sum that normalises them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from reference_impls.mutants.base import Mutant, Witness
from reference_impls.samplers.residual_tokens import shared_tokens
from reference_impls.samplers.verification import TwoStep, Verification
from reference_impls.tokens.law import TokenLaw
from tppsd_bench.protocols import Conditional, FloatArray, IntArray


class WithoutSum(TwoStep):
    """log p is read as logit - max logit, on both sides: right where both laws are equally peaked, and nowhere else."""

    def verify(
        self, p: Conditional, q: Conditional, gaps: FloatArray, types: IntArray, u_gap: FloatArray, u_type: FloatArray
    ) -> Verification:
        p, q = shared_tokens(p, q)  # type: ignore[arg-type]
        log_p, log_pk = _raw(p, gaps, types)
        log_q, log_qk = _raw(q, gaps, types)
        with np.errstate(invalid="ignore"):
            return Verification(
                log_p, log_q, log_pk, log_qk, self.accepts(log_p, log_q, u_gap), self.accepts(log_pk, log_qk, u_type)
            )


def _raw(law: TokenLaw, gaps: FloatArray, types: IntArray) -> tuple[FloatArray, FloatArray]:
    """Of each drafted event: its bucket's logit less the largest (and the within density), its type's logit less the largest."""
    flat = gaps.ravel()
    of_bucket = law.log_prob(flat) - law.log_bucket_probs.max(axis=1)
    table = law.type_log_probs(flat)
    of_type = table[np.arange(len(flat)), types.ravel()] - table.max(axis=1)
    return of_bucket.reshape(gaps.shape), of_type.reshape(gaps.shape)


MUTANT = Mutant(
    name="unnormalised_tokens",
    broken="The ratio is taken between token logits less their maximum, without log-softmax.",
    precedent="advice against NaNs in blog posts on sampling point processes, stopped halfway",
    change=lambda sampler, _: replace(sampler, rule=WithoutSum()),
    killers=("density_agreement.p.gap", "density_agreement.q.gap", "acceptance_identity.gap", "pit_time"),
    witness=Witness("toy-tokens"),
)
