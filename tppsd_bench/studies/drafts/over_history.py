"""One cell a pair for all drafts: acceptance as a function of how many events came before, and speed of short and long runs.

Everything is paired: the same events of the target's own sequences for every draft, the same seeds for every timed side.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.measure.histories import Histories, ratio_over_sequences
from tppsd_bench.measure.timing import PairedTiming, paired_timing
from tppsd_bench.protocols import SampleRequest, Stop
from tppsd_bench.results import CellResult
from tppsd_bench.runner.calibration import clock_of, pass_seconds
from tppsd_bench.runner.law_cell import estimate
from tppsd_bench.runner.plan import Job
from tppsd_bench.runner.speed_cell import CACHED, synchroniser, timed_side
from tppsd_bench.streams import StreamKey
from tppsd_bench.studies.drafts.jobs import history_of
from tppsd_bench.studies.drafts.table import Drafts, History

FloatArray = NDArray[np.float64]
Filled = tuple[CellResult, dict[str, NDArray[Any]]]
BATCH = 16
SCALES = {"tens": (10, 100), "hundreds": (100, 1000), "thousands": (1000, 10_000)}
"""What is meant by histories of tens, hundreds and thousands of events."""


def counted(job: Job, pair: Any) -> Filled:
    """Exact acceptance of every draft in every bin of history lengths, and the Transformer less the recurrent draft."""
    assert isinstance(job.table, Drafts)
    begun, table = time.perf_counter(), history_of(job)
    key = StreamKey(seed=job.seed, suite=job.suite, cell=job.cells[0].id, arm="target")
    request = SampleRequest(table.sequences, Stop(n_events=table.length), key, device=job.device, want_trace=False)
    events = pair.sampler("target_only", batch_size=BATCH).sample(request).events
    histories = Histories.of(pair.target, events, table.contexts, table.bins)
    bins = _bin_of(histories, table)
    found = {}
    for draft in table.drafts:
        exact = histories.acceptance(pair.drafts[draft])
        values = exact.joint if job.table.rule == "leviathan_joint" else exact.two_step
        found[draft] = _bin_means(histories.by_sequence(values), bins, len(table.bins))
    gap = found[table.transformer] - found[table.recurrent]
    figures: dict[str, Any] = {
        "bins": [{"first": a, "end": b} for a, b in table.bins],
        "acceptance": {draft: [mean_over_sequences(m[:, j]) for j in range(m.shape[1])] for draft, m in found.items()},
        "transformer": table.transformer, "recurrent": table.recurrent,
        "transformer_minus_recurrent": [mean_over_sequences(gap[:, j]) for j in range(gap.shape[1])],
        "scales": {name: scale for name, ends in SCALES.items() if (scale := _at_scale(found, table, ends))},
        "trained_events": int(pair.card.get("train_median_events") or 0),
        "step_ms": _steps(pair, events.select(slice(0, 1)), table, clock_of(job.device, synchroniser(job.device))),
    }  # fmt: skip
    arrays = {f"acceptance_{i}": m for i, m in enumerate(found.values())}
    arrays["edges"] = np.array([a for a, _ in table.bins] + [table.bins[-1][1]])
    cell = job.cells[0]
    result = CellResult(
        cell.id, cell.kind, job.pair, "", f"{pair.title}: acceptance over the length of history", "", None,
        {"n_events": float(table.length)}, job.seed, n_sequences=table.sequences, n_events=events.n_events, figures=figures,
        arrays=tuple(arrays), seconds=time.perf_counter() - begun,
    )  # fmt: skip
    return result, arrays


def mean_over_sequences(values: FloatArray) -> dict[str, float]:
    """{value, low, high} of the mean of one value a sequence, 95 %."""
    return ratio_over_sequences(values, np.ones(len(values)))


def _bin_of(histories: Histories, table: History) -> NDArray[np.int64]:
    """(each,) the bin of every chosen event of a sequence; the same for all sequences."""
    index = histories.by_sequence(histories.events.event_index[histories.at].astype(np.float64))[0]
    return np.asarray(np.searchsorted([a for a, _ in table.bins], index, side="right") - 1, dtype=np.int64)


def _bin_means(values: FloatArray, bins: NDArray[np.int64], n_bins: int) -> FloatArray:
    """(n, bins) of (n, each)."""
    return np.stack([values[:, bins == j].mean(axis=1) for j in range(n_bins)], axis=1)


def _at_scale(found: dict[str, FloatArray], table: History, ends: tuple[int, int]) -> dict[str, Any]:
    """Acceptance at history lengths within ``ends``, every length with the same weight; empty where no bin lies within."""
    inside = [j for j, (a, b) in enumerate(table.bins) if ends[0] <= a and b <= ends[1]]
    if not inside:
        return {}
    width = np.array([table.bins[j][1] - table.bins[j][0] for j in inside], dtype=np.float64)
    each = {draft: m[:, inside] @ width / width.sum() for draft, m in found.items()}
    return {
        "first": table.bins[inside[0]][0], "end": table.bins[inside[-1]][1],
        "acceptance": {draft: mean_over_sequences(v) for draft, v in each.items()},
        "transformer_minus_recurrent": mean_over_sequences(each[table.transformer] - each[table.recurrent]),
    }  # fmt: skip


def _steps(pair: Any, history: Any, table: History, clock: Any) -> dict[str, list[float]]:
    """Milliseconds of a one-event pass at the end of every bin, of target and drafts; empty for models that cannot be stepped."""
    models = {"target": pair.target, **{draft: pair.drafts[draft] for draft in table.drafts}}
    if not all(hasattr(model, name) for model in models.values() for name in ("start", "extend")):
        return {}
    return {
        name: [1000 * pass_seconds(model, history.prefix(b), 1, clock, repeats=15) for _, b in table.bins]
        for name, model in models.items()
    }


def timed(job: Job, pair: Any) -> Filled:
    """Speed over cached target-only sampling in runs of several lengths, and of the Transformer over the recurrent draft."""
    assert isinstance(job.table, Drafts)
    begun, table = time.perf_counter(), history_of(job)
    key = StreamKey(seed=job.seed, suite=job.suite, cell=job.cells[0].id, purpose="timing")
    share = None if table.budget_seconds is None else table.budget_seconds / sum(table.run_lengths)
    by_length, arrays = [], {}
    for m in table.run_lengths:
        budget = None if share is None else share * m
        timing = _timing(job, pair, table, m, key.replace(arm=f"m{m}").generator(), budget)
        by_length.append(_of_length(timing, table, m))
        arrays[f"log_ratio_{m}"] = np.stack([timing.log_ratio(d) for d in table.drafts], axis=1)
    cell = job.cells[0]
    result = CellResult(
        cell.id, cell.kind, job.pair, "", f"{pair.title}: speed of short and long runs", "speculative", table.k,
        {"n_events": float(max(table.run_lengths))}, job.seed,
        figures={"by_length": by_length, "transformer": table.transformer, "recurrent": table.recurrent, "k": table.k},
        arrays=tuple(arrays), seconds=time.perf_counter() - begun,
    )  # fmt: skip
    return result, arrays


def _timing(
    job: Job, pair: Any, table: History, m: int, rng: np.random.Generator, budget: float | None
) -> PairedTiming:  # fmt: skip
    assert isinstance(job.table, Drafts)
    stop = Stop(n_events=m)
    sides = {CACHED: timed_side(pair.sampler("target_only"), stop, job.device)}
    for draft in table.drafts:
        sampler = pair.sampler("speculative", draft=draft, k=table.k, rule=job.table.rule)
        sides[draft] = timed_side(sampler, stop, job.device)
    return paired_timing(
        sides, baseline=CACHED, again=table.recurrent, rng=rng, pairs=table.pairs, min_seconds=0.02, budget_seconds=budget,
        synchronise=synchroniser(job.device), max_warmup=4,
    )  # fmt: skip


def _of_length(timing: PairedTiming, table: History, m: int) -> dict[str, Any]:
    def speed(over: str, sides: Sequence[str]) -> dict[str, dict[str, float]]:
        against = replace(timing, baseline=over)
        ratios = {side: against.ratio(side) for side in sides}
        return {side: estimate(r.median, r.lower, r.upper) for side, r in ratios.items()}

    return {
        "n_events": m, "n_pairs": timing.n_pairs, "speedup": speed(CACHED, table.drafts), "note": timing.note,
        "transformer_over_recurrent": speed(table.recurrent, [table.transformer])[table.transformer],
        "aa_ratio": speed(CACHED, ["A/A"])["A/A"], "baseline_ms": 1000 * float(np.median(timing.cpu[:, 0])),
    }  # fmt: skip
