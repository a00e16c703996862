"""Runs a plan: jobs over processes, what breaks is marked and the rest goes on, timing alone at the end, then the report."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from tppsd_bench import provenance, store
from tppsd_bench.results import CellResult
from tppsd_bench.runner.plan import Job, Plan
from tppsd_bench.runner.worker import CellBroken, initialise, run_job, thread_environment

Say = Callable[[str, float], None]
GRACE_SECONDS = 30.0
"""A worker that does not answer to its own time limit (stuck outside Python) is killed this much later."""


def default_jobs() -> int:
    """Processes for law cells: two at most, so that the figures of a two-core machine hold on larger ones."""
    return min(2, os.cpu_count() or 1)


def execute(plan: Plan, out: Path, *, jobs: int, resume: bool, say: Say, report: bool = True) -> tuple[Path, list[CellResult]]:
    """Run every cell that is not yet finished; gives the run folder and its cells, in plan order.

    KeyboardInterrupt passes through after the workers have ended; finished cells stay and ``resume`` goes on with the rest.
    """
    folder = store.RunFolder.open(out, _run_record(plan, jobs), resume=resume)
    try:
        done = folder.finished_cells()
        todo = [job.without(done) for job in plan.jobs if not all(cell.id in done for cell in job.cells)]
        _Execution(folder.folder, plan, todo, jobs, say).run()
        folder.run["provenance"]["finished"] = provenance.now()
        cells = folder.summarise([cell.id for cell in plan.cells])
        if report:
            say("report", 0.99)
            _report(folder.folder)
        return folder.finish(), cells
    finally:
        folder.close()


def _run_record(plan: Plan, jobs: int) -> dict[str, Any]:
    return {
        "suite": plan.suite.model_dump(mode="json"),
        "pairs": {job.pair: {"source": job.source} for job in plan.jobs},
        "digest": plan.digest,
        "round_seconds": plan.round_seconds,
        "status": store.RUNNING,
        "provenance": provenance.collect(plan.seed, jobs, plan.device),
    }


def _report(folder: Path) -> None:
    """A report that cannot be made does not take the results with it."""
    try:
        from tppsd_bench.report.build import build_report

        build_report(folder)
    except Exception as problem:
        print(f"warning: no report.html ({type(problem).__name__}: {problem}); the results are whole.", file=sys.stderr)


class _Execution:
    """The loop over jobs and its bookkeeping."""

    def __init__(self, folder: Path, plan: Plan, todo: list[Job], processes: int, say: Say) -> None:
        self.folder, self.processes, self.say = folder, processes, say
        self.todo, self.told = todo, ""
        self.total = sum(job.cost for job in plan.jobs) or 1.0
        self.done = self.total - sum(job.cost for job in todo)

    def run(self) -> None:
        """Shared cells first, longest first; cells that must be alone afterwards, one by one."""
        together = sorted((j for j in self.todo if not j.alone), key=lambda j: -j.cost)
        alone = [j for j in self.todo if j.alone]
        if self.processes == 1:
            for job in [*together, *alone]:
                self._in_process(job)
            return
        with thread_environment():
            suspects = self._pool(together, self.processes)
            suspects += self._pool(alone, 1)
            # A process died with several jobs in flight: each suspect runs alone, cell by cell.
            for job in [part for suspect in suspects for part in suspect.split()]:
                if self._pool([job], 1):
                    self._broken(
                        job, f"The process that ran this cell died or hung without a word (twice); limit {job.timeout:g} s."
                    )

    def _in_process(self, job: Job) -> None:
        self._tell(job.label)
        try:
            run_job(job, str(self.folder))
        except CellBroken as problem:
            self._broken(job, str(problem))
        self._advance(job)

    def _pool(self, jobs: list[Job], processes: int) -> list[Job]:
        """Run jobs in a pool of fresh processes; gives those in flight when one died, after running the rest."""
        suspects: list[Job] = []
        waiting = list(jobs)
        while waiting:
            context = multiprocessing.get_context("spawn")
            pool = ProcessPoolExecutor(min(processes, len(waiting)), context, initialise, (list(sys.path),))
            with _closing(pool):
                waiting, dead = self._drain(pool, waiting, processes)
            suspects += dead
        return suspects

    def _drain(self, pool: ProcessPoolExecutor, waiting: list[Job], processes: int) -> tuple[list[Job], list[Job]]:
        """Feed the pool one job a process, so that what was in flight is known; (not started, in flight at a death)."""
        flying: dict[Future[float], tuple[Job, float]] = {}
        waiting = list(waiting)
        while waiting or flying:
            while waiting and len(flying) < processes:
                try:
                    future = pool.submit(run_job, waiting[0], str(self.folder))
                except BrokenProcessPool:
                    return waiting, [job for job, _ in flying.values()]
                flying[future] = waiting.pop(0), time.monotonic()
            self._tell(", ".join(j.label for j, _ in flying.values()))
            finished, _ = wait(flying, timeout=1.0, return_when=FIRST_COMPLETED)
            dead = []
            for future in finished:
                job, _ = flying.pop(future)
                if not self._collect(future, job):
                    dead.append(job)
            if dead:
                return waiting, dead + [job for job, _ in flying.values()]
            if any(time.monotonic() - since > job.timeout + GRACE_SECONDS for job, since in flying.values()):
                _end_workers()
        return waiting, []

    def _collect(self, future: Future[float], job: Job) -> bool:
        """Take one result; False where its process died."""
        try:
            future.result()
        except BrokenProcessPool:
            return False
        except CellBroken as problem:
            self._broken(job, str(problem))
        self._advance(job)
        return True

    def _advance(self, job: Job) -> None:
        self.done += job.cost

    def _tell(self, text: str) -> None:
        if text != self.told:
            self.told = text
            self.say(text, min(0.98, self.done / self.total))

    def _broken(self, job: Job, error: str) -> None:
        """Mark the job's cells that were not written before it broke."""
        finished = {i for i, c in store.read_cells(self.folder).items() if not c.error}
        for cell in job.cells:
            if cell.id not in finished:
                result = CellResult(
                    cell.id, cell.kind, cell.pair, cell.draft, f"{cell.pair}: {cell.kind}", k=cell.k, seed=job.seed, error=error
                )
                store.write_cell(self.folder, result, {})


@contextlib.contextmanager
def _closing(pool: ProcessPoolExecutor) -> Iterator[None]:
    """Shut the pool down; when interrupted, end the workers instead of waiting for their jobs."""
    try:
        yield
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        _end_workers()
        raise
    pool.shutdown(wait=True, cancel_futures=True)


def _end_workers() -> None:
    """Kill this process's own children (the pool's workers and nothing else)."""
    for child in multiprocessing.active_children():
        child.kill()
