"""What fills the cells of the study: computed ones by their part, timed ones point by point."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from tppsd_bench.results import CellResult
from tppsd_bench.runner.plan import CellSpec, Job
from tppsd_bench.studies.buckets import jobs as plan
from tppsd_bench.studies.buckets.contexts import Contexts
from tppsd_bench.studies.buckets.maps import map_cell
from tppsd_bench.studies.buckets.ratios import ratio_cell
from tppsd_bench.studies.buckets.timed import timed_cells
from tppsd_bench.studies.buckets.token_drafts import drafts_cell
from tppsd_bench.studies.buckets.verified_apart import apart_cell

Filled = tuple[CellResult, dict[str, NDArray[Any]]]
_PARTS: dict[str, Callable[[CellSpec, Contexts], Filled]] = {
    plan.MAP: map_cell,
    plan.RATIO: ratio_cell,
    plan.APART: apart_cell,
    plan.DRAFTS: drafts_cell,
}


def run(job: Job, pair: Any) -> Iterator[Filled]:
    """One cell after the other, on the histories of one pair."""
    contexts = Contexts(job, pair)
    if job.kind == plan.TIMED:
        yield from timed_cells(job.cells, contexts)
        return
    for cell in job.cells:
        started = time.perf_counter()
        result, arrays = _PARTS[plan.part_of(cell.id)](cell, contexts)
        yield replace(result, seconds=time.perf_counter() - started), arrays
