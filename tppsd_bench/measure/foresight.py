"""How well a law foresees the next event: its likeliest type, and its median gap, against what came."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.protocols import Conditional, FloatArray, IntArray

N_LEVELS = 32
"""Points of the gap's law over which type probabilities are averaged: midpoints of as many equally likely stretches."""


@dataclass(frozen=True)
class Foresight:
    """One row an event; all arrays (n,)."""

    type_hit: NDArray[np.bool_]
    """Whether the type that is likeliest before the event came."""
    gap_error: FloatArray
    """|log(gap / median gap)|: 0.69 is a factor of two."""


def foresight(law: Conditional, gaps: FloatArray, types: IntArray) -> Foresight:
    """Errors of ``law``'s point predictions for events (gap, type), neither of which it has seen.

    The median minimises the expected absolute error in log gap; the likeliest type that of the 0-1 loss. Types conditioned on the gap
    are averaged over its law. Of one type every prediction is a hit.
    """
    median = law.quantile(np.full((len(gaps), 1), 0.5))[:, 0]
    error = np.abs(np.log(gaps) - np.log(median))
    if law.n_types == 1:
        return Foresight(np.ones(len(gaps), dtype=bool), error)
    levels = np.broadcast_to((np.arange(N_LEVELS) + 0.5) / N_LEVELS, (len(gaps), N_LEVELS))
    probabilities = np.exp(law.type_log_probs(law.quantile(levels))).mean(axis=1)
    return Foresight(np.asarray(probabilities.argmax(axis=1) == types), error)
