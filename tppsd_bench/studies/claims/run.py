"""Fills a claim's cell: the measure runs on one pair; what was claimed goes into the cell beside what was found."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray

from tppsd_bench.results import CellResult, to_json
from tppsd_bench.runner.plan import Job
from tppsd_bench.streams import StreamKey
from tppsd_bench.studies.claims.measures.base import Context, Measured
from tppsd_bench.studies.claims.table import Claim, Claims
from tppsd_bench.suite import check_table


def run(job: Job, pair: Any) -> Iterator[tuple[CellResult, dict[str, NDArray[Any]]]]:
    assert isinstance(job.table, Claims)
    number, cell = job.table.only[0], job.cells[0]
    claim = job.table.claim[number]
    started = time.perf_counter()
    found = _measured(claim, number, job, pair) if claim.state == "measured" else Measured(())
    figures = {
        "claim": number, "claimed": claim.text, "said_by": claim.source, "hypothesis": claim.hypothesis, "state": claim.state,
        "reason": claim.reason, "criteria": [c.model_dump() for c in claim.criteria],
        "quantities": [to_json(q) for q in found.quantities], "remark": found.remark,
    }  # fmt: skip
    title = f"Claim {number}" + (f" on {pair.title}" if claim.state == "measured" else "")
    seconds = time.perf_counter() - started
    yield CellResult(cell.id, cell.kind, job.pair, "", title, seed=job.seed, figures=figures, seconds=seconds), {}


def _measured(claim: Claim, number: str, job: Job, pair: Any) -> Measured:
    module: Any = importlib.import_module(f"tppsd_bench.studies.claims.measures.{claim.measure}")
    settings = check_table(module.Settings, claim.settings, job.suite, f"study.claims.claim.{number}.settings.")
    key = StreamKey(seed=job.seed, suite=job.suite, cell=job.cells[0].id)
    found: Measured = module.measure(Context(pair, job.pair, key, job.device, job.loader, job), settings)
    return found
