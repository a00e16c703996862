"""Speed cells: paired times of speculative sampling against two target-only baselines, beside the throughput law."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.measure.acceptance import acceptance_by_position
from tppsd_bench.measure.throughput import StepCosts, explain, predict
from tppsd_bench.measure.timing import PairedTiming, Ratio, paired_timing
from tppsd_bench.protocols import Counts, SampleRequest, SampleRun, SamplerUnderTest, Stop
from tppsd_bench.results import Axis, CellResult, Outcome, Verdict
from tppsd_bench.runner.law_cell import estimate
from tppsd_bench.runner.plan import Job
from tppsd_bench.streams import StreamKey

CACHED, RECOMPUTING, DRAFT_ONLY = "target-only, cached", "target-only, recomputing", "draft-only"
AA_LIMIT = 0.05
PILOT_SEQUENCES = 12
RECOMPUTE_COVERAGE = 0.9


def run_speed_job(job: Job, pair: Any) -> list[tuple[CellResult, dict[str, NDArray[Any]]]]:
    """One cell a pair: CPU and wall speed at every K, batch 1, count-stopped from an empty history, shipped draft."""
    started = time.perf_counter()
    cell, s = job.cells[0], job.sections.speed
    key = StreamKey(seed=job.seed, suite=job.suite, cell=cell.id)
    stop = Stop(n_events=s.length)
    speculative = {k: pair.sampler("speculative", k=k, rule=job.sections.law.rule) for k in s.k}
    cached = pair.sampler("target_only")
    sides = {CACHED: _side(cached, stop, job.device)} | {_name(k): _side(v, stop, job.device) for k, v in speculative.items()}
    rng = key.replace(purpose="timing").generator()
    synchronise = synchroniser(job.device)
    budget = s.budget_seconds and max(0.5, 0.8 * s.budget_seconds)
    timing = paired_timing(
        sides,
        baseline=CACHED,
        rng=rng,
        pairs=s.pairs,
        min_seconds=s.min_seconds,
        synchronise=synchronise,
        budget_seconds=budget,
    )
    best = max(s.k, key=lambda k: timing.ratio(_name(k)).median)
    judged, figures = verdict(timing, best)
    figures |= _figures(timing, list(s.k), best)
    if s.recompute_pairs:
        figures |= _recompute(pair, speculative[best], stop, job, rng, synchronise)
    predicted, law = _predict(job, pair, timing, speculative, key)
    figures |= law
    figures["speedup_by_k"] = [
        {"k": k, **_estimate(timing.ratio(_name(k))), "predicted": float(p)} for k, p in zip(s.k, predicted, strict=True)
    ]
    arrays = {
        "k": np.array(s.k), "log_ratio_cpu": np.stack([timing.log_ratio(_name(k)) for k in s.k], axis=1),
        "log_ratio_wall": np.stack([timing.log_ratio(_name(k), "wall") for k in s.k], axis=1), "predicted": predicted,
    }  # fmt: skip
    result = CellResult(
        cell.id, "speed", job.pair, "shipped", f"{pair.title}: speed", "speculative", best,
        {"n_events": float(s.length)}, job.seed,
        n_events=int(timing.events.sum()), verdicts=(judged,), figures={**figures, "timing": timing.to_dict()},
        arrays=tuple(arrays), seconds=time.perf_counter() - started,
    )  # fmt: skip
    return [(result, arrays)]


def verdict(timing: PairedTiming, best: int) -> tuple[Verdict, dict[str, Any]]:
    """PASS: measured cleanly and decided, either way. INCONCLUSIVE: the machine or the interval does not allow an answer."""
    ratio = timing.ratio(_name(best))
    said = (
        f"{ratio.median:.2f} times the speed of cached target-only sampling at K = {best} "
        f"(CPU time, {100 * ratio.coverage:.4g} % interval {ratio.lower:.2f} to {ratio.upper:.2f})"
    )
    pays = None if timing.unsettled(AA_LIMIT) or ratio.lower <= 1 <= ratio.upper else ratio.lower > 1
    if timing.unsettled(AA_LIMIT):
        sentence = (
            f"The machine is too unsteady to tell (the baseline differs from itself by over {AA_LIMIT:.0%}); run again alone."
        )
    else:
        answer = {True: "Speculation pays", False: "Speculation does not pay", None: "Whether speculation pays is undecided"}
        sentence = f"{answer[pays]}: {said}."
    outcome = Outcome.INCONCLUSIVE if pays is None else Outcome.PASS
    return Verdict(Axis.SPEED, outcome, sentence, n=timing.n_pairs), {"pays": pays, "pays_sentence": sentence}


def synchroniser(device: str) -> Callable[[], None] | None:
    """Waits for the device, so that a clock read after it has seen the work; None on a CPU."""
    if not device.startswith("cuda"):
        return None
    import torch

    return lambda: torch.cuda.synchronize(device)


def _name(k: int) -> str:
    return f"speculative, K = {k}"


def _draw(sampler: SamplerUnderTest, stop: Stop, key: StreamKey, device: str, n: int = 1, trace: bool = False) -> SampleRun:
    return sampler.sample(SampleRequest(n, stop, key, device=device, want_trace=trace))


def _side(sampler: SamplerUnderTest, stop: Stop, device: str) -> Callable[[int], int]:
    def side(seed: int) -> int:
        return _draw(sampler, stop, StreamKey(seed=seed, stage="timing"), device).events.n_events

    return side


def _estimate(ratio: Ratio) -> dict[str, float]:
    return estimate(ratio.median, ratio.lower, ratio.upper)


def _figures(timing: PairedTiming, ks: list[int], best: int) -> dict[str, Any]:
    return {
        "speedup_cpu": _estimate(timing.ratio(_name(best))),
        "speedup_wall": _estimate(timing.ratio(_name(best), "wall")),
        "best_k": best,
        "ks": ks,
        "baseline_ms": 1000 * float(np.median(timing.cpu[:, 0])),
        "speculative_ms": 1000 * float(np.median(timing.cpu[:, timing.sides.index(_name(best))])),
        "aa_ratio": _estimate(timing.ratio("A/A")),
        "n_pairs": timing.n_pairs,
        "note": timing.note,
    }


def _recompute(
    pair: Any,
    speculative: SamplerUnderTest,
    stop: Stop,
    job: Job,
    rng: np.random.Generator,
    synchronise: Callable[[], None] | None,
) -> dict[str, Any]:
    """Few pairs against the baseline that encodes the history anew for every event, as published code does."""
    sides = {
        RECOMPUTING: _side(pair.sampler("target_only_recompute"), stop, job.device),
        "speculative": _side(speculative, stop, job.device),
    }
    pairs, seconds = max(job.sections.speed.recompute_pairs, 5), job.sections.speed.budget_seconds
    timing = paired_timing(
        sides, baseline=RECOMPUTING, rng=rng, pairs=pairs, min_pairs=pairs, min_seconds=0.001, coverage=RECOMPUTE_COVERAGE,
        synchronise=synchronise, budget_seconds=seconds and 0.2 * seconds,
    )  # fmt: skip
    ratio = timing.ratio("speculative")
    return {
        "speedup_recompute": _estimate(ratio),
        "speedup_recompute_wall": _estimate(timing.ratio("speculative", "wall")),
        "recompute_ms": 1000 * float(np.median(timing.cpu[:, 0])),
    }


def _predict(
    job: Job, pair: Any, timing: PairedTiming, samplers: dict[int, SamplerUnderTest], key: StreamKey
) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """(K,) speedups promised by the throughput law from acceptance on other seeds and step costs, and the missed remainder.

    Acceptance is measured by position on a pilot; the draft step is timed as draft-only sampling; what a round costs beside its
    drafts, v(K) + r, is solved from the times of the smallest and the largest K and linear between them.
    """
    s = job.sections.speed
    stop = Stop(n_events=s.length)
    ks = sorted(samplers)
    pilots = {
        k: _draw(samplers[k], stop, key.replace(stage="pilot", arm=_name(k)), job.device, PILOT_SEQUENCES, True) for k in ks
    }
    trace = pilots[ks[-1]].trace
    if trace is None:
        return np.full(len(s.k), np.nan), {}
    alpha = _alpha(trace)
    step = float(np.median(timing.cpu[:, 0]))
    draft = _seconds_per_event(pair.sampler("draft_only"), stop, key, job.device) / step
    overhead = {k: _round_cost(timing, k, pilots[k].counts, step) - draft * k for k in (ks[0], ks[-1])}
    slope = (overhead[ks[-1]] - overhead[ks[0]]) / max(ks[-1] - ks[0], 1)
    verify = tuple(max(overhead[ks[0]] + slope * (k - ks[0]), 1e-6) for k in range(max(ks[-1], 1) + 1))
    costs = StepCosts(draft, verify)
    predictions = {k: predict(alpha, k, costs, n_events=s.length) for k in ks}
    residual = {
        str(k): explain(
            predictions[k], timing.ratio(_name(k)).median, s.length * PILOT_SEQUENCES / max(pilots[k].counts.rounds, 1)
        ).total
        for k in ks
    }
    out = {
        "draft_step": draft, "acceptance_by_position": [float(a) for a in alpha], "prediction_log_residual": residual,
        "prediction": {str(k): p.speedup for k, p in predictions.items()},
        "events_per_forward": {str(k): c.events.n_events / max(c.counts.target_row_forwards, 1) for k, c in pilots.items()},
    }  # fmt: skip
    return np.array([predictions[k].speedup for k in s.k]), out


def _alpha(trace: Any) -> NDArray[np.float64]:
    """(K,) acceptance by position; positions never reached carry the last one's."""
    rates = acceptance_by_position(trace).event.accepted_per_verified
    known = rates[np.isfinite(rates)]
    return np.where(np.isfinite(rates), rates, known[-1] if len(known) else 0.0)


def _round_cost(timing: PairedTiming, k: int, counts: Counts, step: float) -> float:
    """CPU time of a round at K, in target steps, from the measured time per event and the events a round commits."""
    per_event = step / timing.ratio(_name(k)).median
    return per_event * counts.committed / max(counts.rounds, 1) / step


def _seconds_per_event(sampler: SamplerUnderTest, stop: Stop, key: StreamKey, device: str) -> float:
    """Median CPU seconds per event over a few calls, the first left out."""
    times = []
    for i in range(6):
        started = time.process_time()
        n = _draw(sampler, stop, key.replace(stage="draft", seed_epoch=i), device).events.n_events
        times.append((time.process_time() - started) / max(n, 1))
    return max(float(np.median(times[1:])), math.ulp(1.0))
