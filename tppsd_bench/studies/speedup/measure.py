"""The held-out half of a site: every K and the three baselines in pairs, counts of all of it, and a traced run for the positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tppsd_bench.measure.acceptance import PositionRates, acceptance_by_position
from tppsd_bench.measure.judging import TimedRounds
from tppsd_bench.measure.memory import forget_peak, peak_bytes
from tppsd_bench.measure.timing import Clock, PairedTiming, paired_timing
from tppsd_bench.protocols import Counts, SampleRequest, Stop
from tppsd_bench.runner.calibration import clock_of
from tppsd_bench.runner.speed_cell import CACHED, RECOMPUTING, side_name, synchroniser
from tppsd_bench.streams import StreamKey
from tppsd_bench.studies.speedup.calibrate import COVERAGE, DRAFT, SAMPLE_BATCH, Promise, Sample
from tppsd_bench.studies.speedup.sides import Counted, TimedRuns, filled, share_of_seconds, timed_rounds
from tppsd_bench.studies.speedup.table import Speedup

RECOMPUTED_EVENTS = {False: 4, True: 2}
"""Events that the recomputing baseline draws, after half a run of history; fewer on long ones."""
_LONG = 1000


@dataclass(frozen=True)
class Measured:
    """What a site's held-out runs gave."""

    timing: PairedTiming
    clock: Clock
    """The clock that decides: CPU time, or wall time on a device."""
    counts: dict[int, Counts]
    """By K, of every run at it."""
    rounds: TimedRounds
    """The K's side by side."""
    positions: PositionRates | None
    """Events by position in the round, at the largest K."""
    peak_bytes: int
    peak_is_own: bool
    """Whether the peak belongs to this site; else to the process so far."""


def measure_site(pair: Any, promise: Promise, sample: Sample, table: Speedup, key: StreamKey, device: str) -> Measured:
    """Time the site against its baselines on seeds that no calibration used."""
    site, key = promise.site, key.replace(stage="judged")
    synchronise = synchroniser(device)
    clock, rng = clock_of(device, synchronise), key.replace(purpose="timing").generator()
    stop = Stop(n_events=site.length)
    sides = {CACHED: TimedRuns(pair.sampler("target_only"), site.batch, stop, device)}
    for k in site.ks:
        sampler = pair.sampler("speculative", draft=site.draft, k=k, rule=table.rule)
        sides[side_name(k)] = TimedRuns(sampler, site.batch, stop, device)
    sides[DRAFT] = TimedRuns(pair.sampler("draft_only", draft=site.draft), site.batch, stop, device)
    few = Stop(n_events=RECOMPUTED_EVENTS[site.length >= _LONG])
    history = sample.histories.select(slice(0, 1)).prefix(max(1, site.length // 2))
    sides[RECOMPUTING] = TimedRuns(pair.sampler("target_only_recompute"), site.batch, few, device, prompt=history)
    seconds = dict.fromkeys(sides, table.seconds) | {side_name(k): table.seconds * share_of_seconds(k) for k in site.ks}
    sides = filled(sides, seconds, clock, rng)
    own = forget_peak()
    timing = paired_timing(
        sides, baseline=CACHED, again=side_name(promise.best.k), rng=rng, pairs=table.pairs, min_pairs=6, min_seconds=1e-6,
        coverage=COVERAGE, synchronise=synchronise, max_warmup=1, budget_seconds=table.most_seconds,
    )  # fmt: skip
    peak = peak_bytes()
    counted = [_counted(pair, promise, k, table, key, device) for k in site.ks]
    names, which = [side_name(k) for k in site.ks], _clock(device)
    rounds = timed_rounds([sides[name] for name in names], names, timing, which, [c for c, _ in counted])
    counts = {k: sides[side_name(k)].counts for k in site.ks}
    return Measured(timing, which, counts, rounds, counted[-1][1], peak, own)


def _clock(device: str) -> Clock:
    return "wall" if device.startswith("cuda") else "cpu"


def _counted(
    pair: Any, promise: Promise, k: int, table: Speedup, key: StreamKey, device: str
) -> tuple[Counted, PositionRates | None]:
    """Rounds of further held-out sequences, and acceptance by position, from a traced run in large batches that is not timed.

    Events a round vary more the larger K is, so more are counted there.
    """
    site = promise.site
    n = max(2, min(SAMPLE_BATCH, round(table.counted_events * k / max(site.ks) / site.length)))
    sampler = pair.sampler("speculative", draft=site.draft, k=k, rule=table.rule)
    run = sampler.sample(SampleRequest(n, Stop(n_events=site.length), key.replace(arm=f"counted k{k}"), device=device))
    if run.trace is None:
        return (np.array([float(run.counts.committed)]), np.array([float(run.counts.rounds)])), None
    rounds = np.bincount(run.trace.round_sequence, minlength=n).astype(np.float64)
    return (run.events.lengths.astype(np.float64), rounds), acceptance_by_position(run.trace).event
