"""Where drafts are compared: events of a target's own sequences, its law of each, and means over them with intervals over sequences.

Several drafts looked at on the same histories differ by the drafts alone: their differences are paired. Events of one sequence depend on
each other, so every interval is over sequences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tppsd_bench.events import EventBatch
from tppsd_bench.measure.acceptance import ExactAcceptance, exact_acceptance
from tppsd_bench.measure.promise import N_LEVELS
from tppsd_bench.protocols import Conditional, ConditionalTarget

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def ratio_over_sequences(sums: FloatArray, counts: FloatArray | IntArray, level: float = 0.95) -> dict[str, float]:
    """{value, low, high} of sum(sums) / sum(counts), both (n,) a sequence: ratio estimator, delta method, t with n - 1 degrees.

    Two sequences at least; NaN throughout where the counts sum to nothing.
    """
    n, whole = len(sums), float(counts.sum())
    if n < 2:
        raise ValueError(f"{n} sequences have no spread; an interval over sequences needs two.")
    if not whole > 0:
        return {"value": math.nan, "low": math.nan, "high": math.nan}
    value = float(sums.sum()) / whole
    spread = math.sqrt(float(((sums - value * counts) ** 2).sum()) * n / (n - 1)) / whole
    half = float(special.stdtrit(n - 1, 0.5 + level / 2)) * spread
    return {"value": value, "low": value - half, "high": value + half}


def spread_over(lengths: IntArray, begin: IntArray, end: IntArray, each: int) -> IntArray:
    """Global indices of ``each`` events of every sequence, evenly from event ``begin`` up to ``end`` (n,), each start shifted.

    The shifts differ from sequence to sequence, so that over all of them every position gets its due weight. Fewer a sequence
    where it is shorter: all get as many as the shortest stretch allows.
    """
    width = (end - begin)[:, None]
    each = min(each, int(width.min(initial=each)))
    shift = (np.arange(len(lengths)) + 0.5) / max(len(lengths), 1)
    inside = begin[:, None] + np.floor((np.arange(each) + shift[:, None]) * width / max(each, 1)).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    return np.asarray((offsets[:, None] + inside).ravel(), dtype=np.int64)


@dataclass(frozen=True)
class Histories:
    """Events of a target's own sequences, and its law of each."""

    events: EventBatch
    at: IntArray
    """Global indices of the chosen events, sequence after sequence, as many of each."""
    law: Conditional

    @classmethod
    def of(
        cls, target: ConditionalTarget, events: EventBatch, each: int, stretches: Sequence[tuple[int, int]] = ()
    ) -> Histories:
        """``each`` events of every sequence; of every stretch (first event, end) where given, stretch after stretch."""
        n = len(events)
        ends = [(np.full(n, a), np.minimum(b, events.lengths)) for a, b in stretches] or [(np.zeros(n, int), events.lengths)]
        parts = [spread_over(events.lengths, begin, end, each).reshape(n, -1) for begin, end in ends]
        at = np.concatenate(parts, axis=1).ravel()
        return cls(events, at, target.conditionals(events).take(at))

    @property
    def each(self) -> int:
        """Chosen events of a sequence."""
        return len(self.at) // max(len(self.events), 1)

    def law_of(self, draft: ConditionalTarget) -> Conditional:
        return draft.conditionals(self.events).take(self.at)

    def acceptance(self, draft: ConditionalTarget) -> ExactAcceptance:
        """Exact acceptance of a draft at every chosen event."""
        return exact_acceptance(self.law, self.law_of(draft), n_levels=N_LEVELS)

    def by_sequence(self, values: FloatArray) -> FloatArray:
        """(n, each) of values (n * each,), one an event chosen."""
        return values.reshape(len(self.events), -1)

    def mean(self, values: FloatArray, over: FloatArray | None = None) -> dict[str, float]:
        """{value, low, high} of the mean over chosen events, or of sum(values) / sum(over); 95 % over sequences."""
        sums = self.by_sequence(values).sum(axis=1)
        counts = np.full(len(sums), float(self.each)) if over is None else self.by_sequence(over).sum(axis=1)
        return ratio_over_sequences(sums, counts)
