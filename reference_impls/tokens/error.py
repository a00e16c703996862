"""What discretising time costs, apart from any sampler: how far the token law is from the continuous law it was made from.

Per context, then averaged over contexts with an interval. A sampler that is exact relative to the discretised target has exactly these
distances to the continuous one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from reference_impls.base import Law
from reference_impls.tokens.buckets import TimeBuckets
from reference_impls.tokens.discretise import DiscretisedLaw
from reference_impls.tokens.law import TokenLaw
from tppsd_bench.measure.acceptance import clopper_pearson
from tppsd_bench.protocols import FloatArray, IntArray

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)
_REACH = 8.0
_STEP = 0.5
"""Largest cell, in widths of the narrowest bump of a row; buckets are cut further where they are wider."""
_RARE = 1e-8
"""Share of the outer buckets' within laws that integrals leave out."""
_CHUNK = 400_000
_TIED = 1e-9
"""Relative distance from a value at which a gap counts as that value."""


@dataclass(frozen=True)
class Estimate:
    """A mean over contexts with its 95 % interval; contexts are taken as independent."""

    value: float
    low: float
    high: float
    n: int

    @classmethod
    def of(cls, values: FloatArray) -> Estimate:
        mean, n = float(values.mean()), len(values)
        half = 1.959963984540054 * float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else math.inf
        return cls(mean, mean - half, mean + half, n)


@dataclass(frozen=True)
class DiscretisationError:
    """Distances between a continuous law and the same law over tokens, next event given the history."""

    ks: Estimate
    """sup |F - F_tokens| of the gap."""
    wasserstein: Estimate
    """Integral of |F - F_tokens| over the gap, in units of time."""
    wasserstein_log: Estimate
    """The same over the log gap."""
    information: Estimate
    """KL(continuous || tokens) of (gap, type), in nats an event: what a scorer of true events loses."""
    information_gap: Estimate
    """Of the gap alone; the rest is what types lose by not seeing the gap inside its bucket."""
    last_bucket: Estimate
    """Mass of the open bucket, whose gaps follow the fitted tail."""
    largest_bucket: Estimate
    """Mass of the fullest bucket, averaged: 1 where all events of a context share one bucket."""


def discretisation_error(law: Law, buckets: TimeBuckets) -> DiscretisationError:
    """The error of ``buckets`` for a continuous ``law`` (n contexts), by quadrature in log gap; integrals to about 1e-5."""
    return DiscretisationError(*(Estimate.of(column) for column in error_by_context(law, buckets).values()))


def error_by_context(law: Law, buckets: TimeBuckets) -> dict[str, FloatArray]:
    """The numbers that ``discretisation_error`` averages, (n,) each, by the names of its fields."""
    edges = _cell_edges(law, buckets)
    size = max(1, _CHUNK // (len(_NODES) * len(edges)))
    columns = np.concatenate([_of_rows(law.take(s), buckets, edges) for s in _slices(len(law), size)], axis=1)
    return dict(zip(DiscretisationError.__dataclass_fields__, columns, strict=True))


def _slices(n: int, size: int) -> Iterator[slice]:
    return (slice(i, min(i + size, n)) for i in range(0, n, size))


def _of_rows(law: Law, buckets: TimeBuckets, edges: FloatArray) -> FloatArray:
    """(7, n), one column a context, in the order of ``DiscretisationError``."""
    tokens = DiscretisedLaw(law, buckets)
    half = 0.5 * np.diff(edges)
    x = (edges[:-1] + half)[:, None] + half[:, None] * _NODES
    weight = (half[:, None] * _WEIGHTS).ravel()
    gap = np.broadcast_to(np.exp(x.ravel()), (len(law), x.size))
    bucket = buckets.bucket_of(gap[0])
    log_b = tokens.log_bucket_probs
    off = np.abs(law.cdf(gap) - TokenLaw.cdf(tokens, gap))  # from the table of buckets, which is at hand
    log_f = law.log_prob(gap)
    mass = np.exp(log_f) * gap * weight
    mass /= mass.sum(axis=1, keepdims=True)
    log_token = log_b[:, bucket] + buckets.log_density(gap[0])
    gap_loss = _expected(mass, log_f - log_token)
    type_loss = np.zeros(len(law)) if law.n_types == 1 else _type_loss(law, tokens, gap, mass, bucket)
    with np.errstate(over="ignore"):
        wasserstein = (off * gap * weight).sum(axis=1)
    probs = np.exp(log_b)
    return np.stack([
        off.max(axis=1), wasserstein, (off * weight).sum(axis=1), gap_loss + type_loss, gap_loss, probs[:, -1], probs.max(axis=1),
    ])  # fmt: skip


def _expected(mass: FloatArray, values: FloatArray) -> FloatArray:
    """Row sums of mass x values, where there is mass."""
    with np.errstate(invalid="ignore"):
        out: FloatArray = np.where(mass > 0, mass * values, 0.0).sum(axis=1)
    return out


def _type_loss(law: Law, tokens: DiscretisedLaw, gap: FloatArray, mass: FloatArray, bucket: IntArray) -> FloatArray:
    """E KL(P(k | H, gap) || P(k | H, bucket)) of each row."""
    every = np.broadcast_to(np.arange(len(tokens.buckets)), (len(law), len(tokens.buckets)))
    averaged = tokens.log_types(every)
    log_p = law.type_log_probs(gap)
    with np.errstate(invalid="ignore"):
        lost = np.where(np.isfinite(log_p), np.exp(log_p) * (log_p - averaged[:, bucket]), 0.0).sum(axis=-1)
    return _expected(mass, lost)


def _cell_edges(law: Law, buckets: TimeBuckets) -> FloatArray:
    """Log-gap edges of cells that all rows share: over the reach of every row and of the within laws, across no jump of these, none wide."""
    centre, width = law.log_gap_bumps()
    ends = np.log(buckets.gap_at(np.array([0, len(buckets) - 1]), np.array([_RARE, 1.0 - _RARE])))
    low = min(float((centre - _REACH * width).min()), float(ends[0]))
    high = max(float((centre + _REACH * width).max()), float(ends[1]))
    fixed = buckets.log_cells[:, :-1] if buckets.within == "empirical" else buckets.log_cells[:, :1]
    fixed = fixed.ravel()
    fixed = np.concatenate([[low], fixed[(fixed > low) & (fixed < high)], [high]])
    step = max(_STEP * float(width.min()), (high - low) / 4000)
    parts = np.maximum(np.ceil(np.diff(fixed) / step), 1).astype(np.int64)
    share = np.concatenate([np.arange(p) / p for p in parts])
    return np.append(np.repeat(fixed[:-1], parts) + share * np.repeat(np.diff(fixed), parts), high)


@dataclass(frozen=True)
class EdgeMass:
    """Observed gaps that sit on an edge or in the very middle of a bucket: atoms that no continuous law has."""

    share: float
    low: float
    high: float
    """95 % Clopper-Pearson."""
    n: int


def edge_mass(gaps: FloatArray, buckets: TimeBuckets) -> EdgeMass:
    """Share of ``gaps`` within 1e-9 (relative) of an edge, a median or a midpoint of a bucket.

    A law with density puts about 1e-9 there; a decoder that emits edges or middles puts everything there.
    """
    edges = buckets.edges[1:-1]
    places = np.sort(np.concatenate([edges, buckets.middles(), 0.5 * (buckets.edges[:-2] + edges)]))
    flat = np.asarray(gaps, dtype=np.float64).ravel()
    right = np.minimum(np.searchsorted(places, flat), len(places) - 1)
    nearest = np.minimum(np.abs(places[right] - flat), np.abs(places[np.maximum(right - 1, 0)] - flat))
    on = int((nearest <= _TIED * flat).sum())
    low, high = clopper_pearson(np.array([on]), np.array([len(flat)]))
    return EdgeMass(on / max(len(flat), 1), float(low[0]), float(high[0]), len(flat))
