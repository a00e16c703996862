"""Bets on the shape of the PITs: Legendre polynomials of u and of v, and the tails of u.

Under exactness u is U(0, 1) given the past (v given the past and u), and phi_k has mean 0: 1 + lambda phi_k(u) has mean 1.
"""

from __future__ import annotations

import math

import numpy as np

from tppsd_bench.protocols import FloatArray
from tppsd_bench.stats.eprocess.base import LAMBDAS, Design, Family, linear, phrases
from tppsd_bench.stats.eprocess.chunk import Chunk

ORDERS = ("location", "scale", "skew", "kurtosis")
BOUND = 3.0
"""max |phi_k|, k = 1..4: sqrt(2k + 1) at the ends."""
TAILS = (1e-3, 1e-2)
TAIL_WEIGHTS = (-0.9, 0.01, 0.1)


class Shape(Family):
    """phi_1..4 of one PIT, pooled and by position."""

    def __init__(self, name: str, which: str, what: str) -> None:
        self.name, self._which, self._what = name, which, what

    def bets(self, design: Design) -> tuple[str, ...]:
        if self._which == "v" and not design.marked:
            return ()
        return phrases(LAMBDAS, tuple(f"{order} of the {self._what}" for order in ORDERS), design.places)

    def growth(self, chunk: Chunk, design: Design) -> FloatArray:
        segments = chunk.by_place
        return linear(segments, segments.sort(chunk.phi_u if self._which == "u" else chunk.phi_v), LAMBDAS, BOUND)


class Tails(Family):
    """Indicators of u in a tail of probability e: factors 1 + lambda (1{u in tail} / e - 1), lambda < 0 for an empty tail."""

    name = "tails"

    def bets(self, design: Design) -> tuple[str, ...]:
        return tuple(
            f"{'too few' if w < 0 else 'too many'} gaps in the {side} {e:g} (lambda {_weight(w, e):+.2g})"
            for e in TAILS for side in ("shortest", "longest") for w in TAIL_WEIGHTS
        )  # fmt: skip

    def growth(self, chunk: Chunk, design: Design) -> FloatArray:
        counts = []
        n = np.bincount(chunk.sequence, minlength=len(chunk.batch))
        for e in TAILS:
            for beyond in (chunk.u < e, chunk.u > 1 - e):
                inside = np.bincount(chunk.sequence, weights=beyond, minlength=len(chunk.batch))
                for w in TAIL_WEIGHTS:
                    weight = _weight(w, e)
                    counts.append(inside * math.log1p(weight * (1 / e - 1)) + (n - inside) * math.log1p(-weight))
        return np.stack(counts)


def _weight(w: float, e: float) -> float:
    """Negative weights in units of the largest that keeps the factor positive, e / (1 - e)."""
    return w * e / (1 - e) if w < 0 else w
