"""The kill matrix as a view model: faults in rows, families of statistics in columns, the share of runs each rejects. No HTML here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tppsd_bench.report.power import (
    alarms,
    caught,
    controls_of,
    faults_of,
    name_of,
    of_kind,
    rate,
    said_rate,
    share,
    short_rate,
)
from tppsd_bench.results import CellResult
from tppsd_bench.stats.columns import COLUMNS

LABELS = {
    "pit_time": "gap PIT", "pit_type": "type PIT", "pair": "pairs", "first_events": "first events", "cross_sequence": "sequences",
    "draft_direction": "toward draft", "blackbox": "two-sample", "density_agreement": "densities", "draft_law": "draft law",
    "acceptance_identity": "acceptance", "role_law": "role laws", "reproducible": "reproducible", "e_process": "e-process",
}  # fmt: skip
_FAMILIES = (
    ("", ("preconditions",)),
    ("law, from sequences and the target's scores", COLUMNS[1 : COLUMNS.index("blackbox") + 1]),
    ("mechanism, from the trace", COLUMNS[COLUMNS.index("density_agreement") : COLUMNS.index("e_process")]),
    ("", ("e_process",)),
)
KILLING = 0.95
"""Share of the seeds from which a column counts as a killer of a fault."""


@dataclass(frozen=True)
class Shade:
    """One field of the matrix. ``percent`` None: the column was not run."""

    percent: int | None
    title: str
    said: str
    unique: bool = False


@dataclass(frozen=True)
class MatrixRow:
    id: str
    name: str
    broken: str
    fields: tuple[Shade, ...]
    caught: str
    whole: bool
    control: bool


@dataclass(frozen=True)
class Matrix:
    columns: tuple[str, ...]
    spans: tuple[tuple[str, int], ...]
    """Families of columns and how many they hold."""
    groups: tuple[tuple[str, tuple[MatrixRow, ...]], ...]
    killed: tuple[int, ...]
    """By column: faults that it kills in ``KILLING`` of the seeds."""
    alone: tuple[int, ...]
    """By column: faults that no other column kills so."""


def matrix(cells: Sequence[CellResult]) -> Matrix | None:
    """Faults in rows (those that most columns see first), columns of statistics; None without power cells."""
    power = of_kind(cells, "power", "transformer")
    kills = [c.figures.get("kills") or {} for c in power]
    known = [*COLUMNS, *(k for one in kills for k in one if k not in COLUMNS)]
    columns = tuple(dict.fromkeys(c for c in known if any(rate(one.get(c)) for one in kills)))
    if not columns:
        return None
    faults, networks = faults_of(cells, "power"), faults_of(cells, "transformer")
    groups = (
        ("Gross faults", [c for c in faults if c.figures.get("gross", True)]),
        ("Subtle faults", [c for c in faults if not c.figures.get("gross", True)]),
        ("Faults on shipped networks", networks),
        ("Exact controls: nothing may light up", controls_of(cells)),
    )
    rows = tuple(
        (title, tuple(_row(c, columns) for c in sorted(members, key=lambda c: (-len(_killers(c)), name_of(c)))))
        for title, members in groups
        if members
    )
    killers = [_killers(c) for c in faults]
    return Matrix(
        columns, _spans(columns), rows, tuple(sum(name in k for k in killers) for name in columns),
        tuple(sum(k == {name} for k in killers) for name in columns),
    )  # fmt: skip


def _killers(cell: CellResult) -> set[str]:
    return {name for name, figure in (cell.figures.get("kills") or {}).items() if share(figure) >= KILLING}


def _row(cell: CellResult, columns: Sequence[str]) -> MatrixRow:
    control, killers = bool(cell.figures.get("control")), _killers(cell)
    fields = []
    for name in columns:
        figure = (cell.figures.get("kills") or {}).get(name)
        if rate(figure) is None:
            fields.append(Shade(None, f"{name_of(cell)} × {label(name)}: not run", "not run"))
            continue
        percent, alone = round(100 * share(figure)), killers == {name} and not control
        only = "; the only column that sees it" if alone else ""
        title = f"{name_of(cell)} × {label(name)}: {said_rate(figure)}{only}"
        fields.append(Shade(percent, title, f"{percent} %{only}", alone))
    return MatrixRow(
        cell.id, name_of(cell), str(cell.figures.get("broken", "")), tuple(fields), short_rate(cell.figures.get("caught")),
        alarms(cell) == 0 if control else caught(cell), control,
    )  # fmt: skip


def label(column: str) -> str:
    return LABELS.get(column, column.replace("_", " "))


def _spans(columns: Sequence[str]) -> tuple[tuple[str, int], ...]:
    counted = [(title, sum(c in members for c in columns)) for title, members in _FAMILIES]
    rest = len(columns) - sum(n for _, n in counted)
    return tuple((title, n) for title, n in (*counted, ("other", rest)) if n)
