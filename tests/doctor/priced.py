"""Toy pairs whose costs are decided: a clock that only models and rounds advance, so that timings are exact and repeatable."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from reference_impls.pairs import Pair
from reference_impls.toys import ToyModel, toy_draft, toy_target
from tppsd_bench.doctor import passes
from tppsd_bench.doctor.diagnosis import Diagnosis, diagnose
from tppsd_bench.doctor.examine import Request, examine
from tppsd_bench.measure import timing

examination = import_module("tppsd_bench.doctor.examine")


class Clock:
    """Seconds that pass when somebody says so."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@dataclass
class Priced:
    """A model whose passes cost ``call`` + ``position`` a new event + ``history`` an event encoded before."""

    model: Any
    clock: Clock
    call: float
    position: float = 0.0
    history: float = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def extend(self, cache: Any, gaps: Any, types: Any, counts: Any) -> Any:
        self.clock.seconds += self.call + self.position * counts.max() + self.history * cache.lengths.max()
        return self.model.extend(cache, gaps, types, counts)

    def law_after(self, gaps: Any, types: Any, lengths: Any) -> Any:
        self.clock.seconds += self.call + max(self.position, 0.2) * lengths.max()
        return self.model.law_after(gaps, types, lengths)


@dataclass
class Burdened:
    """A speculative sampler whose rounds cost ``rest`` besides, and encode ``again`` positions of history in each pass."""

    sampler: Any
    clock: Clock
    rest: float
    again: int

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sampler, name)

    def sample(self, request: Any) -> Any:
        run = self.sampler.sample(request)
        self.clock.seconds += self.rest * run.counts.rounds / request.n_sequences
        run.counts.target_positions += self.again * run.counts.target_row_forwards
        return run


@dataclass(frozen=True)
class PricedPair(Pair):
    clock: Clock = field(default_factory=Clock)
    rest: float = 0.0
    again: int = 0

    def sampler(self, kind: Any, **options: Any) -> Any:
        made = super().sampler(kind, **options)
        return Burdened(made, self.clock, self.rest, self.again) if kind == "speculative" else made


def priced_pair(
    draft: ToyModel | None = None, *, draft_call: float = 0.05, rest: float = 0.0, again: int = 0, position: float = 0.02,
    history: float = 0.0,
) -> PricedPair:  # fmt: skip
    """Target steps of about one second; the shipped toy draft unless another is given."""
    clock, target = Clock(), toy_target()
    drafts = {"shipped": Priced(draft or toy_draft(target, 0.75), clock, draft_call)}
    return PricedPair("priced", "priced", Priced(target, clock, 1.0, position, history), drafts, {}, None, clock, rest, again)


def unlike(shift: float) -> ToyModel:
    """A draft whose gaps are e^shift times as long as the target's."""
    target = toy_target()
    return replace(target, location=target.location + shift)


def examined(
    pair: PricedPair, monkeypatch: pytest.MonkeyPatch, *, k: int, draft: str = "shipped", length: int = 20
) -> Diagnosis:
    """The whole way, on the pair's own clock, with few sequences and pairs."""
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=pair.clock, process_time=pair.clock))
    names = ("collect", "isenabled", "disable", "enable", "freeze", "unfreeze", "get_freeze_count")
    idle = SimpleNamespace(**dict.fromkeys(names, lambda: 0))
    monkeypatch.setattr(timing, "gc", idle)  # nothing of real time is measured here
    for module, name, value in (
        (examination, "SEQUENCES", 20), (examination, "CALIBRATIONS", 2), (examination, "KS", (1, 4, 16)),
        (examination, "BATCHES", (4,)), (examination, "HISTORIES", (16, 256, 1024)), (passes, "PAIRS", 8), (passes, "MIN_PAIRS", 8),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)
    return diagnose(examine(pair, Request("priced", draft, k, length, seed=1, seconds=1e6), clock=pair.clock))
