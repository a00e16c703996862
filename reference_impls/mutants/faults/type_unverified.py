"""Gaps are verified, types are not: an accepted gap keeps whatever type the draft proposed with it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from reference_impls.mutants.base import Mutant, Witness
from reference_impls.samplers.verification import TwoStep, Verification
from tppsd_bench.protocols import Conditional, FloatArray, IntArray


class TypesUnverified(TwoStep):
    """Gaps are verified as declared; a type whose gap was accepted is never put to the test and stays the draft's."""

    def verify(
        self, p: Conditional, q: Conditional, gaps: FloatArray, types: IntArray, u_gap: FloatArray, u_type: FloatArray
    ) -> Verification:
        verified = super().verify(p, q, gaps, types, u_gap, u_type)
        verified.type_accepted = np.ones_like(verified.type_accepted)
        return verified


MUTANT = Mutant(
    name="type_unverified",
    broken="Accepted events keep the draft's type.",
    precedent="published code of speculative sampling for point processes",
    change=lambda sampler, _: replace(sampler, rule=TypesUnverified()),
    killers=("pit_type", "pair.gap_type", "strata.pit_type", "score.type", "draft_direction.type", "acceptance_identity.type"),
    blessed_by=("pit_time", "two-sample tests of gaps", "acceptance of gaps"),
    witness=Witness("toy-gap-types"),
    gross=False,
)
