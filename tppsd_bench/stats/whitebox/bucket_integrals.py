"""Integrals over the next gap under two laws over the same time buckets: sums over buckets, exact.

Inside a bucket both densities are a constant times the same within law w, so every integrand of their ratio and of either density is
c_b w there: one point of the bucket gives c_b, and a CDF gives the share of w below a gap.
"""

from __future__ import annotations

import numpy as np

from tppsd_bench.protocols import BucketedConditional, Conditional, FloatArray, IntArray
from tppsd_bench.stats.whitebox.quadrature import Integrand, integrate

MOST_BUCKETS = 160
"""With more, panels of quadrature that lie across an edge miss little, and are fewer."""
_ROWS = 1024


def integrate_gaps(
    p: Conditional, q: Conditional, rows: IntArray, gap: FloatArray, time_left: FloatArray, integrand: Integrand,
    masses: tuple[int, int],
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    """As ``quadrature.integrate``, by sums over buckets where ``p`` and ``q`` share them."""
    if not (isinstance(p, BucketedConditional) and p.shares_buckets(q) and len(p.gap_breaks) < MOST_BUCKETS):
        return integrate(p, q, rows, gap, time_left, integrand, masses)
    breaks, gap = p.gap_breaks, np.minimum(gap, time_left)
    parts = [
        _of_rows(p.take(rows[s]), q.take(rows[s]), breaks, gap[s], time_left[s], integrand, masses)
        for s in (slice(i, i + _ROWS) for i in range(0, len(rows), _ROWS))
    ]
    return np.concatenate([a for a, _ in parts], axis=1), np.concatenate([b for _, b in parts], axis=1)


def _of_rows(
    p: Conditional, q: Conditional, breaks: FloatArray, gap: FloatArray, time_left: FloatArray, integrand: Integrand,
    masses: tuple[int, int],
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    n, bounds = len(p), np.broadcast_to(breaks, (len(p), len(breaks)))
    middle = np.concatenate([breaks[:1] / 2, np.sqrt(breaks[1:] * breaks[:-1]), breaks[-1:] * 2])
    value = integrand(p, q, np.broadcast_to(middle, (n, len(middle))))
    below = [np.pad(law.cdf(bounds), ((0, 0), (1, 1)), constant_values=(0.0, 1.0)) for law in (p, q)]
    mass = [np.diff(b, axis=1) for b in below]
    larger = mass[0] >= mass[1]  # 1 / w from the law that has more there
    density = np.where(larger, value[masses[0]], value[masses[1]])
    width = np.divide(np.where(larger, *mass), density, out=np.zeros_like(density), where=density > 0)
    bucket = value * width
    before = np.cumsum(bucket, axis=2) - bucket
    at = np.arange(n)

    def up_to(t: FloatArray) -> FloatArray:
        """(n_integrals, n)"""
        b = breaks.searchsorted(t, side="right")
        shares = [
            np.divide(law.cdf(t) - low[at, b], m[at, b], out=np.zeros(n), where=m[at, b] > 0)
            for law, low, m in zip((p, q), below, mass, strict=True)
        ]
        share = np.clip(np.where(larger[at, b], *shares), 0.0, 1.0)
        out: FloatArray = before[:, at, b] + bucket[:, at, b] * share
        return out

    return up_to(gap), up_to(time_left)
