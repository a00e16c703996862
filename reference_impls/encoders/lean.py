"""Encoders without torch's cost for each operation, on CPUs: a cache and a network whose layers are one compiled call.

A draft is called K times a round with a single event. There a torch operation costs ten times its arithmetic, so that a one-layer step
takes 0.2 ms, as much as several layers of the target; compiled (``compiled``) the same float32 arithmetic takes a few microseconds.
Tests hold all forms together to 1e-5. Exactness does not rest on that agreement: a proposal is judged by the q it was drawn from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reference_impls.encoders import compiled
from reference_impls.encoders.lanes import LANES
from tppsd_bench.protocols import FloatArray, IntArray

Vector = NDArray[np.float32]

MAX_LAYERS = 2
"""Networks at most this deep take single events in compiled loops too; deeper ones take a single event in torch (``network``)."""
_EIGHT = 8
"""Compiled attention takes a head's dimensions in eights."""


class CompiledCache:
    """Keys and values of ``n`` histories, each of its own length, with per-sequence rollback. Implements ``base.Cache``."""

    def __init__(self, encoder: Any, n: int, capacity: int) -> None:
        self.null = 1 if encoder.strict else 0
        self.lengths = np.zeros(n, dtype=np.int64)
        self.times = np.zeros((n, capacity + 1))
        """Event times with a leading 0, so that ``times[i, lengths[i]]`` is the last event's."""
        width = -(-(encoder.d_attention // encoder.n_heads) // _EIGHT) * _EIGHT
        shape = (encoder.n_layers, 2, n, encoder.n_heads, self._blocks(capacity), width, LANES)
        self.store = np.zeros(shape, dtype=np.float32)
        """(layer, keys | values, place, head, block, width, event in the block); a head's width in whole eights, the rest zeros."""
        self.places = np.arange(n)
        """Where each history lies in the store: dropping one moves nothing."""

    def _blocks(self, capacity: int) -> int:
        return -(-(capacity + self.null) // LANES)

    @property
    def capacity(self) -> int:
        return self.times.shape[1] - 1

    def rollback(self, lengths: IntArray) -> None:
        self.lengths = np.asarray(lengths, dtype=np.int64).copy()

    def keep(self, rows: IntArray) -> None:
        self.lengths, self.times = self.lengths[rows], self.times[rows]
        self.places = self.places[rows]
        if len(np.unique(rows)) < len(rows):  # one history twice: each goes on for itself
            self._move(self._blocks(int(self.lengths.max(initial=0))), self.store.shape[4])

    def _move(self, used: int, blocks: int) -> None:
        """Into new memory with room for ``blocks`` a history, the first ``used`` of which are taken along."""
        old = self.store
        self.store = np.zeros((*old.shape[:2], len(self.places), old.shape[3], blocks, *old.shape[5:]), dtype=np.float32)
        for i, place in enumerate(self.places.tolist()):
            self.store[:, :, i, :, :used] = old[:, :, place, :, :used]
        self.places = np.arange(len(self.places))

    def append(self, gaps: FloatArray, counts: IntArray) -> tuple[IntArray, FloatArray]:
        """Room for ``counts`` new events of each history: their index in it, and their times, both (n, m). ``lengths`` grow.

        Padding (j >= counts[i]) lies beyond a row's length, where the next append writes.
        """
        start, m = self.lengths, gaps.shape[1]
        self._reserve(int(start.max(initial=0)) + m)
        index = start[:, None] + np.arange(m)
        rows = np.arange(len(start))[:, None]
        times = self.times[rows, start[:, None]] + np.cumsum(gaps, axis=1)
        self.times[rows, index + 1] = times
        self.lengths = start + counts
        return index, times

    def append_one(self, gap: float) -> tuple[int, float]:
        """The same for one event of a single history, without array overhead."""
        at = int(self.lengths[0])
        self._reserve(at + 1)
        time = float(self.times[0, at]) + gap
        self.times[0, at + 1] = time
        self.lengths = self.lengths + 1
        return at, time

    def _reserve(self, events: int) -> None:
        if events <= self.capacity:
            return
        extra = max(events, 2 * self.capacity) - self.capacity
        self.times = np.pad(self.times, ((0, 0), (0, extra)))
        self._move(self._blocks(int(self.lengths.max(initial=0))), self._blocks(self.capacity))

    def attend_one(self, index: int) -> Callable[[int, Tensor], Tensor]:
        """An ``Attend`` for the ``index``-th event of a single history: torch outside, compiled inside."""
        _, _, n, heads, blocks, width, _ = self.store.shape
        rows, columns, cells = self.places, np.array([index + self.null]), self.store.reshape(-1)
        weights, sums = np.empty(4 * blocks * LANES, dtype=np.float32), np.empty(1, dtype=np.float32)

        def attend(layer: int, qkv: Tensor) -> Tensor:
            given, d = qkv.numpy().reshape(3 * heads, -1), qkv.shape[-1] // 3
            if d != heads * width:
                given = np.pad(given, ((0, 0), (0, width - d // heads)))
            out = np.empty((heads, width), dtype=np.float32)
            compiled.attend(
                given.reshape(-1), given.size, rows, columns, 0, 1, cells, layer, n, blocks, heads, width, self.null, weights, sums,
                out.reshape(-1),
            )  # fmt: skip
            return torch.from_numpy(out[:, : d // heads].reshape(1, d))

        return attend


_EVENTS: dict[str, Callable[..., None]] = {
    "THP": compiled.thp_events,
    "SAHP": compiled.sahp_events,
    "AttNHP": compiled.attnhp_events,
}
"""By encoder: all layers and the head."""
_IN_ORDER = {
    "THP": ("qkv", "out", "norm1", "inner", "outer", "norm2"),
    "SAHP": ("norm1", "qkv", "out", "norm2", "inner", "outer"),
    "AttNHP": ("norm", "qkv", "out"),
}
"""A layer's parts in the order in which ``compiled`` uses them; absent ones are left out."""


def _columns(matrix: Vector, whole: int = LANES) -> Vector:
    """Zeros behind, to whole vectors."""
    return np.pad(matrix, ((0, 0), (0, -matrix.shape[1] % whole)))


def _linear(weight: Vector, bias: Vector | None) -> list[Vector]:
    """M (in, out padded), then b."""
    b = np.zeros(len(weight), dtype=np.float32) if bias is None else bias
    return [_columns(weight.T).ravel(), _columns(b[None]).ravel()]


def _by_head(matrix: Vector, heads: int) -> Vector:
    """Zero rows behind each head's, to whole eights."""
    split = matrix.reshape(heads, -1, matrix.shape[1])
    return np.pad(split, ((0, 0), (0, -split.shape[1] % _EIGHT), (0, 0))).reshape(-1, matrix.shape[1])


@dataclass(frozen=True, slots=True)
class CompiledNetwork:
    """A network ready for compiled passes: all that ``compiled`` wants of it."""

    kernel: Callable[..., None]
    weights: Vector
    """All weights in the order of their use, matrices transposed to (in, out), padded to whole vectors."""
    layers: int
    inner: int
    projection: bool
    p: int
    """Numbers in a raw row of the head."""

    @classmethod
    def of(
        cls, encoder: Any, layers: Sequence[dict[str, Tensor]], final: Sequence[Tensor], head: Sequence[Tensor]
    ) -> CompiledNetwork:
        """``layers``: weights of the cached path; ``final``: a last norm's, or nothing; ``head``: weight and bias."""
        kind, heads = type(encoder).__name__, int(encoder.n_heads)
        packed: list[Vector] = []
        for layer in layers:
            arrays = {name: w.detach().cpu().numpy() for name, w in layer.items()}
            for part in (part for part in _IN_ORDER[kind] if f"{part}_weight" in arrays):
                weight, bias = arrays[f"{part}_weight"], arrays.get(f"{part}_bias")
                if part.startswith("norm"):
                    packed += [_columns(weight[None]).ravel(), _columns(arrays[f"{part}_bias"][None]).ravel()]
                elif part == "qkv":
                    bias = None if bias is None else _by_head(bias[:, None], 3 * heads)[:, 0]
                    packed += _linear(_by_head(weight, 3 * heads), bias)
                else:
                    packed += _linear(_by_head(weight.T, heads).T if part == "out" else weight, bias)
        packed += [_columns(w.detach().cpu().numpy()[None]).ravel() for w in final]
        packed += _linear(*(w.detach().cpu().numpy() for w in head))
        inner, projection = int(getattr(encoder, "d_inner", 0)), bool(getattr(encoder, "output_projection", True))
        together = np.concatenate(packed).astype(np.float32)
        return cls(_EVENTS[kind], together, len(layers), inner, projection, len(head[1]))

    def __call__(self, cache: CompiledCache, x: Vector, extra: Vector, rows: IntArray, index: IntArray) -> Vector:
        """Raw head rows (N, P) after each of the N events: of history ``rows``, the ``index``-th there."""
        _, _, n, heads, blocks, width, _ = cache.store.shape
        out = np.empty((len(x), -(-self.p // LANES) * LANES), dtype=np.float32)
        self.kernel(
            x, extra, cache.places[rows], index + cache.null, self.weights, self.layers, self.inner, self.projection, heads, width,
            cache.null, cache.store.reshape(-1), n, blocks, self.p, out.reshape(-1),
        )  # fmt: skip
        return out[:, : self.p]
