"""Pictures of the study: speed over K under the law, errors of the law, acceptance by position, cost of history."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.measure.acceptance import clopper_pearson
from tppsd_bench.report.canvas import ACCENT, BAND, FAIL, INK, MUTED, PAPER, REFERENCE, Canvas
from tppsd_bench.report.picture import Picture, legend, log_ticks, nice_ticks
from tppsd_bench.report.wording import number, percent, times
from tppsd_bench.results import CellResult
from tppsd_bench.studies.speedup.reading import LIMIT, SiteView

_PROMISED = ("--", "none", REFERENCE, "promised")
_ROW = 15.0
_STEPS = {"target": "target step, cached", "verify": "verifying pass", "draft": "draft step, cached",
          "recompute": "target step, recomputing"}  # fmt: skip


def over_k(site: SiteView, canvas: Canvas) -> Picture:
    """Measured speed with intervals over the promised curve and its band of 5 %; K's in equal steps."""
    points = site.points
    at = np.arange(len(points), dtype=np.float64)
    promised = np.array([p.promised for p in points])
    top = 1.12 * max(*(p.speed[2] for p in points), promised.max() * (1 + LIMIT), 1.0)
    canvas.start(206)
    axes = canvas.axes(
        (44, 30, 16, 42), x=(-0.5, len(points) - 0.5), y=(0, top), x_label="K, drafted events a round",
        x_ticks=[(float(i), str(p.k)) for i, p in zip(at, points, strict=True)],
        y_ticks=[(t, f"{name}×") for t, name in nice_ticks(0, top, 5)],
    )  # fmt: skip
    axes.axhline(1, color=MUTED, linewidth=1, dashes=(4, 3))
    axes.fill_between(at, promised / (1 + LIMIT), promised * (1 + LIMIT), color=BAND, linewidth=0)
    axes.plot(at, promised, color=REFERENCE, linewidth=1.2, dashes=(2, 2))
    timed = np.array([bool(p.row["rounds_timed"]) for p in points])
    axes.plot(at[timed], promised[timed], "s", ms=4, color=REFERENCE)
    axes.vlines(at, [p.speed[1] for p in points], [p.speed[2] for p in points], color=ACCENT, linewidth=1.8)
    axes.plot(at, [p.speed[0] for p in points], "o", ms=5, color=ACCENT)
    legend(axes, ("o", ACCENT, ACCENT, "measured"), _PROMISED, apart=84)
    best = site.fastest
    label = (
        f"Speed over K for {site.label}: fastest {times(best.speed[0])} at K = {best.k}, interval {times(best.speed[1])} to "
        f"{times(best.speed[2])}, promised {times(best.promised)}."
    )
    pays = {True: "pays", False: "does not pay", None: "undecided"}[site.pays]
    return Picture(site.drafted_by, f"{site.where[0].upper()}{site.where[1:]}: {pays}.", canvas.finish(label))


def errors(sites: Sequence[SiteView], canvas: Canvas) -> Picture:
    """A row a site: measured over promised of each K, less one; the band is 5 % either way."""
    values = [[100 * (p.speed[0] / p.promised - 1) for p in s.points] for s in sites]
    reach = max(10.0, 1.08 * max(abs(v) for row in values for v in row))
    canvas.start(52 + _ROW * len(sites))
    labels = [(float(len(sites) - 1 - i), _short(s)) for i, s in enumerate(sites)]
    axes = canvas.axes(
        (142, 8, 12, 40), x=(-reach, reach), y=(-0.6, len(sites) - 0.4), x_ticks=nice_ticks(-reach, reach, 4), y_ticks=labels,
        x_label="measured over promised speed, %", grid="xy", y_size=9,
    )  # fmt: skip
    axes.axvspan(-100 * LIMIT, 100 * LIMIT, color=BAND, linewidth=0)
    for i, (site, row) in enumerate(zip(sites, values, strict=True)):
        y = len(sites) - 1 - i
        for point, value in zip(site.points, row, strict=True):
            colour = ACCENT if abs(value) <= 100 * LIMIT else FAIL
            axes.plot(value, y, "o", ms=4.5, mfc=colour if point.row["rounds_timed"] else PAPER, mec=colour, mew=1.3)
    inside = sum(abs(v) <= 100 * LIMIT for row in values for v in row)
    n = sum(map(len, values))
    caption = (
        "Each mark is a K: filled where the calibration timed its rounds, hollow where the law interpolates. The band is 5 %."
    )
    return Picture("Errors of the promise", caption, canvas.finish(f"{inside} of {n} points lie within 5 % of the promise."))


def _short(site: SiteView) -> str:
    """A label that fits beside a row: pair, where it is not its own the draft, batch x length."""
    pair = site.pair
    if site.draft != "shipped":
        draft = site.draft.split("/")[0]
        room = max(6, 20 - len(draft))
        pair = f"{pair if len(pair) <= room else pair[:room].rstrip('-') + '…'} ← {draft}"
    return f"{pair} {site.batch}×{site.length}"


def positions(
    sites: Sequence[SiteView], arrays: Callable[[CellResult], Mapping[str, NDArray[Any]]], canvas: Canvas
) -> tuple[Picture, ...]:
    """One picture for each pair and draft, of its first site: batch and length leave acceptance as it is."""
    pictures = []
    for site in {s.drafted_by: s for s in reversed(sites)}.values():
        picture = _positions(site, arrays(site.cell), canvas)
        if picture is not None:
            pictures.append(picture)
    return tuple(reversed(pictures))


def _positions(site: SiteView, arrays: Mapping[str, NDArray[Any]], canvas: Canvas) -> Picture | None:
    names = ("position_drafted", "position_verified", "position_accepted", "promised_alpha")
    if any(name not in arrays for name in names):
        return None
    drafted, verified, accepted = (np.asarray(arrays[name], dtype=np.int64) for name in names[:3])
    promised = np.asarray(arrays["promised_alpha"], dtype=np.float64)
    seen = np.flatnonzero(verified >= 20)
    if not len(seen):
        return None
    rate, low_high = accepted[seen] / verified[seen], clopper_pearson(accepted[seen], verified[seen])
    canvas.start(196)
    bottom = max(0.0, min(0.98, float((accepted[seen] / drafted[seen]).min()), float(low_high[0].min())) - 0.04)
    axes = canvas.axes(
        (44, 30, 16, 42), x=(0.3, seen[-1] + 1.7), y=(bottom, 1.0), x_label="position in the round",
        x_ticks=[(t, f"{t:.0f}") for t, _ in nice_ticks(1, float(seen[-1] + 1), 6) if t == int(t)],
        y_ticks=[(t, f"{100 * t:.0f} %") for t, _ in nice_ticks(bottom, 1.0, 4)],
    )  # fmt: skip
    axes.plot(seen + 1, promised[seen], color=REFERENCE, linewidth=1.2, dashes=(2, 2))
    axes.plot(seen + 1, accepted[seen] / drafted[seen], color=MUTED, linewidth=1.4)
    axes.vlines(seen + 1, *low_high, color=ACCENT, linewidth=1.6)
    axes.plot(seen + 1, rate, "o", ms=4, color=ACCENT)
    axes.text(
        seen[-1] + 1, accepted[seen][-1] / drafted[seen][-1], "of drafted", ha="right", va="bottom", color=MUTED, fontsize=10
    )
    legend(axes, ("o", ACCENT, ACCENT, "of verified"), ("--", "none", REFERENCE, "promised of verified"), apart=88)
    label = (
        f"Acceptance by position for {site.drafted_by}: {percent(float(rate[0]))} of the verified at position 1, "
        f"{percent(float(rate[-1]))} at position {seen[-1] + 1}, "
        f"{percent(float(accepted[seen][-1] / drafted[seen][-1]))} of the drafted there."
    )
    caption = f"K = {max(p.k for p in site.points)}, sequences of {site.length:,} events; 95 % intervals."
    return Picture(site.drafted_by, caption, canvas.finish(label))


def history(cell: CellResult, canvas: Canvas) -> Picture | None:
    """Milliseconds of each kind of step by events of history, log-log."""
    lengths = np.array(cell.figures["lengths"], dtype=np.float64)
    curves: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
    for name, values in cell.figures["ms"].items():
        known = [(n, float(v)) for n, v in zip(lengths, values, strict=True) if v is not None and v > 0]
        if len(known) > 1:
            curves[name] = (np.array([n for n, _ in known]), np.array([v for _, v in known]))
    if not curves:
        return None
    bottom, top = 0.6 * min(v.min() for _, v in curves.values()), 1.8 * max(v.max() for _, v in curves.values())
    canvas.start(232)
    axes = canvas.axes(
        (44, 10, 92, 42), x=(float(lengths[0]), float(lengths[-1])), y=(bottom, top), x_label="events of history",
        x_ticks=[(float(n), f"{n:,.0f}") for n in lengths], y_ticks=log_ticks(bottom, top), log_x=True,
    )  # fmt: skip
    axes.set_yscale("log")
    axes.set_ylim(bottom, top)
    colours = {"target": ACCENT, "verify": INK, "draft": MUTED, "recompute": REFERENCE}
    words = {
        "target": "target, cached",
        "verify": f"verify {cell.figures['k'] + 1}",
        "draft": "draft",
        "recompute": "recompute",
    }
    apart, floor = (top / bottom) ** (13 / 180), 0.0
    for name, (n, ms) in sorted(curves.items(), key=lambda curve: float(curve[1][1][-1])):
        axes.plot(n, ms, "-o", ms=4, color=colours[name], linewidth=1.4, clip_on=False)
        floor = max(float(ms[-1]), floor * apart)  # labels keep a line's distance
        axes.text(float(lengths[-1]) * 1.06, floor, words[name], va="center", color=colours[name], fontsize=10)
    said = "; ".join(f"{_STEPS[name]} {number(v[0])} to {number(v[-1])} ms" for name, (_, v) in curves.items())
    label = f"Cost of a step from {lengths[0]:,.0f} to {lengths[-1]:,.0f} events of history: {said}."
    caption = f"CPU milliseconds of a pass, the verifying one over {cell.figures['k'] + 1} events; a curve ends where it took too long."
    return Picture(cell.pair, caption, canvas.finish(label))
