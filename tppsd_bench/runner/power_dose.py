"""Dose cells: one fault at several doses. How small a fault does the suite resolve?"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.protocols import FloatArray
from tppsd_bench.results import Axis, CellResult, Outcome, Verdict
from tppsd_bench.runner.design import Arm
from tppsd_bench.runner.plan import Job
from tppsd_bench.runner.power_cell import Output, case_of, member
from tppsd_bench.runner.power_etd import detected, etd
from tppsd_bench.runner.power_examination import examined, known_preconditions, rate
from tppsd_bench.suite_power import Dose

GRID = 8
"""Cells a side of the unit square in which total variation is seen."""


@dataclass(frozen=True)
class AtDose:
    """What one dose gave."""

    caught: dict[str, float]
    etd: dict[str, Any] | None
    detected_at: FloatArray
    tv: float | None


def run_dose_job(job: Job, pair: Any) -> list[Output]:
    """One fault at every dose, from harmless to severe."""
    started = time.perf_counter()
    table, cell = job.table, job.cells[0]
    assert isinstance(table, Dose)
    fault = member(table.zoo, cell.id)
    doses = table.doses.get(fault.name) or list(fault.doses)
    found = [_at(job, cell.id, pair, fault, dose, table) for dose in doses]
    power = [at.caught["hits"] / at.caught["n"] for at in found]
    resolution = resolved(doses, power, table.resolved)
    figures = {
        "mutant": fault.name, "doses": doses, "caught": [at.caught for at in found], "etd": [at.etd for at in found],
        "resolution": resolution, "tv": [at.tv for at in found], "n_events": table.n_events, "seeds": table.seeds,
        "broken": fault.broken,
    }  # fmt: skip
    arrays: dict[str, NDArray[Any]] = {"doses": np.array(doses), "power": np.array(power)}
    arrays["etd"] = np.array([at.detected_at for at in found]).reshape(len(doses), -1)
    smallest = f"from dose {resolution:g} on" if resolution is not None else "at no dose"
    sentence = f"{fault.name} is caught {smallest} (power {table.resolved:g} and more, {table.seeds} seeds a dose)."
    outcome = Outcome.PASS if resolution is not None else Outcome.FAIL
    result = CellResult(
        cell.id, "dose", job.pair, fault.witness.draft, f"{pair.title}: {fault.name} by dose", fault.name, fault.witness.k,
        seed=job.seed, n_events=table.n_events, verdicts=(Verdict(Axis.VALIDITY, outcome, sentence, n=table.n_events),),
        figures=figures, arrays=tuple(arrays), seconds=time.perf_counter() - started,
    )  # fmt: skip
    return [(result, arrays)]


def _at(job: Job, cell_id: str, pair: Any, fault: Any, dose: float, table: Dose) -> AtDose:
    case = case_of(
        job, cell_id, pair, fault, fault.witness, n_events=table.n_events, pilot=table.pilot_sequences, dose=dose
    )  # fmt: skip
    known = known_preconditions(case, pair.sampler("target_only"))
    caught, events, counted = 0, [], []
    for seed in range(table.seeds):
        one = examined(case.rounds(seed), case.levels, known)
        caught += one.caught
        events.append(detected(one.wealth))
        counted += cells(one.finding.arm)
    return AtDose(rate(caught, table.seeds), etd(events, table.n_events), np.array(events), variation(counted))


def resolved(doses: Sequence[float], power: Sequence[float], required: float) -> float | None:
    """The smallest dose whose power, and that of every larger one, is at least ``required``; None where there is none."""
    below = [i for i, value in enumerate(power) if value < required]
    first = below[-1] + 1 if below else 0
    return doses[first] if first < len(doses) else None


def variation(counted: Sequence[FloatArray]) -> float | None:
    """Total variation from the target's law that shows in the pooled PITs (u, v), about an event; None where nothing was counted.

    ``counted``: events by equal cell, one array a run (``cells``). Half the sum of |share - 1/cells|, less what the same number N of
    exact events would show, sum sqrt(2 p (1 - p) / (pi N)) / 2 at most. A lower bound of the mean total variation of the conditional
    laws: cells and the average over histories only lose.
    """
    counts = np.sum(counted, axis=0)
    n = float(np.sum(counts))
    if not n:
        return None
    p = 1.0 / len(counts)
    noise = 0.5 * len(counts) * math.sqrt(2.0 * p * (1.0 - p) / (math.pi * n))
    return max(0.0, 0.5 * float(np.abs(counts / n - p).sum()) - noise)


def cells(arm: Arm | None) -> list[FloatArray]:
    """Events by cell of (u, v), ``GRID`` x ``GRID`` (of u alone for one type); nothing without scores.

    A type's v is uniform on an interval: each event is spread over the cells that its own meets.
    """
    if arm is None or arm.scores is None:
        return []
    batch, scores = arm.run.events, arm.scores
    u = np.minimum((scores.cdf * GRID).astype(np.int64), GRID - 1)
    if batch.n_types == 1:
        return [np.bincount(u, minlength=GRID).astype(np.float64)]
    rows = np.arange(batch.n_events)
    upper = np.cumsum(scores.type_probs, axis=1)
    high = upper[rows, batch.types]
    low = high - scores.type_probs[rows, batch.types]
    out = np.zeros((GRID, GRID))
    edges = np.arange(GRID + 1) / GRID
    share = np.diff(np.clip(edges, low[:, None], high[:, None]), axis=1) / np.maximum(high - low, 1e-300)[:, None]
    np.add.at(out, u, share)
    return [out.ravel()]
