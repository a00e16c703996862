"""The first sequence to reach the horizon ends its whole batch: the others are cut short and counted as observed to the horizon."""

from __future__ import annotations

from reference_impls.mutants.base import Mutant, Witness, remade
from reference_impls.samplers.round import Work
from reference_impls.samplers.speculative import Speculative
from tppsd_bench.protocols import FloatArray, IntArray


class StopsBatch(Speculative):
    def commit(self, work: Work, gaps: FloatArray, types: IntArray, offered: IntArray) -> IntArray:
        kept = super().commit(work, gaps, types, offered)
        if work.histories.stop.horizon is not None:
            work.histories.finished[:] = work.histories.finished.any()
        return kept


MUTANT = Mutant(
    name="stop_batch_at_first",
    broken="The first sequence of a batch to reach the horizon ends all the others.",
    precedent="published code of speculative sampling for point processes, whose loop tests one stop for the whole batch",
    change=lambda sampler, _: remade(StopsBatch, sampler),
    killers=(
        "counts",
        "pit_time",
        "tail",
    ),
    blessed_by=(
        "mean log-likelihood",
        "acceptance",
    ),
    witness=Witness(horizon=40.0, batch_size=8),
)
