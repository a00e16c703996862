"""The study's cells by part and pair, and their figures as numbers. Pure; what is missing stays missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tppsd_bench.report.wording import number
from tppsd_bench.results import CellResult
from tppsd_bench.studies.buckets.jobs import APART, DRAFTS, MAP, RATIO, part_of
from tppsd_bench.studies.buckets.table import Hypotheses

STRATEGIES = {"quantile": "quantile", "equal_width": "equal width", "log_width": "equal width in log gap"}
"""In the order of the report, and in words."""
Estimate = Mapping[str, float]


@dataclass(frozen=True)
class Results:
    """Cells that did not break, by pair."""

    maps: Mapping[str, CellResult]
    ratios: Mapping[str, CellResult]
    apart: Mapping[str, CellResult]
    drafts: Mapping[str, CellResult]
    timed: Mapping[str, Sequence[CellResult]]

    @classmethod
    def of(cls, cells: Sequence[CellResult]) -> Results:
        whole = [c for c in cells if not c.error]
        by_part = {part: {c.pair: c for c in whole if part_of(c.id) == part} for part in (MAP, RATIO, APART, DRAFTS)}
        timed: dict[str, list[CellResult]] = {}
        for cell in whole:
            if not part_of(cell.id):
                timed.setdefault(cell.pair, []).append(cell)
        return cls(by_part[MAP], by_part[RATIO], by_part[APART], by_part[DRAFTS], timed)

    @property
    def hypotheses(self) -> Hypotheses:
        """What the run held its measurements to; the defaults where no computed cell is there."""
        for cells in (self.maps, self.ratios, self.apart, self.drafts):
            for cell in cells.values():
                return Hypotheses.model_validate(cell.figures["hypotheses"])
        return Hypotheses()


def points(cell: CellResult, strategy: str = "") -> list[Mapping[str, Any]]:
    """Points of a map, by number of buckets; of one strategy where it is named."""
    found = [p for p in cell.figures["points"] if not strategy or p["strategy"] == strategy]
    return sorted(found, key=lambda p: int(p["buckets"]))


def point(cell: CellResult, strategy: str, n: int) -> Mapping[str, Any] | None:
    return next((p for p in points(cell, strategy) if p["buckets"] == n), None)


def strategies(cell: CellResult) -> list[str]:
    """Those of a map, in the order of the report."""
    there = {p["strategy"] for p in cell.figures["points"]}
    return [s for s in STRATEGIES if s in there]


def at_start(cell: CellResult, start: int) -> Mapping[str, Any] | None:
    """The point of a map that published advice starts with."""
    return point(cell, "quantile", start)


def about(x: float) -> str:
    """Two significant digits, whatever the size."""
    return number(x, 2) if x < 100 else f"{float(f'{x:.2g}'):,.0f}"
