"""What happens inside one process: threads pinned, the pair loaded, one job done, its cells written whole."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from tppsd_bench import store
from tppsd_bench.errors import InputError, RunBroken
from tppsd_bench.results import CellResult
from tppsd_bench.runner.plan import Job
from tppsd_bench.studies.base import module_of, study_of

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
RUNNERS = {
    "law": "tppsd_bench.runner.law_cell:run_law_job",
    "horizon": "tppsd_bench.runner.law_cell:run_law_job",
    "fit": "tppsd_bench.runner.fit_cell:run_fit_job",
    "speed": "tppsd_bench.runner.speed_cell:run_speed_job",
    "power": "tppsd_bench.runner.power_cell:run_power_job",
    "transformer": "tppsd_bench.runner.power_cell:run_transformer_job",
    "dose": "tppsd_bench.runner.power_dose:run_dose_job",
    "null": "tppsd_bench.runner.power_null:run_null_job",
}
"""Kind of cell -> the function (job, pair) -> [(CellResult, arrays)] that fills it; resolved when needed. Studies bring their own."""


def describe(problem: BaseException) -> str:
    """An exception as a cell's error: what it said, and where it was raised."""
    if isinstance(problem, (InputError, TimeoutError)):
        return str(problem)
    frames = traceback.extract_tb(problem.__traceback__)
    where = f" (in {Path(frames[-1].filename).name}, line {frames[-1].lineno}, {frames[-1].name})" if frames else ""
    return f"{type(problem).__name__}: {problem}{where}"


class CellBroken(Exception):
    """What a job raised, as the sentence that its cells will carry (an exception from another process loses its traceback)."""


def resolve(dotted: str) -> Any:
    """The object named ``package.module:name``."""
    module, _, name = dotted.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def run_job(job: Job, folder: str) -> float:
    """Do one job and write its cells into the run folder; gives the seconds it took. Raises CellBroken where a cell did."""
    started = time.perf_counter()
    try:
        with contextlib.closing(cells_of(job)) as cells:
            for cell, arrays in cells:
                store.write_cell(Path(folder), cell, arrays)
    except RunBroken:
        raise
    except Exception as problem:
        raise CellBroken(describe(problem)) from problem
    return time.perf_counter() - started


def cells_of(job: Job) -> Generator[tuple[CellResult, dict[str, Any]], None, None]:
    """Do one job in this process: its cells with their arrays, each as soon as it is there. Close it, for it holds an alarm."""
    started = time.perf_counter()
    with time_limit(job.timeout, f"Job {job.label}" if job.table else f"Job {job.kind} of pair {job.pair!r}"), one_thread():
        pair = _load(job.loader, job.source, job.device)
        pin_torch()
        study = study_of(job.kind)
        run: Callable[[Job, Any], Iterable[Any]] = module_of(study, "run").run if study else resolve(RUNNERS[job.kind])
        for cell, arrays in run(job, pair):
            yield replace(cell, seconds=cell.seconds or time.perf_counter() - started), arrays


@lru_cache(maxsize=4)
def _load(loader: str, source: str, device: str) -> Any:
    return resolve(loader)(source, device=device)


def pin_torch() -> None:
    """One thread for torch, where the pair brought it in; two make small networks slower, not faster."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """BLAS at one thread."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        yield


@contextlib.contextmanager
def thread_environment() -> Iterator[None]:
    """Child processes started inside inherit one thread for every library that reads the environment."""
    before = {v: os.environ.get(v) for v in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def time_limit(
    seconds: float, what: str, mend: str = " and was stopped; raise cell_timeout in the suite if it is merely slow"
) -> Iterator[None]:
    """Raise TimeoutError in this process's main thread after ``seconds``; no effect where the system has no alarm."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(_signal: int, _frame: object) -> None:
        raise TimeoutError(f"{what} took longer than {seconds:g} s{mend}.")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def initialise(path: list[str]) -> None:
    """Start of a worker process: the parent's import path, no Ctrl-C of its own, and an end when the parent ends."""
    sys.path[:] = path
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A killed parent leaves its workers waiting for work for ever; this one notices."""
    import multiprocessing
    import multiprocessing.connection

    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)
