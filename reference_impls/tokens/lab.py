"""Everything the study of buckets asks of token models, behind one name: implements ``tppsd_bench.studies.buckets.lab.TokenLab``.

Numbers come by context, (n,) each, so that whoever asks can pair them.
"""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reference_impls.base import Law
from reference_impls.heads.lognormal_mixture import LogNormalMixture
from reference_impls.heads.types import OneType
from reference_impls.tokens.apart import apart
from reference_impls.tokens.buckets import Strategy, TimeBuckets, Within
from reference_impls.tokens.discretise import DiscretisedLaw, discretised_pair
from reference_impls.tokens.error import error_by_context
from reference_impls.tokens.fitting import fit_buckets
from reference_impls.tokens.law import TokenLaw
from reference_impls.tokens.point import token_acceptance
from tppsd_bench.measure.acceptance import ExactAcceptance
from tppsd_bench.protocols import FloatArray

if TYPE_CHECKING:
    from reference_impls.pairs import Pair

Single = NDArray[np.float32]
_LOG_ROOT_2PI = np.float32(0.5 * math.log(2.0 * math.pi))


class TokenLab:
    """See the protocol; no state."""

    def fit(self, gaps: FloatArray, n_buckets: int, strategy: Strategy, within: Within) -> TimeBuckets:
        return fit_buckets(gaps, n_buckets, strategy, within)

    def pair(self, pair: Pair, buckets: TimeBuckets) -> Pair:
        return discretised_pair(pair, buckets)

    def law(self, law: Law, buckets: TimeBuckets) -> DiscretisedLaw:
        return DiscretisedLaw(law, buckets)

    def acceptance(self, p: TokenLaw, q: TokenLaw) -> ExactAcceptance:
        return token_acceptance(p, q)

    def errors(self, law: Law, buckets: TimeBuckets) -> dict[str, FloatArray]:
        return error_by_context(law, buckets)

    def errors_of_gaps(self, law: LogNormalMixture, buckets: TimeBuckets) -> dict[str, FloatArray]:
        return error_by_context(replace(law, types=OneType(len(law))), buckets)

    def apart(self, p: TokenLaw, q: TokenLaw) -> dict[str, FloatArray]:
        return asdict(apart(p, q))

    def bucket_probs(self, law: TokenLaw) -> FloatArray:
        return np.exp(law.log_bucket_probs)

    def log_tokens(self, law: TokenLaw) -> FloatArray:
        return law.log_token_probs()

    def emitted(self, buckets: TimeBuckets, decoder: str) -> FloatArray:
        if decoder == "middles":
            return buckets.middles()
        return np.append(buckets.edges[1:-1], buckets.edges[-2])

    def log_density_float32(self, law: LogNormalMixture, gap: FloatArray) -> tuple[FloatArray, FloatArray]:
        z, log_peak, log_gap = _terms_float32(law, gap)
        exponent = log_peak - np.float32(0.5) * z * z
        top = exponent.max(axis=-1)
        rest = np.log(np.exp(exponent - top[..., None]).sum(axis=-1)) + top
        constant = _LOG_ROOT_2PI + np.float32(math.log(law.log_scale_gap)) + log_gap
        with np.errstate(over="ignore", under="ignore"):
            plain = np.exp(exponent).sum(axis=-1) / np.exp(constant)
        return (rest - constant).astype(np.float64), plain.astype(np.float64)


def _terms_float32(law: LogNormalMixture, gap: FloatArray) -> tuple[Single, Single, Single]:
    """(z / sigma (n, g, C), log(w / sigma) (n, 1, C), log gap (n, g)) in float32 throughout."""
    log_gap = np.log(gap).astype(np.float32)
    loc, log_scale, logit = (x.astype(np.float32)[:, None, :] for x in (law.loc, law.log_scale, law.logit))
    logit = logit - logit.max(axis=-1, keepdims=True)
    log_peak = logit - np.log(np.exp(logit).sum(axis=-1, keepdims=True)) - log_scale
    standard = (log_gap - np.float32(law.log_shift_gap)) / np.float32(law.log_scale_gap)
    z = (standard[..., None] - loc) / np.exp(log_scale)
    return z.astype(np.float32), log_peak.astype(np.float32), log_gap
