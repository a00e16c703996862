"""A user's sampler in a process of its own: it may raise, hang, die or print, and the command line still has the last word."""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from tppsd_bench.errors import InputError
from tppsd_bench.protocols import SampleRequest, SampleRun, Stop
from tppsd_bench.results import CellResult
from tppsd_bench.runner.worker import describe, initialise, resolve

GRACE_SECONDS = 3.0
"""Code that does not answer to its time limit (stuck outside Python) is ended this much later, with its process."""


@dataclass(frozen=True)
class Order:
    """What the command line was asked for."""

    factory: str
    access: str
    events: int | None
    seconds: float | None
    """A time budget, instead of ``events``."""
    stop: Stop | None
    seed: int
    timeout: float
    sequential: bool = False


class Trial:
    """The other end of the process: ``size()`` first, then ``certify(n)``. InputError carries whatever went wrong there."""

    def __init__(self, process: multiprocessing.process.BaseProcess, pipe: Connection, order: Order) -> None:
        self._process, self._pipe, self._order = process, pipe, order

    def size(self) -> int:
        """Events of the first round."""
        return int(self._ask("size"))

    def certify(self, n_events: int) -> CellResult:
        found: CellResult = self._ask("certify", n_events)
        return found

    def _ask(self, *words: Any) -> Any:
        try:
            self._pipe.send(words)
            ok, answer = self._pipe.recv()
        except (EOFError, OSError):
            raise InputError(self._died()) from None
        if not ok:
            raise InputError(answer)
        return answer

    def _died(self) -> str:
        self._process.join(5)
        code = self._process.exitcode or 0
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return (
            f"The process in which the sampler under test ran ended without a word ({how}): a crash or a call longer than "
            f"{self._order.timeout:g} s in foreign code, too little memory, or a call of exit(). Find it by calling sample() by hand."
        )


@contextlib.contextmanager
def trial(order: Order) -> Iterator[Trial]:
    """A fresh process that serves this order; ended with the block, however that ends."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, list(sys.path), order), daemon=True)
    process.start()
    there.close()
    try:
        yield Trial(process, here, order)
    finally:
        here.close()
        process.kill()
        process.join()


# -- the process itself ---------------------------------------------------------------------------------------------------
def _serve(pipe: Connection, path: list[str], order: Order) -> None:
    initialise(path)
    sys.stdout.flush()
    os.dup2(2, 1)  # what a sampler prints is not part of the certificate
    served = _Served(order)
    while True:
        try:
            what, *arguments = pipe.recv()
        except EOFError:
            return
        try:
            answer: tuple[bool, Any] = True, getattr(served, what)(*arguments)
        except InputError as problem:
            answer = False, str(problem)
        except Exception as problem:
            answer = False, f"The examination broke: {describe(problem)}"
        sys.stdout.flush()  # once it has its answer the other side may end this process at any moment
        pipe.send(answer)


class _Served:
    def __init__(self, order: Order) -> None:
        self._order = order
        self._parts: tuple[Any, Any, Any, Any] | None = None

    def size(self) -> int:
        from tppsd_bench.certificate import DEFAULT_EVENTS, DEFAULT_LENGTH

        order = self._order
        sampler, target, *_ = self._load()
        if order.seconds is None:
            return order.events or DEFAULT_EVENTS
        return affordable_events(sampler, target, order.stop or Stop(n_events=DEFAULT_LENGTH), order)

    def certify(self, n_events: int) -> CellResult:
        from tppsd_bench.certificate import certify

        sampler, target, draft, reference = self._load()
        order = self._order
        return certify(
            sampler, target, n_events=n_events, access=order.access, draft=draft, reference=reference, seed=order.seed,  # type: ignore[arg-type]
            stop=order.stop, timeout=order.timeout, name=getattr(sampler, "title", ""), sequential=order.sequential,
        ).cell  # fmt: skip

    def _load(self) -> tuple[Any, Any, Any, Any]:
        if self._parts is None:
            sampler, target, draft, reference = factory_parts(self._order.factory)
            watched = [_Watched(s, self._order.timeout) if hasattr(s, "sample") else s for s in (sampler, reference)]
            self._parts = watched[0], target, draft, watched[1]
        return self._parts


class _Watched:
    """The sampler, with a watchdog outside Python around each call."""

    def __init__(self, sampler: Any, seconds: float) -> None:
        self._sampler, self._seconds = sampler, seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sampler, name)

    @property
    def title(self) -> str:
        return str(getattr(self._sampler.declares, "name", "") or type(self._sampler).__name__)

    def sample(self, request: SampleRequest) -> SampleRun:
        faulthandler.dump_traceback_later(self._seconds + GRACE_SECONDS, exit=True)
        try:
            run: SampleRun = self._sampler.sample(request)
        finally:
            faulthandler.cancel_dump_traceback_later()
        return run


def factory_parts(dotted: str) -> tuple[Any, Any, Any, Any]:
    """(sampler, target, draft, reference) of ``package.module:factory``; InputError says what is missing."""
    try:
        factory = resolve(dotted)
    except ModuleNotFoundError as problem:
        raise InputError(f"--sampler {dotted!r}: {problem}; is the folder it lies in the current one, or installed?") from None
    except AttributeError as problem:
        raise InputError(f"--sampler {dotted!r}: {problem}.") from None
    except Exception as problem:
        raise InputError(f"--sampler {dotted!r}: importing it raised {describe(problem)}") from problem
    try:
        made = factory() if callable(factory) and not hasattr(factory, "sampler") else factory
    except Exception as problem:
        raise InputError(f"--sampler {dotted!r}: the factory raised {describe(problem)}") from problem
    if isinstance(made, tuple) and 2 <= len(made) <= 4:
        sampler, target, draft, reference = (*made, None, None)[:4]
    elif hasattr(made, "sampler") and hasattr(made, "target"):
        sampler, target = made.sampler, made.target
        draft, reference = getattr(made, "draft", None), getattr(made, "reference", None)
    elif hasattr(made, "sample") and hasattr(made, "score"):
        sampler, target, draft, reference = made, made, None, None
    else:
        raise InputError(
            f"--sampler {dotted!r} gave a {type(made).__name__}; expected (sampler, target), (sampler, target, draft), "
            "(sampler, target, draft, reference), or one object with sample() and score()."
        )
    return sampler, target, draft, reference


def affordable_events(sampler: Any, target: Any, stop: Stop, order: Order) -> int:
    """Events whose drawing and testing fit the budget: a small draw is timed, half the time is kept for the tests."""
    import time

    from tppsd_bench.runner.answers import ask
    from tppsd_bench.streams import StreamKey

    n, seconds = 4, order.seconds or 0.0
    key = StreamKey(seed=order.seed, suite="certify", stage="timing")
    while True:
        started = time.perf_counter()
        try:
            drawn = ask(sampler, SampleRequest(n, stop, key), target.n_types, seconds=order.timeout).events.n_events
        except TimeoutError as problem:
            raise InputError(str(problem)) from problem
        took = time.perf_counter() - started
        if took > min(0.02 * seconds, 1.0) or n >= 4096:
            break
        n *= 4
    return max(1000, int(0.5 * seconds * drawn / max(took, 1e-6) / 2), 1)
