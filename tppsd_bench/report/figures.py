"""Figures of law cells: the two arms beside each other, and the target's own view of the sequences (PIT)."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from numpy.typing import NDArray

from tppsd_bench.events import FloatArray
from tppsd_bench.report.canvas import ACCENT, BAND, FAIL, INK, MUTED, PAPER, REFERENCE, Canvas
from tppsd_bench.report.picture import (
    OURS,
    THEIRS,
    Arrays,
    Picture,
    Ticks,
    column,
    legend,
    nice_ticks,
    spread,
    together,
)
from tppsd_bench.report.wording import number, percent, unit
from tppsd_bench.results import CellResult
from tppsd_bench.stats.bands import ecdf_difference_band
from tppsd_bench.streams import StreamKey

BAND_LEVEL = 0.95
RASTER_SEQUENCES, RASTER_EVENTS, MAX_TYPES = 10, 60, 16


def pit_pictures(cell: CellResult, arrays: Arrays, canvas: Canvas) -> list[Picture]:
    """Distance of the PITs from uniform, gaps and types."""
    drawn = [_ecdf(cell, arrays, canvas, "u", "gap"), _ecdf(cell, arrays, canvas, "v", "type") if _marked(arrays) else None]
    return [p for p in drawn if p is not None]


def arms_pictures(arrays: Arrays, canvas: Canvas) -> list[Picture]:
    """The sampler under test beside the target-only arm: gaps, types, memory, sequences."""
    drawn = [_gaps(arrays, canvas), _types(arrays, canvas), _autocorrelation(arrays, canvas), _raster(arrays, canvas)]
    return [p for p in drawn if p is not None]


@lru_cache(maxsize=64)
def _band(n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The band depends on n alone; a fixed stream keeps an unchanged report unchanged."""
    return ecdf_difference_band(n, BAND_LEVEL, StreamKey(suite="report", purpose="band").generator())


def _ecdf(cell: CellResult, arrays: Arrays, canvas: Canvas, name: str, of: str) -> Picture | None:
    """ECDF minus the uniform's, with the simultaneous band and the margin, so that "significant" and "matters" stay apart."""
    # gaps that finished inside a horizon are not uniform even under exactness: only completed ones may be drawn there
    values = column(arrays, "completed_u" if cell.kind == "horizon" and name == "u" else name)
    if values is None or len(values) < 10:
        return None
    n, x = len(values), np.linspace(0, 1, 241)
    values = np.sort(values)
    difference = np.searchsorted(values, x, side="right") / n - x
    steps = np.arange(1, n + 1) / n
    distance = float(max((steps - values).max(), (values - steps + 1 / n).max()))
    grid, low, high = _band(n)
    family = {"u": "pit_time", "v": "pit_type"}[name]
    margin = next(
        (e.margin for e in cell.evidence if e.primary and e.margin and unit(e) == "KS" and e.name.startswith(family)), None
    )
    top = 1.25 * max(np.abs(difference).max(), np.abs(high).max(), margin or 0.0)
    canvas.start(190)
    axes = canvas.axes(
        (44, 14, 16, 42),
        x=(0, 1),
        y=(-top, top),
        x_ticks=nice_ticks(0, 1),
        y_ticks=nice_ticks(-top, top, 5),
        x_label=f"PIT of the {of}",
    )
    axes.fill_between(grid, low, high, color=BAND, linewidth=0, zorder=1)
    axes.axhline(0, color=MUTED, linewidth=0.8, zorder=2)
    if margin:
        for side in (-margin, margin):
            axes.axhline(side, color=MUTED, linewidth=1, dashes=(4, 3), zorder=2)
        axes.text(0.995, margin, "margin δ", ha="right", va="bottom", color=MUTED, fontsize=10)
    axes.plot(x, difference, color=ACCENT, zorder=3)
    expected = np.interp(x, grid, low), np.interp(x, grid, high)
    outside = bool(((difference < expected[0] - 1e-12) | (difference > expected[1] + 1e-12)).any())
    place = "leaves the 95 % band" if outside else "stays in the 95 % band"
    beside = "" if not margin else f", {'beyond' if distance > margin else 'inside'} the margin of {number(margin, 2)}"
    label = (
        f"Empirical minus uniform distribution of the {of} PIT over {n:,} events: the curve "
        f"{place}; largest distance {number(distance, 2)}{beside}."
    )
    if cell.kind == "fit":
        title, law = (
            f"{of.capitalize()}s: distance of the model from the data",
            f"If the model were the law of its data the {of} PITs would be",
        )
    else:
        title, law = f"{of.capitalize()}s: distance from the target's law", f"The {of} PITs of an exact sampler are"
    caption = (
        f"{law} uniform, with the curve in the grey band in 95 of 100 runs. "
        f"Here it {place}; the largest distance is {number(distance, 2)}{beside}."
    )
    return Picture(title, caption, canvas.finish(label))


def _marked(arrays: Arrays) -> bool:
    """Whether there is more than one type; the PIT of a single type is the test's own noise."""
    types = column(arrays, "types")
    return types is None or types.max() > 0


def _arms(arrays: Arrays, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64] | None] | None:
    ours = column(arrays, name)
    return None if ours is None else (ours, column(arrays, f"ref_{name}"))


def _gaps(arrays: Arrays, canvas: Canvas) -> Picture | None:
    arms = _arms(arrays, "gaps")
    if arms is None:
        return None
    logs = [np.log10(a[a > 0]) for a in arms if a is not None and (a > 0).any()]
    if not logs:
        return None
    low, high = np.quantile(logs[0], [0.0005, 0.9995])
    edges = np.linspace(low - 0.05, high + 0.05, 41)
    width = edges[1] - edges[0]
    heights = [np.histogram(v, edges)[0] / len(v) / width for v in logs]
    top = 1.1 * max(h.max() for h in heights)
    ticks: Ticks = [
        (float(k), f"{10.0**k:,g}" if -4 <= k < 6 else number(10.0**k))
        for k in range(math.ceil(edges[0]), math.floor(edges[-1]) + 1)
    ]
    canvas.start(200)
    axes = canvas.axes(
        (16, 30, 16, 42),
        x=(edges[0], edges[-1]),
        y=(0, top),
        x_ticks=ticks or nice_ticks(*edges[[0, -1]]),
        x_label="gap (log scale)",
        grid="x",
    )
    axes.stairs(heights[0], edges, fill=True, color=ACCENT, alpha=0.22, linewidth=0)
    axes.stairs(heights[0], edges, color=ACCENT, linewidth=1.4, baseline=None)
    if len(heights) > 1:
        axes.plot((edges[:-1] + edges[1:]) / 2, heights[1], "s", ms=3.6, mfc=PAPER, mec=REFERENCE, mew=1.2)
    legend(axes, ("s", *OURS[1:]), *[THEIRS] * (len(heights) > 1))
    medians = [number(float(10 ** np.median(v))) for v in logs]
    beside = f"; target-only {medians[1]}" if len(medians) > 1 else ""
    label = f"Density of the logarithm of the gaps. Median gap: sampler under test {medians[0]}{beside}."
    return Picture("Gaps of both arms", f"Marginal density of log gap. Median {medians[0]}{beside}.", canvas.finish(label))


def _types(arrays: Arrays, canvas: Canvas) -> Picture | None:
    arms = _arms(arrays, "types")
    if arms is None or max(a.max() for a in arms if a is not None) < 1:
        return None
    m = int(max(a.max() for a in arms if a is not None)) + 1
    shares = [np.bincount(a.astype(np.int64), minlength=m) / len(a) for a in arms if a is not None]
    shown = np.sort(np.argsort(-shares[-1], kind="stable")[:MAX_TYPES])
    rows = np.arange(len(shown))[::-1]
    top = 1.12 * max(s.max() for s in shares)
    canvas.start(76 + 17 * len(shown))
    axes = canvas.axes(
        (64, 30, 20, 42),
        x=(0, top),
        y=(-0.7, len(shown) - 0.3),
        x_ticks=nice_ticks(0, top, 4),
        y_ticks=[(float(r), f"type {t}") for r, t in zip(rows, shown, strict=True)],
        x_label="share of events",
        grid="x",
    )
    if len(shares) > 1:
        axes.hlines(rows, shares[0][shown], shares[1][shown], color=FAIL, linewidth=1.2)
        axes.plot(shares[1][shown], rows, "s", ms=7, mfc=PAPER, mec=REFERENCE, mew=1.4)
    axes.plot(shares[0][shown], rows, "o", ms=4.5, color=ACCENT)
    legend(axes, OURS, *[THEIRS] * (len(shares) > 1))
    largest = float(np.abs(shares[0] - shares[-1]).max())
    beside = f" The largest difference between the arms is {percent(largest)} of events." if len(shares) > 1 else ""
    left_out = f" The {MAX_TYPES} commonest of {m} types." if m > MAX_TYPES else ""
    label = f"Share of events of each of {m} types.{beside}"
    return Picture("Types of both arms", f"Marginal type frequencies.{beside}{left_out}", canvas.finish(label))


def _autocorrelation(arrays: Arrays, canvas: Canvas) -> Picture | None:
    ours = together(arrays, "acf_lags", "acf")
    if ours is None:
        return None
    lags, acf = ours
    theirs = together(arrays, "acf_lags", "ref_acf")
    everything = [0.0, *acf, *([] if theirs is None else theirs[1])]
    low, high = spread(everything, 0.12)
    canvas.start(190)
    axes = canvas.axes(
        (44, 30, 16, 42),
        x=(lags.min() - 0.6, lags.max() + 0.6),
        y=(low, high),
        x_ticks=nice_ticks(lags.min(), lags.max(), 6),
        y_ticks=nice_ticks(low, high, 4),
        x_label="lag in events",
    )
    axes.axhline(0, color=MUTED, linewidth=0.8)
    if theirs is not None:
        axes.plot(*theirs, "s", ms=7, mfc=PAPER, mec=REFERENCE, mew=1.4)
    axes.plot(lags, acf, "o", ms=4.5, color=ACCENT)
    legend(axes, OURS, *[THEIRS] * (theirs is not None))
    beside = (
        ""
        if theirs is None
        else f" The arms differ by at most {number(float(np.abs(acf[: len(theirs[1])] - theirs[1][: len(acf)]).max()))}."
    )
    label = (
        f"Autocorrelation of the log gaps at lags {lags.min():.0f} to {lags.max():.0f}; at "
        f"lag {lags[0]:.0f} it is {number(float(acf[0]))}.{beside}"
    )
    return Picture(
        "Memory of both arms", f"Autocorrelation of log gaps within sequences, pooled.{beside}", canvas.finish(label)
    )


def _ticks_path(times: NDArray[np.float64], rows: NDArray[np.float64]) -> Path:
    vertices = np.column_stack([np.repeat(times, 2), np.repeat(rows, 2)])
    vertices[0::2, 1] -= 0.36
    vertices[1::2, 1] += 0.36
    return Path(vertices, np.tile([Path.MOVETO, Path.LINETO], len(times)))


def _raster_rows(arrays: Arrays, prefix: str) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Times and row numbers of the first few sequences, each thinned to its first events."""
    pair = together(arrays, f"{prefix}raster_times", f"{prefix}raster_sequence")
    if pair is None:
        return None
    times, sequence = pair
    kept = []
    for row, index in enumerate(np.unique(sequence)[:RASTER_SEQUENCES]):
        own = np.sort(times[sequence == index])[:RASTER_EVENTS]
        kept.append((own, np.full(len(own), float(row))))
    return np.concatenate([t for t, _ in kept]), np.concatenate([r for _, r in kept])


def _raster(arrays: Arrays, canvas: Canvas) -> Picture | None:
    ours = _raster_rows(arrays, "")
    if ours is None:
        return None
    theirs = _raster_rows(arrays, "ref_")
    arms = [(ours, ACCENT, "sampler under test")] + ([] if theirs is None else [(theirs, REFERENCE, "target-only")])
    # every sequence shows its first events only, so the axis ends where the fastest arm's typical sequence ends
    end = min(float(np.median([t[r == k].max() for k in np.unique(r)])) for (t, r), _, _ in arms)
    canvas.start(28 + 126 * len(arms))
    for i, ((times, rows), colour, text) in enumerate(arms):
        last = i == len(arms) - 1
        axes = canvas.axes(
            (16, 22 + 122 * i, 16, 42 if last else 42 + 126),
            x=(0, end),
            y=(RASTER_SEQUENCES - 0.4, -0.6),
            x_ticks=nice_ticks(0, end) if last else (),
            x_label="time" if last else "",
            grid="",
            base=False,
        )
        inside = times <= end
        axes.add_patch(PathPatch(_ticks_path(times[inside], rows[inside]), edgecolor=colour, facecolor="none", linewidth=1.1))
        axes.text(0, -0.9, text, color=INK, fontsize=10, va="bottom")
    n = len(np.unique(ours[1]))
    label = (
        f"Event times of the first {n} sequences of {' and of '.join(text for _, _, text in arms)}; "
        f"one row a sequence, one tick an event."
    )
    return Picture(
        "Sequences of both arms",
        f"One row a sequence, one tick an event: the first {n} sequences of each arm, their "
        f"first {RASTER_EVENTS} events at most. The arms are independent: rows do not match.",
        canvas.finish(label),
    )
