"""Runs a plan: jobs over an executor, what breaks is marked and the rest goes on, timing alone at the end, then the report."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tppsd_bench import provenance, store
from tppsd_bench.errors import InputError
from tppsd_bench.results import CellResult
from tppsd_bench.runner.executors.base import Executor, Journal, Say
from tppsd_bench.runner.executors.local import Local
from tppsd_bench.runner.plan import Plan


def default_jobs() -> int:
    """Processes for law cells: two at most, so that the figures of a two-core machine hold on larger ones."""
    return min(2, os.cpu_count() or 1)


@contextlib.contextmanager
def executor_of(kind: str, scheduler: str | None, jobs: int | None) -> Iterator[Executor]:
    """The executor that the options of ``run`` name: ``local`` with its processes, or ``dask`` with the address of a scheduler."""
    if kind == "local":
        if scheduler is not None:
            raise InputError("--scheduler names a Dask scheduler; add --executor dask.")
        yield Local(default_jobs() if jobs is None else jobs)
        return
    from tppsd_bench.runner.executors import cluster

    if scheduler is None:
        raise InputError(
            "--executor dask needs --scheduler ADDRESS, e.g. tcp://10.0.0.1:8786; 'dask scheduler' starts one and says it."
        )
    if jobs is not None:
        raise InputError(
            "--jobs counts processes of this machine; with --executor dask every worker of the cluster takes a job."
        )
    connected = cluster.connect(scheduler)
    try:
        yield connected
    finally:
        connected.close()


def execute(
    plan: Plan, out: Path, *, jobs: int = 1, resume: bool, say: Say, report: bool = True, executor: Executor | None = None
) -> tuple[Path, list[CellResult]]:
    """Run every cell that is not yet finished; gives the run folder and its cells, in plan order.

    ``executor`` does the jobs; left out: ``jobs`` processes of this machine. KeyboardInterrupt passes through after the workers have
    ended; finished cells stay and ``resume`` goes on with the rest.
    """
    executor = executor or Local(jobs)
    folder = store.RunFolder.open(out, _run_record(plan, executor), resume=resume)
    try:
        done = folder.finished_cells()
        todo = [job.without(done) for job in plan.jobs if not all(cell.id in done for cell in job.cells)]
        executor.run(todo, Journal(folder.folder, plan, todo, say))
        folder.run = {**folder.run, "executor": executor.about()}
        folder.run["provenance"]["finished"] = provenance.now()
        cells = folder.summarise([cell.id for cell in plan.cells])
        if report:
            say("report", 0.99)
            _report(folder.folder, min(executor.width, default_jobs()))
        return folder.finish(), cells
    finally:
        folder.close()


def _run_record(plan: Plan, executor: Executor) -> dict[str, Any]:
    return {
        "suite": plan.suite.model_dump(mode="json"),
        "pairs": {job.pair: {"source": job.source} for job in plan.jobs},
        "digest": plan.digest,
        "round_seconds": plan.round_seconds,
        "status": store.RUNNING,
        "executor": executor.about(),
        "provenance": provenance.collect(plan.seed, executor.width, plan.device),
    }


def _report(folder: Path, processes: int) -> None:
    """A report that cannot be made does not take the results with it."""
    try:
        from tppsd_bench.report.build import build_report

        build_report(folder, processes)
    except Exception as problem:
        print(f"warning: no report.html ({type(problem).__name__}: {problem}); the results are whole.", file=sys.stderr)
