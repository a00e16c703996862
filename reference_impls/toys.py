"""Toy models in closed form, float64 numpy, no torch: marked log-normal mixtures whose parameters follow a short memory.

Every row of a law depends on its own history alone, to the last bit: sequences do not change with the batch they are drawn in.

Memory h (n, S): h' = r h + (1 - r) (features of the standardised log gap) + B_k. Locations, weights and type logits are affine in h. Cheap
enough for tens of thousands of exact runs, and history-dependent enough that every fault of a real sampler shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from reference_impls.base import scores_from_conditionals
from reference_impls.heads.lognormal_mixture import LogNormalMixture
from reference_impls.heads.types import GAP_FEATURES, TypeLaw, TypesGivenGap, TypesIndependent
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import FloatArray, IntArray, Scores


def rowwise_product(x: FloatArray, w: FloatArray) -> FloatArray:
    """x @ w for (..., a) and (a, b); unlike BLAS, a row's last bits do not depend on how many rows there are."""
    out: FloatArray = (x[..., :, None] * w).sum(axis=-2)
    return out


class ToyCache:
    """States after every event, (n, capacity + 1, S): rollback is a change of length."""

    def __init__(self, n: int, capacity: int, size: int) -> None:
        self.lengths = np.zeros(n, dtype=np.int64)
        self.states = np.zeros((n, capacity + 1, size))

    def rollback(self, lengths: IntArray) -> None:
        self.lengths = np.asarray(lengths, dtype=np.int64).copy()

    def keep(self, rows: IntArray) -> None:
        self.lengths, self.states = self.lengths[rows], self.states[rows]

    def reserve(self, needed: int) -> None:
        if needed >= self.states.shape[1]:
            extra = max(needed, 2 * self.states.shape[1]) + 1 - self.states.shape[1]
            self.states = np.pad(self.states, ((0, 0), (0, extra), (0, 0)))


@dataclass(frozen=True)
class ToyModel:
    """Parameters of the law as functions of the memory. Implements ``base.Model``."""

    name: str
    location: FloatArray
    """(C,)"""
    location_memory: FloatArray
    """(S, C)"""
    scale: FloatArray
    logit: FloatArray
    logit_memory: FloatArray
    type_logit: FloatArray
    """(M,), or (h,) where types are conditioned on the gap"""
    type_memory: FloatArray
    """(S, M) or (S, h)"""
    type_jump: FloatArray
    """B, (M, S): what an event of each type adds to the memory"""
    retain: float = 0.6
    gap_types: tuple[FloatArray, FloatArray, FloatArray] | None = field(default=None)
    """(G (3, h), W (h, M), b (M,)) where types are conditioned on the gap"""
    log_unit: float = 0.0
    """The same process on another clock: every gap is exp(log_unit) times as long, every density that much smaller."""

    @property
    def n_types(self) -> int:
        return len(self.type_jump)

    @property
    def size(self) -> int:
        return int(self.type_jump.shape[1])

    def start(self, n: int, capacity: int) -> ToyCache:
        return ToyCache(n, capacity, self.size)

    def initial(self, n: int) -> LogNormalMixture:
        return self.law(np.zeros((n, self.size)))

    def law(self, h: FloatArray) -> LogNormalMixture:
        """The law given memories (n, S)."""
        logits = self.logit + rowwise_product(h, self.logit_memory)
        type_rows = self.type_logit + rowwise_product(h, self.type_memory)
        types: TypeLaw
        if self.gap_types is not None:
            types = TypesGivenGap(type_rows, *self.gap_types, product=rowwise_product)
        else:
            types = TypesIndependent(type_rows)
        log_scale = np.broadcast_to(np.log(self.scale), logits.shape)
        location = self.location + rowwise_product(h, self.location_memory)
        return LogNormalMixture(location, log_scale, logits, types, log_shift_gap=self.log_unit)

    def step(self, h: FloatArray, gaps: FloatArray, types: IntArray) -> FloatArray:
        """The memory after one more event: (n, S), (n,), (n,) -> (n, S)."""
        z = np.log(gaps) - self.log_unit
        features = np.stack([np.tanh(z / 2), np.tanh(z)][: self.size] + [np.tanh(z / 4)] * (self.size - 2), axis=1)
        out: FloatArray = self.retain * h + (1.0 - self.retain) * features + self.type_jump[types]
        return out

    def extend(self, cache: ToyCache, gaps: FloatArray, types: IntArray, counts: IntArray) -> LogNormalMixture:
        n, m = gaps.shape
        cache.reserve(int(cache.lengths.max()) + m)
        rows = np.arange(n)
        h = cache.states[rows, cache.lengths]
        out = np.empty((n, m, self.size))
        for j in range(m):
            h = self.step(h, gaps[:, j], types[:, j])
            out[:, j] = h
            cache.states[rows, cache.lengths + j + 1] = h
        cache.lengths = cache.lengths + counts
        return self.law(out.reshape(n * m, self.size))

    def law_after(self, gaps: FloatArray, types: IntArray, lengths: IntArray) -> LogNormalMixture:
        return self.law(self._states(gaps, types)[np.arange(len(gaps)), lengths])

    def _states(self, gaps: FloatArray, types: IntArray) -> FloatArray:
        n, m = gaps.shape
        out = np.zeros((n, m + 1, self.size))
        safe = np.where(gaps > 0, gaps, 1.0)
        for j in range(m):
            out[:, j + 1] = self.step(out[:, j], safe[:, j], types[:, j])
        return out

    def conditionals(self, batch: EventBatch) -> LogNormalMixture:
        gaps, types = batch.padded()
        return self.law(self._states(gaps, types)[:, :-1][np.arange(gaps.shape[1]) < batch.lengths[:, None]])

    def score(self, batch: EventBatch) -> Scores:
        gaps, types = batch.padded()
        states = self._states(gaps, types)
        laws = self.law(states[:, :-1][np.arange(gaps.shape[1]) < batch.lengths[:, None]])
        last = None if batch.horizon is None else self.law(states[np.arange(len(batch)), batch.lengths])
        return scores_from_conditionals(batch, laws, last)


def toy_target(n_types: int = 3, types_given_gap: bool = False, name: str = "toy", log_unit: float = 0.0) -> ToyModel:
    """Two gap components (bursts and pauses), memory of two numbers, ``n_types`` types that excite each other."""
    k = np.arange(n_types)
    jump = 0.35 * np.stack([np.cos(2 * np.pi * k / max(n_types, 2)), np.sin(2 * np.pi * k / max(n_types, 2))], axis=1)
    type_memory = 1.2 * np.stack([np.cos(2 * np.pi * (k + 1) / max(n_types, 2)), np.sin(2 * np.pi * (k + 1) / max(n_types, 2))])
    gap_types = None
    type_logit = 0.3 * np.cos(k)
    if types_given_gap:
        hidden = 4
        g = 0.8 * np.sin(np.arange(GAP_FEATURES * hidden).reshape(GAP_FEATURES, hidden) + 1.0)
        w = 1.1 * np.cos(np.arange(hidden * n_types).reshape(hidden, n_types) * 1.7)
        gap_types = (g, w, 0.2 * np.sin(k))
        type_logit, type_memory = np.linspace(-0.4, 0.4, hidden), 0.9 * np.cos(np.arange(2 * hidden).reshape(2, hidden))
    return ToyModel(
        name, np.array([-1.6, 0.5]), np.array([[0.5, 0.3], [-0.3, 0.2]]), np.array([0.55, 0.8]), np.array([0.0, 0.3]),
        np.array([[1.0, -1.0], [0.4, -0.4]]), type_logit, type_memory, jump, gap_types=gap_types,
        log_unit=log_unit,
    )  # fmt: skip


def toy_draft(target: ToyModel, strength: float = 1.0) -> ToyModel:
    """A draft of the same form with blunter memory, shifted locations, wider scales and flatter types; ``strength`` 0 is the target."""
    s = strength
    gap_types = target.gap_types
    if gap_types is not None:
        gap_types = (gap_types[0] * (1 - 0.3 * s), gap_types[1] * (1 - 0.25 * s), gap_types[2])
    return ToyModel(
        f"{target.name}-draft", target.location + 0.06 * s, target.location_memory * (1 - 0.4 * s), target.scale * (1 + 0.08 * s),
        target.logit - 0.1 * s * np.array([1.0, -1.0]), target.logit_memory * (1 - 0.3 * s), target.type_logit,
        target.type_memory * (1 - 0.3 * s), target.type_jump, target.retain, gap_types, target.log_unit,
    )  # fmt: skip
