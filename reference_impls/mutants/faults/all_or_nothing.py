"""The position of a rejection is lost: whichever proposal was refused, the round restarts at its first event."""

from __future__ import annotations

import numpy as np

from reference_impls.base import Law
from reference_impls.mutants.base import Mutant, remade
from reference_impls.samplers.round import Draft
from reference_impls.samplers.speculative import Speculative
from reference_impls.samplers.verification import Verification
from tppsd_bench.protocols import FloatArray, IntArray


class AllOrNothing(Speculative):
    """A round survives whole, or its first event is redrawn from the residual there and everything behind it is thrown away."""

    def verify(self, draft: Draft, p: Law, position_rows: IntArray, u: FloatArray) -> Verification:
        verified = super().verify(draft, p, position_rows, u)
        counted = np.arange(draft.gaps.shape[1]) < draft.k[:, None]
        refused = (counted & ~(verified.gap_accepted & verified.type_accepted)).any(axis=1)
        verified.gap_accepted[refused, :1] = False
        return verified


MUTANT = Mutant(
    name="all_or_nothing",
    broken="Any rejection discards the whole round and redraws its first event, whichever event was refused.",
    precedent="published code of speculative sampling for point processes, which takes the row of a mask for the position",
    change=lambda sampler, _: remade(AllOrNothing, sampler),
    killers=(
        "acceptance_identity.gap",
        "pit_time",
        "pair.gap_type",
        "strata.pit_time",
        "serial.time",
        "draft_law.gap",
        "draft_direction.gap",
    ),
    blessed_by=("accounting", "density_agreement", "serial.type"),
)
