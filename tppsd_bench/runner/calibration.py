"""What the throughput law needs, measured apart: step costs on calibration seeds, acceptance by quadrature. Frozen before any timing.

One target step is cached target-only sampling, per event. c is draft-only sampling; v(K) a target pass over K + 1 positions at half
the run's history, timed on the model itself; r what is left of a calibration run's rounds, on average over the K's. None of it
comes from the runs whose speed is predicted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.events import EventBatch
from tppsd_bench.measure.promise import Alpha, alpha_by_quadrature
from tppsd_bench.measure.throughput import Prediction, StepCosts, predict
from tppsd_bench.protocols import Counts, Rule, SampleRequest, SamplerUnderTest, Stop
from tppsd_bench.streams import StreamKey

RUNS = 3
"""Timed runs of each sampler, after one that warms it up."""
REPEATS = 9
Clock = Callable[[], float]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Calibration:
    """Step costs and acceptance, and what they promise."""

    step_seconds: float
    """CPU seconds of a target step."""
    costs: StepCosts
    seconds_per_event: dict[int, float]
    """By K, of the calibration runs: what chooses the K that is then judged on other seeds."""
    alpha: Alpha
    n_events: int
    cost_history: NDArray[np.int64]
    cost_ms: FloatArray
    """Milliseconds of a one-event target pass at each history."""
    verify_timed: bool
    """False where the model cannot be stepped by itself: v(K) and r are then known only together, and stand in v."""

    @property
    def best_k(self) -> int:
        return min(self.seconds_per_event, key=lambda k: self.seconds_per_event[k])

    def predict(self, k: int) -> Prediction:
        return predict(self.alpha.value, k, self.costs, n_events=self.n_events)


def clock_of(device: str, synchronise: Callable[[], None] | None) -> Clock:
    """CPU time of this process, or wall time once the device has done its work."""
    if synchronise is None:
        return time.process_time

    def now() -> float:
        synchronise()
        return time.perf_counter()

    return now


def calibrate(
    pair: Any, ks: Sequence[int], rule: Rule, n_events: int, key: StreamKey, device: str, clock: Clock
) -> Calibration:
    """Everything above for one pair and its shipped draft, in runs of ``n_events`` events; ``key`` names seeds of its own."""
    key, stop = key.replace(stage="calibration"), Stop(n_events=n_events)
    step, histories, _ = _runs(pair.sampler("target_only"), stop, key.replace(arm="target"), device, clock)
    draft, _, _ = _runs(pair.sampler("draft_only"), stop, key.replace(arm="draft"), device, clock)
    alpha = alpha_by_quadrature(
        pair.target, pair.drafts["shipped"], histories, rule, key.replace(purpose="quadrature").generator()
    )
    per_event, per_round = {}, {}
    for k in ks:
        sampler = pair.sampler("speculative", k=k, rule=rule)
        seconds, _, counts = _runs(sampler, stop, key.replace(arm=f"k{k}"), device, clock)
        per_event[k] = seconds
        per_round[k] = seconds * counts.committed / max(counts.rounds, 1)
    steppable = all(hasattr(pair.target, name) for name in ("start", "extend"))
    if steppable:
        columns = sorted({0, *ks})
        half = histories.select(slice(0, 1)).prefix(max(1, n_events // 2))
        passes = {k: _pass_seconds(pair.target, half, k + 1, clock) for k in columns}
        rest = float(np.mean([per_round[k] - k * draft - passes[k] for k in ks]))
        at = {k: passes[k] / step for k in columns}
        lengths, cost = _cost_of_history(pair.target, histories, clock)
    else:
        at, rest = {k: (per_round[k] - k * draft) / step for k in ks}, 0.0
        lengths, cost = np.empty(0, dtype=np.int64), np.empty(0)
    known = sorted(at)
    verify = np.interp(np.arange(max(known[-1], 1) + 1), known, [max(at[k], 1e-6) for k in known])
    costs = StepCosts(draft / step, tuple(float(v) for v in verify), max(rest / step, 0.0))
    return Calibration(step, costs, per_event, alpha, n_events, lengths, cost, steppable)


def _runs(sampler: SamplerUnderTest, stop: Stop, key: StreamKey, device: str, clock: Clock) -> tuple[float, EventBatch, Counts]:
    """(median seconds per event, events, counts) of single sequences, the first left out of the time."""
    seconds, batches, counts = [], [], Counts()
    for i in range(RUNS + 1):
        begun = clock()
        run = sampler.sample(SampleRequest(1, stop, key, first_sequence=i, device=device, want_trace=False))
        seconds.append((clock() - begun) / max(run.events.n_events, 1))
        batches.append(run.events)
        counts = counts + run.counts
    return float(np.median(seconds[1:])), EventBatch.concat(batches), counts


def _pass_seconds(model: Any, history: EventBatch, n_new: int, clock: Clock, repeats: int = REPEATS) -> float:
    """Median seconds of a pass over ``n_new`` events after ``history`` (one sequence), the cache rolled back each time."""
    gaps, types = history.padded()
    m = gaps.shape[1]
    cache = model.start(1, m + n_new + 1)
    model.extend(cache, gaps, types, np.array([m]))
    new = np.resize(gaps, (1, n_new)), np.resize(types, (1, n_new)), np.array([n_new])
    seconds = []
    for _ in range(repeats + 2):
        begun = clock()
        model.extend(cache, *new)
        seconds.append(clock() - begun)
        cache.rollback(np.array([m]))
    return float(np.median(seconds[2:]))


def _cost_of_history(model: Any, histories: EventBatch, clock: Clock) -> tuple[NDArray[np.int64], FloatArray]:
    """Milliseconds of a one-event pass after an eighth, a quarter, a half and all of the run."""
    longest = int(histories.lengths[0])
    lengths = np.unique(np.maximum(1, np.array([longest // 8, longest // 4, longest // 2, longest])))
    one = histories.select(slice(0, 1))
    return lengths, np.array([1000 * _pass_seconds(model, one.prefix(int(m)), 1, clock, repeats=5) for m in lengths])
