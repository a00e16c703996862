"""The block in which a sequence reaches its horizon is dropped whole, with the events in it that came before."""

from __future__ import annotations

import numpy as np

from reference_impls.mutants.base import Mutant, Witness, remade
from reference_impls.samplers.round import Work
from reference_impls.samplers.speculative import Speculative
from tppsd_bench.protocols import BoolArray, FloatArray, IntArray


def crossing(work: Work, gaps: FloatArray, offered: IntArray) -> tuple[BoolArray, FloatArray]:
    """(n, m) which offered events lie at or beyond the horizon, and when each event would happen."""
    counted = np.arange(gaps.shape[1]) < offered[:, None]
    ends = np.cumsum(np.hstack([work.histories.elapsed[:, None], np.where(counted, gaps, 0.0)]), axis=1)[:, 1:]
    horizon = work.histories.stop.horizon
    return counted & (ends >= (np.inf if horizon is None else horizon)), ends


class DropsBlock(Speculative):
    def commit(self, work: Work, gaps: FloatArray, types: IntArray, offered: IntArray) -> IntArray:
        crosses = crossing(work, gaps, offered)[0].any(axis=1)
        kept = super().commit(work, gaps, types, np.where(crosses, 0, offered))
        work.histories.finished |= crosses
        return kept


MUTANT = Mutant(
    name="drop_crossing",
    broken="All events of the block in which the horizon is crossed are dropped, those before the horizon with them.",
    precedent="stop conditions tested once a block: transformers #47912, sglang #33758",
    change=lambda sampler, _: remade(DropsBlock, sampler),
    killers=(
        "counts",
        "pit_time",
        "strata",
        "tail",
    ),
    witness=Witness(horizon=8.0),
)
