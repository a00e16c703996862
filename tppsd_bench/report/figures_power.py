"""Figures of a proof: events to detection, power over dose, failures of exact runs. (The kill matrix is HTML: it scrolls.)"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes

from tppsd_bench.report.canvas import ACCENT, BAND, FAIL, INK, MUTED, PAPER, Canvas
from tppsd_bench.report.picture import Picture, legend, log_ticks, nice_ticks
from tppsd_bench.report.power import faults_of, name_of, of_kind, rate, said_rate
from tppsd_bench.report.wording import finite, number
from tppsd_bench.results import CellResult

ROW, HEAD, FOOT, LABELS, VALUES = 17.0, 34.0, 40.0, 148.0, 62.0


@dataclass(frozen=True)
class ProofPictures:
    """The pictures by table: detection (gross, subtle), one a dose curve, one a level of the null calibration."""

    detection: tuple[Picture, ...]
    dose: tuple[Picture, ...]
    null: tuple[Picture, ...]


def proof_pictures(cells: Sequence[CellResult], canvas: Canvas) -> ProofPictures:
    faults = faults_of(cells, "power")
    parts = [
        (word, [c for c in faults if bool(c.figures.get("gross", True)) is gross])
        for word, gross in (("gross", True), ("subtle", False))
    ]
    detection = [_detection(word, members, canvas) for word, members in parts]
    doses = [_dose(c, canvas) for c in of_kind(cells, "dose")]
    levels = dict.fromkeys(a for c in of_kind(cells, "null") for a in c.figures.get("rates", {}))
    null = [_null(of_kind(cells, "null"), level, canvas) for level in levels]
    return ProofPictures(
        tuple(p for p in detection if p), tuple(p for p in doses if p), tuple(p for p in null if p)
    )  # fmt: skip


# -- events to detection --------------------------------------------------------------------------------------------------------
def _detection(word: str, members: Sequence[CellResult], canvas: Canvas) -> Picture | None:
    measured = [c for c in members if _median(c, "etd") or _median(c, "etd_reference")]
    if not measured:
        return None
    rows = sorted(measured, key=lambda c: (_median(c, "etd_reference") or _median(c, "etd") or (0.0, 0.0, 0.0, False))[1])
    ends = [x for c in rows for key in ("etd", "etd_reference") if (m := _median(c, key)) for x in m[:3]]
    low, high = 10 ** math.floor(math.log10(max(min(ends), 1.0)) - 0.01), 1.25 * max(ends)
    height = HEAD + ROW * len(rows) + FOOT
    canvas.start(height)
    axes = canvas.axes(
        (LABELS, HEAD, VALUES, FOOT), x=(low, high), y=(-0.6, len(rows) - 0.4), x_ticks=_decades(low, high),
        y_ticks=[(float(len(rows) - 1 - i), name_of(c)) for i, c in enumerate(rows)], x_label="events", log_x=True, grid="x",
        base=False, y_size=10,
    )  # fmt: skip
    for i, c in enumerate(rows):
        _detection_row(axes, float(len(rows) - 1 - i), _median(c, "etd"), _median(c, "etd_reference"), low)
    legend(axes, ("s", ACCENT, ACCENT, "on its witness"), ("o", PAPER, INK, "on the reference toy"), apart=100)
    beyond = [name_of(c) for c in rows if (m := _median(c, "etd")) and m[3]]
    fastest, slowest = rows[0], rows[-1]
    said = f" Beyond the budget on their witness: {', '.join(beyond)}." if beyond else ""
    label = f"Events to detection of {len(rows)} {word} faults on a logarithmic axis, from {name_of(fastest)} to {name_of(slowest)}.{said}"
    return Picture(
        f"Events to detection, {word} faults",
        "Events until the e-process proves the fault (E ≥ 1/α): median over seeds with its 95 % interval; logarithmic axis. "
        "Pale bars were not detected in at least half of the runs within the budget.",
        canvas.finish(label),
    )


def _decades(low: float, high: float) -> list[tuple[float, str]]:
    """Powers of ten, short: 100, 1k, 10k, 1M."""
    short = {"000": "k", "000000": "M"}
    out = []
    for value, _ in log_ticks(low, high) if high / low > 100 else [(v, "") for v, _ in log_ticks(low, high)]:
        text = f"{value:.0f}"
        zeros = "000000" if value >= 1e6 else "000" if value >= 1e3 else ""
        out.append((value, f"{value / 10 ** len(zeros):g}{short[zeros]}" if zeros else text))
    return out


def _median(cell: CellResult, key: str) -> tuple[float, float, float, bool] | None:
    """(low, median, high, beyond the budget) with what lies beyond put at the budget."""
    f = cell.figures.get(key)
    if not isinstance(f, dict) or not f.get("n"):
        return None
    budget = float(f["budget"])
    middle, low, high = (finite(f.get(k)) for k in ("median", "low", "high"))
    at = budget if middle is None else middle
    return max(min(at if low is None else low, at), 1.0), max(at, 1.0), budget if high is None else high, middle is None


def _detection_row(axes: Axes, y: float, here: Any, there: Any, low: float) -> None:
    if here is not None:
        start, at, end, beyond = here
        axes.barh(y, at - low, left=low, height=0.62, color=BAND if beyond else ACCENT, linewidth=0, zorder=2)
        if not beyond:
            axes.hlines(y, start, end, color=INK, linewidth=1.1, zorder=3)
        text = f"> {_short(at)}" if beyond else _short(at)
        axes.text(
            1 + 6 / axes.bbox.width,
            y,
            text,
            transform=axes.get_yaxis_transform(),
            va="center",
            color=FAIL if beyond else INK,
            fontsize=10,
        )
    if there is not None:
        start, at, end, beyond = there
        axes.hlines(y, start, end, color=INK, linewidth=1.1, zorder=3)
        axes.plot(at, y, ">" if beyond else "o", ms=4.6, mfc=PAPER, mec=INK, mew=1.2, zorder=4)


def _short(x: float) -> str:
    """``840``, ``12.3k``: room is scarce beside a bar."""
    return f"{x:,.0f}" if x < 1e4 else f"{x / 1e3:.3g}k" if x < 1e6 else f"{x / 1e6:.3g}M"


# -- dose curves -----------------------------------------------------------------------------------------------------------------
def _dose(cell: CellResult, canvas: Canvas) -> Picture | None:
    f = cell.figures
    doses = f.get("doses") or []
    points = [(i, d, r) for i, (d, c) in enumerate(zip(doses, f.get("caught") or [], strict=False)) if (r := rate(c))]
    if not points:
        return None
    resolution = finite(f.get("resolution"))
    at = next((i for i, d, _ in points if resolution is not None and math.isclose(d, resolution)), None)
    canvas.start(186)
    every = max(1, -(-len(points) // 8))
    axes = canvas.axes(
        (44, 20, 16, 42), x=(-0.5, len(doses) - 0.5), y=(0.0, 1.04), x_ticks=[(float(i), f"{d:g}") for i, d, _ in points[::every]],
        y_ticks=[(0.0, "0"), (0.5, "50 %"), (0.95, "95 %")], x_label="dose, from harmless to severe",
    )  # fmt: skip
    colour = ACCENT if at is not None else MUTED
    axes.plot([i for i, _, _ in points], [r[0] / r[1] for _, _, r in points], "-", color=colour, linewidth=1.0, zorder=2)
    for i, _, (hits, n, low, high) in points:
        axes.vlines(i, low, high, color=colour, linewidth=1.4, zorder=3)
        axes.plot(i, hits / n, "o", ms=5, color=colour, zorder=4, clip_on=False)
    if at is not None:
        axes.vlines(at, 0, 1.04, color=INK, linewidth=1.1, linestyles=(0, (3, 2)), zorder=1)
        right = at > 0.6 * len(doses)
        axes.text(
            at + (-0.08 if right else 0.08), 1.07, f"resolution {resolution:g}", ha="right" if right else "left", va="bottom", color=INK,
            fontsize=10,
        )  # fmt: skip
    said = f"resolution {resolution:g}" if resolution is not None else "no dose is caught in 95 % of the runs"
    spelled = "; ".join(f"dose {d:g}: {said_rate({'hits': r[0], 'n': r[1], 'low': r[2], 'high': r[3]})}" for _, d, r in points)
    label = f"Power over dose of {name_of(cell)}: {said}. {spelled}."
    return Picture(name_of(cell), str(f.get("broken") or "Share of the runs that fail, by dose."), canvas.finish(label))


# -- calibration -----------------------------------------------------------------------------------------------------------------
def _null(cells: Sequence[CellResult], level: str, canvas: Canvas) -> Picture | None:
    rows = [(name_of(c), r) for c in cells if (r := rate((c.figures.get("rates") or {}).get(level)))]
    nominal = finite(float(level))
    if not rows or nominal is None:
        return None
    high = 1.1 * max(2 * nominal, *(r[3] for _, r in rows))
    canvas.start(HEAD + ROW * len(rows) + FOOT)
    axes = canvas.axes(
        (LABELS, HEAD, VALUES, FOOT), x=(0.0, high), y=(-0.6, len(rows) - 0.4), x_ticks=nice_ticks(0, high, 4),
        y_ticks=[(float(len(rows) - 1 - i), name) for i, (name, _) in enumerate(rows)], x_label="share of exact runs that fail", grid="",
        base=False, y_size=10,
    )  # fmt: skip
    axes.axvline(nominal, color=INK, linewidth=1.1, linestyle=(0, (3, 2)), zorder=1)
    axes.text(nominal, len(rows) - 0.15, f"level {level}", ha="center", va="bottom", color=INK, fontsize=10)
    for i, (_, (hits, n, low, top)) in enumerate(rows):
        y = float(len(rows) - 1 - i)
        above = low > nominal
        axes.hlines(y, low, top, color=FAIL if above else ACCENT, linewidth=1.8, zorder=3)
        axes.plot(hits / n, y, "D" if above else "o", ms=4.6, color=FAIL if above else ACCENT, zorder=4)
        axes.text(
            1 + 6 / axes.bbox.width,
            y,
            number(hits / n, 2),
            transform=axes.get_yaxis_transform(),
            va="center",
            color=INK,
            fontsize=10,
        )
    high_ones = [name for name, r in rows if r[2] > nominal]
    said = (
        f"The interval lies above the level for {', '.join(high_ones)}." if high_ones else "No interval lies above the level."
    )
    return Picture(
        f"Exact runs judged at level {level}",
        f"Share that fails, with 99 % intervals; the dashed line is the level. {said}",
        canvas.finish(f"Share of exact runs that fail at level {level}, for {len(rows)} samplers, with 99 % intervals. {said}"),
    )
