"""From a promise and what was measured to the figures and arrays of their cells."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.measure.judging import regret
from tppsd_bench.measure.prediction import RunPrediction, loss
from tppsd_bench.protocols import Counts
from tppsd_bench.results import Axis, CellResult, Verdict
from tppsd_bench.runner.law_cell import estimate
from tppsd_bench.runner.plan import Job
from tppsd_bench.runner.speed_cell import CACHED, RECOMPUTING, side_name, verdict
from tppsd_bench.studies.speedup.calibrate import DRAFT, Promise
from tppsd_bench.studies.speedup.measure import Measured
from tppsd_bench.studies.speedup.sites import Site

Filled = tuple[CellResult, dict[str, NDArray[Any]]]


def promise_cell(promise: Promise, pair: Any, job: Job, seconds: float) -> Filled:
    """What the law says of the site, and from what; nothing of it is measured on the site's held-out seeds."""
    site, largest = promise.site, promise.expected[max(promise.site.ks)]
    best = promise.best
    figures = {
        "part": "promise", **_about(site), "by_k": [_promised(promise, k) for k in site.ks],
        "promised_best_k": best.k, "promised_speedup": best.speedup, "promised_pays": best.pays,
        "draft_step": promise.costs.draft, "target_step_ms": 1000 * promise.step_seconds,
        "calibrated_ks": list(promise.calibrated), "sample_sequences": largest.n_sequences,
    }  # fmt: skip
    arrays = {
        "k": np.array(site.ks), "predicted": np.array([promise.predictions[k].speedup for k in site.ks]),
        "alpha": largest.alpha, "verify_k": np.array(promise.costs.verify_k), "verify": np.array(promise.costs.verify),
        "rest_k": np.array(promise.costs.rest_k), "rest": np.array(promise.costs.rest),
    }  # fmt: skip
    title = f"{_title(pair, site)}: promised"
    return _cell(site.promise, title, job, site, best.k, figures, arrays, (), 0, seconds), arrays


def measured_cell(promise: Promise, measured: Measured, pair: Any, job: Job, seconds: float) -> Filled:
    """Speed at every K with intervals, beside its promise; counts; baselines; where the speed went; regret."""
    site, timing, which = promise.site, measured.timing, measured.clock
    judged, said = verdict(timing, list(site.ks), promise.best.k, clock=which)
    if judged.outcome.value == "pass" and not said["pays"]:
        judged = Verdict(Axis.SPEED, judged.outcome, f"{judged.sentence} Sample the target alone.", n=judged.n)
    rows = [_row(promise, measured, k) for k in site.ks]
    by_k = {row["k"]: row for row in rows}
    missed = regret(measured.rounds, site.ks.index(promise.best.k))
    figures = {
        "part": "site", **_about(site), **said, "by_k": rows, "promised_best_k": promise.best.k,
        "speedup_cpu": by_k[said["best_k"]]["cpu"], "speedup_wall": by_k[said["best_k"]]["wall"],
        "promised_k_speedup": by_k[promise.best.k][which],
        "regret": estimate(missed.value, missed.value - 1.96 * missed.standard_error, missed.value + 1.96 * missed.standard_error),
        "baselines": {name: _baseline(measured, name) for name in (CACHED, RECOMPUTING, DRAFT)},
        "aa_ratio": estimate(*_ratio(measured, "A/A", which)), "n_pairs": timing.n_pairs, "note": timing.note, "clock": which,
        "peak_megabytes": measured.peak_bytes / 1e6, "peak_is_own": measured.peak_is_own,
    }  # fmt: skip
    arrays: dict[str, NDArray[Any]] = {
        "k": np.array(site.ks), "log_ratio_cpu": _columns(measured, "cpu"), "log_ratio_wall": _columns(measured, "wall"),
        "log_round_cost": measured.rounds.log_cost, "events": measured.rounds.events, "rounds": measured.rounds.rounds,
        "promised_alpha": promise.expected[max(site.ks)].alpha,
    }  # fmt: skip
    if measured.positions is not None:
        p = measured.positions
        arrays |= {"position_drafted": p.drafted, "position_verified": p.verified, "position_accepted": p.accepted}
    events = int(timing.events.sum())
    cell = _cell(
        site.cell, f"{_title(pair, site)}: measured", job, site, said["best_k"], figures, arrays, (judged,), events, seconds
    )
    return cell, arrays


def _title(pair: Any, site: Site) -> str:
    return f"{pair.title}, draft {site.draft}, batch {site.batch}, {site.length} events"


def _cell(
    name: str, title: str, job: Job, site: Site, k: int, figures: dict[str, Any], arrays: dict[str, Any],
    verdicts: tuple[Verdict, ...], events: int, seconds: float,
) -> CellResult:  # fmt: skip
    return CellResult(
        name, "speedup-time", job.pair, site.draft, title, "speculative", k, {"n_events": float(site.length)}, job.seed,
        n_events=events, verdicts=verdicts, figures=figures, arrays=tuple(arrays), seconds=seconds,
    )  # fmt: skip


def _about(site: Site) -> dict[str, Any]:
    return {"site": {"pair": site.pair, "draft": site.draft, "batch": site.batch, "length": site.length}}


def _promised(promise: Promise, k: int) -> dict[str, Any]:
    p = promise.predictions[k]
    return {
        "k": k, "speedup": p.speedup, "rounds": p.rounds, "rounds_error": promise.expected[k].rounds_error,
        "committed_per_round": p.committed_per_round, "drafted_per_round": p.drafted_per_round, "draft_cost": p.draft_cost,
        "verify_cost": p.verify_cost, "rest_cost": p.rest_cost, "verify_growth": p.verify_growth, "rounds_timed": k in promise.calibrated,
    }  # fmt: skip


def _row(promise: Promise, measured: Measured, k: int) -> dict[str, Any]:
    """One K: the paired ratios, the law's residual by cause, counts, and where the speed went."""
    j, name, counts = promise.site.ks.index(k), side_name(k), measured.counts[k]
    p, low, high = promise.predictions[k], *measured.rounds.log_speed_interval()
    log_speed, pooled = float(measured.rounds.log_speed()[j]), float(measured.rounds.events_per_round()[0][j])
    acceptance, error = math.log(pooled / p.committed_per_round), log_speed - math.log(p.speedup)
    column = measured.timing.sides.index(name)
    return {
        "k": k, "cpu": estimate(*_ratio(measured, name, "cpu")), "wall": estimate(*_ratio(measured, name, "wall")),
        "speedup": estimate(math.exp(log_speed), math.exp(low[j]), math.exp(high[j])),
        "promised": p.speedup, "error": error, "error_of_acceptance": acceptance, "error_of_costs": error - acceptance,
        "rounds_timed": k in promise.calibrated, "loss": _losses(p, k, pooled, pooled / math.exp(log_speed)),
        "ms_per_event": {
            "cpu": 1000 * float(np.median(measured.timing.cpu[:, column])),
            "wall": 1000 * float(np.median(measured.timing.wall[:, column])),
        },
        "draft_cost": p.draft_cost, "verify_growth": p.verify_growth,
        "committed_per_round": pooled, "promised_committed_per_round": p.committed_per_round,
        "accepted_per_verified": counts.accepted / max(counts.verified, 1),
        "accepted_per_drafted": counts.accepted / max(counts.drafted, 1),
        "target_forwards_per_event": counts.target_row_forwards / max(counts.committed, 1),
        "draft_forwards_per_event": counts.draft_row_forwards / max(counts.committed, 1),
        "counts": _counts(counts),
    }  # fmt: skip


def _losses(p: RunPrediction, k: int, committed: float, round_cost: float) -> dict[str, float]:
    """Of what was measured: drafts and passes at their calibrated costs, what else the measured round took as overhead."""
    parts = loss(k, committed, p.draft_cost, p.verify_growth, round_cost)
    return {**asdict(parts), "total": parts.total}


def _counts(counts: Counts) -> dict[str, int]:
    return {name: value for name, value in asdict(counts).items() if value}


def _ratio(measured: Measured, name: str, clock: Any) -> tuple[float, float, float]:
    r = measured.timing.ratio(name, clock)
    return r.median, r.lower, r.upper


def _columns(measured: Measured, clock: Any) -> NDArray[np.float64]:
    sides = [s for s in measured.timing.sides if s.startswith("speculative")]
    return np.stack([measured.timing.log_ratio(s, clock) for s in sides], axis=1)


def _baseline(measured: Measured, name: str) -> dict[str, Any]:
    """Milliseconds per event, and speed relative to the cached target-only sampler."""
    column = measured.timing.sides.index(name)
    out: dict[str, Any] = {
        "cpu_ms": 1000 * float(np.median(measured.timing.cpu[:, column])),
        "wall_ms": 1000 * float(np.median(measured.timing.wall[:, column])),
    }
    if name != CACHED:
        out["speed"] = estimate(*_ratio(measured, name, measured.clock))
    return out
