"""What was measured of each cell, read from a run folder or from a baseline's file, in one form for both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tppsd_bench import store
from tppsd_bench.errors import InputError
from tppsd_bench.gate.counts import Counted
from tppsd_bench.gate.drift import Effects, effects
from tppsd_bench.gate.speed import Speed, speed_of
from tppsd_bench.results import CellResult
from tppsd_bench.studies.base import study_of
from tppsd_bench.studies.gate.jobs import part_of
from tppsd_bench.studies.gate.table import Gate

Measured = Counted | Effects | Speed


@dataclass(frozen=True)
class Side:
    """One side of a comparison."""

    said: str
    """Where it comes from, for people."""
    fingerprint: str
    seed: int
    cells: dict[str, Measured]
    design: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Of each cell: what must be alike on both sides for numbers to be comparable."""


def gate_table(run: Mapping[str, Any], where: Path) -> Gate:
    """The table ``[study.gate]`` of a run; InputError where it has none."""
    from tppsd_bench.suite import check_suite

    suite = run.get("suite")
    if not isinstance(suite, dict) or "gate" not in (suite.get("study") or {}):
        raise InputError(
            f"{where} is a run without [study.gate], so it holds nothing that a gate can compare; run a suite that has one, e.g. "
            "'run --suite gate'."
        )
    table = check_suite({**suite, "study": {"gate": suite["study"]["gate"]}}, f"{where}/run.json").study["gate"]
    assert isinstance(table, Gate)
    return table


def side_of_run(folder: Path, run: Mapping[str, Any], cells: Mapping[str, CellResult]) -> Side:
    """Everything that the gate's cells of a run folder measured; cells that broke or measured nothing are left out."""
    found, how = {}, run["provenance"]
    mine = {name: cell for name, cell in cells.items() if study_of(cell.kind) == "gate" and not cell.error and cell.arrays}
    for name, cell in mine.items():
        with np.load(folder / "cells" / f"{name}.npz", allow_pickle=False) as stored:
            found[name] = measured(cell, {a: stored[a] for a in stored.files})
    return Side(f"run {folder}", how["fingerprint"], int(how["seed"]), found, {name: design_of(c) for name, c in mine.items()})


def measured(cell: CellResult, arrays: Mapping[str, Any]) -> Measured:
    """What a cell's arrays say."""
    part = part_of(cell.id)
    if part == "counts":
        return Counted(arrays["committed"], arrays["forwards"], str(cell.figures.get("digest", "")))
    if part == "law":
        return effects(arrays["sums"], arrays["lengths"])
    return speed_of(arrays["log_ratio_cpu"], arrays["log_ratio_again"])


def design_of(cell: CellResult) -> dict[str, Any]:
    """Draft, K and length: with another of these the same sampler has other counts and another speed."""
    return {"draft": cell.draft, "k": cell.k, "length": int(cell.stop["n_events"])}


def read_run(folder: Path) -> tuple[dict[str, Any], dict[str, CellResult]]:
    """(run.json, cells by id) of a run folder."""
    return store.read_json(folder / "run.json"), store.read_cells(folder)
