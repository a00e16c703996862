"""Token laws and buckets that several test modules speak of."""

from __future__ import annotations

import numpy as np

from reference_impls.heads.types import TypesIndependent
from reference_impls.tokens import (
    Discretised,
    DiscretisedLaw,
    FactorisedTokens,
    JointTokens,
    TimeBuckets,
    TokenLaw,
    fit_buckets,
)
from reference_impls.tokens.law import TypesGivenBucket, TypesWhateverTheBucket
from reference_impls.toys import toy_target
from tppsd_bench.protocols import FloatArray

STRATEGIES = ("quantile", "equal_width", "log_width")
WITHINS = ("uniform", "log_uniform", "empirical")
KINDS = ("factorised", "given_bucket", "joint", "discretised", "discretised_given_gap")


def gaps(n: int = 20_000, seed: int = 4) -> FloatArray:
    """Training gaps: bursts and pauses, log-normal."""
    rng = np.random.default_rng(seed)
    return np.exp(np.where(rng.random(n) < 0.4, rng.normal(-1.6, 0.6, n), rng.normal(0.5, 0.8, n)))


def buckets(n: int = 40, strategy: str = "quantile", within: str = "uniform", tail: str = "pareto") -> TimeBuckets:
    return fit_buckets(gaps(), n, strategy, within, tail)  # type: ignore[arg-type]


def law(kind: str, b: TimeBuckets, n: int = 5, n_types: int = 3, seed: int = 0) -> TokenLaw:
    """``n`` laws over the tokens of ``b``, of every kind there is."""
    rng = np.random.default_rng(seed)
    size = len(b)
    if kind == "factorised":
        types = TypesWhateverTheBucket(TypesIndependent(rng.normal(size=(n, n_types))))
        return FactorisedTokens(b, rng.normal(size=(n, size)).astype(np.float32), types)
    if kind == "given_bucket":
        weights = rng.normal(size=(size, 4)), rng.normal(size=(4, n_types)), rng.normal(size=n_types)
        return FactorisedTokens(b, rng.normal(size=(n, size)), TypesGivenBucket(rng.normal(size=(n, 4)), *weights))
    if kind == "joint":
        return JointTokens(b, rng.normal(size=(n, size * n_types)).astype(np.float32), n_types)
    model = Discretised(toy_target(n_types, kind == "discretised_given_gap"), b)
    return DiscretisedLaw(model.base.law(rng.normal(size=(n, 2))), b)  # type: ignore[attr-defined]
