"""What a decoder without a law inside buckets puts out: one gap a bucket, hence ties, and a law that is a staircase."""

from __future__ import annotations

import math

import numpy as np

from tppsd_bench.protocols import Conditional, FloatArray

TIED = 0.95
"""Probability with which two of so many gaps are one and the same number."""
_KOLMOGOROV = 1.9495
"""sqrt(n) times the Kolmogorov distance that an exact sampler exceeds with probability .001."""


def events_to_a_tie(mass: FloatArray) -> float:
    """Events among which two share their gap with probability .95, atoms having these masses (B,), events taken as independent.

    Birthday problem: P(no tie) is about exp(-n (n - 1) / 2 sum p^2). A continuous law makes no ties at all.
    """
    same = float((mass**2).sum())
    return 0.5 + math.sqrt(0.25 - 2.0 * math.log(1.0 - TIED) / same)


def staircase_distance(law: Conditional, probs: FloatArray, gap: FloatArray) -> float:
    """Kolmogorov distance of u = F(gap | H) from uniform, pooled over contexts, where bucket b (n, B) becomes ``gap`` (B,).

    Pooling smooths: F differs from context to context. It is the distance that a test of conditional PITs has to find.
    """
    at = law.cdf(np.broadcast_to(gap, probs.shape)).ravel()
    order = np.argsort(at)
    u, total = at[order], np.cumsum(probs.ravel()[order]) / len(probs)
    before = np.concatenate([[0.0], total[:-1]])
    return float(max(np.abs(total - u).max(), np.abs(before - u).max()))


def events_to_notice(distance: float) -> float:
    """Events at which a Kolmogorov distance alone exceeds the critical value of level .001."""
    return (_KOLMOGOROV / distance) ** 2 if distance > 0 else math.inf
