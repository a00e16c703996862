"""Scores from a law, a law from three functions, events cut at the stop."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import Conditional, FloatArray, IntArray, Scores, Stop

_LOG_GAPS = (-690.0, 690.0)


class LawRows(ABC):
    """A ``Conditional`` from a density, a CDF and type logits.

    Subclass it as a frozen dataclass whose fields are arrays of n rows, one a history. The three functions get gaps (n, g), so
    that a parameter (n, C) enters as ``self.loc[:, None]`` against ``gap[..., None]``. Quantiles are found by bisection.
    """

    @abstractmethod
    def gap_log_density(self, gap: FloatArray) -> FloatArray:
        """log f(gap | H), (n, g) -> (n, g)."""

    @abstractmethod
    def gap_cdf(self, gap: FloatArray) -> FloatArray:
        """F(gap | H), (n, g) -> (n, g)."""

    def gap_survival(self, gap: FloatArray) -> FloatArray:
        """1 - F, (n, g) -> (n, g); state it where the upper tail matters."""
        return 1.0 - self.gap_cdf(gap)

    def type_logits(self, gap: FloatArray) -> FloatArray:
        """Unnormalised log p(type | H, gap): (n, g, M), or (n, 1, M) where types ignore the gap. One type unless stated."""
        return np.zeros((len(self), 1, 1))

    @property
    def n_types(self) -> int:
        return int(self.type_logits(np.ones((len(self), 1))).shape[-1])

    def __len__(self) -> int:
        return len(self._rows()[0])

    def take(self, rows: IntArray | slice) -> LawRows:
        return type(self)(*(values[rows] for values in self._rows()))

    def log_prob(self, gap: FloatArray) -> FloatArray:
        return _wide(self.gap_log_density, gap)

    def cdf(self, gap: FloatArray) -> FloatArray:
        return _wide(self.gap_cdf, gap)

    def sf(self, gap: FloatArray) -> FloatArray:
        return _wide(self.gap_survival, gap)

    def type_log_probs(self, gap: FloatArray) -> FloatArray:
        at = np.asarray(gap, dtype=np.float64)
        logits = np.asarray(self.type_logits(at if at.ndim > 1 else at[:, None]), dtype=np.float64)
        logits = logits - logits.max(axis=-1, keepdims=True)
        logits = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        out: FloatArray = logits[:, 0] if at.ndim == 1 else np.broadcast_to(logits, (*at.shape, logits.shape[-1]))
        return out

    def quantile(self, u: FloatArray) -> FloatArray:
        low, high = (np.full(np.shape(u), end) for end in _LOG_GAPS)
        for _ in range(64):
            middle = 0.5 * (low + high)
            below = self.cdf(np.exp(middle)) < u
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray(np.exp(0.5 * (low + high)), dtype=np.float64)

    def sample_gap(self, u: FloatArray) -> FloatArray:
        return self.quantile(u[..., 0])

    def _rows(self) -> list[NDArray[Any]]:
        return [getattr(self, f.name) for f in dataclasses.fields(self)]  # type: ignore[arg-type]


def _wide(function: Callable[[FloatArray], FloatArray], gap: FloatArray) -> FloatArray:
    """``function`` of (n, g) gaps, asked for (n,) or (n, g) ones."""
    at = np.asarray(gap, dtype=np.float64)
    with np.errstate(divide="ignore"):
        out = np.asarray(function(at if at.ndim > 1 else at[:, None]), dtype=np.float64)
    return out if at.ndim > 1 else out[:, 0]


class LawTarget(ABC):
    """A ``ConditionalTarget`` that states ``n_types`` and ``conditionals`` alone: its scores are those of the law."""

    n_types: int

    @abstractmethod
    def conditionals(self, batch: EventBatch) -> Conditional:
        """One row per event of the batch (flat order): the law of event i given the events before it."""

    def score(self, batch: EventBatch) -> Scores:
        if batch.horizon is None:
            return self._scores(self.conditionals(batch), batch, None)
        # The law after the last event is that of one more event, which itself does not enter it.
        end = batch.offsets[1:]
        gaps, types = np.insert(batch.gaps, end, batch.horizon - batch.end_times), np.insert(batch.types, end, 0)
        longer = EventBatch(gaps, types, batch.lengths + 1, batch.n_types)
        laws = self.conditionals(longer)
        after = longer.offsets[1:] - 1
        events = np.delete(np.arange(longer.n_events), after)
        return self._scores(laws.take(events), batch, laws.take(after).cdf(gaps[after]))

    @staticmethod
    def _scores(law: Conditional, batch: EventBatch, crossing: FloatArray | None) -> Scores:
        g = batch.gaps
        return Scores(law.log_prob(g), law.cdf(g), law.sf(g), np.exp(law.type_log_probs(g)), crossing)


def stopped(gaps: ArrayLike, types: ArrayLike, counts: ArrayLike, stop: Stop, n_types: int) -> EventBatch:
    """Sequences that ran to the stop or beyond, cut there: arrays (n, L) of which row i counts to ``counts[i]``.

    Raises InputError where a sequence ended before the stop.
    """
    g, k, n = np.asarray(gaps, dtype=np.float64), np.asarray(types, dtype=np.int64), np.asarray(counts, dtype=np.int64)
    real = np.arange(g.shape[1]) < n[:, None]
    if stop.n_events is not None:
        lengths, short, horizon = np.full(len(g), stop.n_events), n < stop.n_events, None
    else:
        times = np.cumsum(np.where(real, g, 0.0), axis=1)
        lengths, short = (real & (times < stop.horizon)).sum(axis=1), times[:, -1] < stop.horizon
        horizon = np.full(len(g), float(stop.horizon or 0.0))
    if short.any():
        i = int(np.argmax(short))
        raise InputError(f"Sequence {i} ended after {n[i]} events, before the stop ({stop}); let it run on.")
    return EventBatch.from_padded(g, k, lengths, n_types, horizon)
