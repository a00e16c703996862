"""A user's factory in the place of a pair: the gate asks both for the same samplers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tppsd_bench.errors import InputError
from tppsd_bench.protocols import SamplerUnderTest, Target


@dataclass(frozen=True)
class FactoryPair:
    """What ``factory()`` returned, as ``certify --sampler`` takes it. Draft, K, rule and batch size are the sampler's own."""

    title: str
    target: Target
    drafts: dict[str, Any]
    """The draft's law under the empty name, where the factory gave one."""
    subject: SamplerUnderTest
    reference: SamplerUnderTest | None

    def sampler(self, kind: str, **_own: Any) -> SamplerUnderTest:
        """``target_only`` is the factory's reference; everything else is the sampler under test."""
        if kind != "target_only":
            return self.subject
        if self.reference is None:
            raise InputError(
                f"The factory of {self.title!r} gives no reference sampler, so there is no target-only time to compare with; return "
                '(sampler, target, draft, reference), or leave "time" out of study.gate.measure.'
            )
        return self.reference


def load_subject(source: str, device: str = "cpu") -> FactoryPair:
    """The loader of samplers that a suite names as MODULE:FACTORY."""
    from tppsd_bench.runner.trial import factory_parts

    sampler, target, draft, reference = factory_parts(source)
    drafts = {} if draft is None else {"": draft}
    return FactoryPair(str(sampler.declares.name or source), target, drafts, sampler, reference)
