"""Jobs in processes of this machine."""

from __future__ import annotations

import contextlib
import multiprocessing
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

from tppsd_bench.runner.executors.base import GRACE_SECONDS, Journal, died, in_order
from tppsd_bench.runner.plan import Job
from tppsd_bench.runner.worker import CellBroken, initialise, run_job, thread_environment


@dataclass(frozen=True)
class Local:
    """``processes`` workers, which write their cells themselves; 1: this process, no other."""

    processes: int
    grace: float = GRACE_SECONDS

    @property
    def width(self) -> int:
        return self.processes

    def about(self) -> dict[str, Any]:
        return {"kind": "local", "processes": self.processes}

    def run(self, jobs: Sequence[Job], journal: Journal) -> None:
        together, alone = in_order(jobs)
        if self.processes == 1:
            for job in [*together, *alone]:
                self._in_process(job, journal)
            return
        with thread_environment():
            suspects = self._pool([(together, self.processes), (alone, 1)], journal)
            # A process died with several jobs in flight: each suspect runs alone, cell by cell.
            for job in [part for suspect in suspects for part in suspect.split()]:
                if self._pool([([job], 1)], journal):
                    journal.broken(job, died(job))

    def _in_process(self, job: Job, journal: Journal) -> None:
        journal.tell([job])
        try:
            run_job(job, str(journal.folder))
        except CellBroken as problem:
            journal.broken(job, str(problem))
        journal.advance(job)

    def _pool(self, stages: Sequence[tuple[list[Job], int]], journal: Journal) -> list[Job]:
        """Run stages of (jobs, how many at a time), one after the other; gives the jobs in flight when a process died, after the rest.

        Processes go on from one stage to the next, having imported all there is: those that a later stage does not use sleep.
        """
        suspects: list[Job] = []
        waiting = [list(jobs) for jobs, _ in stages]
        while any(waiting):
            context = multiprocessing.get_context("spawn")
            pool = ProcessPoolExecutor(min(self.processes, max(map(len, waiting))), context, initialise, (list(sys.path),))
            with _closing(pool):
                for i, (_, processes) in enumerate(stages):
                    waiting[i], dead = self._drain(pool, waiting[i], processes, journal)
                    suspects += dead
                    if dead:
                        break
        return suspects

    def _drain(
        self, pool: ProcessPoolExecutor, waiting: list[Job], processes: int, journal: Journal
    ) -> tuple[list[Job], list[Job]]:
        """Feed the pool one job a process, so that what was in flight is known; (not started, in flight at a death)."""
        flying: dict[Future[float], tuple[Job, float]] = {}
        waiting = list(waiting)
        while waiting or flying:
            while waiting and len(flying) < processes:
                try:
                    future = pool.submit(run_job, waiting[0], str(journal.folder))
                except BrokenProcessPool:
                    return waiting, [job for job, _ in flying.values()]
                flying[future] = waiting.pop(0), time.monotonic()
            journal.tell([job for job, _ in flying.values()])
            finished, _ = wait(flying, timeout=1.0, return_when=FIRST_COMPLETED)
            dead = []
            for future in finished:
                job, _ = flying.pop(future)
                if not _collect(future, job, journal):
                    dead.append(job)
            if dead:
                return waiting, dead + [job for job, _ in flying.values()]
            if any(time.monotonic() - since > job.timeout + self.grace for job, since in flying.values()):
                _end_workers()
        return waiting, []


def _collect(future: Future[float], job: Job, journal: Journal) -> bool:
    """Take one result; False where its process died."""
    try:
        future.result()
    except BrokenProcessPool:
        return False
    except CellBroken as problem:
        journal.broken(job, str(problem))
    journal.advance(job)
    return True


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
