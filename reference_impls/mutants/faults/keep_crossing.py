"""The event that crosses the horizon is kept, moved back to just before it."""

from __future__ import annotations

import numpy as np

from reference_impls.mutants.base import Mutant, Witness, remade
from reference_impls.mutants.faults.drop_crossing import crossing
from reference_impls.samplers.round import Work
from reference_impls.samplers.speculative import Speculative
from tppsd_bench.protocols import FloatArray, IntArray

JUST_BEFORE = 1.0 - 1e-6
"""Share of the time left to the horizon at which the event that crosses it is put."""


class KeepsCrossing(Speculative):
    def commit(self, work: Work, gaps: FloatArray, types: IntArray, offered: IntArray) -> IntArray:
        beyond, ends = crossing(work, gaps, offered)
        rows = np.flatnonzero(beyond.any(axis=1))
        first = beyond[rows].argmax(axis=1)
        before = ends[rows, first] - gaps[rows, first]
        horizon = work.histories.stop.horizon or 0.0
        gaps[rows, first] = np.maximum(horizon - before, 0.0) * JUST_BEFORE
        kept = super().commit(work, gaps, types, offered)
        work.histories.finished[rows] = True
        return kept


MUTANT = Mutant(
    name="keep_crossing",
    broken="The event that crosses the horizon is kept, clipped to just before it.",
    precedent="the last point of a simulation kept past its end time: tick #423; tokens past a stop: transformers #47912",
    change=lambda sampler, _: remade(KeepsCrossing, sampler),
    killers=(
        "counts",
        "accounting.records",
        "pit_time",
        "strata",
    ),
    blessed_by=(
        "two-sample tests of types",
        "acceptance",
    ),
    witness=Witness(horizon=8.0),
)
