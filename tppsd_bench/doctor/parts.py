"""What some cells of a run say of one pair and draft, and how several such parts become one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.doctor.base import Estimate
from tppsd_bench.doctor.measurements import Acceptance, Accuracy, Cache, Costs, Cut, HistoryPoint, Speed
from tppsd_bench.measure.throughput import StepCosts
from tppsd_bench.results import CellResult

Arrays = Mapping[str, NDArray[Any]]
CHEAPEST = 1e-6
"""A verifying pass costs something, whatever noise says."""


@dataclass(frozen=True)
class Part:
    """Fields as in ``Measurements``; None, or empty, where these cells do not say."""

    k: int | None = None
    n_events: int | None = None
    """Of a sequence; of a timed run where there is a speed."""
    n_types: int | None = None
    joint: bool | None = None
    accuracy: Accuracy | None = None
    acceptance: Acceptance | None = None
    continuous: bool | None = None
    cuts: tuple[Cut, ...] = ()
    costs: Costs | None = None
    speed: Speed | None = None
    history: tuple[HistoryPoint, ...] = ()
    cache: Cache | None = None
    held_out: Estimate | None = None
    notes: tuple[str, ...] = ()

    @property
    def speaks(self) -> bool:
        """Whether any step can read it."""
        return any((self.acceptance, self.costs, self.speed, self.history))


def join(parts: Sequence[Part]) -> Part:
    """The first that says something, field by field; K and length are those of the first timed part. All notes."""
    timed_first = sorted(parts, key=lambda p: p.speed is None)
    found: dict[str, Any] = {
        f.name: next((v for p in parts if (v := getattr(p, f.name)) not in (None, ())), f.default) for f in fields(Part)
    }
    for name in ("k", "n_events"):
        found[name] = next((v for p in timed_first if (v := getattr(p, name)) is not None), None)
    return Part(**{**found, "notes": tuple(note for p in parts for note in p.notes if note)})


def estimate_of(found: Any) -> Estimate | None:
    """An interval as result files hold it, or a bare number; None where there is none."""
    if isinstance(found, Mapping) and found.get("value") is not None:
        value = float(found["value"])
        low, high = (value if found.get(end) is None else float(found[end]) for end in ("low", "high"))
        return Estimate(value, low, high)
    return Estimate.exact(float(found)) if isinstance(found, (int, float)) else None


def speeds(rows: Sequence[Mapping[str, Any]], clock: str = "") -> dict[int, Estimate]:
    """K -> speed, of rows that hold an interval themselves, or one for each clock."""
    read = ((int(row["k"]), estimate_of(row[clock] if clock else row)) for row in rows)
    return {k: speed for k, speed in read if speed is not None}


def costs_of(figures: Mapping[str, Any], *, apart: bool) -> Costs:
    """Step costs as cells hold them: c, r, and v at some K's, between which it is linear."""
    at = {int(k): float(v) for k, v in figures["verify_step"].items()}
    known = sorted(at)
    verify = np.interp(np.arange(max(known[-1], 1) + 1), known, [max(at[k], CHEAPEST) for k in known])
    c, r = float(figures["draft_step"]), float(figures["rest_step"])
    law = StepCosts(c, tuple(float(v) for v in verify), r)
    return Costs(Estimate.exact(float(figures["target_step_ms"])), Estimate.exact(c), Estimate.exact(r), law, apart=apart)


def arrays_of(where: Path, cell: CellResult) -> Arrays:
    """The arrays beside a cell; none where the file is not there."""
    path = where / "cells" / f"{cell.id}.npz"
    if not path.is_file():
        return {}
    with np.load(path, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def drafts_named(cell: CellResult) -> Iterator[str]:
    """Drafts that a cell tells of: its own, and those that its figures hold side by side."""
    if cell.draft:
        yield cell.draft
    for name in ("drafts", "acceptance"):
        found = cell.figures.get(name)
        if isinstance(found, Mapping) and "value" not in found:
            yield from found
