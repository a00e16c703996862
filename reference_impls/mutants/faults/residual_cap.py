"""The residual's rejection loop gives up after 50 tries and takes a draw from the target instead."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from reference_impls.base import Law
from reference_impls.heads.lognormal_mixture import sample_types
from reference_impls.mutants.base import Mutant, Witness
from reference_impls.samplers.residual import ExactResidual, ResidualDraw, Uniforms
from tppsd_bench.protocols import FloatArray, IntArray


class CappedResidual(ExactResidual):
    """Rejection from p with a cap on the tries, which it admits to in the count of give-ups."""

    tries = 50

    def beyond_tries(
        self, p: Law, q: Law, rows: IntArray, uniforms: Uniforms, joint: bool, lost: IntArray, gap: FloatArray, types: IntArray
    ) -> ResidualDraw:
        u, law = uniforms(rows[lost], 3), p.take(lost)
        gap[lost] = law.sample_gap(u[:, :2])
        if joint:
            types[lost] = sample_types(law.type_log_probs(gap[lost]), u[:, 2])
        none, gave_up = np.zeros(len(rows), dtype=bool), np.zeros(len(rows), dtype=bool)
        gave_up[lost] = True
        return ResidualDraw(gap, types, none, none, gave_up)


MUTANT = Mutant(
    name="residual_cap",
    broken="A residual gap not found in 50 tries is drawn from the target.",
    precedent="published code of speculative sampling for point processes",
    change=lambda sampler, _: replace(sampler, residual=CappedResidual()),
    killers=("support.gap", "accounting.residual_give_ups"),
    blessed_by=("pit_time", "pit_type", "pair", "blackbox", "acceptance_identity"),
    witness=Witness(draft="close"),
)
