"""Baselines: small files of what a run measured, committed beside the code, written by one command that shows what changes.

Per cell: committed events and target forwards of every sequence, the effects of the PITs with their covariance, the log speedup with its
interval. Per file: suite, seed, fingerprint, versions, revision. One line a cell, so that a review reads it.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from tppsd_bench import store
from tppsd_bench.errors import InputError
from tppsd_bench.gate.counts import Counted
from tppsd_bench.gate.drift import Effects
from tppsd_bench.gate.measured import Measured, Side, gate_table, read_run, side_of_run
from tppsd_bench.gate.speed import Speed
from tppsd_bench.results import Axis, Outcome
from tppsd_bench.studies.base import study_of
from tppsd_bench.studies.gate.jobs import part_of

FORMAT = 1
_DIGITS = 9
_OF_SPEED = ("log_ratio", "low", "high", "lower", "upper", "same")


def read_baseline(file: Path) -> Side:
    """A committed baseline as a side; InputError names what is wrong with the file."""
    data = store.read_json(file)
    if data.get("format") != FORMAT:
        raise InputError(
            f"{file} has format {data.get('format')!r}; this version reads format {FORMAT}. Write it anew: gate RUN --write-baseline {file}"
        )
    try:
        cells = {name: _from_plain(name, c) for name, c in data["cells"].items()}
        design = {name: c["design"] for name, c in data["cells"].items()}
        said = f"{file} ({data['git'] or 'no revision'}, {data['written']})"
        return Side(said, data["fingerprint"], data["seed"], cells, design)
    except (KeyError, TypeError, ValueError) as problem:
        raise InputError(
            f"{file} is not a whole baseline ({type(problem).__name__}: {problem}); write it anew with gate RUN --write-baseline {file}"
        ) from problem


def write_baseline(folder: Path, file: Path) -> list[str]:
    """Write what the run in ``folder`` measured; gives the lines of a review: every cell, before and after.

    InputError where the run is not one to compare others with: cells that broke, failing verdicts, an unsteady machine.
    """
    run, cells = read_run(folder)
    table = gate_table(run, folder)
    _healthy(folder, run, cells)
    side = side_of_run(folder, run, cells)
    for name, cell in side.cells.items():
        if isinstance(cell, Speed) and abs(cell.same) > math.log1p(table.margins.same):
            raise InputError(
                f"{folder}: in {name} one sampler differs from itself by {math.expm1(abs(cell.same)):.1%}; a baseline needs a quieter "
                "machine, run the suite again."
            )
    before = read_baseline(file) if file.is_file() else None
    how = run["provenance"]
    head = {
        "format": FORMAT, "suite": run["suite"]["name"], "seed": how["seed"], "written": how["started"], "git": how.get("git"),
        "fingerprint": how["fingerprint"], "cpu": how["cpu"], "python": how["python"], "versions": how["versions"],
    }  # fmt: skip
    plain = {name: {"design": side.design[name], **_plain(name, cell)} for name, cell in side.cells.items()}
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    body = ",\n".join(f"  {json.dumps(name)}: {json.dumps(cell)}" for name, cell in plain.items())
    text = "{\n" + ",\n".join(lines) + ',\n "cells": {\n' + body + "\n }\n}\n"
    store.write_whole(file, lambda out: out.write(text.encode()))
    return _review(before, read_baseline(file))


def _healthy(folder: Path, run: dict[str, Any], cells: dict[str, Any]) -> None:
    if run.get("status") != store.FINISHED:
        raise InputError(f"{folder} is {run.get('status')}; a baseline is written from a finished run: --resume it first.")
    judged = (Axis.VALIDITY, Axis.LAW, Axis.MECHANISM)
    bad = [
        (name, v) for name, c in cells.items() for v in c.verdicts
        if v.axis in judged and v.outcome in (Outcome.FAIL, Outcome.INVALID)
    ]  # fmt: skip
    if bad:
        name, verdict = bad[0]
        raise InputError(f"{folder}: {name} fails ({verdict.sentence}); a baseline is what others are held to, mend it first.")
    if not any(study_of(c.kind) == "gate" and c.arrays for c in cells.values()):
        raise InputError(f"{folder} measured nothing that a gate can compare.")


def _plain(name: str, cell: Measured) -> dict[str, Any]:
    if isinstance(cell, Counted):
        return {"committed": _runs(cell.committed.tolist()), "forwards": cell.forwards.tolist(), "digest": cell.digest}
    if isinstance(cell, Effects):
        rows, columns = np.triu_indices(len(cell.theta))
        upper = [_short(x) for x in cell.covariance[rows, columns]]
        return {"n_events": cell.n_events, "theta": [_short(x) for x in cell.theta], "covariance_upper": upper}
    return {name: _short(getattr(cell, name)) for name in _OF_SPEED} | {"pairs": cell.n_pairs}


def _from_plain(name: str, plain: dict[str, Any]) -> Measured:
    part = part_of(name)
    if part == "counts":
        forwards = np.array(plain["forwards"], dtype=np.int64)
        committed = np.broadcast_to(np.array(plain["committed"], dtype=np.int64), forwards.shape)
        return Counted(committed, forwards, plain["digest"])
    if part == "law":
        theta = np.array(plain["theta"], dtype=np.float64)
        upper = np.zeros((len(theta), len(theta)))
        upper[np.triu_indices(len(theta))] = plain["covariance_upper"]
        return Effects(theta, upper + np.triu(upper, 1).T, int(plain["n_events"]))
    return Speed(**{key: float(plain[key]) for key in _OF_SPEED}, n_pairs=int(plain["pairs"]))


def _runs(values: list[int]) -> list[int] | int:
    """One number where all are the same, as they are where sequences stop by count."""
    return values[0] if len(set(values)) == 1 else values


def _short(x: float) -> float:
    """Nine digits: drift is judged in the fourth."""
    return float(f"{x:.{_DIGITS}g}")


def _review(before: Side | None, after: Side) -> list[str]:
    """What the new file changes, cell by cell."""
    known = before.cells if before is not None else {}
    lines = [f"{name}: {_told(known.get(name))} -> {_told(cell)}" for name, cell in after.cells.items()]
    lines += [f"{name}: {_told(cell)} -> gone" for name, cell in known.items() if name not in after.cells]
    if before is not None and before.fingerprint != after.fingerprint:
        lines.append(f"fingerprint: {before.fingerprint} -> {after.fingerprint} (another processor, or other versions)")
    return lines


def _told(cell: Measured | None) -> str:
    if cell is None:
        return "new"
    if isinstance(cell, Counted):
        return f"{cell.per_event:.4f} forwards per event ({len(cell.forwards)} sequences)"
    if isinstance(cell, Effects):
        return f"largest effect {np.abs(cell.theta).max():.4f} ({cell.n_events:,} events)"
    value, low, high = (math.exp(x) for x in (cell.log_ratio, cell.low, cell.high))
    return f"speedup {value:.3f} ({low:.3f} to {high:.3f})"
