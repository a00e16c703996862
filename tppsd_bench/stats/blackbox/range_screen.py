"""The fixed-seed range screen of practitioners: do the sequences of one arm stay within the other's extremes?

A screen for people; in the battery it is one more statistic of the maxT, never a gate of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from tppsd_bench.events import EventBatch, FloatArray, IntArray
from tppsd_bench.stats.blackbox.arms import SCREENED_PER_ARM
from tppsd_bench.stats.blackbox.summaries import summarise


@dataclass(frozen=True)
class RangeScreenCounts:
    """Per summary feature (p,): sequences of one arm strictly beyond the other arm's smallest or largest value."""

    features: tuple[str, ...]
    sut_beyond: IntArray
    reference_beyond: IntArray
    n_sut: int
    n_reference: int

    @property
    def expected_sut(self) -> float:
        """Expected per feature under the null: 2 n_sut / (n_reference + 1), as a new value is a record with probability
        1 / (n_reference + 1) at either end."""
        return 2 * self.n_sut / (self.n_reference + 1)

    @property
    def expected_reference(self) -> float:
        return 2 * self.n_reference / (self.n_sut + 1)


def range_screen(sut: EventBatch, reference: EventBatch, *, n_sequences: int = SCREENED_PER_ARM) -> RangeScreenCounts:
    """Screen the first ``n_sequences`` of each arm (their seeds are fixed by the stream key)."""
    first = sut.select(slice(n_sequences)), reference.select(slice(n_sequences))
    summaries = summarise(EventBatch.concat(list(first)))
    a, r = summaries.features[: len(first[0])], summaries.features[len(first[0]) :]

    def beyond(inner: FloatArray, outer: FloatArray) -> IntArray:
        out: IntArray = ((inner < outer.min(axis=0)) | (inner > outer.max(axis=0))).sum(axis=0)
        return out

    return RangeScreenCounts(summaries.feature_names, beyond(a, r), beyond(r, a), len(a), len(r))
