"""Fills the study's cells: of each site first what the law promises, written before anything is timed, then what was measured."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from numpy.typing import NDArray

from tppsd_bench.results import CellResult
from tppsd_bench.runner.plan import Job
from tppsd_bench.runner.worker import resolve
from tppsd_bench.streams import StreamKey
from tppsd_bench.studies.speedup.calibrate import Sample, acceptance_sample, calibrate_site
from tppsd_bench.studies.speedup.figures import measured_cell, promise_cell
from tppsd_bench.studies.speedup.history import run_history
from tppsd_bench.studies.speedup.jobs import sites_of
from tppsd_bench.studies.speedup.measure import measure_site
from tppsd_bench.studies.speedup.packing import run_packing
from tppsd_bench.studies.speedup.sites import with_draft
from tppsd_bench.studies.speedup.table import Speedup

Filled = tuple[CellResult, dict[str, NDArray[Any]]]


def run(job: Job, pair: Any) -> Iterator[Filled]:
    """The cells of one pair and draft; a run that goes on after an interruption calibrates the site it stopped in once more."""
    assert isinstance(job.table, Speedup)
    parts = {"packing": run_packing, "history": run_history}
    for cell in job.cells:
        part = cell.id.split(".")[1]
        if part in parts:
            yield parts[part](job, cell, pair)
    yield from _sites(job, pair, job.table)


def _sites(job: Job, pair: Any, table: Speedup) -> Iterator[Filled]:
    wanted = {cell.id for cell in job.cells}
    samples: dict[int, Sample] = {}
    for site in sites_of(job):
        started = time.perf_counter()
        ready = with_draft(pair, site.draft, partial(resolve(job.loader), device=job.device))
        key = StreamKey(seed=job.seed, suite=job.suite, cell=site.cell)
        if site.length not in samples:
            samples[site.length] = acceptance_sample(ready, site, table, key, job.device)
        promise = calibrate_site(ready, site, table, samples[site.length], key, job.device)
        if site.promise in wanted:
            yield promise_cell(promise, ready, job, time.perf_counter() - started)
        started = time.perf_counter()
        measured = measure_site(ready, promise, samples[site.length], table, key, job.device)
        if site.cell in wanted:
            yield measured_cell(promise, measured, ready, job, time.perf_counter() - started)
