"""What one step costs after histories of growing length: cached and recomputing target, verifying pass, draft."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import SampleRequest, Stop
from tppsd_bench.results import CellResult
from tppsd_bench.runner.calibration import Clock, clock_of, passes_seconds
from tppsd_bench.runner.plan import CellSpec, Job
from tppsd_bench.runner.speed_cell import synchroniser
from tppsd_bench.streams import StreamKey
from tppsd_bench.studies.speedup.table import History, Speedup

SAMPLED = 200
"""Events drawn from the target; longer histories repeat them, for what a step costs does not depend on what happened."""
STEPS = ("target", "verify", "draft", "recompute")


def run_history(job: Job, cell: CellSpec, pair: Any) -> tuple[CellResult, dict[str, NDArray[Any]]]:
    """Milliseconds of each kind of step by length of history; NaN where it was too slow to be taken."""
    assert isinstance(job.table, Speedup)
    started, h = time.perf_counter(), job.table.history
    key = StreamKey(seed=job.seed, suite=job.suite, cell=cell.id, stage="calibration")
    request = SampleRequest(1, Stop(n_events=SAMPLED), key, device=job.device, want_trace=False)
    events = pair.sampler("target_only").sample(request).events
    clock = clock_of(job.device, synchroniser(job.device))
    lengths = sorted(h.lengths)
    ms = {name: np.full(len(lengths), np.nan) for name in STEPS}
    for i, length in enumerate(lengths):
        history = EventBatch(
            np.resize(events.gaps, length), np.resize(events.types, length), np.array([length]), events.n_types
        )
        for name, seconds in _steps(pair, history, h, clock).items():
            last = ms[name][i - 1] if i else 0.0
            if last * lengths[i] / lengths[max(i - 1, 0)] * h.repeats < 1000 * h.seconds:
                ms[name][i] = 1000 * seconds()
    figures = {"part": "history", "k": h.k, "lengths": lengths, "ms": {name: list(values) for name, values in ms.items()}}
    arrays: dict[str, NDArray[Any]] = {"lengths": np.array(lengths), **{f"ms_{name}": values for name, values in ms.items()}}
    result = CellResult(
        cell.id, cell.kind, job.pair, "shipped", f"{pair.title}: cost of history", seed=job.seed, figures=figures,
        arrays=tuple(arrays), seconds=time.perf_counter() - started,
    )  # fmt: skip
    return result, arrays


def _steps(pair: Any, history: EventBatch, h: History, clock: Clock) -> dict[str, Callable[[], float]]:
    """Seconds of each kind of step, taken when called."""
    gaps, types = history.padded()

    def recompute() -> float:
        found = []
        for _ in range(max(3, h.repeats // 2)):
            begun = clock()
            pair.target.law_after(gaps, types, history.lengths)
            found.append(clock() - begun)
        return float(np.median(found))

    return {
        "target": lambda: passes_seconds(pair.target, history, [1], clock, h.repeats)[1],
        "verify": lambda: passes_seconds(pair.target, history, [h.k + 1], clock, h.repeats)[h.k + 1],
        "draft": lambda: passes_seconds(pair.drafts["shipped"], history, [1], clock, h.repeats)[1],
        "recompute": recompute,
    }
