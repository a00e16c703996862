"""Conditional probability integral transforms: the stream of (u, v) that is iid U(0, 1)^2 exactly when the law is right.

u_i = F(gap_i | H_i) and v_i = sum_{j<k_i} p(j | H_i[, gap_i]) + xi_i p(k_i | H_i[, gap_i]), xi_i uniform from a stream
of its own (Rosenblatt 1952; Brown et al. 2002). A fixed horizon censors the last gap: pooling only the gaps that finished
inside it rejects a *correct* sampler, so the crossing draw is completed at random instead (see ``completed_pit``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import special

from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import Scores
from tppsd_bench.stats.base import FloatArray, IntArray

_TINY = 1e-300
_Scalar = TypeVar("_Scalar", np.float64, np.int64)


def type_pit(types: IntArray, type_probs: FloatArray, xi: FloatArray) -> FloatArray:
    """Randomised PIT of the types.

    Args:
        types: (N,) type ids. type_probs: (N, M) conditional probabilities. xi: (N,) uniforms from their own stream.

    Returns:
        (N,) v_i = sum_{j<k_i} p_ij + xi_i p_ik, iid U(0, 1) under the law.
    """
    n_types = type_probs.shape[1]
    at = np.arange(len(types)) * n_types + types
    chosen = type_probs.ravel().take(at)
    if n_types <= 4:  # a running sum over few columns beats a cumulative sum along a short axis
        below = np.zeros(len(types))
        for k in range(n_types - 1):
            below += np.where(types > k, type_probs[:, k], 0.0)
    else:
        below = np.cumsum(type_probs, axis=1).ravel().take(at) - chosen
    chosen *= xi
    below += chosen
    return np.clip(below, 0.0, 1.0, out=below)


@dataclass(frozen=True)
class PitStream:
    """``m`` draws in order, sequence after sequence, with what was known before each of them.

    In count-stopped batches draw = event; in horizon batches each sequence ends with its completed crossing draw.
    """

    batch: EventBatch
    scores: Scores
    u: FloatArray
    """(m,) PIT of the gaps."""
    survival: FloatArray
    """(m,) 1 - u, accurate in the upper tail."""
    v: FloatArray | None
    """(m,) PIT of the types; None where there is only one type."""
    sequence: IntArray
    """(m,) which sequence each draw belongs to."""
    index: IntArray
    """(m,) 0-based index of the draw in its sequence."""
    completed: bool = False
    fixed_size: bool = True
    """Whether m was fixed before the data (exact) or is simply all there is (asymptotic)."""
    strata: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    """Stratum name -> (m,) code of the value, -1 where none applies."""
    expected: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Stratum name -> label -> count expected in advance."""

    def __len__(self) -> int:
        return len(self.u)

    @cached_property
    def normal_u(self) -> FloatArray:
        """(m,) normal scores of u."""
        return normal_scores(self.u)

    @cached_property
    def type_values(self) -> FloatArray:
        """v, for statistics that belong to marked designs only."""
        if self.v is None:
            raise InputError("The batch has one type, so there is no type PIT; type statistics need at least two types.")
        return self.v

    @cached_property
    def normal_v(self) -> FloatArray:
        """(m,) normal scores of v."""
        return normal_scores(self.type_values)

    @cached_property
    def lengths(self) -> IntArray:
        """(n,) draws of each sequence that are in the stream."""
        return np.bincount(self.sequence, minlength=len(self.batch)).astype(np.int64)

    @cached_property
    def is_event(self) -> NDArray[np.bool_]:
        """(m,) False for completed crossing draws, which have no gap and no type of their own."""
        if not self.completed:
            return np.ones(len(self), dtype=np.bool_)
        return self.index < self.batch.lengths[self.sequence]

    def before(self, per_event: NDArray[_Scalar]) -> NDArray[_Scalar]:
        """(m,) the value that the *preceding* event of the same sequence has; meaningless where ``index`` is 0."""
        if not len(per_event):
            return np.zeros(len(self), dtype=per_event.dtype)
        if self.completed:
            taken: NDArray[_Scalar] = per_event[np.maximum(np.arange(len(self)) - self.sequence - 1, 0)]
            return taken
        out = np.empty(len(self), dtype=per_event.dtype)
        out[0], out[1:] = per_event[0], per_event[: len(self) - 1]
        return out


def normal_scores(u: FloatArray) -> FloatArray:
    """Phi^-1(u), with 0 and 1 moved inside by what float64 resolves."""
    out: FloatArray = special.ndtri(np.clip(u, _TINY, 1 - 2.0**-53))
    return out


def counted_pit(batch: EventBatch, scores: Scores, rng: Generator) -> PitStream:
    """The stream of a batch whose sequences stop after a number of events: every event, nothing else."""
    v = None
    if batch.n_types > 1:
        v = type_pit(batch.types, scores.type_probs, rng.random(batch.n_events))
    return PitStream(batch, scores, scores.cdf, scores.survival, v, batch.sequence_index, batch.event_index)


def completed_pit(batch: EventBatch, scores: Scores, rng: Generator, m: int | None) -> PitStream:
    """The stream of a horizon batch: each sequence's events, then its crossing draw completed at random.

    The draw that crossed T is known only to exceed T - t_N, so u_{N+1} = Fc + (1 - Fc) W with Fc = F(T - t_N | H_{N+1}) and
    W ~ U(0, 1), and v_{N+1} ~ U(0, 1). The concatenation is iid uniform; its first ``m`` values, m fixed in advance, are exact.
    ``m=None`` takes all there is: the number then depends on the values, and nulls hold for many sequences only.

    Raises:
        InputError: no horizon, no crossing probabilities, or fewer than m values (m is never shortened).
    """
    if batch.horizon is None:
        raise InputError("The batch has no horizon: nothing is censored, use the count-stopped stream.")
    if scores.crossing_cdf is None:
        raise InputError(
            "The target gave no crossing_cdf for a batch with a horizon; return F(T - t_N | H) per sequence from score()."
        )
    n, total = len(batch), batch.n_events + len(batch)
    if m is not None and total < m:
        raise InputError(
            f"The completed stream has {total} values from {n} sequences, but m = {m} was fixed in advance; "
            "draw further sequences (m is never shortened)."
        )
    at = np.arange(batch.n_events) + batch.sequence_index
    end = batch.offsets[1:] + np.arange(n)
    u, survival = np.empty(total), np.empty(total)
    u[at], survival[at] = scores.cdf, scores.survival
    w = rng.random(n)
    survival[end] = (1 - scores.crossing_cdf) * (1 - w)
    u[end] = scores.crossing_cdf + (1 - scores.crossing_cdf) * w
    v = None
    if batch.n_types > 1:
        v = np.empty(total)
        v[at] = type_pit(batch.types, scores.type_probs, rng.random(batch.n_events))
        v[end] = rng.random(n)
    sequence = np.repeat(np.arange(n), batch.lengths + 1)
    index = np.arange(total) - np.repeat(batch.offsets[:-1] + np.arange(n), batch.lengths + 1)
    cut = slice(0, m)
    return PitStream(
        batch,
        scores,
        u[cut],
        survival[cut],
        None if v is None else v[cut],
        sequence[cut],
        index[cut],
        completed=True,
        fixed_size=m is not None,
    )
