"""A machine whose costs are known exactly: the toys' samplers, whose every target step, draft step, pass and round takes a stated time.

Nothing is measured in earnest: a sampler does its work, its counts say what that would have cost, and a clock is put forward by as much.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from reference_impls.pairs import load_pair
from tppsd_bench.measure import timing
from tppsd_bench.protocols import SampleRequest, SampleRun
from tppsd_bench.runner import calibration

STEP = 0.001
"""Seconds of a target step."""


@dataclass
class Machine:
    """Costs in target steps, and the time."""

    draft: float = 0.1
    verify: Callable[[float], float] = lambda k: 1.0 + 0.05 * k
    rest: float = 0.3
    now: float = 0.0

    def spend(self, steps: float) -> None:
        self.now += STEP * steps

    def perf_counter(self) -> float:
        return self.now

    process_time = perf_counter

    def round(self, k: float) -> float:
        """Cost of a round with k drafts."""
        return self.draft * k + self.verify(k) + self.rest

    def rule(self, patch: pytest.MonkeyPatch) -> None:
        """Every clock that the study reads is this machine's."""
        patch.setattr(timing, "time", self)
        patch.setattr(calibration, "time", self)


@dataclass(frozen=True)
class Costed:
    """A sampler that takes what ``cost`` says its run costs."""

    inner: Any
    machine: Machine
    cost: Callable[[SampleRun], float]

    @property
    def declares(self) -> Any:
        return self.inner.declares

    def sample(self, request: SampleRequest) -> SampleRun:
        run = self.inner.sample(replace(request, want_trace=True))
        self.machine.spend(self.cost(run))
        return run


@dataclass(frozen=True)
class CostedModel:
    """The target, whose passes take v(K)."""

    inner: Any
    machine: Machine

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def extend(self, cache: Any, gaps: Any, types: Any, counts: Any) -> Any:
        self.machine.spend(len(gaps) * self.machine.verify(gaps.shape[1] - 1))
        return self.inner.extend(cache, gaps, types, counts)


@dataclass(frozen=True)
class MachinePair:
    """A toy on the machine; ``drafts`` as the toy's."""

    machine: Machine
    toy: Any
    name: str = "machine"
    title: str = "Machine"
    drafts: Any = field(default_factory=dict)

    @property
    def target(self) -> Any:
        return CostedModel(self.toy.target, self.machine)

    def sampler(self, kind: str, **options: Any) -> Costed:
        machine, toy = self.machine, replace(self.toy, drafts=self.drafts)
        costs: dict[str, Callable[[SampleRun], float]] = {
            "target_only": lambda run: run.events.n_events,
            "draft_only": lambda run: machine.draft * run.events.n_events,
            "target_only_recompute": lambda run: 10.0 * run.events.n_events,
            "speculative": lambda run: sum(machine.round(k) for k in run.trace.round_drafted.tolist()) if run.trace else 0.0,
        }
        return Costed(toy.sampler(kind, **options), machine, costs[kind])


def machine_pair(machine: Machine, toy: str = "toy-marked") -> MachinePair:
    loaded = load_pair(toy)
    return MachinePair(machine, loaded, drafts=loaded.drafts)
