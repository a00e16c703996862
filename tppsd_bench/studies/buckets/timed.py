"""Timed cells: speculative over cached target-only sampling of the same tokens, by K, and against speculation in continuous time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.measure.timing import PairedTiming, Ratio, order_statistic_ranks, paired_timing
from tppsd_bench.protocols import Stop
from tppsd_bench.results import Axis, CellResult, Outcome, Verdict
from tppsd_bench.runner.plan import CellSpec
from tppsd_bench.runner.speed_cell import AA_LIMIT, CACHED, side_name, synchroniser, timed_side
from tppsd_bench.studies.buckets.contexts import Contexts
from tppsd_bench.studies.buckets.jobs import CONTINUOUS
from tppsd_bench.studies.buckets.table import Timed

PLAIN = "speculative in continuous time"
COVERAGE, HALF_COVERAGE = 0.95, 0.9
Filled = tuple[CellResult, dict[str, NDArray[Any]]]


def timed_cells(cells: tuple[CellSpec, ...], contexts: Contexts) -> Iterator[Filled]:
    """One cell after the other; buckets are fitted to the same gaps for all."""
    for cell in cells:
        yield _cell(cell, contexts)


def _cell(cell: CellSpec, contexts: Contexts) -> Filled:
    started = time.perf_counter()
    table, job, pair = contexts.table, contexts.job, contexts.pair
    timed = table.time
    assert timed is not None
    strategy, n = point_of(cell.id)
    tokens = pair if strategy == CONTINUOUS else contexts.lab.pair(pair, contexts.buckets(strategy, n))
    stop, middle = Stop(n_events=timed.length), timed.k[len(timed.k) // 2]
    samplers = {CACHED: tokens.sampler("target_only")}
    samplers |= {side_name(k): tokens.sampler("speculative", draft=cell.draft, k=k, rule=table.rule) for k in timed.k}
    if strategy != CONTINUOUS:
        samplers[PLAIN] = pair.sampler("speculative", draft=cell.draft, k=middle, rule=table.rule)
    timing = paired_timing(
        {name: timed_side(sampler, stop, job.device) for name, sampler in samplers.items()}, baseline=CACHED,
        again=side_name(middle), rng=contexts.key(cell.id, "timing").generator(), pairs=timed.pairs_timed,
        min_seconds=timed.min_seconds, coverage=COVERAGE, synchronise=synchroniser(job.device), budget_seconds=timed.seconds,
    )  # fmt: skip
    figures = _figures(timing, timed, strategy, n) | {"length": timed.length, "rule": table.rule}
    arrays = {
        "k": np.array(timed.k), "log_ratio_cpu": np.stack([timing.log_ratio(side_name(k)) for k in timed.k], axis=1),
        "log_ratio_wall": np.stack([timing.log_ratio(side_name(k), "wall") for k in timed.k], axis=1),
    }  # fmt: skip
    result = CellResult(
        cell.id, cell.kind, job.pair, cell.draft, f"{pair.title}: {_title(strategy, n)}", f"speculative ({table.rule})",
        figures["best_k"], {"n_events": float(timed.length)}, job.seed, n_events=int(timing.events.sum()),
        verdicts=(_verdict(timing, figures),), figures=figures, arrays=tuple(arrays), seconds=time.perf_counter() - started,
    )  # fmt: skip
    return result, arrays


def point_of(cell_id: str) -> tuple[str, int]:
    """(strategy, number of buckets) of a timed cell; (``continuous``, 0) for the pair without buckets."""
    *_, strategy, number = cell_id.split(".")
    return (strategy, int(number)) if number.isdecimal() else (CONTINUOUS, 0)


def _title(strategy: str, n: int) -> str:
    return "continuous time" if strategy == CONTINUOUS else f"{n} {strategy} buckets"


def _estimate(ratio: Ratio) -> dict[str, float]:
    return {"value": ratio.median, "low": ratio.lower, "high": ratio.upper}


def _figures(timing: PairedTiming, timed: Timed, strategy: str, n: int) -> dict[str, Any]:
    best, quoted = chosen(timing, timed.k)
    out: dict[str, Any] = {
        "strategy": strategy, "buckets": n, "ks": list(timed.k), "best_k": best, "speedup_cpu": quoted,
        "speedup_by_k": [
            {"k": k, **_estimate(timing.ratio(side_name(k))), "wall": _estimate(timing.ratio(side_name(k), "wall"))}
            for k in timed.k
        ],
        "baseline_ms": 1000 * float(np.median(timing.cpu[:, 0])),
        "speculative_ms": 1000 * float(np.median(timing.cpu[:, timing.sides.index(side_name(best))])),
        "aa_ratio": _estimate(timing.ratio("A/A")), "n_pairs": timing.n_pairs, "note": timing.note,
    }  # fmt: skip
    if PLAIN in timing.sides:
        middle = timed.k[len(timed.k) // 2]
        logs = timing.log_ratio(side_name(middle)) - timing.log_ratio(PLAIN)
        out["over_continuous"] = median_of(logs, COVERAGE) | {"k": middle}
    return out


def chosen(timing: PairedTiming, ks: list[int]) -> tuple[int, dict[str, float]]:
    """(best K, its speedup): chosen on the pairs of even number, quoted from the others, so that the choice flatters nothing."""
    logs = {k: timing.log_ratio(side_name(k)) for k in ks}
    best = max(ks, key=lambda k: float(np.median(logs[k][::2])))
    return best, median_of(logs[best][1::2], HALF_COVERAGE)


def median_of(logs: NDArray[np.float64], coverage: float) -> dict[str, float]:
    """{value, low, high} of exp(median), by order statistics."""
    ordered = np.sort(logs)
    low, high = order_statistic_ranks(len(ordered), coverage)
    values = np.exp([float(np.median(ordered)), ordered[low - 1], ordered[high - 1]])
    return dict(zip(("value", "low", "high"), map(float, values), strict=True))


def _verdict(timing: PairedTiming, figures: dict[str, Any]) -> Verdict:
    s = figures["speedup_cpu"]
    said = (
        f"{s['value']:.2f} times cached target-only at K = {figures['best_k']} (CPU time, {s['low']:.2f} to {s['high']:.2f})."
    )
    if timing.unsettled(AA_LIMIT):
        said = f"The machine is too unsteady to tell: one sampler differs from itself by over {AA_LIMIT:.0%}."
        return Verdict(Axis.SPEED, Outcome.INCONCLUSIVE, said, n=timing.n_pairs)
    return Verdict(Axis.SPEED, Outcome.PASS, said, n=timing.n_pairs)
