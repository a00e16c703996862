"""One chunk of sequences as the bets see it: draws in order, and what was known before each of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import (
    ROLE_RESIDUAL,
    BoolArray,
    Conditional,
    ConditionalTarget,
    FloatArray,
    IntArray,
    SampleRun,
    Scores,
    Trace,
)
from tppsd_bench.stats.eprocess.base import AFTER, BONUS, INNER, START, Design, Segments
from tppsd_bench.stats.neyman import legendre
from tppsd_bench.stats.pit import type_pit
from tppsd_bench.stats.preconditions import finite_scores

_LEAST_GAP = 1e-300


class UnsettledBet(InputError):
    """A score that is not a number: no bet on it is won or lost."""


@dataclass(frozen=True)
class Chunk:
    """Consecutive sequences, lined up. ``D`` draws: every event and, with a horizon, each sequence's completed crossing draw.

    The draw that crossed the horizon is known only to exceed what was left: its u is completed at random (``completed_pit``), its
    likelihood ratio is that of the survival functions, and it has no type.
    """

    run: SampleRun
    scores: Scores
    u: FloatArray
    """(D,) PIT of the gaps."""
    v: FloatArray
    """(D,) randomised PIT of the types; 1/2 for a crossing draw."""
    place: IntArray | None
    """(D,) AFTER, START, INNER or BONUS; None where it is not known."""
    neighbour: FloatArray
    """(D,) u of the sequence before at the same index, NaN where it has none."""
    target_laws: Conditional | None
    """The target's law of every event."""
    draft_laws: Conditional | None
    """The draft's law of every draw."""

    @property
    def batch(self) -> EventBatch:
        return self.run.events

    @property
    def trace(self) -> Trace:
        assert self.run.trace is not None
        return self.run.trace

    @cached_property
    def censored(self) -> bool:
        return self.batch.horizon is not None

    @cached_property
    def sequence(self) -> IntArray:
        """(D,)"""
        n = len(self.batch)
        return np.repeat(np.arange(n), self.batch.lengths + 1) if self.censored else self.batch.sequence_index

    @cached_property
    def index(self) -> IntArray:
        """(D,) 0-based, within the sequence."""
        first = np.searchsorted(self.sequence, np.arange(len(self.batch)))
        return np.arange(len(self.sequence)) - first[self.sequence]

    @cached_property
    def is_event(self) -> BoolArray:
        """(D,) False for crossing draws."""
        if not self.censored:
            return np.ones(len(self.sequence), dtype=np.bool_)
        return np.asarray(self.index < self.batch.lengths[self.sequence])

    @cached_property
    def by_sequence(self) -> Segments:
        return Segments(self.sequence, len(self.batch))

    @cached_property
    def by_place(self) -> Segments:
        """By sequence and place; by sequence where places are not known."""
        if self.place is None:
            return self.by_sequence
        return Segments(self.sequence * 4 + self.place, len(self.batch), places=True)

    @cached_property
    def phi_u(self) -> FloatArray:
        """(4, D)"""
        return legendre(self.u)

    @cached_property
    def phi_v(self) -> FloatArray:
        """(4, D), 0 for crossing draws: no bet."""
        return legendre(self.v) * self.is_event if self.censored else legendre(self.v)

    def before(self, values: FloatArray) -> FloatArray:
        """(..., D) the value of the draw before in the same sequence, 0 where there is none."""
        out = np.zeros_like(values)
        out[..., 1:] = values[..., :-1]
        out[..., self.index == 0] = 0.0
        return out

    @cached_property
    def type_before(self) -> IntArray:
        """(D,) type of the event before, -1 where there is none."""
        types = np.full(len(self.sequence), -1, dtype=np.int64)
        types[self.is_event] = self.batch.types
        out = np.full_like(types, -1)
        out[1:] = types[:-1]
        out[self.index == 0] = -1
        return out

    @cached_property
    def log_type_probs(self) -> FloatArray:
        """(M, N) log p(k | H)."""
        with np.errstate(divide="ignore"):
            return np.log(np.ascontiguousarray(self.scores.type_probs.T))

    @cached_property
    def log_survival(self) -> FloatArray:
        """(n,) log probability that the next event comes after the horizon."""
        assert self.scores.crossing_cdf is not None
        with np.errstate(divide="ignore"):
            return np.log1p(-self.scores.crossing_cdf)

    @cached_property
    def time_left(self) -> FloatArray:
        """(n,) from the last event to the horizon."""
        assert self.batch.horizon is not None
        return np.maximum(self.batch.horizon - self.batch.end_times, _LEAST_GAP)

    def spread(self, per_event: FloatArray, per_sequence: FloatArray | None = None) -> FloatArray:
        """(D,) values of events and, with a horizon, of the crossing draws (default 0)."""
        if not self.censored:
            return per_event
        out = np.zeros(len(self.sequence))
        out[self.is_event] = per_event
        if per_sequence is not None:
            out[~self.is_event] = per_sequence
        return out


def line_up(
    run: SampleRun,
    scores: Scores,
    design: Design,
    randomness: tuple[np.random.Generator, np.random.Generator],
    last: FloatArray,
    target_laws: Conditional | None,
    draft: ConditionalTarget | None,
) -> Chunk:
    """The chunk of ``run``. ``randomness``: for types and for crossing draws; ``last``: u of the sequence before.

    Raises UnsettledBet where a score is not a number, InputError where none is given for the wait before a horizon.
    """
    batch = run.events
    finite = finite_scores(batch, scores)
    if finite.passed is False:
        raise UnsettledBet(f"No bet can be settled: {finite.detail}.")
    n, total = len(batch), batch.n_events
    xi = randomness[0].random(total)
    v_events = type_pit(batch.types, scores.type_probs, xi) if design.marked else np.full(total, 0.5)
    if batch.horizon is None:
        u, v = scores.cdf, v_events
    else:
        if scores.crossing_cdf is None:
            raise InputError("The target gave no crossing_cdf for a batch with a horizon; return F(T - t_N | H) from score().")
        u, v = np.empty(total + n), np.full(total + n, 0.5)
        at = np.arange(total) + batch.sequence_index
        u[at], v[at] = scores.cdf, v_events
        u[batch.offsets[1:] + np.arange(n)] = scores.crossing_cdf + (1 - scores.crossing_cdf) * randomness[1].random(n)
    draft_laws = None
    if draft is not None and design.draft:
        draft_laws = draft.conditionals(_with_crossing(batch))
    place = _places(run) if design.positions else None
    return Chunk(run, scores, u, v, place, _neighbours(u, batch, last), target_laws, draft_laws)


def _with_crossing(batch: EventBatch) -> EventBatch:
    """One more event a sequence, at the horizon, so that the law of the draw that crossed has a row; else the batch."""
    if batch.horizon is None:
        return batch
    lengths = batch.lengths + 1
    total = batch.n_events + len(batch)
    gaps, types = np.empty(total), np.zeros(total, dtype=np.int64)
    at = np.arange(batch.n_events) + batch.sequence_index
    gaps[at], types[at] = batch.gaps, batch.types
    gaps[batch.offsets[1:] + np.arange(len(batch))] = np.maximum(batch.horizon - batch.end_times, _LEAST_GAP)
    return EventBatch(gaps, types, lengths, batch.n_types)


def _places(run: SampleRun) -> IntArray:
    trace, batch = run.trace, run.events
    assert trace is not None
    position, k = trace.event_position, trace.event_k
    replaced = (trace.gap_role == ROLE_RESIDUAL) | (trace.type_role == ROLE_RESIDUAL)
    if batch.horizon is not None:
        assert trace.crossing_position is not None
        assert trace.crossing_k is not None
        total = batch.n_events + len(batch)
        at = np.arange(batch.n_events) + batch.sequence_index
        end = batch.offsets[1:] + np.arange(len(batch))
        full_position, full_k = np.empty(total, dtype=np.int64), np.empty(total, dtype=np.int64)
        full_replaced = np.zeros(total, dtype=np.bool_)
        full_position[at], full_k[at], full_replaced[at] = position, k, replaced
        full_position[end], full_k[end] = trace.crossing_position, trace.crossing_k
        first = np.zeros(total, dtype=np.bool_)
        first[batch.offsets[:-1] + np.arange(len(batch))] = True
        position, k, replaced = full_position, full_k, full_replaced
    else:
        first = batch.event_index == 0
    after = np.zeros(len(position), dtype=np.bool_)
    after[1:] = replaced[:-1]
    after &= ~first
    place = np.where(position == 0, np.where(after, AFTER, START), INNER)
    return np.where(position == k, BONUS, place)


def _neighbours(u: FloatArray, batch: EventBatch, last: FloatArray) -> FloatArray:
    """(D,) u of the sequence before at the same index; ``last`` is that of the sequence before the first."""
    lengths = batch.lengths + (0 if batch.horizon is None else 1)
    ends = np.cumsum(lengths)
    starts = ends - lengths
    out = np.full(len(u), np.nan)
    if not len(lengths):
        return out
    m = min(len(last), int(lengths[0]))
    out[:m] = last[:m]
    sequence = np.repeat(np.arange(len(lengths)), lengths)
    index = np.arange(len(u)) - starts[sequence]
    known = (sequence > 0) & (index < lengths[np.maximum(sequence - 1, 0)])
    at = np.flatnonzero(known)
    out[at] = u[starts[sequence[at] - 1] + index[at]]
    return out
