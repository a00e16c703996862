"""Encoders without torch's cost for each operation, on CPUs: a shallow network event by event, any network on many events at once.

A draft is called K times a round with a single event. There a torch operation costs ten times its arithmetic, so that a one-layer step
takes 0.2 ms, as much as several layers of the target; compiled (``compiled``) the same float32 arithmetic takes a few microseconds.
On many rows, numpy's products of matrices this small take half of torch's time. Tests hold all forms together to 1e-5. Exactness
does not rest on that agreement: a proposal is judged by the q it was drawn from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from reference_impls.encoders import compiled
from tppsd_bench.protocols import FloatArray, IntArray

Vector = NDArray[np.float32]
Step = Callable[[Vector, Vector, Callable[[int, Vector], Vector]], Vector]
"""(x, extra, attend(layer, qkv)) -> contexts, all (N, d)."""

MAX_LAYERS = 2
"""Networks at most this deep take their events one by one, in compiled loops, whatever their number: cheap when shallow."""


class LeanCache:
    """Keys and values of ``n`` histories of a shallow network. Implements ``base.Cache``."""

    def __init__(self, encoder: Any, n: int, capacity: int) -> None:
        self.null = 1 if encoder.strict else 0
        self.lengths = np.zeros(n, dtype=np.int64)
        self.times = np.zeros((n, capacity + 1))
        """Event times with a leading 0."""
        shape = (encoder.n_layers, n, encoder.d_attention, capacity + self.null)
        self.keys, self.values = np.zeros(shape, dtype=np.float32), np.zeros(shape, dtype=np.float32)
        """(layer, sequence, d, event)"""

    def rollback(self, lengths: IntArray) -> None:
        self.lengths = np.asarray(lengths, dtype=np.int64).copy()

    def keep(self, rows: IntArray) -> None:
        self.lengths, self.times = self.lengths[rows], self.times[rows]
        self.keys, self.values = np.take(self.keys, rows, axis=1), np.take(self.values, rows, axis=1)

    def append(self, gaps: FloatArray, counts: IntArray) -> tuple[IntArray, FloatArray]:
        """Room for ``counts`` new events of each history: their index in it, and their times, both (n, m). ``lengths`` grow."""
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
        if events >= self.times.shape[1]:
            extra = max(events, 2 * self.times.shape[1]) + 1 - self.times.shape[1]
            self.times = np.pad(self.times, ((0, 0), (0, extra)))
            wider = ((0, 0), (0, 0), (0, 0), (0, extra))
            self.keys, self.values = np.pad(self.keys, wider), np.pad(self.values, wider)


_EVENTS: dict[str, Callable[..., None]] = {
    "THP": compiled.thp_events,
    "SAHP": compiled.sahp_events,
    "AttNHP": compiled.attnhp_events,
}
"""By encoder: all layers and the head, event by event (``compiled``)."""
_IN_ORDER = {
    "THP": ("qkv_weight", "out_weight", "out_bias", "norm1_weight", "norm1_bias", "inner_weight", "inner_bias", "outer_weight",
            "outer_bias", "norm2_weight", "norm2_bias"),
    "SAHP": ("norm1_weight", "norm1_bias", "qkv_weight", "qkv_bias", "out_weight", "out_bias", "norm2_weight", "norm2_bias",
             "inner_weight", "inner_bias", "outer_weight", "outer_bias"),
    "AttNHP": ("norm_weight", "norm_bias", "qkv_weight", "qkv_bias", "out_weight", "out_bias"),
}  # fmt: skip
"""A layer's weights in the order in which ``compiled`` uses them; absent ones are left out."""


@dataclass(frozen=True, slots=True)
class EventByEvent:
    """A shallow network ready for one event after the other: all that ``compiled`` wants of it."""

    kernel: Callable[..., None]
    weights: Vector
    """All weights in the order of their use, matrices transposed to (in, out)."""
    layers: int
    inner: int
    projection: bool
    heads: int
    width: int
    """Numbers in a raw row of the head."""

    @classmethod
    def of(
        cls, encoder: Any, layers: Sequence[dict[str, Tensor]], final: Sequence[Tensor], head: Sequence[Tensor]
    ) -> EventByEvent:
        """``layers``: weights of the cached path; ``final``: a last norm's, or nothing; ``head``: weight and bias."""
        kind = type(encoder).__name__
        named = [layer[name] for layer in layers for name in _IN_ORDER[kind] if name in layer]
        weights = [w.detach().cpu().numpy().T.ravel() for w in (*named, *final, *head)]
        inner, projection = int(getattr(encoder, "d_inner", 0)), bool(getattr(encoder, "output_projection", True))
        together = np.concatenate(weights).astype(np.float32)
        return cls(_EVENTS[kind], together, len(layers), inner, projection, int(encoder.n_heads), len(head[1]))

    def __call__(self, cache: LeanCache, x: Vector, extra: Vector, rows: IntArray, index: IntArray) -> Vector:
        """Raw head rows (N, width) after each of the N events: of history ``rows``, the ``index``-th there."""
        capacity, out = cache.keys.shape[-1], np.empty((len(x), self.width), dtype=np.float32)
        self.kernel(
            x, extra, rows, index + cache.null, self.weights, self.layers, self.inner, self.projection, self.heads,
            cache.keys.reshape(-1, capacity), cache.values.reshape(-1, capacity), out,
        )  # fmt: skip
        return out


def _norm(x: Vector, weights: Vector, eps: float) -> Vector:
    out = np.empty_like(x)
    compiled.norm_rows(x, weights, eps, out)
    return out


def _add_norm(x: Vector, bias: Vector, more: Vector, weights: Vector, eps: float) -> Vector:
    """The norm of x + bias + more; ``x`` is overwritten."""
    out = np.empty_like(x)
    compiled.add_norm_rows(x, bias, more, weights, eps, out)
    return out


def _gelu(x: Vector) -> Vector:
    out: Vector = F.gelu(torch.from_numpy(x)).numpy()
    return out


Layers = list[dict[str, Vector]]


def numpy_layers(layers: Sequence[dict[str, Tensor]]) -> Layers:
    """Weights of the cached path as numpy arrays: matrices (in, out), contiguous, so that rows times them are fast; a norm's scale and
    shift in one vector, under the norm's name."""
    out: Layers = []
    for layer in layers:
        arrays = {name: np.ascontiguousarray(w.detach().cpu().numpy().T) for name, w in layer.items()}
        for name in [name.removesuffix("_weight") for name in layer if name.startswith("norm") and name.endswith("_weight")]:
            arrays[name] = np.concatenate((arrays.pop(f"{name}_weight"), arrays.pop(f"{name}_bias")))
        out.append(arrays)
    return out


def thp_step(layers: Layers, _final: Vector | None) -> Step:
    def step(x: Vector, extra: Vector, attend: Callable[[int, Vector], Vector]) -> Vector:
        for i, w in enumerate(layers):
            x = x + extra
            a = np.dot(attend(i, np.dot(x, w["qkv_weight"])), w["out_weight"])
            y = _add_norm(a, w["out_bias"], x, w["norm1"], 1e-6)
            z = np.dot(y, w["inner_weight"])
            z += w["inner_bias"]
            z = np.dot(_gelu(z), w["outer_weight"])
            x = _add_norm(z, w["outer_bias"], y, w["norm2"], 1e-6)
        return x

    return step


def sahp_step(layers: Layers, final: Vector | None) -> Step:
    assert final is not None

    def step(x: Vector, _extra: Vector, attend: Callable[[int, Vector], Vector]) -> Vector:
        for i, w in enumerate(layers):
            qkv = np.dot(_norm(x, w["norm1"], 1e-5), w["qkv_weight"])
            qkv += w["qkv_bias"]
            a = attend(i, qkv)
            if "out_weight" in w:
                a = np.dot(a, w["out_weight"])
                a += w["out_bias"]
            x = x + a
            if "inner_weight" in w:
                z = np.dot(_norm(x, w["norm2"], 1e-5), w["inner_weight"])
                z += w["inner_bias"]
                z = np.dot(_gelu(z), w["outer_weight"])
                z += w["outer_bias"]
                x += z
        return _norm(x, final, 1e-5)

    return step


def attnhp_step(layers: Layers, final: Vector | None) -> Step:
    assert final is not None

    def step(x: Vector, extra: Vector, attend: Callable[[int, Vector], Vector]) -> Vector:
        for i, w in enumerate(layers):
            y = np.concatenate((_norm(x, w["norm"], 1e-5), extra), axis=-1)
            qkv = np.dot(y, w["qkv_weight"])
            qkv += w["qkv_bias"]
            a = np.dot(attend(i, qkv), w["out_weight"])
            a += w["out_bias"]
            x = x + np.tanh(a)
        return _norm(x, final, 1e-5)

    return step


STEPS = {"THP": thp_step, "SAHP": sahp_step, "AttNHP": attnhp_step}
