"""Figures of what the sampler did: acceptance by position in the round, target forwards per event."""

from __future__ import annotations

import numpy as np

from tppsd_bench.report.canvas import ACCENT, INK, REFERENCE, Canvas
from tppsd_bench.report.picture import Arrays, Picture, nice_ticks, together, wilson
from tppsd_bench.report.wording import estimate, number, percent
from tppsd_bench.results import CellResult


def work_pictures(cell: CellResult, arrays: Arrays, canvas: Canvas) -> list[Picture]:
    """Acceptance and forwards, where the run left them."""
    drawn = [_acceptance(cell, arrays, canvas), _forwards(cell, canvas)]
    return [p for p in drawn if p is not None]


def _acceptance(cell: CellResult, arrays: Arrays, canvas: Canvas) -> Picture | None:
    counted = together(arrays, "position_reached", "position_accepted")
    listed = cell.figures.get("acceptance_by_position")
    bars = None
    if counted is not None:
        reached, accepted = (c[counted[0] > 0] for c in counted)
        rate = accepted / np.maximum(reached, 1)
        bars = wilson(accepted, np.maximum(reached, 1))
    elif isinstance(listed, list) and listed:
        rate = np.array([r for r in listed if isinstance(r, (int, float))], dtype=np.float64)
    else:
        return None
    if not len(rate):
        return None
    at = np.arange(1, len(rate) + 1)
    low = min(float(rate.min()), float(bars[0].min()) if bars else 1.0)
    bottom = max(0.0, low - 0.35 * max(1 - low, 0.02))
    canvas.start(190)
    axes = canvas.axes(
        (44, 14, 16, 42),
        x=(0.5, len(rate) + 0.5),
        y=(bottom, 1.0),
        x_ticks=[(float(k), str(k)) for k in at],
        y_ticks=nice_ticks(bottom, 1, 4),
        x_label="position in the round",
    )
    if bars:
        axes.vlines(at, *bars, color=ACCENT, linewidth=1.4)
    axes.plot(at, rate, "-", color=ACCENT, linewidth=0.8)
    axes.plot(at, rate, "o", ms=5, color=ACCENT)
    label = (
        f"Share of drafted events accepted, by position in the round: from {percent(rate[0])} "
        f"at position 1 to {percent(rate[-1])} at position {len(rate)}."
    )
    return Picture(
        "Acceptance by position",
        "Gap and type both accepted, given that the position was reached; bars are 95 % intervals.",
        canvas.finish(label),
    )


def _forwards(cell: CellResult, canvas: Canvas) -> Picture | None:
    ours = estimate(cell.figures.get("forwards_per_event"))
    theirs = estimate(cell.figures.get("reference_forwards_per_event"))
    if ours is None:
        return None
    rows = [("sampler under test", ours[0], ACCENT)] + ([] if theirs is None else [("target-only", theirs[0], REFERENCE)])
    top = 1.15 * max(value for _, value, _ in rows)
    canvas.start(26 + 44 * len(rows))
    axes = canvas.axes((16, 10, 16, 10), x=(0, top), y=(-0.4, len(rows) - 0.2), grid="", base=False)
    for i, (text, value, colour) in enumerate(rows):
        y = len(rows) - 1 - i
        axes.barh(y, value, height=0.34, color=colour, linewidth=0)
        axes.text(0, y + 0.25, text, color=INK, fontsize=10, va="bottom")
        axes.text(value + top * 0.015, y, number(value), color=INK, va="center")
    label = "Target forwards per event: " + ", ".join(f"{text} {number(value)}" for text, value, _ in rows) + "."
    return Picture(
        "Target forwards per event",
        "Exact by count: sequences advanced by a target pass, over committed events.",
        canvas.finish(label),
    )
