"""A zoo for tests: a fault, an exact control, and a fault that passes itself off as exact."""

from __future__ import annotations

from dataclasses import replace

from reference_impls.mutants import Mutant
from reference_impls.mutants import mutant as real

_FAULT = replace(real("type_unverified"), name="fault", doses=(0.0, 1.0))
_MEMBERS = {
    "fault": _FAULT,
    "faint": replace(
        _FAULT, name="faint", change=lambda sampler, dose: _FAULT.change(sampler, dose) if dose > 0.5 else sampler, dose=0.0
    ),
    "exact": replace(real("k_one"), name="exact"),
    "not_exact": replace(real("always_accept"), name="not_exact", control=True),
}


def names() -> list[str]:
    return [n for n, m in _MEMBERS.items() if not m.control]


def controls() -> list[str]:
    return [n for n, m in _MEMBERS.items() if m.control]


def mutant(name: str) -> Mutant:
    return _MEMBERS[name] if name in _MEMBERS else real(name)
