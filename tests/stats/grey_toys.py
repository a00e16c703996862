"""Two laws known exactly, drawn and scored in a few lines: iid uniforms, and a marked process with history.

``Toy``: log gap_i = b clip(log gap_{i-1}) + c[k_{i-1}] + s z_i, and type k_i from a softmax that depends on k_{i-1} and on the
gap itself. ``draw`` takes the uniforms of the inverse CDF, so that a test can damage them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from tppsd_bench.events import EventBatch, FloatArray, IntArray
from tppsd_bench.protocols import Scores
from tppsd_bench.streams import StreamKey

PREFERENCE = np.array([[0.0, 0.7, -0.4], [0.5, 0.0, 0.9], [-1.0, 0.3, 0.2]])
SLOPE = np.array([0.0, 0.5, -0.5])
SHIFT = np.array([-0.3, 0.0, 0.4])


def generator(name: str, index: int = 0) -> np.random.Generator:
    return StreamKey(seed=20, suite="tests", cell=name).generator(index)


def uniform_case(u: FloatArray, v: FloatArray, n_types: int = 3) -> tuple[EventBatch, Scores]:
    """Sequences (n, L) whose PITs are u and (but for its randomisation) v, under a unit-rate Poisson law with equal types."""
    n, length = u.shape
    types = np.minimum((v * n_types).astype(np.int64), n_types - 1)
    gaps = -np.log1p(-u)
    batch = EventBatch(gaps.ravel(), types.ravel(), np.full(n, length), n_types)
    probs = np.full((n * length, n_types), 1 / n_types)
    return batch, Scores(-batch.gaps, -np.expm1(-batch.gaps), np.exp(-batch.gaps), probs)


@dataclass(frozen=True)
class Toy:
    """The marked log-normal process with memory; a ``Target`` with ``n_types`` = 3."""

    scale: float = 0.8
    memory: float = 0.4
    n_types: int = 3

    def location(self, gap: FloatArray, kind: IntArray) -> FloatArray:
        """(n,) mean of the next log gap after an event (gap, kind); kind -1: no event yet."""
        after: FloatArray = self.memory * np.clip(np.log(gap), -3, 3) + SHIFT[kind]
        return np.where(kind < 0, 0.0, after)

    def type_probs(self, gap: FloatArray, kind: IntArray) -> FloatArray:
        """(n, 3) probabilities of the type that goes with ``gap`` after an event of type ``kind``."""
        logits = PREFERENCE[kind] * (kind >= 0)[..., None] + np.tanh(np.log(gap))[..., None] * SLOPE
        out: FloatArray = special.softmax(logits, axis=-1)
        return out

    def draw(self, u: FloatArray, w: FloatArray, *, stale: bool = False, horizon: float | None = None) -> EventBatch:
        """Sequences from uniforms (n, L) for gaps and types; ``stale``: gaps condition on one event less than they should."""
        n, length = u.shape
        gaps, types = np.ones((n, length)), np.zeros((n, length), dtype=np.int64)
        gap, kind = np.ones(n), np.full(n, -1)
        older = (gap, kind)
        for i in range(length):
            location = self.location(*(older if stale else (gap, kind)))
            new = np.exp(location + self.scale * special.ndtri(u[:, i]))
            probs = self.type_probs(new, kind)
            older = (gap, kind)
            gap, kind = new, (w[:, i, None] > np.cumsum(probs, axis=1)[:, :-1]).sum(axis=1)
            gaps[:, i], types[:, i] = gap, kind
        lengths = np.full(n, length)
        if horizon is None:
            return EventBatch(gaps.ravel(), types.ravel(), lengths, 3)
        lengths = (np.cumsum(gaps, axis=1) < horizon).sum(axis=1)
        assert lengths.max() < length, "draw longer sequences for this horizon"
        return EventBatch.from_padded(gaps, types, lengths, 3, np.full(n, horizon))

    def score(self, batch: EventBatch) -> Scores:
        start = batch.event_index == 0
        before = np.maximum(np.arange(batch.n_events) - 1, 0)
        gap = np.where(start, 1.0, batch.gaps[before])
        kind = np.where(start, -1, batch.types[before])
        z = (np.log(batch.gaps) - self.location(gap, kind)) / self.scale
        log_density = -0.5 * z**2 - 0.5 * np.log(2 * np.pi) - np.log(self.scale * batch.gaps)
        crossing = None
        if batch.horizon is not None:
            end = np.maximum(batch.offsets[1:] - 1, 0)
            some = batch.lengths > 0
            gap, kind = (np.where(some, x, y) for x, y in ((batch.gaps[end], 1.0), (batch.types[end], -1)))
            rest = batch.horizon - batch.end_times
            crossing = special.ndtr((np.log(rest) - self.location(gap, kind.astype(np.int64))) / self.scale)
            kind = np.where(start, -1, batch.types[before])
        return Scores(log_density, special.ndtr(z), special.ndtr(-z), self.type_probs(batch.gaps, kind), crossing)


def exact(name: str, n: int, length: int, index: int = 0, horizon: float | None = None) -> tuple[EventBatch, Scores]:
    """An exact draw of the toy with its scores."""
    rng = generator(name, index)
    toy = Toy()
    batch = toy.draw(rng.random((n, length)), rng.random((n, length)), horizon=horizon)
    return batch, toy.score(batch)
