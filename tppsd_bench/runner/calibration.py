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

    def draft_share(self, k: int) -> float:
        """c K / (c K + v(K) + r): drafting's part of the time of a round with K drafts."""
        return self.costs.draft * k / self.costs.round(k)

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


@dataclass(frozen=True)
class TargetCosts:
    """What calibration asks of the target alone, whatever the draft."""

    step_seconds: float
    histories: EventBatch
    """Its own sequences, of the calibration seeds."""
    passes: dict[int, float]
    """Seconds of a pass over K + 1 events at half the run's history, by K, 0 included; empty where it cannot be stepped by itself."""
    cost_history: NDArray[np.int64]
    cost_ms: FloatArray


def target_costs(pair: Any, ks: Sequence[int], n_events: int, key: StreamKey, device: str, clock: Clock) -> TargetCosts:
    """Target-only runs and single passes of a pair's target; ``key`` as for ``calibrate``."""
    key = key.replace(stage="calibration", arm="target")
    step, histories, _ = _runs(pair.sampler("target_only"), Stop(n_events=n_events), key, device, clock)
    if not all(hasattr(pair.target, name) for name in ("start", "extend")):
        return TargetCosts(step, histories, {}, np.empty(0, dtype=np.int64), np.empty(0))
    half = histories.select(slice(0, 1)).prefix(max(1, n_events // 2))
    passes = {k: pass_seconds(pair.target, half, k + 1, clock) for k in sorted({0, *ks})}
    return TargetCosts(step, histories, passes, *_cost_of_history(pair.target, histories, clock))


def calibrate(
    pair: Any, ks: Sequence[int], rule: Rule, n_events: int, key: StreamKey, device: str, clock: Clock, *,
    draft: str = "shipped", target: TargetCosts | None = None,
) -> Calibration:  # fmt: skip
    """Everything above for one pair and one of its drafts, in runs of ``n_events`` events; ``key`` names seeds of its own.

    ``target``: what ``target_costs`` found with the same arguments, so that several drafts share it.
    """
    of_target = target or target_costs(pair, ks, n_events, key, device, clock)
    step, passes = of_target.step_seconds, of_target.passes
    key, stop = key.replace(stage="calibration"), Stop(n_events=n_events)
    draft_step, _, _ = _runs(pair.sampler("draft_only", draft=draft), stop, key.replace(arm="draft"), device, clock)
    alpha = alpha_by_quadrature(
        pair.target, pair.drafts[draft], of_target.histories, rule, key.replace(purpose="quadrature").generator()
    )
    per_event, per_round = {}, {}
    for k in ks:
        sampler = pair.sampler("speculative", draft=draft, k=k, rule=rule)
        seconds, _, counts = _runs(sampler, stop, key.replace(arm=f"k{k}"), device, clock)
        per_event[k] = seconds
        per_round[k] = seconds * counts.committed / max(counts.rounds, 1)
    if passes:
        rest = float(np.mean([per_round[k] - k * draft_step - passes[k] for k in ks]))
        at = {k: passes[k] / step for k in passes}
    else:
        at, rest = {k: (per_round[k] - k * draft_step) / step for k in ks}, 0.0
    known = sorted(at)
    verify = np.interp(np.arange(max(known[-1], 1) + 1), known, [max(at[k], 1e-6) for k in known])
    costs = StepCosts(draft_step / step, tuple(float(v) for v in verify), max(rest / step, 0.0))
    return Calibration(step, costs, per_event, alpha, n_events, of_target.cost_history, of_target.cost_ms, bool(passes))


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


def pass_seconds(model: Any, history: EventBatch, n_new: int, clock: Clock, repeats: int = REPEATS) -> float:
    """Median seconds of a pass over ``n_new`` events after ``history``, the cache rolled back each time."""
    return passes_seconds(model, history, [n_new], clock, repeats)[n_new]


def passes_seconds(
    model: Any, history: EventBatch, n_new: Sequence[int], clock: Clock, repeats: int = REPEATS,
    before: Callable[[int], object] | None = None,
) -> dict[int, float]:  # fmt: skip
    """Median seconds of a pass over each of these numbers of new events, after histories of one length (a batch of them).

    The passes take turns, so that whatever slows the machine for a while slows them all. What a pass costs depends on what ran just
    before it, for that is what the core's caches hold: ``before(n)`` is called ahead of each pass over n events and not timed. Left
    out, the same pass is.
    """
    gaps, types = history.padded()
    n, m = gaps.shape
    cache = model.start(n, m + max(n_new) + 1)
    model.extend(cache, gaps, types, np.full(n, m))

    def take(w: int) -> float:
        new = np.resize(gaps, (n, w)), np.resize(types, (n, w)), np.full(n, w)
        begun = clock()
        model.extend(cache, *new)
        took = clock() - begun
        cache.rollback(np.full(n, m))
        return took

    seconds: dict[int, list[float]] = {w: [] for w in n_new}
    for _ in range(repeats + 2):
        for w, found in seconds.items():
            (before or take)(w)
            found.append(take(w))
    return {w: float(np.median(found[2:])) for w, found in seconds.items()}


def _cost_of_history(model: Any, histories: EventBatch, clock: Clock) -> tuple[NDArray[np.int64], FloatArray]:
    """Milliseconds of a one-event pass after an eighth, a quarter, a half and all of the run."""
    longest = int(histories.lengths[0])
    lengths = np.unique(np.maximum(1, np.array([longest // 8, longest // 4, longest // 2, longest])))
    one = histories.select(slice(0, 1))
    return lengths, np.array([1000 * pass_seconds(model, one.prefix(int(m)), 1, clock, repeats=5) for m in lengths])
