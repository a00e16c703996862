"""The study's cells as the report reads them: sites with their points, and what all of them say together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tppsd_bench.measure.judging import PayCheck, Share, pay_check, within
from tppsd_bench.results import CellResult

LIMIT = 0.05
"""A prediction within this of what was measured counts as right."""
WITHIN = f"{100 * LIMIT:.0f} %"
Ends = tuple[float, float, float]
"""(value, low, high)"""


@dataclass(frozen=True)
class Point:
    """One K of a site."""

    k: int
    paired: Ends
    """Paired ratio of times per event, what claims quote."""
    speed: Ends
    """Events a round, counted, over the cost of a round, paired: what the law is held to."""
    promised: float
    error: float
    """log(speed / promised)"""
    row: dict[str, Any]

    @property
    def tells(self) -> bool:
        """Whether its own interval is narrow enough to tell a miss of ``LIMIT`` from luck."""
        return math.log(self.speed[2] / self.speed[1]) / 2 <= LIMIT


@dataclass(frozen=True)
class SiteView:
    cell: CellResult
    pair: str
    draft: str
    batch: int
    length: int
    points: tuple[Point, ...]
    unchanged: bool | None
    """Whether the promises are those that were written before the site was timed; None where that cell is missing."""

    @property
    def drafted_by(self) -> str:
        """The pair, and its draft where that is not the shipped one."""
        return (
            self.pair
            if self.draft == "shipped"
            else f"{self.pair} drafted by {'itself' if self.draft == 'target' else self.draft}"
        )

    @property
    def where(self) -> str:
        return f"batch {self.batch}, {self.length:,} events"

    @property
    def label(self) -> str:
        return f"{self.drafted_by}, {self.where}"

    @property
    def pays(self) -> bool | None:
        return self.cell.figures.get("pays")

    @property
    def chosen(self) -> Point:
        """The K that the law chose before the site was timed."""
        return next(p for p in self.points if p.k == self.cell.figures["promised_best_k"])

    @property
    def shown(self) -> Point:
        """The K that the verdict speaks of."""
        return next(p for p in self.points if p.k == self.cell.figures["best_k"])

    @property
    def fastest(self) -> Point:
        """The K that came out fastest; its speed is a little flattered by having been chosen."""
        return max(self.points, key=lambda p: p.speed[0])


def ends(estimate: Any) -> Ends:
    return float(estimate["value"]), float(estimate["low"]), float(estimate["high"])


def part(cells: Sequence[CellResult], name: str) -> list[CellResult]:
    """The cells of one part: promise, site, packing or history."""
    return [c for c in cells if not c.error and c.figures.get("part") == name]


def sites_of_cells(cells: Sequence[CellResult]) -> list[SiteView]:
    promised = {c.id: c for c in part(cells, "promise")}
    return [_site(c, promised.get(c.id.replace("speedup-time.", "speedup-time.law.", 1))) for c in part(cells, "site")]


def _site(cell: CellResult, promise: CellResult | None) -> SiteView:
    clock = cell.figures.get("clock", "cpu")
    points = tuple(
        Point(int(r["k"]), ends(r[clock]), ends(r["speedup"]), float(r["promised"]), float(r["error"]), r)
        for r in cell.figures["by_k"]
    )
    unchanged = None
    if promise is not None:
        written = {int(r["k"]): float(r["speedup"]) for r in promise.figures["by_k"]}
        unchanged = all(math.isclose(written.get(p.k, math.nan), p.promised, rel_tol=1e-12) for p in points)
    about = cell.figures["site"]
    return SiteView(cell, about["pair"], about["draft"], int(about["batch"]), int(about["length"]), points, unchanged)


@dataclass(frozen=True)
class LawCheck:
    """How the law fared over all points."""

    within: Share
    within_fresh: Share
    """Of the points whose rounds were not timed in calibration."""
    pay: PayCheck
    pay_sites: PayCheck
    """The same at the K that the law chose, a site each."""
    mean_regret: float
    worst_regret: float
    sites_within_regret: int
    n_sites: int
    acceptance: float
    """Root mean square of the part of the errors that acceptance explains, and of what costs explain."""
    costs: float


REGRET = 0.03


def check_law(sites: Sequence[SiteView]) -> LawCheck:
    points = [p for s in sites for p in s.points]
    fresh = [p for p in points if not p.row["rounds_timed"]]
    regrets = [float(s.cell.figures["regret"]["value"]) for s in sites]

    def rms(key: str) -> float:
        return math.sqrt(sum(float(p.row[key]) ** 2 for p in points) / len(points))

    def pay(chosen: Sequence[Point]) -> PayCheck:
        return pay_check([p.promised for p in chosen], [p.speed[1] for p in chosen], [p.speed[2] for p in chosen])

    return LawCheck(
        within([p.error for p in points], LIMIT), within([p.error for p in fresh], LIMIT), pay(points), pay([s.chosen for s in sites]),
        sum(regrets) / len(regrets), max(regrets), sum(r <= REGRET for r in regrets), len(sites),
        rms("error_of_acceptance"), rms("error_of_costs"),
    )  # fmt: skip
