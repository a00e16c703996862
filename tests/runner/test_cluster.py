"""The Dask executor: what it does when workers die, hang or vanish, without a cluster; and on a real one of two processes."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from quick_suites import quick_suite

from tppsd_bench import store
from tppsd_bench.errors import InputError, RunBroken
from tppsd_bench.results import CellResult
from tppsd_bench.runner import plan, worker
from tppsd_bench.runner.execute import execute
from tppsd_bench.runner.executors import cluster
from tppsd_bench.runner.executors.base import Journal
from tppsd_bench.runner.executors.cluster import Answer, Cluster, connect, host_of
from tppsd_bench.runner.plan import Job, Plan

SILENT = lambda _text, _done: None  # noqa: E731
LAW = {"k": [4], "n_events": 600, "n_permutations": 99, "enabled": True, "length": 20}


def instant(job: Job) -> Answer:
    return Answer(
        tuple((CellResult(c.id, c.kind, c.pair, c.draft, "done"), {"gaps": np.ones(2)}) for c in job.cells), "", "somewhere"
    )


class Future:
    """Lands at the second look; never, where its worker dies or hangs."""

    def __init__(self, value: Answer | None) -> None:
        self.value, self.looks, self.cancelled = value, 0, False

    def add_done_callback(self, call: Any) -> None:
        call(self)

    def done(self) -> bool:
        self.looks += 1
        return self.value is not None and self.looks > 1

    def result(self, timeout: float) -> Answer | None:
        return self.value

    def cancel(self) -> None:
        self.cancelled = True


class Client:
    """Workers by address; ``fate(job, worker)`` is ok, dies or hangs."""

    status = "running"

    def __init__(self, workers: list[str], fate: Any = lambda _job, _worker: "ok", nanny: bool = True) -> None:
        self.workers, self.fate, self.nanny, self.born = list(workers), fate, nanny, 0
        self.sent: list[tuple[Job, str, tuple[str, ...]]] = []
        self.flying: dict[Any, tuple[Job, str]] = {}

    def nthreads(self) -> dict[str, int]:
        return dict.fromkeys(self.workers, 1)

    def submit(self, _function: Any, job: Job, *, workers: list[str], **_options: Any) -> Future:
        (worker,) = workers
        beside = tuple(
            j.kind for f, (j, w) in self.flying.items() if not f.cancelled and f.looks < 2 and host_of(w) == host_of(worker)
        )
        self.sent.append((job, worker, beside))
        fate = self.fate(job, worker)
        if fate == "dies":
            self._replace(worker)
        future = Future(instant(job) if fate == "ok" else None)
        self.flying[future] = job, worker
        return future

    def _replace(self, worker: str) -> None:
        self.born += 1
        self.workers[self.workers.index(worker)] = f"tcp://{host_of(worker)}:{9000 + self.born}"

    def restart_workers(self, workers: list[str], timeout: float) -> None:
        if not self.nanny:
            raise ValueError("no nanny")
        for hung in workers:
            self._replace(hung)

    def cancel(self, futures: list[Future], force: bool) -> None:
        for future in futures:
            future.cancel()


def planned(*pairs: str, **tables: Any) -> Plan:
    return plan.make_plan(quick_suite(*pairs, **tables))


def run_fake(made: Plan, client: Client, folder: Path) -> list[str]:
    """Runs the plan on a fake client; the ids of all cells in the order in which they were written."""
    written: list[str] = []
    journal = Journal(folder, made, made.jobs, SILENT)
    write = journal.write

    def noted(cell: CellResult, arrays: Any) -> None:
        written.append(cell.id)
        write(cell, arrays)

    journal.write = noted  # type: ignore[method-assign]
    Cluster("tcp://s:1", client, [{}, {}]).run(made.jobs, journal)
    return written


def once_each(made: Plan, written: list[str]) -> bool:
    return sorted(written) == sorted(cell.id for cell in made.cells)


ONE, TWO = "tcp://a:1", "tcp://b:1"


def test_a_job_whose_worker_dies_is_done_elsewhere_and_once(tmp_path: Path) -> None:
    made = planned("load-ok", "load-ok-too", "load-slow")
    client = Client([ONE, TWO], lambda job, worker: "dies" if worker == ONE else "ok")
    assert once_each(made, run_fake(made, client, tmp_path))
    assert len(client.sent) == len(made.jobs) + 1
    assert not any(c.error for c in store.read_cells(tmp_path).values())


def test_a_cell_that_kills_every_worker_breaks_alone(tmp_path: Path) -> None:
    """Twice as a whole job, the last time cell by cell: the other cell of the job is saved."""
    made = planned("fake-exact", "fake-raises", law=LAW, fit={"enabled": False})
    poison = "law.fake-exact.stress.k4"
    client = Client([ONE, TWO], lambda job, _w: "dies" if any(c.id == poison for c in job.cells) else "ok")
    assert once_each(made, run_fake(made, client, tmp_path))
    cells = store.read_cells(tmp_path)
    assert [i for i, c in cells.items() if c.error] == [poison]
    assert "The worker that ran this cell died or hung without a word (3 times)" in cells[poison].error
    assert client.born == 3


@pytest.mark.parametrize("nanny", [True, False])
def test_a_job_that_hangs_ends_with_its_worker(nanny: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "GRACE_SECONDS", 0.0)
    made = planned("load-hangs", "load-ok", "load-ok-too", "load-slow", cell_timeout=0.01)
    client = Client([ONE, TWO], lambda job, _w: "hangs" if job.pair == "load-hangs" else "ok", nanny=nanny)
    monkeypatch.setattr(Future, "done", lambda self: self.value is not None)  # the others are in time
    assert once_each(made, run_fake(made, client, tmp_path))
    cells = store.read_cells(tmp_path)
    assert [i for i, c in cells.items() if c.error] == ["fit.load-hangs"]
    assert "took longer than 0.01 s" in cells["fit.load-hangs"].error
    hung = next(w for job, w, _ in client.sent if job.pair == "load-hangs")
    assert [w for _, w, _ in client.sent].count(hung) == 1, "a worker that hangs gets no more work"


def test_a_worker_ended_in_this_round_is_not_taken_for_a_free_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job that hangs is over its time at the first look, when nothing else is in flight and two jobs wait."""
    monkeypatch.setattr(cluster, "GRACE_SECONDS", -1.0)
    monkeypatch.setattr(Future, "done", lambda self: self.value is not None)
    made = planned("load-hangs", "load-ok", "load-ok-too", cell_timeout=0.01)
    client = Client([ONE], lambda job, _w: "hangs" if job.pair == "load-hangs" else "ok")
    assert once_each(made, run_fake(made, client, tmp_path))
    workers = [w for _, w, _ in client.sent]
    assert workers[0] == ONE, "the plan's first job is the one that hangs"
    assert ONE not in workers[1:]


def test_timing_comes_last_and_alone_on_its_host(tmp_path: Path) -> None:
    made = planned("load-ok", "load-ok-too", "load-slow", speed={"k": [3]})
    client = Client([ONE, "tcp://a:2", "tcp://a:3", TWO])
    assert once_each(made, run_fake(made, client, tmp_path))
    kinds = [job.kind for job, _, _ in client.sent]
    assert kinds == ["fit"] * 3 + ["speed"] * 3
    assert [beside for job, _, beside in client.sent if job.kind == "speed"] == [()] * 3
    assert {host_of(w) for job, w, _ in client.sent if job.kind == "speed"} == {"a", "b"}
    assert any(beside for job, _, beside in client.sent if job.kind == "fit"), "others do share a host"


def test_no_timing_on_a_host_where_a_job_still_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a nanny a worker that hangs goes on burning its core: its whole host is out for timing, not for law cells."""
    monkeypatch.setattr(cluster, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(Future, "done", lambda self: self.value is not None)
    pairs = {name: {"speed": {"enabled": True, "k": [3]}} for name in ("load-ok", "load-ok-too")}
    made = planned("load-hangs", "load-ok", "load-ok-too", "load-slow", cell_timeout=0.01, pair=pairs)
    client = Client([ONE, "tcp://a:2", TWO], lambda job, _w: "hangs" if job.pair == "load-hangs" else "ok", nanny=False)
    assert once_each(made, run_fake(made, client, tmp_path))
    hung = host_of(next(w for job, w, _ in client.sent if job.pair == "load-hangs"))
    assert [host_of(w) for job, w, _ in client.sent if job.kind == "speed"] == ["b" if hung == "a" else "a"] * 2


def test_a_cluster_without_workers_or_scheduler_ends_the_run_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "PATIENCE_SECONDS", 0.1)
    made = planned("load-ok")
    with pytest.raises(RunBroken, match=r"has had no worker for 0\.1 s; finished cells are kept"):
        run_fake(made, Client([]), tmp_path)
    client = Client([ONE])
    monkeypatch.setattr(client, "nthreads", lambda: (_ for _ in ()).throw(OSError("closed")))
    with pytest.raises(RunBroken, match="no longer answers"):
        run_fake(made, client, tmp_path)


def test_an_interrupt_ends_what_is_in_flight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = planned("load-hangs")
    client = Client([ONE], lambda _job, _w: "hangs")

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Journal, "tell", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_fake(made, client, tmp_path)
    assert [f.cancelled for f in client.flying] == [True]
    assert client.workers != [ONE], "its worker was started anew"


def test_an_answer_keeps_what_was_finished_before_it_broke(monkeypatch: pytest.MonkeyPatch) -> None:
    job = planned("fake-exact", law=LAW).jobs[0]

    def half(asked: Job) -> Any:
        yield from instant(asked).cells[:1]
        raise ZeroDivisionError("halfway")

    monkeypatch.setattr(cluster, "cells_of", half)
    found = cluster.answer(job)
    assert [cell.id for cell, _ in found.cells] == [job.cells[0].id]
    assert found.error.startswith("ZeroDivisionError: halfway")


def test_a_scheduler_that_is_not_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.5)
    with pytest.raises(InputError, match=r"No Dask scheduler answers at 'tcp://127\.0\.0\.1:9'"):
        connect("tcp://127.0.0.1:9")


def assert_same_cells(a: Path, b: Path) -> None:
    """Every cell but for the time it took, and every array bit for bit."""
    cells = {folder: sorted((folder / "cells").iterdir()) for folder in (a, b)}
    assert [p.name for p in cells[a]] == [p.name for p in cells[b]]
    for mine, other in zip(*cells.values(), strict=True):
        if mine.suffix == ".json":
            one, two = (json.loads(p.read_text()) | {"seconds": 0} for p in (mine, other))
            assert one == two
        else:
            with np.load(mine) as one, np.load(other) as two:
                assert one.files == two.files
                for name in one.files:
                    np.testing.assert_array_equal(one[name], two[name])


@pytest.mark.slow
def test_one_of_two_workers_is_killed_and_nothing_is_lost_or_done_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from distributed import Client as DaskClient
    from distributed import LocalCluster

    made = planned("fake-exact", "load-ok", "load-slow", "load-ok-too", pair={"fake-exact": {"law": LAW}})
    local, _ = execute(made, tmp_path / "local", jobs=1, resume=False, say=SILENT, report=False)
    worker._load.cache_clear()  # other tests want to see these pairs being loaded
    monkeypatch.setenv("FAKE_SLOW", "3")
    killed: list[int] = []

    def kill_the_worker_of(job: str, address: str) -> None:
        with DaskClient(address, set_as_default=False) as watcher:
            while not killed:
                busy = [w for w, keys in watcher.processing().items() if any(k.startswith(job) for k in keys)]
                for where in busy:
                    pid = watcher.run(os.getpid, workers=[where])[where]
                    time.sleep(0.5)  # it computes for three seconds
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
                time.sleep(0.05)

    written: list[str] = []
    write_cell = store.write_cell

    def noted(folder: Path, cell: CellResult, arrays: Any) -> None:
        written.append(cell.id)
        write_cell(folder, cell, arrays)

    monkeypatch.setattr(store, "write_cell", noted)
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1") as workers:
        executor = connect(workers.scheduler_address)
        thread = threading.Thread(target=kill_the_worker_of, args=("fit load-slow", workers.scheduler_address), daemon=True)
        thread.start()
        folder, cells = execute(made, tmp_path / "dask", jobs=1, resume=False, say=SILENT, report=False, executor=executor)
        thread.join(10)
        executor.close()
    assert len(killed) == 1
    assert not any(cell.error for cell in cells)
    assert sorted(written) == sorted(cell.id for cell in made.cells)
    assert_same_cells(folder, local)
    about = json.loads((folder / "run.json").read_text())["executor"]
    assert about["kind"] == "dask"
    assert set(about["hosts"]) == set(written)
