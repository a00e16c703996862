"""Samplers and targets that break their contract, one function each; importable by ``certify --sampler misbehaving:NAME``."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from reference_impls.pairs import load_pair
from tppsd_bench import Declaration, EventBatch, SampleRequest, SampleRun, Scores, StreamKey

PAIR = load_pair("toy-marked")
EXACT = PAIR.sampler("speculative", draft="stress", k=4)


@dataclass
class Sampler:
    """The exact sampler with its answers spoiled."""

    spoil: Callable[[SampleRequest], Any]
    declares: Declaration = EXACT.declares

    def sample(self, request: SampleRequest) -> Any:
        return self.spoil(request)


@dataclass
class Target:
    """The toy target with its scores spoiled; without conditionals."""

    spoil: Callable[[EventBatch, Scores], Any]
    n_types: int = 3

    def score(self, batch: EventBatch) -> Any:
        return self.spoil(batch, PAIR.target.score(batch))


# -- samplers -------------------------------------------------------------------------------------------------------------
def exact(request: SampleRequest) -> SampleRun:
    return EXACT.sample(request)


def changed(**columns: Callable[[EventBatch], Any]) -> Callable[[SampleRequest], SampleRun]:
    """Sequences without a trace, with some columns of the batch replaced."""

    def spoil(request: SampleRequest) -> SampleRun:
        events = exact(request).events
        return SampleRun(replace(events, **{name: change(events) for name, change in columns.items()}))

    return spoil


def with_trace(**columns: Callable[[Any], Any]) -> Callable[[SampleRequest], SampleRun]:
    """The exact run with some columns of the trace replaced."""

    def spoil(request: SampleRequest) -> SampleRun:
        run = exact(request)
        if run.trace is None:
            return run
        return replace(run, trace=replace(run.trace, **{name: change(run.trace) for name, change in columns.items()}))

    return spoil


def one_seed_for_all(request: SampleRequest) -> SampleRun:
    one = exact(replace(request, n_sequences=1, want_trace=False)).events
    return SampleRun(EventBatch.concat([one] * request.n_sequences))


def ignores_its_key(request: SampleRequest) -> SampleRun:
    return exact(replace(request, key=StreamKey(seed=7)))


def same_as_the_reference(request: SampleRequest) -> SampleRun:
    return PAIR.sampler("target_only").sample(replace(request, key=request.key.replace(arm="reference")))


def rounded(request: SampleRequest) -> SampleRun:
    events = exact(request).events
    return SampleRun(replace(events, gaps=np.ceil(events.gaps * 50) / 50))


def raises(request: SampleRequest) -> SampleRun:
    return [][request.n_sequences]  # type: ignore[no-any-return]


def hangs(request: SampleRequest) -> SampleRun:
    time.sleep(3600)
    return exact(request)


def stuck(request: SampleRequest) -> SampleRun:
    """As in foreign code that never returns to the interpreter."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    return hangs(request)


def dies(request: SampleRequest) -> SampleRun:
    os.kill(os.getpid(), signal.SIGKILL)
    return exact(request)


# -- factories for the command line ---------------------------------------------------------------------------------------
def make_exact() -> Any:
    return EXACT, PAIR.target


def make_raising() -> Any:
    return Sampler(raises), PAIR.target


def make_hanging() -> Any:
    return Sampler(hangs), PAIR.target


def make_stuck() -> Any:
    return Sampler(stuck), PAIR.target


def make_dying() -> Any:
    return Sampler(dies), PAIR.target


def make_nan() -> Any:
    return EXACT, Target(lambda _, s: replace(s, log_density=s.log_density * np.nan))


def make_chatty() -> Any:
    print("a word on standard output")
    return make_exact()


def make_nothing() -> Any:
    raise KeyError("weights.pt")
