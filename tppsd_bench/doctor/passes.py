"""Measured on the clock: step costs from several calibrations, paired speeds, cost by history, what cache and batch are worth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tppsd_bench.doctor.base import Estimate
from tppsd_bench.doctor.measurements import Costs, HistoryPoint, Speed
from tppsd_bench.events import EventBatch
from tppsd_bench.measure.throughput import StepCosts, finite_rounds, finite_run_totals, predict
from tppsd_bench.measure.timing import AA, PairedTiming, fewest_pairs, paired_timing
from tppsd_bench.protocols import Counts, SampleRequest, SamplerUnderTest, Stop
from tppsd_bench.runner.calibration import Calibration, Clock, passes_seconds
from tppsd_bench.streams import StreamKey

CACHED = "target-only, cached"
PAIRS, MIN_PAIRS, COVERAGE = 30, 12, 0.99
FEW_COVERAGE = 0.9
FEW_PAIRS = fewest_pairs(FEW_COVERAGE)
REPEATS = 7


def side(
    sampler: SamplerUnderTest, n_events: int, device: str, n: int = 1, counts: Counts | None = None
) -> Callable[[int], int]:
    """``n`` sequences of ``n_events`` from a seed; rounds and events are added to ``counts``."""

    def draw(seed: int) -> int:
        key = StreamKey(seed=seed, suite="doctor", stage="timing")
        run = sampler.sample(SampleRequest(n, Stop(n_events=n_events), key, device=device, want_trace=False))
        if counts is not None:
            counts.rounds += run.counts.rounds
            counts.committed += run.counts.committed
        return run.events.n_events

    return draw


def step_costs(found: Sequence[Calibration], alpha: float | tuple[float, ...], k: int, parameters: tuple[int | None, int | None],
               apart_at: int | None) -> Costs:  # fmt: skip
    """Medians over calibrations with their range; the spread of what each alone promises at K."""

    def over(values: Iterable[float]) -> Estimate:
        v = np.array(list(values))
        return Estimate(float(np.median(v)), float(v.min()), float(v.max()))

    draft, rest = over(c.costs.draft for c in found), over(rest_of_a_round(c, alpha) for c in found)
    verify = np.median([c.costs.verify for c in found], axis=0)
    law = StepCosts(draft.value, tuple(float(v) for v in verify), rest.value)
    n = found[0].n_events
    whole = predict(alpha, k, law, n_events=n).speedup
    single = [replace(c.costs, rest=rest_of_a_round(c, alpha)) for c in found]
    spread = over(predict(alpha, k, c, n_events=n).speedup / whole for c in single) if len(found) > 1 else None
    return Costs(
        over(1000 * c.step_seconds for c in found), draft, rest, law, spread, *parameters, history=apart_at,
        apart=found[0].verify_timed,
    )  # fmt: skip


def rest_of_a_round(found: Calibration, alpha: float | tuple[float, ...]) -> float:
    """r such that the law meets the calibration runs, on average over their K's: what they cost beyond drafts and passes, a round.

    The last rounds of a run draft less than K, so a round's mean cost less K c + v(K) would be too little.
    """
    if not found.verify_timed:
        return found.costs.rest
    n, bare = found.n_events, replace(found.costs, rest=0.0)
    each = []
    for k, seconds in found.seconds_per_event.items():
        parts = finite_run_totals(n, k, alpha, [bare.round(j) for j in range(k + 1)])[n]
        each.append((seconds * n / found.step_seconds - float(parts)) / finite_rounds(n, k, alpha))
    return max(float(np.mean(each)), 0.0)


def paired_speed(
    pair: Any, draft: str, ks: Sequence[int], used: int, rule: str, n_events: int, device: str, rng: np.random.Generator,
    seconds: float, synchronise: Callable[[], None] | None,
) -> Speed:  # fmt: skip
    """Every K against cached target-only sampling; A/A is the K in use against itself."""
    counted = {k: Counts() for k in ks}
    sides = {CACHED: side(pair.sampler("target_only"), n_events, device)}
    sides |= {
        _name(k): side(pair.sampler("speculative", draft=draft, k=k, rule=rule), n_events, device, counts=counted[k])
        for k in ks
    }
    timing = paired_timing(
        sides, baseline=CACHED, again=_name(used), rng=rng, pairs=PAIRS, min_pairs=MIN_PAIRS, coverage=COVERAGE,
        budget_seconds=seconds, synchronise=synchronise,
    )  # fmt: skip
    committed = {k: c.committed / max(c.rounds, 1) for k, c in counted.items()}
    note = f"{timing.n_pairs} pairs of {timing.calls} runs, {100 * COVERAGE:g} % intervals. {timing.note}".strip()
    return Speed({k: _ratio(timing, _name(k)) for k in ks}, _ratio(timing, AA), committed, note=note)


def few_pairs(
    sides: Mapping[str, Callable[[int], int]], baseline: str, rng: np.random.Generator, seconds: float,
    synchronise: Callable[[], None] | None,
) -> dict[str, Estimate]:  # fmt: skip
    """Speed of each side over ``baseline`` from few pairs, intervals of 90 %."""
    timing = paired_timing(
        sides, baseline=baseline, rng=rng, pairs=FEW_PAIRS, min_pairs=FEW_PAIRS, coverage=FEW_COVERAGE, max_warmup=2,
        min_seconds=0.01, budget_seconds=seconds, synchronise=synchronise,
    )  # fmt: skip
    return {name: _ratio(timing, name) for name in sides if name != baseline}


def _name(k: int) -> str:
    return f"speculative, K = {k}"


def _ratio(timing: PairedTiming, name: str) -> Estimate:
    r = timing.ratio(name)
    return Estimate(r.median, r.lower, r.upper)


def by_history(
    target: Any, draft: Any, events: EventBatch, lengths: Sequence[int], costs: Costs, half: int, clock: Clock
) -> tuple[HistoryPoint, ...]:
    """Step costs after histories of ``lengths`` events; ``half`` is the history at which ``costs`` holds.

    What changes with the history is a pass of the model; the rest of a step (head, draws) is that of ``costs``. Histories are the
    target's sequences one after the other: only their length matters here.
    """
    step, c = costs.step_ms.value, costs.draft.value * costs.step_ms.value
    ks = sorted({1, 4, 8, costs.law.k_max})
    widths = [1, *(k + 1 for k in ks)]
    base_t, base_d = pass_ms(target, events, half, widths, clock), pass_ms(draft, events, half, [1], clock)[0]
    out = []
    for h in lengths:
        now = pass_ms(target, events, h, widths, clock)
        drafted = max(c + pass_ms(draft, events, h, [1], clock)[0] - base_d, 1e-6)
        mine = max(step + now[0] - base_t[0], 1e-6)
        at = [max(costs.law.verify[k] * step + now[i] - base_t[i], 1e-6) / mine for i, k in enumerate([0, *ks])]
        verify = np.interp(np.arange(ks[-1] + 1), [0, *ks], at)
        law = StepCosts(drafted / mine, tuple(float(v) for v in verify), costs.law.rest * step / mine)
        out.append(HistoryPoint(h, mine, drafted, law))
    return tuple(out)


def pass_ms(model: Any, events: EventBatch, length: int, widths: Sequence[int], clock: Clock) -> list[float]:
    """Median milliseconds of passes over each number of new events after ``length`` of them."""
    history = EventBatch(np.resize(events.gaps, length), np.resize(events.types, length), np.array([length]), events.n_types)
    found = passes_seconds(model, history, widths, clock, REPEATS)
    return [1000 * found[w] for w in widths]
