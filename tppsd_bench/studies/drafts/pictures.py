"""Pictures of the study: speed over K, the cost of a round, acceptance over the length of history."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes

from tppsd_bench.report.canvas import ACCENT, BAND, INK, MUTED, PAPER, REFERENCE, Canvas
from tppsd_bench.report.picture import Picture, legend, nice_ticks
from tppsd_bench.report.wording import times
from tppsd_bench.results import CellResult
from tppsd_bench.studies.drafts.reading import Results, best_k, of

STYLES: tuple[dict[str, Any], ...] = (
    {"color": ACCENT, "marker": "o", "mfc": ACCENT},
    {"color": REFERENCE, "marker": "s", "mfc": REFERENCE},
    {"color": INK, "marker": "^", "mfc": PAPER, "dashes": (4, 2)},
    {"color": ACCENT, "marker": "D", "mfc": PAPER, "dashes": (2, 2)},
    {"color": MUTED, "marker": "v", "mfc": PAPER, "dashes": (1, 2)},
)
MORE_STYLES: tuple[dict[str, Any], ...] = (
    *STYLES,
    {"color": REFERENCE, "marker": "P", "mfc": PAPER, "dashes": (4, 2)},
    {"color": INK, "marker": "X", "mfc": INK, "dashes": (1, 1)},
)
"""Lines without bars leave room for two more."""
ROW = 19.0


def drawn_drafts(results: Results) -> list[str]:
    """At most five, the same in every picture: of those timed on most pairs the fastest and the slowest, in reading order."""
    several = [pair for pair in results.pairs if len(results.timed_of(pair)) > 1]
    speeds: dict[str, list[float]] = {}
    for pair in several:
        for cell in results.timed_of(pair):
            speeds.setdefault(cell.draft, []).append(math.log(of(cell.figures, "speedup_cpu")[0]))
    ranked = sorted(speeds, key=lambda d: (-len(speeds[d]), -sum(speeds[d]) / len(speeds[d])))
    common = [d for d in ranked if 2 * len(speeds[d]) > len(several)]
    taken = ranked if len(ranked) <= len(STYLES) else {*ranked[: len(STYLES) - 1], common[-1]}
    return [d for d in results.drafts if d in taken]


def speed_pictures(results: Results, canvas: Canvas) -> list[Picture]:
    """Speed over K, one picture a pair with several timed drafts."""
    styles = dict(zip(drawn_drafts(results), STYLES, strict=False))
    drawn = []
    for pair in results.pairs:
        mine = [c for c in results.timed_of(pair) if c.draft in styles]
        if len(mine) > 1:
            mine.sort(key=lambda c: list(styles).index(c.draft))
            drawn.append(_over_k(pair, mine, [styles[c.draft] for c in mine], results, canvas))
    return drawn


def _over_k(
    pair: str, cells: Sequence[CellResult], styles: Sequence[dict[str, Any]], results: Results, canvas: Canvas
) -> Picture:
    ks = [int(row["k"]) for row in cells[0].figures["speedup_by_k"]]
    rows = [[row["value"] for row in c.figures["speedup_by_k"]] for c in cells]
    ends = [[(row["low"], row["high"]) for row in c.figures["speedup_by_k"]] for c in cells]
    top = 1.1 * max(1.0, *(high for row in ends for _, high in row))
    at = [float(i) for i in range(len(ks))]
    canvas.start(216)
    axes = canvas.axes(
        (40, 12, 118, 42), x=(-0.3, len(ks) - 0.7), y=(0, top), x_ticks=[(i, str(k)) for i, k in zip(at, ks, strict=True)],
        y_ticks=[(t, f"{name}×") for t, name in nice_ticks(0, top, 5)], x_label="K, drafted events a round",
    )  # fmt: skip
    axes.axhline(1, color=MUTED, linewidth=1, dashes=(4, 3))
    step = 0.3 / max(len(cells) - 1, 1)
    for i, (row, style) in enumerate(zip(rows, styles, strict=True)):
        x = [a + (i - (len(cells) - 1) / 2) * step for a in at]
        axes.vlines(x, [low for low, _ in ends[i]], [high for _, high in ends[i]], color=style["color"], linewidth=0.9)
        axes.plot(x, row, ms=4.5, mec=style["color"], mew=1.2, linewidth=1.3, **style)
    _names(axes, [(row[-1], c.draft, style) for c, row, style in zip(cells, rows, styles, strict=True)])
    best = results.chosen(pair) or cells[0]
    label = (
        f"Speed over K on {pair}: {best.draft} was chosen, {times(of(best.figures, 'speedup_cpu')[0])} at K = {best_k(best)}."
    )
    return Picture(
        f"Speed over K, {pair}",
        "CPU time per event, cached target-only over speculative; bars are intervals of the paired ratio by order statistics; "
        "dashed: break-even.",
        canvas.finish(label),
    )


def _names(axes: Axes, ends: Sequence[tuple[float, str, dict[str, Any]]]) -> None:
    """Names of lines at their right ends, kept apart."""
    low, high = axes.get_ylim()
    unit = (high - low) / axes.bbox.height
    order = sorted(ends, key=lambda e: e[0])
    placed: list[float] = []
    for value, _, _ in order:
        placed.append(max(value, placed[-1] + 13 * unit) if placed else value)
    excess = max(0.0, placed[-1] - (high - 4 * unit))
    for i in reversed(range(len(placed))):  # what was pushed beyond the top comes down, and pushes others
        ceiling = placed[i + 1] - 13 * unit if i + 1 < len(placed) else placed[i] - excess
        placed[i] = min(placed[i], ceiling)
    for y, (_, name, style) in zip(placed, order, strict=True):
        x = 1 + 9 / axes.bbox.width
        on = axes.get_yaxis_transform()
        axes.plot(x, y, style["marker"], transform=on, clip_on=False, ms=4.5, mec=style["color"], mfc=style["mfc"], mew=1.2)
        axes.text(x + 8 / axes.bbox.width, y, name, transform=on, va="center", color=INK, fontsize=9.5)


def share_pictures(results: Results, canvas: Canvas) -> list[Picture]:
    """One a pair: where the time of a round goes, at each draft's chosen K."""
    drawn = []
    for pair in results.pairs:
        mine = [c for c in results.timed_of(pair) if best_k(c) is not None]
        if len(mine) > 1:
            drawn.append(_shares(pair, sorted(mine, key=lambda c: c.figures["draft_share"]), canvas))
    return drawn


def _shares(pair: str, cells: Sequence[CellResult], canvas: Canvas) -> Picture:
    canvas.start(62 + ROW * len(cells))
    axes = canvas.axes(
        (150, 26, 16, 36), x=(0, 100), y=(-0.6, len(cells) - 0.4), x_ticks=[(t, f"{t:.0f} %") for t in (0.0, 25.0, 50.0, 75.0, 100.0)],
        y_ticks=[(float(len(cells) - 1 - i), f"{c.draft}, K = {best_k(c)}") for i, c in enumerate(cells)],
        x_label="of a round's CPU time", grid="x", base=False, y_size=9.5,
    )  # fmt: skip
    for i, c in enumerate(cells):
        k, f, y = best_k(c), c.figures, len(cells) - 1 - i
        parts = float(f["draft_step"]) * (k or 0), float(f["verify_step"][str(k)]), float(f["rest_step"])
        left = 0.0
        for part, colour in zip(parts, (ACCENT, REFERENCE, BAND), strict=True):
            width = 100 * part / sum(parts)
            axes.barh(y, width, left=left, height=0.66, color=colour, linewidth=0)
            left += width
    legend(
        axes,
        ("s", ACCENT, ACCENT, "drafting"),
        ("s", REFERENCE, REFERENCE, "verifying"),
        ("s", BAND, BAND, "the rest"),
        apart=70,
    )
    label = f"Cost of a round on {pair}: drafting takes " + ", ".join(
        f"{100 * c.figures['draft_share']:.0f} % with {c.draft}" for c in cells
    )
    return Picture(
        f"Cost of a round, {pair}",
        "Step costs of calibration runs at each draft's chosen K: K draft steps, one target pass over K + 1 positions, and the rest.",
        canvas.finish(label + "."),
    )


def history_pictures(cells: Sequence[CellResult], canvas: Canvas) -> list[Picture]:
    """Acceptance over the number of events before, one picture a pair, of seven drafts at most; each is drawn alike in all of them."""
    compared = dict.fromkeys(cell.figures[role] for role in ("recurrent", "transformer") for cell in cells)
    every = dict.fromkeys([*compared, *(draft for cell in cells for draft in cell.figures["acceptance"])])
    styles = dict(zip(every, MORE_STYLES, strict=False))
    return [_over_history(cell, styles, canvas) for cell in cells]


def _over_history(cell: CellResult, styles: dict[str, dict[str, Any]], canvas: Canvas) -> Picture:
    """Bands of the two drafts that are compared."""
    f = cell.figures
    bins, trained = f["bins"], int(f.get("trained_events") or 0)
    centres = [(max(b["first"], 1) * b["end"]) ** 0.5 for b in bins]
    order = [d for d in styles if d in f["acceptance"]]
    values = [x["value"] for d in order for x in f["acceptance"][d]]
    low = max(0.0, min([*values, 0.9]) - 0.05)
    x = (0.85 * centres[0], 1.15 * bins[-1]["end"])
    canvas.start(226)
    axes = canvas.axes(
        (44, 12, 102, 42), x=x, y=(low, 1.0), log_x=True,
        x_ticks=[(float(t), f"{t:,}") for t in (1, 10, 100, 1000, 10_000) if x[0] <= t <= x[1]],
        y_ticks=[(t, f"{100 * t:.0f} %") for t, _ in nice_ticks(low, 1.0, 5)], x_label="events before (log scale)",
    )  # fmt: skip
    if trained and trained < bins[-1]["end"]:
        axes.axvline(trained, color=MUTED, linewidth=1, dashes=(4, 3))
        right = math.log(trained / x[0]) < 0.6 * math.log(x[1] / x[0])
        text, side = (" length of\n training", "left") if right else ("length of \ntraining ", "right")
        axes.text(trained, low, text, ha=side, va="bottom", color=MUTED, fontsize=9)
    for draft in order:
        style, rows = styles[draft], f["acceptance"][draft]
        if draft in (f["recurrent"], f["transformer"]):
            axes.fill_between(centres, [r["low"] for r in rows], [r["high"] for r in rows], color=BAND, linewidth=0, zorder=1)
        axes.plot(centres, [r["value"] for r in rows], ms=4, mec=style["color"], mew=1.2, linewidth=1.4, zorder=3, **style)
    _names(axes, [(f["acceptance"][d][-1]["value"], d, style) for d, style in styles.items() if d in order])
    ends = ", ".join(
        f"{d} from {100 * f['acceptance'][d][0]['value']:.0f} to {100 * f['acceptance'][d][-1]['value']:.0f} %" for d in order
    )
    return Picture(
        f"Acceptance over history, {cell.pair}",
        "Exact acceptance at events of the target's own sequences, by the number of events before; bands: 95 % over sequences, "
        f"of {f['recurrent']} and {f['transformer']}.",
        canvas.finish(f"Acceptance by length of history on {cell.pair}: {ends} at {bins[-1]['end']:,} events."),
    )
