"""Bets on the types: likelihood ratios q(k) / p(k) against tempered and tilted versions of the target's own type law.

q is normalised given the past (and the event's gap), so E_p[q / p] = 1 (at most 1 where p has zeros).
"""

from __future__ import annotations

import math

import numpy as np

from tppsd_bench.protocols import BoolArray, FloatArray
from tppsd_bench.stats.eprocess.base import Design, Family, Segments
from tppsd_bench.stats.eprocess.chunk import Chunk

POWERS = (5, 7, 9, 11, 14, 20)
"""Tenths of the exponent a in q ~ p^a: below 10 flatter, above sharper."""
TILTS = (-1.0, -0.3, 0.3, 1.0)
TYPES = 6
"""Types with a tilt of their own."""


class Types(Family):
    """q ~ p^a; q ~ p exp(c) on the previous type, or on one type."""

    name = "types"

    def bets(self, design: Design) -> tuple[str, ...]:
        if not design.marked:
            return ()
        return tuple(
            [f"types {'flatter' if a < 10 else 'sharper'} than the target's (power {a / 10:g})" for a in POWERS]
            + [f"{_more(c)} of the type before (tilt {c:+g})" for c in TILTS]
            + [f"{_more(c)} of type {k} (tilt {c:+g})" for k in range(min(design.n_types, TYPES)) for c in TILTS]
        )

    def growth(self, chunk: Chunk, design: Design) -> FloatArray:
        log_p, k = chunk.log_type_probs, chunk.batch.types
        at = np.arange(len(k))
        rows = list(tempered(log_p, log_p[k, at]))
        p = np.exp(log_p)
        before = chunk.type_before[chunk.is_event]
        known = before >= 0
        again = np.where(known, p[np.maximum(before, 0), at], 0.0)
        rows += [_tilted(c, (k == before) & known, again) for c in TILTS]
        rows += [_tilted(c, k == j, p[j]) for j in range(min(design.n_types, TYPES)) for c in TILTS]
        return Segments(chunk.batch.sequence_index, len(chunk.batch)).log_sum(np.stack(rows))


def tempered(log_p: FloatArray, chosen: FloatArray) -> FloatArray:
    """(powers, N) log q(k) / p(k), q ~ p^a, from (M, N) log p and (N,) log p(k); an event of probability 0 is no win: 0."""
    tenth = np.exp(0.1 * log_p)
    out = np.empty((len(POWERS), len(chosen)))
    powers = {0: np.ones_like(tenth)}
    for a in range(1, max(POWERS) + 1):
        powers[a] = tenth * powers.pop(a - 1)
        if a in POWERS:
            total = powers[a].sum(axis=0)
            with np.errstate(divide="ignore", invalid="ignore"):
                out[POWERS.index(a)] = (0.1 * a - 1.0) * chosen - np.log(total)
    out[:, np.isneginf(chosen)] = 0.0
    return out


def _tilted(c: float, hit: BoolArray, probability: FloatArray) -> FloatArray:
    """Log likelihood ratio of the law whose odds of the hit are exp(c) times as large."""
    return np.where(hit, c, 0.0) - np.log1p(probability * math.expm1(c))


def _more(c: float) -> str:
    return "more" if c > 0 else "fewer"
