"""What a mutant is: a fault that real code had, the change that makes it, who sees it, and where it shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from reference_impls.samplers.speculative import Speculative
from tppsd_bench.protocols import Rule, SamplerUnderTest, Stop


@dataclass(frozen=True)
class Witness:
    """The pair, draft and request on which a fault shows: effects grow with TV(p, q), so usually the stress draft."""

    pair: str = "toy-marked"
    draft: str = "stress"
    k: int = 5
    length: int = 100
    """Events of a sequence, unless a horizon stops it."""
    horizon: float | None = None
    rule: Rule = "leviathan_two_step"
    batch_size: int | None = 64

    @property
    def stop(self) -> Stop:
        return Stop(n_events=self.length) if self.horizon is None else Stop(horizon=self.horizon)

    def exact(self, pair: Any) -> Speculative:
        """The reference sampler that the change is made to."""
        sampler: Speculative = pair.sampler(
            "speculative", draft=self.draft, k=self.k, rule=self.rule, batch_size=self.batch_size
        )
        return sampler


@dataclass(frozen=True)
class Mutant:
    """One fault (or control: a change that leaves the law alone). ``change(sampler, dose)`` gives the changed sampler.

    A fault declares the rule that it breaks. Without ``doses`` the dose is ignored.
    """

    name: str
    broken: str
    """What is wrong, in one sentence; of a control: what is unusual."""
    precedent: str
    """Where published code or advice has it."""
    change: Callable[[Speculative, float], SamplerUnderTest]
    killers: tuple[str, ...] = ()
    """Prefixes of evidence names that are there to see it."""
    blessed_by: tuple[str, ...] = ()
    """Checks in common use that pass it."""
    witness: Witness = field(default_factory=Witness)
    control: bool = False
    gross: bool = True
    """Whether a few hundred events should do; subtle faults need thousands."""
    doses: tuple[float, ...] = ()
    """From harmless to severe."""
    dose: float = 1.0
    """The one used where none is asked for."""
    shared: Callable[[SamplerUnderTest], SamplerUnderTest] | None = None
    """The same fault in the target-only arm that users compared with, where the real code had it in both."""
    faults: tuple[str, ...] = ()
    """Of a combination: the names of its faults."""

    def sampler(self, pair: Any, dose: float | None = None, *, witness: Witness | None = None) -> SamplerUnderTest:
        """The changed sampler of a loaded pair, under this fault's witness or another one."""
        return self.change((witness or self.witness).exact(pair), self.dose if dose is None else dose)

    def baseline(self, pair: Any, *, witness: Witness | None = None) -> SamplerUnderTest:
        """The target-only arm that users of this fault's code compared with."""
        sampler: SamplerUnderTest = pair.sampler("target_only", batch_size=(witness or self.witness).batch_size)
        return sampler if self.shared is None else self.shared(sampler)


def remade(kind: type[Speculative], sampler: Speculative, **more: Any) -> Speculative:
    """The same sampler with the decisions of another class: a subclass that changes one of them, perhaps with ``more`` fields."""
    return kind(**{f.name: getattr(sampler, f.name) for f in fields(Speculative)}, **more)
