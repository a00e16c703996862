"""The effect forest: every effect size with its interval and margin, pooled and by stratum, one panel per scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from tppsd_bench.report.canvas import ACCENT, BAND, FAIL, INK, MUTED, Canvas
from tppsd_bench.report.picture import Picture, nice_ticks
from tppsd_bench.report.wording import effect, effect_label, span, stratum, unit, where
from tppsd_bench.results import Axis, CellResult, Evidence

ROW, HEAD, FOOT = 17.0, 24.0, 26.0
LABELS, VALUES = 158.0, 46.0
STRATA_PER_SCALE = 10
_SCALES = {
    "theta": "Legendre effects θ (0 = exact)",
    "length": "|θ|, the four together, freed of noise (0 = exact)",
    "KS": "KS distance (0 = exact)",
    "lambda": "share of the draft's law λ (0 = target, 1 = draft)",
}


@dataclass(frozen=True)
class _Row:
    label: str
    effect: float
    ends: tuple[float, float]
    margin: float | None


def forest_pictures(cell: CellResult, canvas: Canvas) -> list[Picture]:
    """The pooled forest, and the strata that deviate most. The fit of a model has no margins and no forest."""
    if cell.kind == "fit":
        return []
    pooled = {s: [_row(e, effect_label(e)) for e in _shown(cell, s) if not stratum(e)] for s in _SCALES}
    strata = {s: [e for e in _shown(cell, s) if stratum(e)] for s in _SCALES}
    total = sum(map(len, strata.values()))
    worst = {
        s: [
            _row(e, f"{where(e).replace('previous', 'prev.')} · {_short(e)}")
            for e in sorted(es, key=_surprise)[:STRATA_PER_SCALE]
        ]
        for s, es in strata.items()
    }
    pictures = [
        _forest(
            pooled,
            canvas,
            "Effect sizes",
            "Dots are effects, bars their 95 % intervals; the shaded range is the margin ±δ "
            "within which a difference does not matter.",
        ),
        _forest(
            worst,
            canvas,
            "Effects by stratum",
            f"Of {total} strata, those that deviate most. Among so many a few "
            f"intervals miss 0 by chance; the verdict corrects for it.",
        ),
    ]
    return [p for p in pictures if p is not None]


def _shown(cell: CellResult, scale: str) -> list[Evidence]:
    """The effects on the target's law; arms against each other and the mechanism have tables of their own."""
    law = [e for e in cell.evidence if e.axis is Axis.LAW and not e.name.startswith(("blackbox.", "screen."))]
    return [e for e in law if unit(e) == scale and e.effect is not None and span(e.interval) is not None]


def _row(evidence: Evidence, label: str) -> _Row:
    ends = span(evidence.interval)
    assert evidence.effect is not None
    assert ends is not None
    return _Row(label, evidence.effect, ends, evidence.margin)


def _short(evidence: Evidence) -> str:
    label = effect_label(evidence).replace(" PIT", "").replace(" KS distance", "")
    return label[: label.index("θ") + 2] if unit(evidence) == "theta" else label


def _surprise(evidence: Evidence) -> tuple[float, float]:
    """Ascending order puts the smallest p first, then what lies most interval half-widths from 0."""
    row = _row(evidence, "")
    far = abs(row.effect) / max((row.ends[1] - row.ends[0]) / 2, 1e-300)
    return (evidence.p_value if evidence.p_value is not None else 1.0, -far)


def _forest(panels: dict[str, list[_Row]], canvas: Canvas, title: str, caption: str) -> Picture | None:
    used = {s: rows for s, rows in panels.items() if rows}
    if not used:
        return None
    heights = [HEAD + ROW * len(rows) + FOOT for rows in used.values()]
    canvas.start(sum(heights))
    top = 0.0
    for (scale, rows), height in zip(used.items(), heights, strict=True):
        _panel(canvas, scale, rows, top, sum(heights) - top - height)
        top += height
    count = sum(len(rows) for rows in used.values())
    beyond = [r.label for rows in used.values() for r in rows if (r.ends[0] > 0 and _signed(rows)) or r.ends[1] < 0]
    said = (
        f" Intervals that exclude 0: {', '.join(beyond[:6])}{' and others' if len(beyond) > 6 else ''}."
        if beyond
        else " No interval of a signed effect excludes 0."
    )
    return Picture(title, caption, canvas.finish(f"{title}: {count} effects with 95 % intervals.{said}"))


def _signed(rows: Sequence[_Row]) -> bool:
    """Distances are never negative, so only signed effects can have an interval around 0."""
    return any(r.effect < 0 or r.ends[0] < 0 for r in rows)


def _panel(canvas: Canvas, scale: str, rows: list[_Row], top: float, below: float) -> None:
    margins = [r.margin for r in rows if r.margin]
    signed = _signed(rows) or scale not in ("KS", "length")
    reach = 1.08 * max([*(abs(v) for r in rows for v in (*r.ends, r.effect)), *margins, 1e-12])
    low = -reach if scale == "theta" else min(0.0, 1.08 * min(min(r.ends[0], r.effect) for r in rows))
    at = [float(len(rows) - 1 - i) for i in range(len(rows))]
    axes = canvas.axes(
        (LABELS, top + HEAD, VALUES, below + FOOT),
        x=(low, reach),
        y=(-0.6, len(rows) - 0.4),
        x_ticks=nice_ticks(low, reach, 4),
        y_ticks=[(y, r.label) for y, r in zip(at, rows, strict=True)],
        grid="",
        y_size=10,
    )
    axes.axvline(0, color=MUTED, linewidth=0.8)
    _head(axes, _SCALES[scale])
    banded = [(y, row.margin) for y, row in zip(at, rows, strict=True) if row.margin]
    if banded:
        half = np.array([margin for _, margin in banded])
        axes.barh(
            [y for y, _ in banded], 2 * half if signed else half, left=-half if signed else 0.0, height=0.86, color=BAND, linewidth=0,
            zorder=1,
        )  # fmt: skip
    colours = [_colour(row, signed) for row in rows]
    axes.hlines(at, [r.ends[0] for r in rows], [r.ends[1] for r in rows], color=colours, linewidth=1.8, zorder=3)
    for colour, marker in ((ACCENT, "o"), (FAIL, "D")):
        mine = [i for i, c in enumerate(colours) if c == colour]
        axes.plot([rows[i].effect for i in mine], [at[i] for i in mine], marker, ms=4.6, color=colour, zorder=4)
    beside = 1.0 + 6 / axes.bbox.width
    for y, row in zip(at, rows, strict=True):
        axes.text(
            beside,
            y,
            effect(row.effect, row.ends)[0],
            transform=axes.get_yaxis_transform(),
            va="center",
            color=INK,
            fontsize=10,
        )


def _colour(row: _Row, signed: bool) -> str:
    misses = (signed and row.ends[0] > 0) or row.ends[1] < 0
    beyond = row.margin is not None and max(-row.ends[0], row.ends[1]) > row.margin
    return FAIL if (beyond and row.margin) or (misses and not row.margin) else ACCENT


def _head(axes: Axes, text: str) -> None:
    left = -(LABELS - 12) / axes.bbox.width
    axes.text(
        left, 1 + 9 / axes.bbox.height, text, transform=axes.transAxes, color=INK, fontsize=10, weight="bold", va="center"
    )
