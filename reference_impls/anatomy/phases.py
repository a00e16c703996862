"""CPU time by phase: methods wrapped from outside while a run lasts, each charged with what the wrapped ones below it leave.

Which method belongs to which phase is said in ``probes_of``. A wrapped call reads the clock twice; what that costs is measured on calls that
do nothing and taken off, the reader's own part where the call is made and where it ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from reference_impls.samplers import target_only
from reference_impls.samplers.history import Histories
from reference_impls.samplers.round import Work
from reference_impls.samplers.target_only import TargetOnly
from tppsd_bench.streams import UniformStreams

Path = tuple[str, ...]
"""Phases from the outermost in; the first is the section of the table, the last the part of it."""

DRAFT, TARGET, ACCEPT, LAST, DRAW, KEEP = "draft steps", "target pass", "acceptance", "last event", "drawing", "bookkeeping"
SECTIONS = (DRAFT, TARGET, ACCEPT, LAST, DRAW, KEEP)
REST = "rest"

_SPECULATIVE: dict[str, Path] = {
    "propose": (DRAFT,),
    "draw_proposal": ("drawing",),
    "target_pass": (TARGET,),
    "verify": (ACCEPT,),
    "_last_event": (LAST,),
    "bonus": ("bonus",),
    "replace_event": ("residual",),
    "replace_type": ("residual",),
    "uniforms": (KEEP, "uniforms"),
    "compose": (KEEP, "commit"),
    "commit": (KEEP, "commit"),
    "roll_back": (KEEP, "roll back"),
}
_MODEL: dict[str, Path] = {"extend": ("encoder",), "initial": ("encoder",), "start": (KEEP, "caches made")}


@dataclass(frozen=True, slots=True)
class Probe:
    """``owner.name`` (of a class or a module) belongs to a phase."""

    owner: Any
    name: str
    phase: Path

    @property
    def absent(self) -> bool:
        return not hasattr(self.owner, self.name)


def probes_of(sampler: Any) -> list[Probe]:
    """What to wrap of a reference sampler, target-only or speculative."""
    models = [m for name in ("target", "draft") if hasattr(sampler, name) for m in _layers_of(getattr(sampler, name))]
    probes = [Probe(type(m), name, phase) for m in models for name, phase in _MODEL.items()]
    probes += [Probe(type(m.head), "law", ("law",)) for m in models if hasattr(m, "head")]
    if isinstance(sampler, TargetOnly):
        law = type(sampler.target.initial(1))
        probes += [Probe(TargetOnly, "_law", (TARGET,)), Probe(target_only, "sample_types", (DRAW,))]
        probes += [Probe(law, name, (DRAW,)) for name in ("sample_gap", "type_log_probs")]
        probes += [Probe(UniformStreams, "take", (KEEP, "uniforms")), Probe(Histories, "commit", (KEEP, "commit"))]
    else:
        probes += [Probe(type(sampler), name, phase) for name, phase in _SPECULATIVE.items()]
        probes.append(Probe(Work, "keep", (KEEP, "finished rows")))
    return list({(p.owner, p.name): p for p in map(_where_defined, probes)}.values())


def _layers_of(model: Any) -> Iterator[Any]:
    """A model and those that it wraps."""
    while model is not None:
        yield model
        model = next((getattr(model, name) for name in ("base", "inner", "model") if hasattr(model, name)), None)


def _where_defined(probe: Probe) -> Probe:
    """An inherited method is wrapped once, in the class that has it."""
    if isinstance(probe.owner, ModuleType):
        return probe
    return Probe(next((c for c in probe.owner.__mro__ if probe.name in c.__dict__), probe.owner), probe.name, probe.phase)


@dataclass
class Tracer:
    """Nested phases, CPU seconds and calls of each; the path () is what lies in none."""

    seconds: dict[Path, float] = field(default_factory=dict)
    calls: dict[Path, int] = field(default_factory=dict)
    path: Path = ()
    clock: Callable[[], float] = time.process_time
    _since: float = 0.0

    @contextmanager
    def watching(self, probes: Sequence[Probe]) -> Iterator[Tracer]:
        """The probes' methods wrapped, and the clock running. Where there is no such method there is no phase: see ``Probe.absent``."""
        wrapped: list[tuple[Probe, Any]] = []
        try:
            for probe in (p for p in probes if not p.absent):
                before = getattr(probe.owner, probe.name)
                setattr(probe.owner, probe.name, self._wrapped(before, probe.phase))
                wrapped.append((probe, before))
            self._since = self.clock()
            yield self
            self._charge()
        finally:
            for probe, before in reversed(wrapped):
                setattr(probe.owner, probe.name, before)

    def net(self, cost: tuple[float, float]) -> dict[Path, float]:
        """Seconds of each path less the cost of wrapping, ``wrapping_cost()``."""
        inside, outside = cost
        out = {path: s - inside * self.calls.get(path, 0) for path, s in self.seconds.items()}
        for path, n in self.calls.items():
            outer = next(path[:i] for i in range(len(path) - 1, -1, -1) if path[:i] in out)
            out[outer] -= outside * n
        return out

    def _charge(self) -> None:
        now = self.clock()
        self.seconds[self.path] = self.seconds.get(self.path, 0.0) + now - self._since
        self._since = now

    def _wrapped(self, function: Callable[..., Any], phase: Path) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            self._charge()
            outer = self.path
            self.path = inner = outer + phase
            self.calls[inner] = self.calls.get(inner, 0) + 1
            try:
                return function(*args, **kwargs)
            finally:
                self._charge()
                self.path = outer

        return watched


class _Idle:
    def nothing(self) -> None:
        pass


def wrapping_cost(calls: int = 20_000) -> tuple[float, float]:
    """CPU seconds that wrapping adds to a call's own phase and to the one around it."""
    idle = _Idle()

    def loop() -> None:
        for _ in range(calls):
            idle.nothing()

    begun = time.process_time()
    loop()
    bare = time.process_time() - begun
    tracer = Tracer()
    with tracer.watching([Probe(_Idle, "nothing", ("idle",))]):
        loop()
    return tracer.seconds["idle",] / calls, max(0.0, tracer.seconds[()] - bare) / calls
