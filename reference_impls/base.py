"""What a reference model is: an encoder of histories with a cache, and a law of the next event. Numpy at the border.

One class serves as target and as draft. Networks run in float32 torch inside; every law they hand out is float64 numpy, so that
samplers, toy models and statistics need no torch and never see a float32 probability.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import Conditional, FloatArray, IntArray, Scores


class Law(Conditional, Protocol):
    """A ``Conditional`` whose rows can be joined: what a reference model hands out."""

    def take(self, rows: IntArray | slice) -> Law: ...
    @classmethod
    def concat(cls, laws: Sequence[Any]) -> Law:
        """The rows of several laws of one model, one after the other."""
        ...

    def log_gap_bumps(self) -> tuple[FloatArray, FloatArray]:
        """Centres and widths (n, b), in log gap, of the bumps each density is made of: where and how finely to integrate it.

        Beyond 8 widths of every centre there is no mass to speak of; a quarter of a width is a fine step.
        """
        ...


class Cache(Protocol):
    """Encoded histories of ``n`` sequences, each with its own length."""

    lengths: IntArray

    def rollback(self, lengths: IntArray) -> None:
        """Forget everything beyond ``lengths`` (n,) events of each sequence."""
        ...

    def keep(self, rows: IntArray) -> None:
        """Drop all sequences but ``rows``, in that order."""
        ...


class Model(Protocol):
    """History -> law of the next event, incrementally. Also a ``ConditionalTarget``."""

    @property
    def name(self) -> str: ...
    @property
    def n_types(self) -> int: ...
    def start(self, n: int, capacity: int) -> Any:
        """A ``Cache`` of ``n`` empty histories, the model's own kind; ``capacity`` events are preallocated (more are possible, at a copy)."""
        ...

    def initial(self, n: int) -> Law:
        """The law of the first event, n rows; needs no pass."""
        ...

    def extend(self, cache: Any, gaps: FloatArray, types: IntArray, counts: IntArray) -> Law:
        """Append ``counts[i]`` events (columns of the (n, m) arrays) to each sequence in one pass.

        Returns the n * m laws that follow each new event (row ``i * m + j``); columns at and beyond ``counts[i]`` are padding and
        their rows are meaningless.
        """
        ...

    def law_after(self, gaps: FloatArray, types: IntArray, lengths: IntArray) -> Law:
        """The law after the whole history of each row of the (n, L) arrays, recomputed from nothing (no cache); n rows."""
        ...

    def score(self, batch: EventBatch) -> Scores: ...
    def conditionals(self, batch: EventBatch) -> Law: ...


def scores_from_conditionals(batch: EventBatch, laws: Conditional, after_last: Conditional | None) -> Scores:
    """Teacher-forced scores from the law of each event, and of the event after the last where there is a horizon."""
    gaps = batch.gaps
    crossing = None
    if batch.horizon is not None and after_last is not None:
        crossing = after_last.cdf(np.maximum(batch.horizon - batch.end_times, 0.0))
    return Scores(
        log_density=laws.log_prob(gaps),
        cdf=laws.cdf(gaps),
        survival=laws.sf(gaps),
        type_probs=np.exp(laws.type_log_probs(gaps)),
        crossing_cdf=crossing,
    )
