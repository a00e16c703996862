"""Cells of a pair's drafts that measure time: every draft and K beside cached target-only sampling in the same pairs, batch 1.

Step costs, acceptance and the best K of each draft come from calibration seeds and are frozen before the first pair is timed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.measure.timing import PairedTiming, paired_timing
from tppsd_bench.protocols import Counts, Stop
from tppsd_bench.results import CellResult
from tppsd_bench.runner.calibration import Calibration, calibrate, clock_of, target_costs
from tppsd_bench.runner.law_cell import estimate
from tppsd_bench.runner.plan import CellSpec, Job
from tppsd_bench.runner.speed_cell import CACHED, synchroniser, timed_side, verdict
from tppsd_bench.streams import StreamKey
from tppsd_bench.studies.drafts.table import TIMED, Drafts


def side_of(draft: str, k: int) -> str:
    """What a draft at one K is called among the timed sides."""
    return f"{draft}, K = {k}"


def run(job: Job, pair: Any) -> Iterator[tuple[CellResult, dict[str, NDArray[Any]]]]:
    """One cell a draft; all are timed together."""
    assert isinstance(job.table, Drafts)
    begun, table = time.perf_counter(), job.table
    key, stop = StreamKey(seed=job.seed, suite=job.suite, cell=f"{TIMED}.{job.pair}"), Stop(n_events=job.length)
    synchronise = synchroniser(job.device)
    clock, names = clock_of(job.device, synchronise), [cell.draft for cell in job.cells]
    target = target_costs(pair, table.k, job.length, key, job.device, clock)
    calibrated = {
        name: calibrate(pair, table.k, table.rule, job.length, key, job.device, clock, draft=name, target=target)
        for name in names
    }
    counts = {(name, k): Counts() for name in names for k in table.k}
    sides = {CACHED: timed_side(pair.sampler("target_only"), stop, job.device)}
    for (name, k), into in counts.items():
        sampler = pair.sampler("speculative", draft=name, k=k, rule=table.rule)
        sides[side_of(name, k)] = timed_side(sampler, stop, job.device, into)
    timing = paired_timing(
        sides, baseline=CACHED, again=side_of(names[0], calibrated[names[0]].best_k),
        rng=key.replace(purpose="timing").generator(), pairs=table.time.pairs, min_seconds=table.time.min_seconds,
        synchronise=synchronise, budget_seconds=table.time.budget_seconds,
    )  # fmt: skip
    each = (time.perf_counter() - begun) / len(names)
    for cell in job.cells:
        mine = {k: counts[cell.draft, k] for k in table.k}
        yield _cell(cell, job, pair, timing, calibrated[cell.draft], mine, each)


def _cell(
    cell: CellSpec,
    job: Job,
    pair: Any,
    timing: PairedTiming,
    calibration: Calibration,
    counts: dict[int, Counts],
    seconds: float,
) -> tuple[CellResult, dict[str, NDArray[Any]]]:
    ks, best = list(counts), calibration.best_k
    sides = {k: side_of(cell.draft, k) for k in ks}
    judged, said = verdict(timing, ks, best, sides.__getitem__)
    by_k = [
        {
            "k": k, **_speed(timing, sides[k]), "predicted": calibration.predict(k).speedup,
            "draft_share": calibration.draft_share(k),
            "events_per_forward": counts[k].committed / max(counts[k].target_row_forwards, 1),
        }
        for k in ks
    ]  # fmt: skip
    value, low, high = calibration.alpha.interval
    costs = calibration.costs
    figures = {
        "best_k": best, "calibrated_ms": 1000 * calibration.seconds_per_event[best],
        "speedup_cpu": _speed(timing, sides[best]), "speedup_wall": _speed(timing, sides[best], "wall"),
        "pays": said["pays"], "pays_sentence": said["pays_sentence"], "speedup_by_k": by_k,
        "draft_share": calibration.draft_share(best), "draft_step": costs.draft, "rest_step": costs.rest,
        "verify_step": {str(k): costs.verify[k] for k in ks}, "target_step_ms": 1000 * calibration.step_seconds,
        "verify_timed": calibration.verify_timed, "alpha_quadrature": estimate(value, low, high),
        "baseline_ms": 1000 * float(np.median(timing.cpu[:, 0])), "aa_ratio": _speed(timing, "A/A"),
        "n_pairs": timing.n_pairs, "coverage": timing.coverage, "note": timing.note,
    }  # fmt: skip
    arrays: dict[str, NDArray[Any]] = {
        "k": np.array(ks),
        "log_ratio_cpu": np.stack([timing.log_ratio(side) for side in sides.values()], axis=1),
        "log_ratio_wall": np.stack([timing.log_ratio(side, "wall") for side in sides.values()], axis=1),
    }
    result = CellResult(
        cell.id, cell.kind, job.pair, cell.draft, f"{pair.title}: draft {cell.draft}, time", "speculative", best,
        {"n_events": float(job.length)}, job.seed, n_events=int(timing.events[:, 0].sum()), verdicts=(judged,),
        figures=figures, arrays=tuple(arrays), seconds=seconds,
    )  # fmt: skip
    return result, arrays


def _speed(timing: PairedTiming, side: str, clock: Any = "cpu") -> dict[str, float]:
    ratio = timing.ratio(side, clock)
    return estimate(ratio.median, ratio.lower, ratio.upper)
