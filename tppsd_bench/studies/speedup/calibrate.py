"""What the law knows of a site before it is timed, all of it from calibration seeds.

Acceptance: along sequences of the target, from the two laws (no speculative run is looked at). Costs: whole rounds of a few K's, draft steps
and target-only steps in paired timing; target passes of every K by themselves. What comes out is frozen: a promise for every K.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.events import EventBatch
from tppsd_bench.measure.prediction import CostModel, RunPrediction, cost_model, fastest, predict_run
from tppsd_bench.measure.rounds import ExpectedRounds, acceptance_along, expected_rounds
from tppsd_bench.measure.timing import Clock as Which
from tppsd_bench.measure.timing import paired_timing
from tppsd_bench.protocols import SampleRequest, Stop
from tppsd_bench.runner.calibration import clock_of, passes_seconds
from tppsd_bench.runner.speed_cell import CACHED, side_name, synchroniser
from tppsd_bench.streams import StreamKey
from tppsd_bench.studies.speedup.sides import TimedRuns, filled
from tppsd_bench.studies.speedup.sites import Site, spread_over
from tppsd_bench.studies.speedup.table import Speedup

DRAFT = "draft-only"
COVERAGE = 0.95
SAMPLE_BATCH = 64
PASSES, _LARGE = {False: 25, True: 9}, 4
"""Passes timed of each width; fewer of large batches, where each takes long."""


@dataclass(frozen=True)
class Sample:
    """Sequences of the target on calibration seeds, and how a draft fares along them."""

    histories: EventBatch
    acceptance: NDArray[np.float64]
    """(n_sequences, n_events) P(accepted | verified, the sequence)."""


@dataclass(frozen=True)
class Promise:
    """What the law promises a site, and what it rests on."""

    site: Site
    expected: dict[int, ExpectedRounds]
    costs: CostModel
    predictions: dict[int, RunPrediction]
    calibrated: tuple[int, ...]
    step_seconds: float
    """CPU seconds of a target step (wall seconds on a device)."""

    @property
    def best(self) -> RunPrediction:
        return fastest(list(self.predictions.values()))


def acceptance_sample(pair: Any, site: Site, table: Speedup, key: StreamKey, device: str) -> Sample:
    """The target's sequences of the site's length, drawn cached, and the acceptance of the site's draft along them."""
    n = max(2, min(2 * SAMPLE_BATCH, round(table.acceptance_events / site.length)))
    key = key.replace(stage="calibration", arm="target", purpose="acceptance")
    request = SampleRequest(n, Stop(n_events=site.length), key, device=device, want_trace=False)
    histories = pair.sampler("target_only").sample(request).events
    along = acceptance_along(pair.target, pair.drafts[site.draft], histories, table.rule)
    return Sample(histories, along.reshape(n, site.length))


def calibrate_site(pair: Any, site: Site, table: Speedup, sample: Sample, key: StreamKey, device: str) -> Promise:
    """Time what the law needs of the site, and promise."""
    key = key.replace(stage="calibration")
    synchronise = synchroniser(device)
    clock, rng = clock_of(device, synchronise), key.replace(purpose="timing").generator()
    stop, timed = Stop(n_events=site.length), spread_over(site.ks, table.calibrated)
    sides = {CACHED: TimedRuns(pair.sampler("target_only"), site.batch, stop, device)}
    sides[DRAFT] = TimedRuns(pair.sampler("draft_only", draft=site.draft), site.batch, stop, device)
    for k in timed:
        sampler = pair.sampler("speculative", draft=site.draft, k=k, rule=table.rule)
        sides[side_name(k)] = TimedRuns(sampler, site.batch, stop, device, unit="rounds")
    sides = filled(sides, dict.fromkeys(sides, table.seconds), clock, rng)
    timing = paired_timing(
        sides, baseline=CACHED, again=DRAFT, rng=rng, pairs=table.calibration_pairs, min_pairs=6, min_seconds=1e-6, coverage=COVERAGE,
        synchronise=synchronise, max_warmup=1, budget_seconds=table.most_seconds,
    )  # fmt: skip
    which: Which = "cpu" if synchronise is None else "wall"
    # medians of paired log ratios: seconds of a draft step, and of a whole round, in target steps
    relative = {name: float(np.exp(-np.median(timing.log_ratio(name, which)))) for name in timing.sides if name != CACHED}
    column = timing.cpu if synchronise is None else timing.wall
    step = float(np.median(column[:, 0]))
    rounds = {}
    for k in timed:
        counts = sides[side_name(k)].counts
        rounds[k] = counts.drafted / max(counts.rounds, 1), relative[side_name(k)]
    verify = _passes(pair, site, sample, step, key, device)
    costs = cost_model(relative[DRAFT], verify, rounds)
    expected = {k: expected_rounds(sample.acceptance, k) for k in site.ks}
    return Promise(site, expected, costs, {k: predict_run(e, costs) for k, e in expected.items()}, timed, step)


def _passes(pair: Any, site: Site, sample: Sample, step: float, key: StreamKey, device: str) -> dict[int, float]:
    """v by K, in target steps, at half the run's history, each pass after a draft of as many events, as in a round.

    Of a model that cannot be stepped by itself, one step for each pass: what a pass takes beyond it is then in r.
    """
    if not all(hasattr(pair.target, name) for name in ("start", "extend")):
        return dict.fromkeys((0, *site.ks), 1.0)
    rows = np.arange(site.batch) % len(sample.histories)
    half = sample.histories.select(rows).prefix(max(1, site.length // 2))
    sampler, key = pair.sampler("draft_only", draft=site.draft), key.replace(arm="drafts")

    def draft(n_events: int) -> None:
        sampler.sample(SampleRequest(site.batch, Stop(n_events=n_events), key, device=device, want_trace=False))

    widths, repeats = [k + 1 for k in (0, *site.ks)], PASSES[site.batch > _LARGE]
    seconds = passes_seconds(pair.target, half, widths, clock_of(device, synchroniser(device)), repeats, draft)
    return {w - 1: max(found / site.batch / step, 1e-6) for w, found in seconds.items()}
