"""Finding mutants: every file of ``faults`` and ``controls`` that defines ``MUTANT``."""

from __future__ import annotations

import importlib
import pkgutil
from difflib import get_close_matches
from functools import cache

from reference_impls.mutants import controls as _controls
from reference_impls.mutants import faults as _faults
from reference_impls.mutants.base import Mutant
from tppsd_bench.errors import InputError


def names() -> list[str]:
    """The faults, by name."""
    return sorted(name for name, member in _members().items() if not member.control)


def controls() -> list[str]:
    """The exact controls, by name."""
    return sorted(name for name, member in _members().items() if member.control)


def mutant(name: str) -> Mutant:
    """The fault or control of that name; InputError names those there are."""
    members = _members()
    if name not in members:
        near = get_close_matches(name, members, n=1, cutoff=0.3)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise InputError(f"There is no mutant {name!r}; known mutants: {', '.join(sorted(members))}.{hint}")
    return members[name]


@cache
def _members() -> dict[str, Mutant]:
    found: dict[str, Mutant] = {}
    for package, control in ((_faults, False), (_controls, True)):
        for module in pkgutil.iter_modules(package.__path__):
            member: Mutant = importlib.import_module(f"{package.__name__}.{module.name}").MUTANT
            if member.name != module.name or member.control is not control or member.name in found:
                raise InputError(
                    f"{package.__name__}.{module.name} defines the mutant {member.name!r} (control: {member.control}); "
                    "a mutant is named as its file, once, and controls lie in controls."
                )
            found[member.name] = member
    return found
