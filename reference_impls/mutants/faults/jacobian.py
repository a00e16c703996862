"""The draft's density is left in log time: without the 1/gap of the logarithm, on one side of the ratio only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from reference_impls.mutants.base import Mutant
from reference_impls.samplers.verification import TwoStep, Verification, log_densities
from tppsd_bench.protocols import Conditional, FloatArray, IntArray


class DraftInLogTime(TwoStep):
    """p per unit of time over q per unit of log time. On both sides the factor would cancel."""

    def verify(
        self, p: Conditional, q: Conditional, gaps: FloatArray, types: IntArray, u_gap: FloatArray, u_type: FloatArray
    ) -> Verification:
        log_p, log_q, log_pk, log_qk = log_densities(p, q, gaps, types)
        log_q = log_q + np.log(gaps)
        return Verification(
            log_p, log_q, log_pk, log_qk, self.accepts(log_p, log_q, u_gap), self.accepts(log_pk, log_qk, u_type)
        )


MUTANT = Mutant(
    name="jacobian",
    broken="The draft's density of gaps lacks the 1/gap of the log map, the target's has it.",
    precedent="EasyTPP issue 84",
    change=lambda sampler, _: replace(sampler, rule=DraftInLogTime()),
    killers=("density_agreement.q.gap", "acceptance_identity.gap", "pit_time", "role_law.gap.accepted"),
    blessed_by=("pit_type", "acceptance_identity.type", "draft_law", "blackbox.gap_acf"),
)
