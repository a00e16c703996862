"""Speed cells: paired times of speculative sampling against two target-only baselines, beside what the throughput law promised.

Order: calibrate on seeds of their own and freeze (``calibration``); time every K against cached target-only sampling in pairs, on
fresh seeds; a few short pairs against recomputing. The K that is shown is the calibration's choice unless only another one pays.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.measure.throughput import explain, outcome_probabilities
from tppsd_bench.measure.timing import Clock, PairedTiming, Ratio, fewest_pairs, paired_timing
from tppsd_bench.protocols import Counts, SampleRequest, SamplerUnderTest, Stop
from tppsd_bench.results import Axis, CellResult, Outcome, Verdict
from tppsd_bench.runner.calibration import Calibration, calibrate, clock_of
from tppsd_bench.runner.law_cell import estimate
from tppsd_bench.runner.plan import Job
from tppsd_bench.streams import StreamKey

CACHED, RECOMPUTING = "target-only, cached", "target-only, recomputing"
AA_LIMIT = 0.05
RECOMPUTE_COVERAGE = 0.9
RECOMPUTE_EVENTS = 32
"""Length of the runs against the recomputing baseline: its cost per event grows with the history, so this flatters it."""
RECOMPUTE_SHARE = 0.2
"""Of the cell's time budget."""


def side_name(k: int) -> str:
    """What the shipped draft's side is called among the timed ones."""
    return f"speculative, K = {k}"


def run_speed_job(job: Job, pair: Any) -> list[tuple[CellResult, dict[str, NDArray[Any]]]]:
    """One cell a pair: CPU and wall speed at every K, batch 1, count-stopped from an empty history, shipped draft."""
    started = time.perf_counter()
    cell, s = job.cells[0], job.sections.speed
    key = StreamKey(seed=job.seed, suite=job.suite, cell=cell.id)
    synchronise = synchroniser(job.device)
    calibration = calibrate(pair, s.k, job.sections.law.rule, s.length, key, job.device, clock_of(job.device, synchronise))
    best = calibration.best_k
    speculative = {k: pair.sampler("speculative", k=k, rule=job.sections.law.rule) for k in s.k}
    rng = key.replace(purpose="timing").generator()
    recomputed: dict[str, Any] = {}
    if s.recompute_pairs:
        recomputed = _recompute(pair, speculative[best], job, rng, synchronise)
    counted = {k: Counts() for k in s.k}
    stop = Stop(n_events=s.length)
    sides = {CACHED: timed_side(pair.sampler("target_only"), stop, job.device)}
    sides |= {side_name(k): timed_side(v, stop, job.device, counted[k]) for k, v in speculative.items()}
    budget = s.budget_seconds and max(0.1, s.budget_seconds - (time.perf_counter() - started))
    timing = paired_timing(
        sides, baseline=CACHED, again=side_name(best), rng=rng, pairs=s.pairs, min_seconds=s.min_seconds,
        synchronise=synchronise, budget_seconds=budget,
    )  # fmt: skip
    judged, figures = verdict(timing, list(s.k), best)
    predicted = {k: calibration.predict(k) for k in s.k}
    best = figures["best_k"]
    figures |= _figures(timing, list(s.k), best) | recomputed | _law(timing, calibration, counted, best)
    figures["speedup_by_k"] = [
        {"k": k, **_estimate(timing.ratio(side_name(k))), "predicted": predicted[k].speedup} for k in s.k
    ]
    arrays: dict[str, NDArray[Any]] = {
        "k": np.array(s.k), "log_ratio_cpu": np.stack([timing.log_ratio(side_name(k)) for k in s.k], axis=1),
        "log_ratio_wall": np.stack([timing.log_ratio(side_name(k), "wall") for k in s.k], axis=1),
        "predicted": np.array([predicted[k].speedup for k in s.k]),
    }  # fmt: skip
    if len(calibration.cost_history):
        arrays |= {"cost_history": calibration.cost_history, "cost_ms": calibration.cost_ms}
    result = CellResult(
        cell.id, "speed", job.pair, "shipped", f"{pair.title}: speed", "speculative", best,
        {"n_events": float(s.length)}, job.seed,
        n_events=int(timing.events.sum()), verdicts=(judged,), figures={**figures, "timing": timing.to_dict()},
        arrays=tuple(arrays), seconds=time.perf_counter() - started,
    )  # fmt: skip
    return [(result, arrays)]


def verdict(
    timing: PairedTiming, ks: list[int], best: int, side: Callable[[int], str] = side_name, clock: Clock = "cpu"
) -> tuple[Verdict, dict[str, Any]]:
    """PASS: measured cleanly and decided, either way. INCONCLUSIVE: the machine or the intervals do not allow an answer.

    It pays where some K's whole interval lies above 1, and does not where every K's lies below. ``side`` names the timed side of a K.
    """
    ratios = {k: timing.ratio(side(k), clock) for k in ks}
    shown = best if ratios[best].lower > 1 else max(ks, key=lambda k: ratios[k].lower)
    r = ratios[shown]
    said = f"{r.median:.2f} times cached target-only at K = {shown} ({clock.replace('cpu', 'CPU')} time, {r.lower:.2f} to {r.upper:.2f})"
    pays = True if r.lower > 1 else False if all(x.upper < 1 for x in ratios.values()) else None
    if timing.unsettled(AA_LIMIT, clock):
        pays, sentence = None, f"The machine is too unsteady to tell: one sampler differs from itself by over {AA_LIMIT:.0%}."
    elif pays is None:
        sentence = f"Whether speculation pays is undecided: {said}."
    else:
        sentence = f"Speculation pays: {said}." if pays else f"Speculation does not pay at any K timed: at best {said}."
    outcome = Outcome.INCONCLUSIVE if pays is None else Outcome.PASS
    return Verdict(Axis.SPEED, outcome, sentence, n=timing.n_pairs), {"pays": pays, "pays_sentence": sentence, "best_k": shown}


def synchroniser(device: str) -> Callable[[], None] | None:
    """Waits for the device, so that a clock read after it has seen the work; None on a CPU."""
    if not device.startswith("cuda"):
        return None
    import torch

    return lambda: torch.cuda.synchronize(device)


def timed_side(sampler: SamplerUnderTest, stop: Stop, device: str, counts: Counts | None = None) -> Callable[[int], int]:
    """One sequence from a seed; its counts are added to ``counts``."""

    def side(seed: int) -> int:
        run = sampler.sample(SampleRequest(1, stop, StreamKey(seed=seed, stage="timing"), device=device, want_trace=False))
        if counts is not None:
            counts.committed += run.counts.committed
            counts.rounds += run.counts.rounds
            counts.target_row_forwards += run.counts.target_row_forwards
        return run.events.n_events

    return side


def _estimate(ratio: Ratio) -> dict[str, float]:
    return estimate(ratio.median, ratio.lower, ratio.upper)


def _figures(timing: PairedTiming, ks: list[int], best: int) -> dict[str, Any]:
    return {
        "speedup_cpu": _estimate(timing.ratio(side_name(best))),
        "speedup_wall": _estimate(timing.ratio(side_name(best), "wall")),
        "ks": ks,
        "baseline_ms": 1000 * float(np.median(timing.cpu[:, 0])),
        "speculative_ms": 1000 * float(np.median(timing.cpu[:, timing.sides.index(side_name(best))])),
        "aa_ratio": _estimate(timing.ratio("A/A")),
        "n_pairs": timing.n_pairs,
        "note": timing.note,
    }


def _recompute(
    pair: Any, speculative: SamplerUnderTest, job: Job, rng: np.random.Generator, synchronise: Callable[[], None] | None
) -> dict[str, Any]:
    """Few short pairs against the baseline that encodes the history anew for every event, as published code does."""
    s = job.sections.speed
    stop = Stop(n_events=min(s.length, RECOMPUTE_EVENTS))
    sides = {
        RECOMPUTING: timed_side(pair.sampler("target_only_recompute"), stop, job.device),
        "speculative": timed_side(speculative, stop, job.device),
    }
    pairs = max(s.recompute_pairs, fewest_pairs(RECOMPUTE_COVERAGE))
    timing = paired_timing(
        sides, baseline=RECOMPUTING, again="speculative", rng=rng, pairs=pairs, min_pairs=fewest_pairs(RECOMPUTE_COVERAGE),
        min_seconds=0.001, coverage=RECOMPUTE_COVERAGE, synchronise=synchronise, max_warmup=1,
        budget_seconds=s.budget_seconds and RECOMPUTE_SHARE * s.budget_seconds,
    )  # fmt: skip
    return {
        "speedup_recompute": _estimate(timing.ratio("speculative")),
        "speedup_recompute_wall": _estimate(timing.ratio("speculative", "wall")),
        "recompute_ms": 1000 * float(np.median(timing.cpu[:, 0])),
        "recompute_events": stop.n_events,
        "recompute_pairs": timing.n_pairs,
    }


def _law(timing: PairedTiming, calibration: Calibration, counted: dict[int, Counts], k_shown: int) -> dict[str, Any]:
    """The law's frozen inputs, its promises, and what was missed of them: by acceptance or by overhead."""
    costs, promises, measured, missed = calibration.costs, {}, {}, {}
    for k, counts in counted.items():
        prediction = calibration.predict(k)
        promises[str(k)] = calibration.alpha.events_per_forward(calibration.n_events, k)
        measured[str(k)] = counts.committed / max(counts.target_row_forwards, 1)
        split = explain(prediction, timing.ratio(side_name(k)).median, counts.committed / max(counts.rounds, 1))
        missed[str(k)] = {"acceptance": split.acceptance, "overhead": split.overhead, "total": split.total}
    best = str(k_shown)
    return {
        "calibrated_k": calibration.best_k,
        "alpha_quadrature": estimate(*calibration.alpha.interval),
        "draft_step": costs.draft,
        "verify_step": {str(k): costs.verify[k] for k in counted},
        "rest_step": costs.rest,
        "step_costs_from": "calibration seeds; v(K) timed apart" if calibration.verify_timed
        else "calibration seeds; v(K) and r known together only",
        "target_step_ms": 1000 * calibration.step_seconds,
        "events_per_forward": measured[best],
        "promised_events_per_forward": promises[best],
        "share_of_promised": _share(counted[k_shown], calibration, k_shown),
        "events_per_forward_by_k": measured,
        "promised_events_per_forward_by_k": promises,
        "prediction_log_residual": missed,
    }  # fmt: skip


def _share(counts: Counts, calibration: Calibration, k: int) -> dict[str, float]:
    """Events a forward over those promised, with a 95 % interval for the luck of the rounds counted."""
    share = (
        counts.committed / max(counts.target_row_forwards, 1) / calibration.alpha.events_per_forward(calibration.n_events, k)
    )
    p = outcome_probabilities(calibration.alpha.value, k)
    mean = float(p @ np.arange(1, k + 2))
    spread = math.sqrt(max(float(p @ np.arange(1, k + 2) ** 2) - mean**2, 0.0)) / mean
    half = 1.959963984540054 * spread / math.sqrt(max(counts.rounds, 1))
    return estimate(share, share * math.exp(-half), share * math.exp(half))
