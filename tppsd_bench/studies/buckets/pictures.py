"""Pictures of the study: the frontier of error and acceptance, error over the number of buckets, speed over the number of buckets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tppsd_bench.report.canvas import ACCENT, INK, MUTED, PAPER, REFERENCE, Canvas
from tppsd_bench.report.picture import Picture, Ticks, legend, log_ticks, nice_ticks
from tppsd_bench.report.wording import number, times
from tppsd_bench.results import CellResult
from tppsd_bench.studies.buckets.jobs import CONTINUOUS
from tppsd_bench.studies.buckets.reading import points, strategies

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLES: Mapping[str, dict[str, Any]] = {
    "quantile": {"color": ACCENT, "marker": "o", "mfc": ACCENT},
    "equal_width": {"color": REFERENCE, "marker": "s", "mfc": REFERENCE},
    "log_width": {"color": INK, "marker": "^", "mfc": PAPER},
}
WITHIN: Mapping[str, dict[str, Any]] = {
    "uniform": {"color": ACCENT, "marker": "o", "mfc": ACCENT},
    "log_uniform": {"color": INK, "marker": "^", "mfc": PAPER},
    "empirical": {"color": REFERENCE, "marker": "s", "mfc": REFERENCE},
}
SHORT = {"quantile": "quantile", "equal_width": "equal width", "log_width": "equal in log"}
LEAST, SLIGHT = 1e-6, 1e-3
"""Nats, and points of acceptance, below which a number is quadrature."""


def map_pictures(cell: CellResult, canvas: Canvas) -> list[Picture]:
    if not cell.figures["points"]:
        return []
    return [_frontier(cell, canvas), *([_over_buckets(cell, canvas)] if len(cell.figures["within"]) > 1 else [])]


def _key(axes: Axes, names: Mapping[str, str], styles: Mapping[str, dict[str, Any]], apart: float) -> None:
    legend(axes, *((styles[s]["marker"], styles[s]["mfc"], styles[s]["color"], word) for s, word in names.items()), apart=apart)


def _line(axes: Axes, x: Sequence[float], y: Sequence[float], style: dict[str, Any]) -> None:
    axes.plot(x, y, ms=4.8, mec=style["color"], mew=1.3, linewidth=1.3, zorder=3, **style)


def _log_range(values: Sequence[float]) -> tuple[float, float]:
    return min(values) / 1.5, max(values) * 1.7


def _frontier(cell: CellResult, canvas: Canvas) -> Picture:
    """Joint acceptance above continuous time over nats lost, a line a strategy from its fewest buckets (named) to its most."""
    lines = {
        s: [
            (max(p["information"]["value"], LEAST), max(100 * p["gain_joint"]["value"], SLIGHT), p["buckets"])
            for p in points(cell, s)
        ]
        for s in strategies(cell)
    }
    x, y = (_log_range([point[i] for line in lines.values() for point in line]) for i in (0, 1))
    low, high = (math.log10(v) for v in y)
    canvas.start(216)
    axes = canvas.axes(
        (54, 30, 14, 42), x=x, y=(low, high), x_ticks=log_ticks(*x), log_x=True, y_ticks=_in_log(low, high),
        x_label="nats an event lost by cutting time (log scales)",
    )  # fmt: skip
    for s, line in lines.items():
        _line(axes, [e for e, _, _ in line], [math.log10(a) for _, a, _ in line], STYLES[s])
        for e, a, n in line[:1]:
            axes.annotate(str(n), (e, math.log10(a)), (0, 7), textcoords="offset points", ha="center", color=INK, fontsize=9)
    _key(axes, {s: SHORT[s] for s in lines}, STYLES, 92)
    label = "Points of acceptance above continuous time against nats lost: " + "; ".join(
        f"{SHORT[s]} {number(a)} points at {number(e)} nats with {n} buckets"
        for s, line in lines.items()
        for e, a, n in (line[0], line[-1])
    )
    return Picture(
        "Error against acceptance",
        "Points of joint acceptance above what continuous time accepts, which is the floor, over the information lost; each line goes from "
        "the fewest buckets (named) to the most. Coarser time is accepted more because less is asked.",
        canvas.finish(label + "."),
    )


def _over_buckets(cell: CellResult, canvas: Canvas) -> Picture:
    """Nats of the gap lost over the number of quantile buckets, a line a law inside."""
    first = strategies(cell)[0]
    of = points(cell, first)
    names = [w for w in WITHIN if all(w in p["inside"] for p in of)]
    lines = {w: [max(p["inside"][w]["information_gap"]["value"], LEAST) for p in of] for w in names}
    numbers = [float(p["buckets"]) for p in of]
    values = [v for line in lines.values() for v in line]
    low, high = (math.log10(v) for v in _log_range(values))
    canvas.start(216)
    axes = canvas.axes(
        (54, 30, 14, 42), x=(0.8 * numbers[0], 1.25 * numbers[-1]), y=(low, high), log_x=True,
        x_ticks=[(n, f"{n:g}") for n in numbers], y_ticks=_in_log(low, high), x_label=f"{SHORT[first]} buckets (log scales)",
    )  # fmt: skip
    for w, line in lines.items():
        _line(axes, numbers, [math.log10(v) for v in line], WITHIN[w])
    _key(axes, {w: w.replace("_", "-") for w in names}, WITHIN, 92)
    label = "Nats of the gap lost over the number of buckets: " + "; ".join(
        f"{w.replace('_', '-')} {number(line[0])} at {numbers[0]:g}, {number(line[-1])} at {numbers[-1]:g}"
        for w, line in lines.items()
    )
    return Picture(
        "What the law inside a bucket is worth",
        f"Information about the gap lost with {SHORT[first]} buckets, by the law that fills them. Acceptance is the same with each.",
        canvas.finish(label + "."),
    )


def _in_log(low: float, high: float) -> Ticks:
    return [(math.log10(v), name) for v, name in log_ticks(10.0**low, 10.0**high)]


def speed_picture(cells: Sequence[CellResult], canvas: Canvas) -> Picture | None:
    """Speed over the number of buckets, at the K each point's own pairs chose; continuous time as a line across."""
    lines: dict[str, list[CellResult]] = {}
    for cell in cells:
        lines.setdefault(str(cell.figures["strategy"]), []).append(cell)
    plain = next(iter(lines.pop(CONTINUOUS, [])), None)
    numbers = sorted({float(c.figures["buckets"]) for line in lines.values() for c in line})
    if len(numbers) < 2:
        return None
    shown = [c for line in lines.values() for c in line] + ([plain] if plain else [])
    top = 1.12 * max(1.0, *(c.figures["speedup_cpu"]["high"] for c in shown))
    canvas.start(216)
    axes = canvas.axes(
        (40, 30, 14, 42), x=(0.75 * numbers[0], 1.33 * numbers[-1]), y=(0, top), log_x=True, x_ticks=[(n, f"{n:g}") for n in numbers],
        y_ticks=[(t, f"{name}×") for t, name in nice_ticks(0, top, 5)], x_label="buckets (log scale)",
    )  # fmt: skip
    axes.axhline(1, color=MUTED, linewidth=1, dashes=(1, 2))
    if plain is not None:
        axes.axhline(plain.figures["speedup_cpu"]["value"], color=MUTED, linewidth=1, dashes=(4, 3))
    named = [s for s in STYLES if s in lines]
    for i, s in enumerate(named):
        line = sorted(lines[s], key=lambda c: int(c.figures["buckets"]))
        at = [float(c.figures["buckets"]) * 1.05 ** (i - (len(named) - 1) / 2) for c in line]
        f = [c.figures["speedup_cpu"] for c in line]
        axes.vlines(at, [e["low"] for e in f], [e["high"] for e in f], color=STYLES[s]["color"], linewidth=0.9)
        _line(axes, at, [e["value"] for e in f], STYLES[s])
    _key(axes, {s: SHORT[s] for s in named}, STYLES, 92)
    best = max(shown, key=lambda c: float(c.figures["speedup_cpu"]["value"]))
    said = f"up to {times(best.figures['speedup_cpu']['value'])} at K = {best.k}"
    dashed = "dashed: in continuous time; dotted: break-even." if plain is not None else "dotted: break-even."
    return Picture(
        f"Speed over the number of buckets, {cells[0].pair}",
        f"CPU time per event, cached target-only over speculative, both over the same tokens, at the K chosen on half the pairs and quoted "
        f"from the other half (bars: its interval by order statistics); {dashed}",
        canvas.finish(f"Speed over the number of buckets: {said}."),
    )
