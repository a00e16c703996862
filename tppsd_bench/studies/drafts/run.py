"""What fills the cells of the study: counted or timed, of a pair's drafts or over the length of history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray

from tppsd_bench.results import CellResult
from tppsd_bench.runner.plan import Job
from tppsd_bench.studies.drafts import counted, jobs, over_history, timed
from tppsd_bench.studies.drafts.table import COUNTED

Filled = tuple[CellResult, dict[str, NDArray[Any]]]


def run(job: Job, pair: Any) -> Iterator[Filled]:
    """One cell after the other."""
    if jobs.over_history(job):
        yield over_history.counted(job, pair) if job.kind == COUNTED else over_history.timed(job, pair)
    else:
        yield from counted.run(job, pair) if job.kind == COUNTED else timed.run(job, pair)
