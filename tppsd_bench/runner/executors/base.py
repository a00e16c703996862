"""What an executor is, and the journal that all of them keep: what is in work, what is done, which cells broke."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tppsd_bench import store
from tppsd_bench.results import CellResult
from tppsd_bench.runner.plan import Job, Plan

Say = Callable[[str, float], None]
GRACE_SECONDS = 30.0
"""A worker that does not answer to its own time limit (stuck outside Python) is ended this much later."""


class Executor(Protocol):
    """Does jobs; every cell ends up in the journal's folder once, with its result or with what broke it."""

    @property
    def width(self) -> int:
        """Jobs that run beside each other."""
        ...

    def about(self) -> dict[str, Any]:
        """What the run's record says about it."""
        ...

    def run(self, jobs: Sequence[Job], journal: Journal) -> None:
        """All jobs. Those that measure time (``Job.alone``) come last, with nothing else on their machine.

        A job whose process dies takes no other with it; KeyboardInterrupt passes through after the work in flight was ended.
        """
        ...


class Journal:
    """Progress and broken cells of one run."""

    def __init__(self, folder: Path, plan: Plan, todo: Sequence[Job], say: Say) -> None:
        self.folder, self._say, self._told = folder, say, ""
        self._total = sum(job.cost for job in plan.jobs) or 1.0
        self._done = self._total - sum(job.cost for job in todo)

    def advance(self, job: Job) -> None:
        """The job is over, one way or the other."""
        self._done += job.cost

    def tell(self, jobs: Sequence[Job]) -> None:
        """These jobs are in work."""
        text = ", ".join(job.label for job in jobs)
        if text != self._told:
            self._told = text
            self._say(text, min(0.98, self._done / self._total))

    def write(self, cell: CellResult, arrays: Mapping[str, Any]) -> None:
        """Keep a finished cell."""
        store.write_cell(self.folder, cell, arrays)

    def broken(self, job: Job, error: str) -> None:
        """Mark the job's cells that were not written before it broke."""
        finished = {i for i, c in store.read_cells(self.folder).items() if not c.error}
        for cell in job.cells:
            if cell.id not in finished:
                self.write(
                    CellResult(
                        cell.id,
                        cell.kind,
                        cell.pair,
                        cell.draft,
                        f"{cell.pair}: {cell.kind}",
                        k=cell.k,
                        seed=job.seed,
                        error=error,
                    ),
                    {},
                )


def in_order(jobs: Sequence[Job]) -> tuple[list[Job], list[Job]]:
    """(jobs that may share a machine, longest first; jobs that must be alone on one)."""
    return sorted((j for j in jobs if not j.alone), key=lambda j: -j.cost), [j for j in jobs if j.alone]


def died(job: Job, where: str = "process", times: str = "twice") -> str:
    """The sentence of a cell whose process ended without a word."""
    return f"The {where} that ran this cell died or hung without a word ({times}); limit {job.timeout:g} s."
