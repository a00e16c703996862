"""Jobs on the workers of a Dask cluster, for grids larger than one machine.

Cells come back to this process, which alone writes the run folder: no file system need be shared, and a cell cannot be written twice,
whatever happens to the worker that computed it. Each job is sent to a worker by name, one at a time: so it is known what was in flight
when a worker dies, and a timing cell is alone on its host. Time limits are kept here, because a Dask worker does its work in a
thread, where no alarm rings.
"""

from __future__ import annotations

import importlib
import socket
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import tppsd_bench
from tppsd_bench import provenance
from tppsd_bench.errors import InputError, RunBroken
from tppsd_bench.results import CellResult
from tppsd_bench.runner.executors.base import GRACE_SECONDS, Journal, died, in_order
from tppsd_bench.runner.plan import Job
from tppsd_bench.runner.worker import cells_of, describe

CONNECT_SECONDS = 10.0
PATIENCE_SECONDS = 120.0
"""How long a run goes on without a single worker: a cluster that replaces its machines needs a while."""
FETCH_SECONDS = 60.0
ATTEMPTS = 3
"""Workers that one cell may lose; at the last attempt the cells of a job go apart, so that the one to blame breaks alone."""


@dataclass(frozen=True)
class Answer:
    """What a worker sends back."""

    cells: tuple[tuple[CellResult, dict[str, Any]], ...]
    error: str
    """What broke the job after these cells; empty where nothing did."""
    host: str


def answer(job: Job) -> Answer:
    """Do a job (on a worker): whatever it raises comes back as a sentence, with the cells that were finished before."""
    cells: list[tuple[CellResult, dict[str, Any]]] = []
    try:
        cells.extend(cells_of(job))
    except Exception as problem:
        return Answer(tuple(cells), describe(problem), socket.gethostname())
    return Answer(tuple(cells), "", socket.gethostname())


def greeting() -> dict[str, Any]:
    """Who a worker is."""
    return {
        "host": socket.gethostname(), "version": tppsd_bench.__version__, "cpu": provenance.cpu_name(),
        "fingerprint": provenance.fingerprint(), "git": provenance.git_revision(Path(tppsd_bench.__file__).parent),
    }  # fmt: skip


@dataclass(frozen=True)
class Attempt:
    """A job that waits, and how many workers it has lost so far."""

    job: Job
    deaths: int = 0

    def again(self) -> list[Attempt]:
        """The next attempt, none where there were enough."""
        deaths = self.deaths + 1
        if deaths >= ATTEMPTS:
            return []
        jobs = self.job.split() if deaths == ATTEMPTS - 1 else [self.job]
        return [Attempt(job, deaths) for job in jobs]


@dataclass(frozen=True)
class Flight:
    """An attempt on its way: where, and since when."""

    attempt: Attempt
    worker: str
    since: float


@dataclass
class Cluster:
    """The workers of the scheduler at ``address``. Use ``connect``."""

    address: str
    client: Any
    workers: list[dict[str, Any]]
    """What each one said of itself at the start."""
    hosts: dict[str, str] = field(default_factory=dict)
    """Cell -> the host that computed it."""
    _shunned: set[str] = field(default_factory=set)
    """Workers that hang in foreign code and could not be restarted."""
    _landed: threading.Event = field(default_factory=threading.Event)

    @property
    def width(self) -> int:
        return len(self.workers)

    def about(self) -> dict[str, Any]:
        machines = [who for i, who in enumerate(self.workers) if who not in self.workers[:i]]
        hosts = dict(sorted(self.hosts.items()))
        return {"kind": "dask", "scheduler": self.address, "workers": self.width, "machines": machines, "hosts": hosts}

    def close(self) -> None:
        self.client.close()

    def run(self, jobs: Sequence[Job], journal: Journal) -> None:
        together, alone = in_order(jobs)
        self._phase(together, journal, one_a_host=False)
        self._phase(alone, journal, one_a_host=True)

    def _phase(self, jobs: Sequence[Job], journal: Journal, *, one_a_host: bool) -> None:
        """Jobs until all are over, at most one a worker, or one a host."""
        waiting = deque(Attempt(job) for job in jobs)
        flying: dict[Any, Flight] = {}
        seen = time.monotonic()
        try:
            while waiting or flying:
                alive = self._alive(quiet=one_a_host)
                if self._give_up(flying, waiting, alive, journal):
                    alive = self._alive(quiet=one_a_host)  # a worker that was ended is gone, or has another address
                for worker in _free(alive, flying.values(), one_a_host=one_a_host)[: len(waiting)]:
                    attempt = waiting.popleft()
                    key = f"{attempt.job.label} {uuid4().hex}"  # read on the cluster's own pages
                    future = self.client.submit(answer, attempt.job, key=key, workers=[worker], pure=False, retries=0)
                    future.add_done_callback(lambda _future: self._landed.set())
                    flying[future] = Flight(attempt, worker, time.monotonic())
                journal.tell([flight.attempt.job for flight in flying.values()])
                self._land(flying, waiting, journal)
                seen = time.monotonic() if alive else seen
                if time.monotonic() - seen > PATIENCE_SECONDS:
                    raise RunBroken(
                        f"The scheduler at {self.address} has had no worker for {PATIENCE_SECONDS:g} s; finished cells are kept. Start "
                        "workers and go on with --resume."
                    )
        except BaseException:
            self._abandon(flying)
            raise

    def _alive(self, *, quiet: bool) -> list[str]:
        """Addresses of the workers that may be given work; ``quiet``: and on whose host no hanging one is left."""
        try:
            found: Mapping[str, int] = self.client.nthreads()
        except (OSError, TimeoutError, RuntimeError, ValueError) as problem:
            raise RunBroken(
                f"The scheduler at {self.address} no longer answers ({problem}); finished cells are kept. Go on with --resume."
            ) from None
        loud = {host_of(worker) for worker in self._shunned} if quiet else set[str]()
        return sorted(worker for worker in found if worker not in self._shunned and host_of(worker) not in loud)

    def _give_up(self, flying: dict[Any, Flight], waiting: deque[Attempt], alive: Sequence[str], journal: Journal) -> bool:
        """Flights whose worker is gone try again elsewhere; those over their time end with their worker. Whether any did."""
        ended = False
        for future, flight in list(flying.items()):
            if flight.worker not in alive:
                del flying[future]
                future.cancel()
                _again(flight.attempt, waiting, journal)
                continue
            job = flight.attempt.job
            if time.monotonic() - flight.since > job.timeout + GRACE_SECONDS:
                del flying[future]
                future.cancel()
                journal.broken(
                    job, f"Job {job.label} took longer than {job.timeout:g} s and was stopped with its worker; {_MEND}."
                )
                journal.advance(job)
                self._restart([flight.worker])
                ended = True
        return ended

    def _land(self, flying: dict[Any, Flight], waiting: deque[Attempt], journal: Journal) -> None:
        """Wait up to a second for results, and keep them."""
        self._landed.wait(1.0)
        self._landed.clear()
        for future in [f for f in flying if f.done()]:
            self._collect(future, flying.pop(future).attempt, waiting, journal)

    def _collect(self, future: Any, attempt: Attempt, waiting: deque[Attempt], journal: Journal) -> None:
        try:
            found: Answer = future.result(timeout=FETCH_SECONDS)
        except (OSError, TimeoutError, CancelledError, _distributed().KilledWorker):
            _again(attempt, waiting, journal)  # the worker went with its result
            return
        except Exception as problem:
            found = Answer((), describe(problem), "")
        for cell, arrays in found.cells:
            journal.write(cell, arrays)
            self.hosts[cell.id] = found.host
        if found.error:
            journal.broken(attempt.job, found.error)
        journal.advance(attempt.job)

    def _restart(self, workers: Sequence[str]) -> None:
        """End what hangs on these workers; without a nanny that could start them again they get no more work."""
        try:
            self.client.restart_workers(list(workers), timeout=CONNECT_SECONDS)
        except Exception:
            # Restarts fail in as many ways as clusters do (no nanny, a worker or the scheduler gone); the run goes on without these.
            self._shunned.update(workers)

    def _abandon(self, flying: dict[Any, Flight]) -> None:
        """Nobody waits for these results any more: end the work, best effort, so that a later run finds the machines quiet."""
        if flying and self.client.status == "running":
            self.client.cancel(list(flying), force=True)
            self._restart([flight.worker for flight in flying.values()])


_MEND = "raise cell_timeout in the suite if it is merely slow"


def _again(attempt: Attempt, waiting: deque[Attempt], journal: Journal) -> None:
    """Back to the head of the queue, or broken where it cost too many workers."""
    after = attempt.again()
    waiting.extendleft(reversed(after))
    if not after:
        journal.broken(attempt.job, died(attempt.job, "worker", f"{ATTEMPTS} times"))
        journal.advance(attempt.job)


def _free(alive: Sequence[str], flights: Any, *, one_a_host: bool) -> list[str]:
    """Workers without a job; ``one_a_host``: the first worker of every host on which nothing runs."""
    busy = {flight.worker for flight in flights}
    if not one_a_host:
        return [worker for worker in alive if worker not in busy]
    busy_hosts = {host_of(worker) for worker in busy}
    first = {host_of(worker): worker for worker in reversed(alive)}
    return [worker for host, worker in sorted(first.items()) if host not in busy_hosts]


def host_of(worker: str) -> str:
    """The host in a worker's address, tcp://10.0.0.3:41235; addresses without one count as one host."""
    return urlsplit(worker).hostname or ""


def _distributed() -> Any:
    """The package, which is optional."""
    try:
        return importlib.import_module("distributed")
    except ModuleNotFoundError:
        raise InputError(
            "The Dask executor needs the package 'distributed'; install it with: pip install 'tppsd_bench[dask]'."
        ) from None


def connect(address: str) -> Cluster:
    """The cluster whose scheduler listens at ``address``; InputError where there is none, or its workers cannot do our jobs."""
    distributed = _distributed()
    try:
        client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as problem:
        raise InputError(
            f"No Dask scheduler answers at {address!r} ({problem}); start one with 'dask scheduler', and workers with "
            "'dask worker ADDRESS --nthreads 1'."
        ) from None
    try:
        found = _greet(client, address)
    except BaseException:
        client.close()
        raise
    return Cluster(address, client, found)


def _greet(client: Any, address: str) -> list[dict[str, Any]]:
    """Every worker's ``greeting``; all must run this version of the package."""
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except TimeoutError:
        raise InputError(
            f"The scheduler at {address} has no workers; start some with 'dask worker {address} --nthreads 1'."
        ) from None
    try:
        greetings: dict[str, dict[str, Any]] = client.run(greeting)
    except Exception as problem:
        raise InputError(
            f"The workers of {address} cannot run tppsd_bench ({type(problem).__name__}: {problem}); install the same version there."
        ) from None
    for worker, who in greetings.items():
        if who["version"] != tppsd_bench.__version__:
            raise InputError(
                f"The worker {worker} has tppsd_bench {who['version']}, this is {tppsd_bench.__version__}; install the same version there."
            )
    return [greetings[worker] for worker in sorted(greetings)]
