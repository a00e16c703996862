"""Ratios of raw scores: the constants that turn logits into probabilities are left out on both sides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from reference_impls.heads.lognormal_mixture import LogNormalMixture
from reference_impls.heads.types import OneType, TypeLaw, TypesGivenGap, TypesIndependent, TypesTempered, gap_features
from reference_impls.mutants.base import Mutant
from reference_impls.samplers.verification import TwoStep, Verification
from tppsd_bench.protocols import Conditional, FloatArray, IntArray


class Unnormalised(TwoStep):
    """Mixture and type logits enter the densities as the network gave them, without log-softmax."""

    def verify(
        self, p: Conditional, q: Conditional, gaps: FloatArray, types: IntArray, u_gap: FloatArray, u_type: FloatArray
    ) -> Verification:
        log_p, log_pk = _raw_scores(p, gaps, types)
        log_q, log_qk = _raw_scores(q, gaps, types)
        return Verification(
            log_p, log_q, log_pk, log_qk, self.accepts(log_p, log_q, u_gap), self.accepts(log_pk, log_qk, u_type)
        )


def _raw_scores(law: Conditional, gaps: FloatArray, types: IntArray) -> tuple[FloatArray, FloatArray]:
    """Of each drafted event: log sum_j exp(logit_j) N_j(gap), and the logit of its type; (n, K) each."""
    if not isinstance(law, LogNormalMixture):
        raise TypeError(f"The raw scores of a {type(law).__name__} are not known; expected a LogNormalMixture.")
    flat = gaps.ravel()
    constant = np.logaddexp.reduce(law.logit, axis=-1)
    logits = _type_logits(law.types, law.standardise(flat))
    picked = logits[np.arange(len(flat)), types.ravel()]
    return (law.log_prob(flat) + constant).reshape(gaps.shape), picked.reshape(gaps.shape)


def _type_logits(law: TypeLaw, z: FloatArray) -> FloatArray:
    """(n, M) before any softmax, at standardised log gaps ``z`` (n,)."""
    match law:
        case OneType():
            return np.zeros((len(z), 1))
        case TypesIndependent():
            return law.logits
        case TypesGivenGap():
            return (
                law.product(np.tanh(law.hidden + law.product(gap_features(z), law.gap_weight)), law.out_weight) + law.out_bias
            )
        case TypesTempered():
            return _type_logits(law.base, z) / law.temperature + law.tilt
        case _:
            raise TypeError(f"The logits of {type(law).__name__} are not known.")


MUTANT = Mutant(
    name="unnormalised",
    broken="The ratio is taken between unnormalised scores: mixture and type logits without log-softmax.",
    precedent="advice against NaNs in blog posts on sampling point processes",
    change=lambda sampler, _: replace(sampler, rule=Unnormalised()),
    killers=("density_agreement", "acceptance_identity.type", "pit_type", "score.type.constant"),
    blessed_by=("pit_time", "blackbox.gap_acf", "blackbox.count_mean", "blackbox.log_likelihood"),
)
