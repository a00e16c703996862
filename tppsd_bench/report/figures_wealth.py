"""The wealth of the e-process over the events of a law cell, against the line at which it is proof."""

from __future__ import annotations

import math

import numpy as np

from tppsd_bench.events import FloatArray
from tppsd_bench.report.canvas import ACCENT, FAIL, MUTED, Canvas
from tppsd_bench.report.picture import Arrays, Picture, column, nice_ticks
from tppsd_bench.report.wording import number

_ABOVE = 1.6
"""The picture ends this many thresholds up: what happens beyond proof is told, not drawn."""


def wealth_pictures(arrays: Arrays, canvas: Canvas) -> list[Picture]:
    """The curve of one cell; nothing where no e-process was followed."""
    limit = column(arrays, "wealth_threshold")
    if limit is None or "wealth_events" not in arrays or "wealth_log" not in arrays:
        return []
    events, wealth = (np.asarray(arrays[name], dtype=np.float64) for name in ("wealth_events", "wealth_log"))
    keep = ~np.isnan(wealth)
    events, wealth = events[keep], wealth[keep] / math.log(10)
    if len(events) < 2:
        return []
    return [_picture(events, wealth, float(limit[0]) / math.log(10), canvas)]


def _picture(events: FloatArray, wealth: FloatArray, threshold: float, canvas: Canvas) -> Picture:
    top = _ABOVE * threshold
    low = min(-1.0, float(wealth.min()) * 1.1)
    shown = np.minimum(wealth, top)
    crossed = np.flatnonzero(wealth >= threshold)
    canvas.start(190)
    axes = canvas.axes(
        (44, 16, 16, 42),
        x=(0, float(events[-1])),
        y=(low, top),
        x_ticks=nice_ticks(0, float(events[-1])),
        y_ticks=[(v, "1" if v == 0 else f"10{name}") for v, name in _powers(low, top)],
        x_label="events",
    )
    axes.axhline(0, color=MUTED, linewidth=0.8, zorder=1)
    axes.axhline(threshold, color=FAIL, linewidth=1.2, dashes=(4, 3), zorder=2)
    axes.text(0.995 * events[-1], threshold, "proof", ha="right", va="bottom", color=FAIL, fontsize=10)
    axes.plot(*_inside(np.concatenate([[0.0], events]), np.concatenate([[0.0], wealth]), top), color=ACCENT, zorder=3)
    if len(crossed):
        axes.plot(events[crossed[0]], shown[crossed[0]], "o", ms=6, color=FAIL, zorder=4)
        when = f"it reaches the line after {events[crossed[0]]:,.0f} events"
        last = float(wealth.max())
        far = " and, by an event that cannot be, every height" if math.isinf(last) else f"; the largest is {_ten(last)}"
        told = f"{when}{far}"
    else:
        told = f"it never reaches the line; the largest is {_ten(float(wealth.max()))}"
    label = f"Wealth of bets against exactness over {events[-1]:,.0f} events, logarithmic, from 1: {told}. The line is at {_ten(threshold)}."
    caption = (
        f"What bets against exactness have made of 1, looked at after every sequence. On an exact sampler it reaches the line at "
        f"{_ten(threshold)} in at most one run of {_whole(threshold)}, whenever one looks. Here {told}."
    )
    return Picture("Wealth of bets against the sampler", caption, canvas.finish(label))


def _inside(x: FloatArray, y: FloatArray, top: float) -> tuple[FloatArray, FloatArray]:
    """The curve up to where it first leaves the picture; the rest would only run along the edge."""
    beyond = np.flatnonzero(y > top)
    if not len(beyond):
        return x, y
    i = int(beyond[0])
    share = (top - y[i - 1]) / (y[i] - y[i - 1]) if np.isfinite(y[i]) else 1.0
    leaves = x[i - 1] + share * (x[i] - x[i - 1])
    return np.append(x[:i], leaves), np.append(y[:i], top)


def _powers(low: float, top: float) -> list[tuple[float, str]]:
    ticks = [(v, f"{v:.0f}") for v, _ in nice_ticks(low, top, 5) if v == round(v)]
    return [(v, name.translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))) for v, name in ticks]


def _ten(log10: float) -> str:
    """A wealth in words, from its logarithm: powers that no float holds included."""
    if -3 <= log10 < 7:
        return number(10.0**log10, 2)
    return "10" + f"{log10:.0f}".translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _whole(log10: float) -> str:
    return f"{10.0**log10:,.0f}"
