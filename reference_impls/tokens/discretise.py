"""A continuous model made into a token model without training: its gap law integrated over the buckets.

P(b | H) is a difference of the model's own CDF, P(k | H, b) the type law averaged over the bucket. The result is a ``base.Model`` with its
own exact law; how far that is from the continuous one is measured by ``error``. The encoder stays a function of the continuous
history: the gap that was drawn inside the bucket is what it sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from reference_impls.base import Law, Model, scores_from_conditionals
from reference_impls.drafts.files import Drafts
from reference_impls.heads.lognormal_mixture import LogNormalMixture
from reference_impls.heads.normal import ndtr
from reference_impls.heads.types import OneType, TypeLaw, TypesIndependent, TypesTempered
from reference_impls.tokens.buckets import TimeBuckets
from reference_impls.tokens.law import TokenLaw, pick
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import FloatArray, IntArray, Scores

if TYPE_CHECKING:
    from reference_impls.pairs import Pair

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(3)
_REACH = 8.0
"""Widths beyond a bump's centre at which nothing is left of it."""
_CHUNK = 2_000_000
"""Numbers held at once while types are averaged over buckets."""


def ignores_gap(types: TypeLaw) -> bool:
    """Whether the law of types does not depend on the gap, given the history."""
    return ignores_gap(types.base) if isinstance(types, TypesTempered) else isinstance(types, OneType | TypesIndependent)


@dataclass(frozen=True, eq=False)
class DiscretisedLaw(TokenLaw):
    """The law of a continuous ``base`` over tokens. A probability is computed when it is asked for: verification needs one bucket a row.

    Types that look at the gap are averaged over the bucket by Gauss-Legendre nodes, 3 in each of its cells (24 a bucket), weighted with
    the base's own density. Measured on the toys, on average over buckets: within 3e-5 of the exact average from 50 buckets on, 1e-3 with
    10; within 1e-2 in the worst outer bucket. The token law is defined by this sum; nothing exact rests on its accuracy.
    """

    base: Law
    buckets: TimeBuckets

    @property
    def n_types(self) -> int:
        return self.base.n_types

    def __len__(self) -> int:
        return len(self.base)

    def take(self, rows: IntArray | slice) -> DiscretisedLaw:
        return replace(self, base=self.base.take(rows))

    @classmethod
    def concat(cls, laws: Sequence[DiscretisedLaw]) -> DiscretisedLaw:
        first = laws[0]
        return first if len(laws) == 1 else replace(first, base=type(first.base).concat([law.base for law in laws]))

    # -- buckets ------------------------------------------------------------------------------------------------------------
    def _interval(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """P(low <= gap < high), (n,) or (n, g), without cancellation in either tail."""
        if isinstance(self.base, LogNormalMixture):
            return mixture_interval(self.base, low, high)
        left, right = self.base.cdf(low), self.base.cdf(high)
        upper = left > 0.5
        return np.maximum(np.where(upper, self.base.sf(low) - self.base.sf(high), right - left), 0.0)

    @cached_property
    def log_bucket_probs(self) -> FloatArray:
        edges = np.broadcast_to(self.buckets.edges, (len(self), len(self.buckets) + 1))
        with np.errstate(divide="ignore"):
            out: FloatArray = np.log(self._interval(edges[:, :-1], edges[:, 1:]))
        return out

    def log_bucket(self, bucket: IntArray) -> FloatArray:
        edges = self.buckets.edges
        with np.errstate(divide="ignore"):
            out: FloatArray = np.log(self._interval(edges[bucket], edges[bucket + 1]))
        return out

    def cdf(self, gap: FloatArray) -> FloatArray:
        bucket, (below, _) = self.buckets.bucket_of(gap), self.buckets.shares(gap)
        edges = self.buckets.edges
        inside = self._interval(edges[bucket], edges[bucket + 1])
        return np.minimum(self.base.cdf(edges[bucket]) + inside * below, 1.0)

    def sf(self, gap: FloatArray) -> FloatArray:
        bucket, (_, above) = self.buckets.bucket_of(gap), self.buckets.shares(gap)
        edges = self.buckets.edges
        inside = self._interval(edges[bucket], edges[bucket + 1])
        return np.minimum(self.base.sf(edges[bucket + 1]) + inside * above, 1.0)

    def sample_gap(self, u: FloatArray) -> FloatArray:
        """The bucket of a draw from the base, and a gap in it from what the draw has left over.

        What a mixture's component did not use of ``u[..., 0]`` is uniform and independent of the draw; so is, for other bases, the
        place of the draw in its bucket on the scale of the base's CDF.
        """
        gap = self.base.sample_gap(u)
        bucket = self.buckets.bucket_of(gap)
        if isinstance(self.base, LogNormalMixture):
            return self.buckets.gap_at(bucket, spare_uniform(self.base, u[..., 0]))
        edges = self.buckets.edges
        low, whole = edges[bucket], self._interval(edges[bucket], edges[bucket + 1])
        return self.buckets.gap_at(bucket, self._interval(low, gap) / np.maximum(whole, np.finfo(np.float64).tiny))

    # -- types --------------------------------------------------------------------------------------------------------------
    def log_types(self, bucket: IntArray) -> FloatArray:
        if isinstance(self.base, LogNormalMixture) and ignores_gap(self.base.types):
            return self.base.types.log_probs(np.broadcast_to(0.0, bucket.shape))
        if bucket.ndim == 1:
            return self._averaged(bucket[:, None])[:, 0]
        if bucket.shape[1] > len(self.buckets):
            return pick(self.log_types(np.broadcast_to(np.arange(len(self.buckets)), (len(self), len(self.buckets)))), bucket)
        rows = max(1, _CHUNK // (bucket.shape[1] * self.buckets.cells.shape[1] * len(_NODES) * self.n_types))
        parts = [self.take(slice(i, i + rows))._averaged(bucket[i : i + rows]) for i in range(0, len(bucket), rows)]
        return np.concatenate(parts)

    def _averaged(self, bucket: IntArray) -> FloatArray:
        """(n, g, M) log of the base's type law averaged over each bucket."""
        n, g = bucket.shape
        log_gap, log_weight = self._nodes(bucket)
        gap = np.exp(log_gap).reshape(n, -1)
        with np.errstate(invalid="ignore"):
            log_weight = log_weight + self.base.log_prob(gap).reshape(log_gap.shape) + log_gap
        top = log_weight.max(axis=-1, keepdims=True)
        share = np.where(np.isfinite(top), np.exp(log_weight - np.where(np.isfinite(top), top, 0.0)), 1.0)
        share /= share.sum(axis=-1, keepdims=True)
        types = np.exp(self.base.type_log_probs(gap)).reshape(n, g, log_gap.shape[2], -1)
        out: FloatArray = np.log((share[..., None] * types).sum(axis=2))
        return out

    def _nodes(self, bucket: IntArray) -> tuple[FloatArray, FloatArray]:
        """Log gaps and log weights (n, g, nodes) that integrate over each bucket, within the reach of each row's bumps."""
        centre, width = self.base.log_gap_bumps()
        low = (centre - _REACH * width).min(axis=1)[:, None, None]
        high = (centre + _REACH * width).max(axis=1)[:, None, None]
        edges = np.minimum(np.maximum(self.buckets.log_cells[bucket], low), high)
        half = 0.5 * np.diff(edges, axis=-1)
        at = (edges[..., :-1] + half)[..., None] + half[..., None] * _NODES
        with np.errstate(divide="ignore"):
            weight = np.log(half)[..., None] + np.log(_WEIGHTS)
        return at.reshape(*bucket.shape, -1), weight.reshape(*bucket.shape, -1)


def mixture_interval(law: LogNormalMixture, low: FloatArray, high: FloatArray) -> FloatArray:
    """P(low <= gap < high) of a log-normal mixture, (n,) or (n, g): each component from the tail it is nearer to."""
    at = (slice(None), None) if low.ndim == 1 else (slice(None), None, None)
    s = law.standardise(np.stack([low, high], axis=-1))[..., None] - law.loc[at]
    s /= law.scale[at]
    s *= np.where(s[..., :1, :] + s[..., 1:, :] > 0.0, -1.0, 1.0)  # Phi(b) - Phi(a) = Phi(-a) - Phi(-b)
    part = ndtr(s)
    out: FloatArray = (law.weight[at[:-1]] * np.abs(part[..., 1, :] - part[..., 0, :])).sum(axis=-1)
    return out


def spare_uniform(law: LogNormalMixture, u: FloatArray) -> FloatArray:
    """What is left of the uniforms ``u`` (n,) or (n, g) that pick a component: where in the component's share each lies, U(0, 1).

    Independent of the component, hence of the gap that is drawn from it.
    """
    if u.shape == (1,):  # the same numbers without array overhead: a draft makes K of them a round
        logit = law.logit[0]
        ends = np.add.accumulate(np.exp(logit - np.maximum.reduce(logit)))
        one = u[0] * ends[-1]
        j = min(int(ends.searchsorted(one, side="right")), len(ends) - 1)
        start = ends[j - 1] if j else 0.0
        return np.array([min(max((one - start) / (ends[j] - start), 0.0), 1.0)])
    cumulative = np.add.accumulate(np.exp(law.logit - law.logit.max(axis=-1, keepdims=True)), axis=-1)
    if u.ndim == 2:
        cumulative = cumulative[:, None, :]
    level = u * cumulative[..., -1]
    pick = (level[..., None] >= cumulative[..., :-1]).sum(axis=-1)[..., None]
    full = np.broadcast_to(cumulative, (*u.shape, cumulative.shape[-1]))
    end = np.take_along_axis(full, pick, -1)[..., 0]
    begin = np.where(pick[..., 0] > 0, np.take_along_axis(full, np.maximum(pick - 1, 0), -1)[..., 0], 0.0)
    out: FloatArray = np.minimum(np.maximum((level - begin) / (end - begin), 0.0), 1.0)
    return out


@dataclass(frozen=True)
class Discretised:
    """``base`` over tokens. Implements ``base.Model``; one class for targets and drafts, which must be given the same buckets."""

    base: Model
    buckets: TimeBuckets

    @property
    def name(self) -> str:
        return f"{self.base.name}, {self.buckets.name}"

    @property
    def n_types(self) -> int:
        return self.base.n_types

    def start(self, n: int, capacity: int) -> Any:
        return self.base.start(n, capacity)

    def initial(self, n: int) -> DiscretisedLaw:
        return DiscretisedLaw(self.base.initial(n), self.buckets)

    def extend(self, cache: Any, gaps: FloatArray, types: IntArray, counts: IntArray) -> DiscretisedLaw:
        return DiscretisedLaw(self.base.extend(cache, gaps, types, counts), self.buckets)

    def law_after(self, gaps: FloatArray, types: IntArray, lengths: IntArray) -> DiscretisedLaw:
        return DiscretisedLaw(self.base.law_after(gaps, types, lengths), self.buckets)

    def conditionals(self, batch: EventBatch) -> DiscretisedLaw:
        return DiscretisedLaw(self.base.conditionals(batch), self.buckets)

    def score(self, batch: EventBatch) -> Scores:
        if batch.horizon is None:
            return scores_from_conditionals(batch, self.conditionals(batch), None)
        laws = self.conditionals(one_more_each(batch))
        last = np.cumsum(batch.lengths + 1) - 1
        rows = np.delete(np.arange(len(laws)), last)
        return scores_from_conditionals(batch, laws.take(rows), laws.take(last))


def one_more_each(batch: EventBatch) -> EventBatch:
    """The batch with an event appended to each sequence, so that one pass gives the law after the last; no horizon."""
    lengths = batch.lengths + 1
    last = np.cumsum(lengths) - 1
    gaps, types = np.ones(int(lengths.sum())), np.zeros(int(lengths.sum()), dtype=np.int64)
    own = np.delete(np.arange(len(gaps)), last)
    gaps[own], types[own] = batch.gaps, batch.types
    return EventBatch(gaps, types, lengths, batch.n_types)


def discretised_pair(pair: Pair, buckets: TimeBuckets) -> Pair:
    """The pair with its target and all its drafts over the same tokens; a draft is loaded when it is first asked for."""

    def of_draft(name: str) -> Discretised:
        return Discretised(pair.drafts[name], buckets)

    drafts = Drafts({}, {name: partial(of_draft, name) for name in pair.drafts})
    return replace(
        pair, name=f"{pair.name}-tokens", title=f"{pair.title}; {buckets.name}", target=Discretised(pair.target, buckets), drafts=drafts,
    )  # fmt: skip
