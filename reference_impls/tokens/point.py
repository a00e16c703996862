"""One point of a map over buckets: what a pair accepts over these tokens, exactly, and what the tokens cost in accuracy. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reference_impls.base import Law, Model
from reference_impls.tokens.buckets import TimeBuckets
from reference_impls.tokens.discretise import DiscretisedLaw
from reference_impls.tokens.error import DiscretisationError, Estimate, discretisation_error
from reference_impls.tokens.law import TokenLaw
from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch
from tppsd_bench.measure.acceptance import ExactAcceptance, exact_acceptance
from tppsd_bench.protocols import FloatArray

_CHUNK = 2_000_000


@dataclass(frozen=True)
class Acceptance:
    """Means over contexts: of the bucket (or gap) alone, of the joint token, and of bucket then type."""

    gap: Estimate
    joint: Estimate
    two_step: Estimate

    @classmethod
    def of(cls, found: ExactAcceptance) -> Acceptance:
        return cls(Estimate.of(found.gap), Estimate.of(found.joint), Estimate.of(found.two_step))


@dataclass(frozen=True)
class TokenPoint:
    """``buckets`` at work between a target and a draft."""

    n_buckets: int
    strategy: str
    within: str
    n_types: int
    tokens: Acceptance
    continuous: Acceptance
    """The same pair without buckets, same contexts."""
    gain: Estimate
    """Two-step acceptance over tokens less that in continuous time, paired by context."""
    error: DiscretisationError
    """Of the target."""


def token_acceptance(p: TokenLaw, q: TokenLaw) -> ExactAcceptance:
    """Acceptance of drafts from ``q`` under ``p`` over their common tokens: sums, no quadrature. n contexts each.

    gap sum_b min(P_b, Q_b); joint sum_bk min(P_bk, Q_bk) = 1 - TV; two-step sum_b min(P_b, Q_b) sum_k min(P(k|b), Q(k|b)).
    """
    if not p.buckets.same_as(q.buckets):
        raise InputError(f"The target's tokens are {p.buckets.name}, the draft's {q.buckets.name}; give both the same buckets.")
    rows = max(1, _CHUNK // (len(p.buckets) * p.n_types))
    parts = [_of_rows(p.take(slice(i, i + rows)), q.take(slice(i, i + rows))) for i in range(0, len(p), rows)]
    gap, joint, two_step = np.minimum(np.concatenate(parts, axis=1), 1.0)
    return ExactAcceptance(gap, joint, two_step)


def _of_rows(p: TokenLaw, q: TokenLaw) -> FloatArray:
    every = np.broadcast_to(np.arange(len(p.buckets)), (len(p), len(p.buckets)))
    buckets_p, buckets_q = np.exp(p.log_bucket_probs), np.exp(q.log_bucket_probs)
    types_p, types_q = np.exp(p.log_types(every)), np.exp(q.log_types(every))
    common = np.minimum(buckets_p, buckets_q)
    joint = np.minimum(buckets_p[..., None] * types_p, buckets_q[..., None] * types_q).sum(axis=(1, 2))
    two_step = (common * np.minimum(types_p, types_q).sum(axis=2)).sum(axis=1)
    return np.stack([common.sum(axis=1), joint, two_step])


def measure_point(
    target: Model, draft: Model, buckets: TimeBuckets, histories: EventBatch, rng: np.random.Generator, *, n_contexts: int = 256
) -> TokenPoint:
    """Acceptance and error of ``buckets`` for continuous models, on ``n_contexts`` events chosen from ``histories``.

    ``histories``: the target's own sequences, on seeds that nothing else uses. Both laws are computed once; only the buckets differ
    from one call to the next if ``rng`` starts alike.
    """
    chosen = np.sort(rng.permutation(histories.n_events)[:n_contexts])
    p, q = (model.conditionals(histories).take(chosen) for model in (target, draft))
    return point_of_laws(p, q, buckets)


def point_of_laws(p: Law, q: Law, buckets: TimeBuckets, continuous: ExactAcceptance | None = None) -> TokenPoint:
    """``measure_point`` on laws of the same contexts that are at hand; ``continuous`` where it is known from another point."""
    before = exact_acceptance(p, q, n_levels=128) if continuous is None else continuous
    after = token_acceptance(DiscretisedLaw(p, buckets), DiscretisedLaw(q, buckets))
    return TokenPoint(
        len(buckets), buckets.strategy, buckets.within, p.n_types, Acceptance.of(after), Acceptance.of(before),
        Estimate.of(after.two_step - before.two_step), discretisation_error(p, buckets),
    )  # fmt: skip
