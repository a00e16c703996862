"""Packed or padded, cached or recomputed: four ways to continue histories of very unequal lengths in batches, side by side.

*Packed* cuts the batches from the requests sorted by length, *as they come* from the requests in random order: every sequence is drawn by
itself, so the order changes no law. *Recomputed* encodes each history anew in every pass, padded to the longest of its batch.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.events import EventBatch
from tppsd_bench.measure.timing import PairedTiming, order_statistic_ranks, paired_timing
from tppsd_bench.protocols import SampleRequest, Stop
from tppsd_bench.results import CellResult
from tppsd_bench.runner.law_cell import estimate
from tppsd_bench.runner.plan import CellSpec, Job
from tppsd_bench.runner.speed_cell import synchroniser
from tppsd_bench.streams import StreamKey
from tppsd_bench.studies.speedup.calibrate import COVERAGE
from tppsd_bench.studies.speedup.sides import TimedRuns
from tppsd_bench.studies.speedup.table import Packing, Speedup

CACHED, RECOMPUTED, PACKED, UNPACKED = "cached", "recomputed", "packed", "as they come"
_KINDS = {CACHED: "speculative", RECOMPUTED: "speculative_recompute"}


def arm(cache: str, order: str) -> str:
    return f"{cache}, {order}"


def unequal_histories(histories: EventBatch, p: Packing) -> EventBatch:
    """Prefixes of the sequences with lengths spread evenly in the logarithm, shortest first."""
    lengths = np.round(np.geomspace(p.shortest, p.longest, p.sequences)).astype(np.int64)
    keep = histories.event_index < np.repeat(lengths, histories.lengths)
    return EventBatch(histories.gaps[keep], histories.types[keep], lengths, histories.n_types, None)


def run_packing(job: Job, cell: CellSpec, pair: Any) -> tuple[CellResult, dict[str, NDArray[Any]]]:
    """Four arms in pairs: CPU time per event drawn, padded positions, and what cache and packing gain."""
    assert isinstance(job.table, Speedup)
    started, p = time.perf_counter(), job.table.packing
    key = StreamKey(seed=job.seed, suite=job.suite, cell=cell.id)
    request = SampleRequest(
        p.sequences, Stop(n_events=p.longest), key.replace(stage="calibration"), device=job.device, want_trace=False
    )
    packed = unequal_histories(pair.sampler("target_only").sample(request).events, p)
    rng = key.replace(purpose="timing").generator()
    prompts = {PACKED: packed, UNPACKED: packed.select(rng.permutation(p.sequences))}
    sides = {
        arm(cache, order): TimedRuns(
            pair.sampler(kind, k=p.k, rule=job.table.rule, batch_size=p.batch), p.sequences, Stop(n_events=p.events), job.device,
            prompt=prompt,
        )
        for cache, kind in _KINDS.items()
        for order, prompt in prompts.items()
    }  # fmt: skip
    base = arm(CACHED, PACKED)
    timing = paired_timing(
        sides, baseline=base, rng=rng, pairs=p.pairs_timed, min_pairs=6, min_seconds=1e-6, coverage=COVERAGE,
        synchronise=synchroniser(job.device), max_warmup=1,
    )  # fmt: skip
    figures = {
        "part": "packing", "sentence": "", "batch": p.batch, "sequences": p.sequences, "shortest": p.shortest, "longest": p.longest,
        "arms": [_row(name, side, timing) for name, side in sides.items()],
        "cache_gain": {o: _gain(timing, arm(RECOMPUTED, o), arm(CACHED, o)) for o in (PACKED, UNPACKED)},
        "packing_gain": {c: _gain(timing, arm(c, UNPACKED), arm(c, PACKED)) for c in (CACHED, RECOMPUTED)},
        "aa_ratio": estimate(*_ends(timing.log_ratio("A/A"))), "n_pairs": timing.n_pairs,
    }  # fmt: skip
    figures["sentence"] = _sentence(figures)
    arrays = {"cpu": timing.cpu, "wall": timing.wall}
    result = CellResult(
        cell.id, cell.kind, job.pair, "shipped", f"{pair.title}: packing and caching", "speculative", p.k,
        {"n_events": float(p.events)}, job.seed, p.sequences, int(timing.events.sum()), figures=figures, arrays=tuple(arrays),
        seconds=time.perf_counter() - started,
    )  # fmt: skip
    return result, arrays


def _row(name: str, side: TimedRuns, timing: PairedTiming) -> dict[str, Any]:
    counts, encoded = side.counts, getattr(getattr(side.sampler, "target", None), "encoded", None)
    positions, padded = counts.target_positions, counts.target_padded_positions
    if encoded is not None:
        positions, padded = encoded.positions, encoded.padded
    return {
        "arm": name,
        "ms_per_event": 1000 * float(np.median(timing.cpu[:, timing.sides.index(name)])),
        "positions_per_event": positions / max(counts.committed, 1),
        "padded_share": padded / max(positions + padded, 1),
        "target_row_forwards": counts.target_row_forwards,
    }


def _gain(timing: PairedTiming, slow: str, fast: str) -> dict[str, float]:
    """How many times faster ``fast`` is than ``slow``, CPU time, pair by pair."""
    columns = [timing.sides.index(name) for name in (slow, fast)]
    return estimate(*_ends(np.log(timing.cpu[:, columns[0]] / timing.cpu[:, columns[1]])))


def _ends(logs: NDArray[np.float64]) -> tuple[float, float, float]:
    low, high = order_statistic_ranks(len(logs), COVERAGE)
    ordered = np.sort(logs)
    median, lower, upper = np.exp([np.median(ordered), ordered[low - 1], ordered[high - 1]])
    return float(median), float(lower), float(upper)


def _sentence(figures: dict[str, Any]) -> str:
    cache, packing = list(figures["cache_gain"].values()), list(figures["packing_gain"].values())
    least, most = min(g["low"] for g in cache), max(g["high"] for g in packing)
    more = (
        "more" if least > most else "less" if max(g["high"] for g in cache) < min(g["low"] for g in packing) else "undecidedly"
    )
    said = {"more": "Caching gains more than packing", "less": "Packing gains more than caching"}.get(
        more, "Whether caching or packing gains more is undecided"
    )
    return (
        f"{said}: {min(g['value'] for g in cache):.2f} times and more from a cache (interval from {least:.2f}), at most "
        f"{max(g['value'] for g in packing):.2f} times from sorting by length (interval up to {most:.2f})."
    )
