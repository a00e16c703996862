"""The study's cells as a reader needs them: by pair and draft, in an order to compare, their figures as numbers and words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tppsd_bench.report.wording import estimate, finite
from tppsd_bench.results import CellResult
from tppsd_bench.studies.drafts.table import COUNTED, HISTORY, TIMED

Ends = tuple[float, float]
Estimate = tuple[float, Ends]


@dataclass(frozen=True)
class Results:
    """What was measured; broken cells left out."""

    counted: dict[tuple[str, str], CellResult]
    """By (pair, draft)."""
    timed: dict[tuple[str, str], CellResult]
    history: dict[str, CellResult]
    """By pair."""
    long_runs: dict[str, CellResult]

    @classmethod
    def of(cls, cells: Sequence[CellResult]) -> Results:
        whole = [c for c in cells if not c.error]

        def of_kind(kind: str, over_history: bool) -> list[CellResult]:
            return [
                c for c in whole if c.kind == kind and c.id.startswith(f"{kind}.{HISTORY}.") == (not c.draft) == over_history
            ]

        return cls(
            {(c.pair, c.draft): c for c in of_kind(COUNTED, False)}, {(c.pair, c.draft): c for c in of_kind(TIMED, False)},
            {c.pair: c for c in of_kind(COUNTED, True)}, {c.pair: c for c in of_kind(TIMED, True)},
        )  # fmt: skip

    @property
    def pairs(self) -> list[str]:
        return list(dict.fromkeys(pair for pair, _ in [*self.counted, *self.timed]))

    @property
    def drafts(self) -> list[str]:
        """Shipped first, then the others by name, the distilled beside the plain; stress and renewal, the floors, last."""
        names = {draft for _, draft in [*self.counted, *self.timed]}
        return sorted(names, key=lambda d: (d.startswith(("renewal", "stress")), d != "shipped", d))

    def timed_of(self, pair: str) -> list[CellResult]:
        return [c for (p, _), c in self.timed.items() if p == pair]

    def chosen(self, pair: str) -> CellResult | None:
        """The timed draft of a pair that was fastest on calibration seeds; its speedup is of other seeds."""
        return min(self.timed_of(pair), key=lambda c: float(c.figures["calibrated_ms"]), default=None)


def of(figures: Mapping[str, Any], name: str) -> Estimate:
    """A figure with its interval; KeyError where it was not measured."""
    found = estimate(figures[name])
    if found is None:
        raise KeyError(name)
    value, ends = found
    return value, ends or (value, value)


def maybe(figures: Mapping[str, Any], name: str) -> Estimate | None:
    """A figure with its interval, or None where it was not measured."""
    found = estimate(figures.get(name))
    return None if found is None else (found[0], found[1] or (found[0], found[0]))


def points(value: float, digits: int = 1) -> str:
    """A difference of shares in points, with its sign."""
    return f"{100 * value:+.{digits}f}".replace("-", "−")


def points_between(found: Estimate, digits: int = 1) -> str:
    value, (low, high) = found
    return f"{points(value, digits)} ({points(low, digits)} to {points(high, digits)})"


def percent_between(found: Estimate) -> str:
    """``93.4 (93.0 to 93.8)``, in per cent."""
    value, (low, high) = found
    return f"{100 * value:.1f} ({100 * low:.1f} to {100 * high:.1f})"


def nats_between(found: Estimate, sign: bool = False) -> str:
    value, (low, high) = found
    form = "+.3f" if sign else ".3f"
    return f"{value:{form}} ({low:{form}} to {high:{form}})".replace("-", "−")


def times_between(found: Estimate) -> str:
    value, (low, high) = found
    return f"{value:.2f} ({low:.2f} to {high:.2f})"


def at_k(cell: CellResult, rows: str, k: int | None) -> dict[str, Any]:
    """The row of a list of figures by K; empty where there is none."""
    return next((r for r in cell.figures.get(rows, []) if isinstance(r, dict) and r.get("k") == k), {})


def best_k(cell: CellResult | None) -> int | None:
    found = None if cell is None else finite(cell.figures.get("best_k"))
    return None if found is None else int(found)
