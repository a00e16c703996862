"""Does the density integrate to one, and is the CDF its integral? Asked of a target that can only score.

The last gap of a few prefixes is replaced by a grid of values that follows the CDF, so that narrow components are resolved.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import Target
from tppsd_bench.results import Axis, Evidence
from tppsd_bench.stats.base import FloatArray, IntArray
from tppsd_bench.stats.scored import scored

TOLERANCE = 5e-3
"""Allowed |F(b) - F(a) - integral of f| and |total mass - 1|."""
N_PREFIXES = 6
MAX_HISTORY = 24
N_COARSE, N_FINE, REFINEMENTS = 97, 193, 2
SPAN = 1e9
"""The grid starts at the observed scale of gaps divided and multiplied by this."""
SPLITS, PARTS, WORST = 3, 4, 128
"""Cells whose integral misses the CDF are cut again, the worst first: a density may jump, as that of a law over time buckets does, and
Simpson's error there falls with the width. That of a wrong density does not."""


def density_evidence(target: Target, batch: EventBatch, rng: Generator) -> Evidence:
    """F' = f and total mass 1, at a few histories (the empty one always among them)."""
    batch = EventBatch(batch.gaps, batch.types, batch.lengths, batch.n_types)  # a grid of gaps knows no horizon
    rows = np.flatnonzero(batch.lengths > 0)
    rows = rows[rng.integers(0, len(rows), size=N_PREFIXES)]
    last = rng.integers(0, np.minimum(batch.lengths[rows], MAX_HISTORY))
    last[0] = 0
    scale = float(np.median(batch.gaps))
    worst, sentence = 0.0, ""
    for row, index in zip(rows, last, strict=True):
        off, said = _examine(target, batch, int(row), int(index), scale)
        if off > worst:
            worst, sentence = off, f"Sequence {int(row)}, event {int(index)}: {said}"
    passed = worst <= TOLERANCE
    return Evidence(
        "validity.density",
        Axis.VALIDITY,
        passed=passed,
        statistic=worst,
        n=N_PREFIXES,
        effect=worst,
        effect_name="largest missing probability",
        method="last gap replaced by a grid, Simpson's rule",
        detail="" if passed else sentence,
    )


def _examine(target: Target, batch: EventBatch, row: int, index: int, scale: float) -> tuple[float, str]:
    """(largest discrepancy, what it is) of the law of one event."""
    grid = scale * np.geomspace(1 / SPAN, SPAN, N_COARSE)
    log_f, cdf = _score_grid(target, batch, row, index, grid)
    for _ in range(REFINEMENTS):
        grid = _refine(grid, cdf, N_FINE)
        log_f, cdf = _score_grid(target, batch, row, index, grid)
    for _ in range(SPLITS):
        finer = _split(grid, log_f, cdf)
        if len(finer) == len(grid):
            break
        grid = finer
        log_f, cdf = _score_grid(target, batch, row, index, grid)
    if not (np.isfinite(cdf).all() and not np.isnan(log_f).any()):
        at = int(np.argmax(~np.isfinite(cdf) | np.isnan(log_f)))
        return np.inf, f"at a gap of {grid[at]:g} the log-density is {log_f[at]} and the CDF {cdf[at]}; expected numbers"
    drop = -np.diff(cdf)
    if drop.max() > TOLERANCE:
        at = int(np.argmax(drop))
        return float(
            drop.max()
        ), f"the CDF falls from {cdf[at]:.4g} to {cdf[at + 1]:.4g} between gaps {grid[at]:.4g} and {grid[at + 1]:.4g}"
    with np.errstate(over="ignore"):
        mass = _integral(grid, np.exp(log_f + np.log(grid)))
    total = float(mass[-1])
    outside = max(float(cdf[0]), float(1 - cdf[-1]))
    if outside > TOLERANCE:
        return outside, (
            f"the CDF runs from {cdf[0]:.4g} to {cdf[-1]:.4g} over gaps {grid[0]:.2g} to {grid[-1]:.2g}; expected 0 to 1: the "
            "law must put all its mass on positive finite gaps"
        )
    off = np.abs(mass - (cdf[::2] - cdf[0]))
    at = int(np.argmax(off))
    if abs(total - 1) > TOLERANCE:
        hint = (
            "log_density looks like a density: return its logarithm"
            if (log_f >= 0).all()
            else (
                "return the log-density per unit of time (a log-normal needs its 1/gap, a rescaled gap its factor), untruncated"
            )
        )
        return abs(total - 1), f"the density integrates to {total:.4g}; expected 1: {hint}"
    return float(off[at]), (
        f"up to a gap of {grid[::2][at]:.4g} the density integrates to {mass[at]:.4g}, but the CDF is {cdf[::2][at]:.4g}; "
        "expected the same: take both from one law and one history"
    )


def _score_grid(target: Target, batch: EventBatch, row: int, index: int, grid: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(log f, F) of event ``index`` of sequence ``row`` at every gap of the grid."""
    start = int(batch.offsets[row])
    gaps: FloatArray = np.repeat(batch.gaps[None, start : start + index + 1], len(grid), axis=0)
    gaps[:, -1] = grid
    types: IntArray = np.tile(batch.types[start : start + index + 1], len(grid))
    lengths = np.full(len(grid), index + 1, dtype=np.int64)
    scores = scored(target, EventBatch(gaps.ravel(), types, lengths, batch.n_types))
    at = np.cumsum(lengths) - 1
    return np.asarray(scores.log_density, dtype=np.float64)[at], np.asarray(scores.cdf, dtype=np.float64)[at]


def _refine(grid: FloatArray, cdf: FloatArray, n: int) -> FloatArray:
    """``n`` points, dense in log gap and in probability alike."""
    log_grid = np.log(grid)
    level = np.maximum.accumulate(np.nan_to_num(np.clip(cdf, 0, 1)))
    reach = np.flatnonzero((level > 1e-7) & (level < 1 - 1e-7))
    if len(reach):  # leave the empty decades outside
        low, high = max(int(reach[0]) - 1, 0), min(int(reach[-1]) + 1, len(grid) - 1)
    else:
        low = max(int(np.argmax(level >= 0.5)) - 1, 0)
        high = min(low + 1, len(grid) - 1)
    log_grid, level = log_grid[low : high + 1], level[low : high + 1]
    span = max(float(level[-1] - level[0]), 1e-12)
    mixed = (level - level[0]) / span + (log_grid - log_grid[0]) / max(float(log_grid[-1] - log_grid[0]), 1e-12)
    out: FloatArray = np.exp(np.interp(np.linspace(0, mixed[-1], (n + 1) // 2), mixed, log_grid))
    middles = np.sqrt(out[1:] * out[:-1])  # Simpson's rule wants the middle of each interval, in log gap
    return np.sort(np.concatenate([out, middles]))


def _split(grid: FloatArray, log_f: FloatArray, cdf: FloatArray) -> FloatArray:
    """The grid with its worst cells cut in ``PARTS``; as it is where none misses its share of the tolerance."""
    with np.errstate(over="ignore", invalid="ignore"):
        mass = np.diff(_integral(grid, np.exp(log_f + np.log(grid))))
    missed = np.abs(mass - np.diff(cdf[::2]))
    bad = np.flatnonzero(missed > TOLERANCE / len(missed))  # False for a NaN, which is reported as such
    bad = bad[np.argsort(-missed[bad], kind="stable")[:WORST]]
    edges = np.log(grid[::2])
    inner = edges[bad, None] + np.diff(edges)[bad, None] * np.arange(1, PARTS) / PARTS
    edges = np.sort(np.concatenate([edges, inner.ravel()]))
    out: FloatArray = np.exp(np.sort(np.concatenate([edges, 0.5 * (edges[1:] + edges[:-1])])))
    return out


def _integral(grid: FloatArray, per_log_gap: FloatArray) -> FloatArray:
    """Cumulative Simpson integral over log gap at every second point."""
    width = np.diff(np.log(grid[::2]))
    steps = width / 6 * (per_log_gap[:-2:2] + 4 * per_log_gap[1::2] + per_log_gap[2::2])
    return np.concatenate([[0.0], np.cumsum(steps)])
