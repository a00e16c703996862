"""The tables beneath the pictures of a proof: every number that is drawn, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tppsd_bench.report import wording
from tppsd_bench.report.kill_matrix import label, matrix
from tppsd_bench.report.power import faults_of, name_of, of_kind, said_rate
from tppsd_bench.results import CellResult


@dataclass(frozen=True)
class Table:
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def tables(cells: Sequence[CellResult]) -> dict[str, Table]:
    """By picture: matrix, detection, dose, null, second; absent where nothing was measured."""
    made = {"matrix": _matrix(cells), "detection": _detection(cells), "dose": _dose(cells), "null": _null(cells)}
    made["second"] = _second(cells)
    return {name: table for name, table in made.items() if table.rows}


def _matrix(cells: Sequence[CellResult]) -> Table:
    shape = matrix(cells)
    columns = shape.columns if shape else ()
    power = of_kind(cells, "power", "transformer")
    rows = tuple(
        (
            name_of(c) + (f" on {c.pair}" if c.kind == "transformer" else ""), said_rate(c.figures.get("caught")),
            *(said_rate((c.figures.get("kills") or {}).get(k)) for k in columns),
        )
        for c in power
    )  # fmt: skip
    return Table(
        "Kills by statistic: runs of runs (95 % interval)", ("Fault", "Caught", *map(label, columns)), rows if columns else ()
    )


def etd_words(figure: Any) -> str:
    """``1,240 (900 to 1,800)``, with what lies beyond the budget in words."""
    if not isinstance(figure, dict) or not figure.get("n"):
        return wording.NONE
    budget = f"beyond {figure['budget']:,}"
    middle, low, high = (wording.finite(figure.get(k)) for k in ("median", "low", "high"))
    if middle is None:
        return budget
    ends = f"{low:,.0f} to {budget if high is None else f'{high:,.0f}'}" if low is not None else ""
    return f"{middle:,.0f} ({ends})" if ends else f"{middle:,.0f}"


def _missed(figure: Any) -> str:
    return f"{figure['missed']} of {figure['n']}" if isinstance(figure, dict) and figure.get("n") else wording.NONE


def _detection(cells: Sequence[CellResult]) -> Table:
    rows = []
    for c in faults_of(cells, "power", "transformer"):
        f = c.figures
        if f.get("etd") or f.get("etd_reference"):
            here, there = f.get("etd"), f.get("etd_reference")
            weight = "gross" if f.get("gross", True) else "subtle"
            where = f" on {c.pair}" if c.kind == "transformer" else ""
            rows.append((name_of(c) + where, weight, etd_words(here), _missed(here), etd_words(there), _missed(there)))
    head = ("Fault", "Class", "Witness: median events (95 %)", "Missed", "Reference toy: median events (95 %)", "Missed")
    return Table("Events to detection by the e-process", head, tuple(rows))


def _dose(cells: Sequence[CellResult]) -> Table:
    rows: list[tuple[str, ...]] = []
    for c in of_kind(cells, "dose"):
        f, doses = c.figures, c.figures.get("doses") or []
        columns = [[*(f.get(key) or []), *[None] * len(doses)] for key in ("tv", "caught", "etd")]
        for dose, tv, hits, etd in zip(doses, *columns, strict=False):
            mark = "resolution" if dose == f.get("resolution") else ""
            rows.append((name_of(c), f"{dose:g}", wording.number(tv, 2), said_rate(hits), etd_words(etd), mark))
    return Table("Power over dose", ("Fault", "Dose", "TV that shows", "Caught (95 %)", "Events to detection", ""), tuple(rows))


def _null(cells: Sequence[CellResult]) -> Table:
    null = of_kind(cells, "null")
    levels = list(dict.fromkeys(a for c in null for a in c.figures.get("rates", {})))
    rows = tuple(
        (
            name_of(c), wording.number(c.figures.get("n_events")), said_rate(c.figures.get("false_alarms")),
            *(said_rate((c.figures.get("rates") or {}).get(a)) for a in levels), wording.p_value(c.figures.get("second_level_p")),
        )
        for c in null
    )  # fmt: skip
    head = (
        "Exact sampler",
        "Events a run",
        "False alarms at run level (95 %)",
        *(f"Failures at {a} (99 %)" for a in levels),
        "Second-level p",
    )
    return Table("Failures of exact runs", head, rows)


def _second(cells: Sequence[CellResult]) -> Table:
    """The statistics whose p-values over exact runs look least uniform."""
    found = [
        (p, name_of(c), name)
        for c in of_kind(cells, "null")
        for name, value in (c.figures.get("second_level") or {}).items()
        if (p := wording.finite(value)) is not None
    ]
    rows = tuple((sampler, name, wording.p_value(p)) for p, sampler, name in sorted(found)[:12])
    caption = f"Least uniform p-values over exact runs: the first {len(rows)} of {len(found)} tests of uniformity"
    return Table(caption, ("Exact sampler", "Statistic", "p of uniformity"), rows)
