"""A limit on the number of events ends a sequence before its horizon, and it is handed over as observed to the horizon."""

from __future__ import annotations

import numpy as np

from reference_impls.mutants.base import Mutant, Witness, remade
from reference_impls.samplers.round import Work
from reference_impls.samplers.speculative import Speculative
from tppsd_bench.protocols import FloatArray, IntArray

CAP = 16
"""Events of a sequence: about every third sequence of the witness has more."""


class Capped(Speculative):
    def commit(self, work: Work, gaps: FloatArray, types: IntArray, offered: IntArray) -> IntArray:
        histories = work.histories
        if histories.stop.horizon is None:
            return super().commit(work, gaps, types, offered)
        kept = super().commit(work, gaps, types, np.minimum(offered, np.maximum(CAP - histories.generated, 0)))
        histories.finished |= histories.generated >= CAP
        return kept


MUTANT = Mutant(
    name="cap_before_horizon",
    broken=f"A sequence ends at its event number {CAP}, though the horizon is not reached.",
    precedent="a maximal number of events that binds before the end time: transformers #47912, tick #423",
    change=lambda sampler, _: remade(Capped, sampler),
    killers=(
        "counts",
        "pit_time",
        "strata",
    ),
    blessed_by=(
        "two-sample tests of gaps and types",
        "mean log-likelihood",
        "acceptance",
    ),
    witness=Witness(horizon=20.0),
)
