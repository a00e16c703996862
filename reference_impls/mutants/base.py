"""What a mutant is, and the one registry of them. A family is a file; a member states the one policy that it gets wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reference_impls.samplers.speculative import Speculative
from tppsd_bench.errors import InputError


@dataclass(frozen=True)
class Mutant:
    """One fault: ``change`` turns the exact sampler into the broken one, which declares the rule that it breaks."""

    name: str
    broken: str
    """What is wrong, in one sentence."""
    precedent: str
    """Where published code or advice has it."""
    killers: tuple[str, ...]
    """Statistics that are there to see it."""
    blessed_by: tuple[str, ...]
    """Checks in common use that pass it."""
    witness: tuple[str, str]
    """(pair, draft) on which it shows."""
    change: Callable[[Speculative], Speculative]

    def of(self, sampler: Speculative) -> Speculative:
        """The broken sampler with everything else as in ``sampler``."""
        return self.change(sampler)


_REGISTRY: dict[str, Mutant] = {}


def register(member: Mutant) -> Mutant:
    """Add a mutant under its name; names are unique."""
    if member.name in _REGISTRY:
        raise InputError(f"A mutant named {member.name!r} is already registered; choose another name.")
    _REGISTRY[member.name] = member
    return member


def names() -> list[str]:
    return list(_REGISTRY)


def mutant(name: str) -> Mutant:
    """The mutant of that name; InputError names those there are."""
    if name not in _REGISTRY:
        raise InputError(f"There is no mutant {name!r}; known mutants: {', '.join(_REGISTRY)}.")
    return _REGISTRY[name]
