"""Deliberately broken samplers: the reference sampler with one decision changed, by name. ``mutant(name)`` finds one."""

from __future__ import annotations

from reference_impls.mutants import types  # noqa: F401  (members register themselves)
from reference_impls.mutants.base import Mutant, mutant, names

__all__ = ["Mutant", "mutant", "names"]
