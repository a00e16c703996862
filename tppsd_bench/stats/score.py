"""Martingale scores: what a smooth test cannot see because it averages over histories.

For predictable weights h (known before the draw, clipped) Z_h = sum h phi(u) / sqrt(sum h^2) -> N(0, 1); for types the vector
sum h (1{k_i = k} - p(k | H_i)) has the predictable covariance sum h^2 (diag p - p p') and gives a chi-square. In horizon cells
the counts alone show how the horizon was handled: sum (N_r - Lambda_r) / sqrt(sum Lambda_r).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tppsd_bench.budget import MIN_VARIANCE_NORMAL
from tppsd_bench.results import Evidence
from tppsd_bench.stats.base import (
    ChiSquareStatistic,
    Design,
    FloatArray,
    IntArray,
    NormalStatistic,
    chi_square_evidence,
    normal_evidence,
    register,
    undersized,
)
from tppsd_bench.stats.neyman import MIN_VALUES
from tppsd_bench.stats.pit import PitStream

CLIP = 3.0
BURN_IN = 1000
MIN_COMPENSATOR = 500
_TINY = 1e-300


def log_previous_gap(stream: PitStream) -> FloatArray:
    """(m,) log of the gap before the draw."""
    return stream.before(np.log(stream.batch.gaps))


def log_mean_gap(stream: PitStream) -> FloatArray:
    """(m,) log of the mean gap so far: the inverse of the rate of counts."""
    batch = stream.batch
    return stream.before(np.log(batch.times / (batch.event_index + 1.0)))


def log_hazard(stream: PitStream) -> FloatArray:
    """(m,) log intensity of the target at the preceding event: log f - log(1 - F)."""
    scores = stream.scores
    hazard = scores.log_density - np.log(np.maximum(scores.survival, _TINY))
    return stream.before(np.maximum(hazard, -700.0))


def log_index(stream: PitStream) -> FloatArray:
    """(m,) log(1 + index in sequence)."""
    longest = int(stream.index.max(initial=0))
    table: FloatArray = np.log1p(np.arange(longest + 1.0))
    return table[stream.index]


TIME_WEIGHTS: dict[str, Callable[[PitStream], FloatArray]] = {
    "log_previous_gap": log_previous_gap,
    "log_mean_gap": log_mean_gap,
    "log_hazard": log_hazard,
    "log_index": log_index,
}
TYPE_WEIGHTS = ("constant", "log_previous_gap", "gap")


def predictable_weight(raw: FloatArray, index: IntArray) -> FloatArray:
    """(m,) raw values centred and scaled by the first draws alone (which get weight 0), clipped at +-3.

    Constants taken from earlier draws keep the weight predictable; draws without a history get weight 0.
    """
    burn = min(BURN_IN, len(raw) // 10)
    early = raw[:burn][index[:burn] > 0]
    spread = float(early.std()) if len(early) > 1 else 0.0
    if not spread > 1e-12 * max(1.0, float(np.abs(early).max(initial=0.0))):
        return np.zeros(len(raw))
    out: FloatArray = raw - float(early.mean())
    out /= spread
    np.clip(out, -CLIP, CLIP, out=out)
    out[index == 0] = 0.0
    out[:burn] = 0.0
    return out


class TimeScore(NormalStatistic):
    """Correlation of the first two Legendre scores of u with clipped functions of the history."""

    name = "score.time"
    null = "N(0, 1), martingale"
    effect_name = "correlation of phi(u) with h"

    def members(self, design: Design) -> int:
        return 2 * len(TIME_WEIGHTS)

    def evaluate(self, stream: PitStream, design: Design, alpha: float) -> list[Evidence]:
        out: list[Evidence] = []
        x = 2.0 * stream.u - 1.0
        phi = (math.sqrt(3) * x, math.sqrt(5) * (1.5 * x * x - 0.5))
        for label, raw in TIME_WEIGHTS.items():
            h = predictable_weight(raw(stream), stream.index) if stream.batch.n_events else np.zeros(len(stream))
            total = float(h @ h)
            n = int(np.count_nonzero(h))
            for order, values in enumerate(phi, start=1):
                name = f"score.time.{label}.phi_{order}"
                if n < MIN_VALUES:
                    out.append(undersized(name, n, MIN_VALUES))
                else:
                    z = float(h @ values) / math.sqrt(total)
                    out.append(normal_evidence(name, z, n, alpha, self.effect_name, method="clipped predictable weight"))
        return out


def type_score(types: IntArray, probs: FloatArray, h: FloatArray) -> tuple[float, int]:
    """(chi-square, degrees of freedom) of sum h (1{k} - p), rare types joined into one.

    Args:
        types: (N,). probs: (M, N), types first. h: (N,) weights known before the type is drawn.
    """
    weighted = probs * h
    deviation = np.bincount(types, weights=h, minlength=len(probs)) - weighted.sum(axis=1)
    covariance = np.diag(weighted @ h) - weighted @ weighted.T
    merge = _merging(probs.sum(axis=1))
    deviation, covariance = merge @ deviation, merge @ covariance @ merge.T
    values, vectors = np.linalg.eigh(covariance)
    above = int((values > 1e-9 * max(float(values.max()), 1e-300)).sum())
    df = min(above, len(merge) - 1)  # one direction is null: the deviations of all types sum to 0
    first = len(values) - df
    projected = vectors[:, first:].T @ deviation
    return float((projected**2 / values[first:]).sum()), df


def _merging(expected: FloatArray) -> FloatArray:
    """(G, M) zero-one matrix that joins types expected fewer than 100 times, with the next rarest if they stay rare."""
    order = np.argsort(expected)
    rare = int((expected < MIN_VARIANCE_NORMAL).sum())
    joined = max(1, rare)
    if 0 < rare < len(expected) and expected[order[:rare]].sum() < MIN_VARIANCE_NORMAL:
        joined = rare + 1
    groups: list[IntArray] = [order[:joined], *order[joined:, None]]
    out = np.zeros((len(groups), len(expected)))
    for row, members in enumerate(groups):
        out[row, members] = 1.0
    return out


class TypeScore(ChiSquareStatistic):
    """Type counts against their conditional probabilities: plain, weighted by the previous gap, by the event's own gap."""

    name = "score.type"
    null = "chi2(M - 1), martingale"
    effect_name = "w = sqrt(chi2 / n)"
    df = 1

    def members(self, design: Design) -> int:
        return len(TYPE_WEIGHTS) if design.marked else 0

    def evaluate(self, stream: PitStream, design: Design, alpha: float) -> list[Evidence]:
        if not design.marked:
            return []
        real = stream.is_event if stream.completed else slice(None)
        n = int(stream.is_event.sum())
        types, probs = stream.batch.types[:n], np.ascontiguousarray(stream.scores.type_probs[:n].T)
        if n < MIN_VALUES:
            return [undersized(f"score.type.{label}", n, MIN_VALUES) for label in TYPE_WEIGHTS]
        weights = {
            "constant": np.ones(n),
            "log_previous_gap": predictable_weight(log_previous_gap(stream), stream.index)[real],
            "gap": math.sqrt(3) * (2.0 * stream.u[real] - 1.0),
        }
        out: list[Evidence] = []
        for label, h in weights.items():
            name, used = f"score.type.{label}", int(np.count_nonzero(h))
            statistic, df = type_score(types, probs, h) if used >= MIN_VALUES else (0.0, 0)
            if df == 0:
                out.append(undersized(name, used, max(MIN_VALUES, used + 1)))
            else:
                out.append(
                    chi_square_evidence(name, statistic, df, used, alpha, self.effect_name, method="predictable covariance")
                )
        return out


class HorizonCounts(NormalStatistic):
    """Numbers of events against the compensator: the one place where the handling of the horizon shows."""

    name = "counts.horizon"
    null = "N(0, 1), martingale"
    effect_name = "relative excess of events"

    def members(self, design: Design) -> int:
        return int(design.horizon)

    def evaluate(self, stream: PitStream, design: Design, alpha: float) -> list[Evidence]:
        if not design.horizon or stream.scores.crossing_cdf is None:
            return []
        hazard = float(-np.log(np.maximum(stream.scores.survival, _TINY)).sum())
        compensator = hazard + float(-np.log(np.maximum(1.0 - stream.scores.crossing_cdf, _TINY)).sum())
        n = round(compensator)
        if n < MIN_COMPENSATOR:
            return [undersized(self.name, n, MIN_COMPENSATOR, unit="expected events")]
        z = (stream.batch.n_events - compensator) / math.sqrt(compensator)
        return [normal_evidence(self.name, z, n, alpha, self.effect_name, method="sum (N - Lambda) / sqrt(sum Lambda)")]


register(TimeScore())
register(TypeScore())
register(HorizonCounts())
