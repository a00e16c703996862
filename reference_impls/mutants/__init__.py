"""Deliberately broken samplers, and exact ones that look odd: the proof that the suite tells them apart.

Each is the reference sampler with one decision changed. One file a member: a file of ``faults`` or ``controls`` that defines
``MUTANT`` is a member under its own name; tests, kill matrix and report find it there. No torch.
"""

from reference_impls.mutants.base import Mutant, Witness
from reference_impls.mutants.registry import controls, mutant, names

__all__ = ["Mutant", "Witness", "controls", "mutant", "names"]
