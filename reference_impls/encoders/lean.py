"""One sequence, one event at a time, a shallow network: the draft's step fused into a few dozen small numpy calls.

A draft is called K times a round with a single event. There a torch operation costs ten times its arithmetic, so that a one-layer
step takes 0.2 ms, as much as several layers of the target; the same float32 arithmetic on plain vectors takes about 0.05 ms. Tests hold
both forms together to 1e-5. Exactness does not rest on that agreement: a proposal is judged by the q it was drawn from.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from tppsd_bench.protocols import IntArray

Vector = NDArray[np.float32]
Step = Callable[[Vector, Vector, Callable[[int, Vector], Vector]], Vector]
"""(x, extra, attend(layer, qkv)) -> context, all (d,)."""

MAX_LAYERS = 2
"""Deeper networks gain more from torch's matrix products than they lose to its overhead once several positions are verified."""


class LeanCache:
    """Keys and values of one history as numpy arrays. Implements ``base.Cache``."""

    def __init__(self, encoder: Any, capacity: int) -> None:
        self.lengths = np.zeros(1, dtype=np.int64)
        self.times = [0.0]
        self._null = 1 if encoder.strict else 0
        self._heads, self._d = encoder.n_heads, encoder.d_attention
        self._layers = encoder.n_layers
        self._store = np.zeros((encoder.n_layers, 2 * self._d, capacity + 1), dtype=np.float32)
        self._ones = np.ones(capacity + 1, dtype=np.float32)

    def rollback(self, lengths: IntArray) -> None:
        self.lengths = np.asarray(lengths, dtype=np.int64).copy()
        del self.times[int(lengths[0]) + 1 :]

    def keep(self, rows: IntArray) -> None:
        if len(rows) != 1 or rows[0] != 0:
            raise IndexError(f"A lean cache holds one sequence; cannot keep rows {rows}.")

    def attend_at(self, position: int) -> Callable[[int, Vector], Vector]:
        """Attention of the event at ``position`` over what is before it (and itself, unless strict)."""
        column = position + self._null
        if column >= self._store.shape[2]:
            self._store = np.pad(self._store, ((0, 0), (0, 0), (0, self._store.shape[2])))
            self._ones = np.ones(self._store.shape[2], dtype=np.float32)
        last = column if self._null else column + 1
        d, heads = self._d, self._heads
        ones = self._ones[:last]

        def one_head(layer: int, qkv: Vector) -> Vector:
            store = self._store[layer]
            store[:, column] = qkv[d:]
            scores = np.dot(qkv[:d], store[:d, :last])
            weights = np.exp2(scores - np.maximum.reduce(scores))
            out: Vector = np.dot(store[d:, :last], weights)
            out /= np.dot(weights, ones)
            return out

        def many_heads(layer: int, qkv: Vector) -> Vector:
            store = self._store[layer]
            store[:, column] = qkv[d:]
            keys = store[:d, :last].reshape(heads, -1, last)
            scores = np.matmul(qkv[:d].reshape(heads, 1, -1), keys)
            weights = np.exp2(scores - scores.max(axis=-1, keepdims=True))
            out = np.matmul(weights, store[d:, :last].reshape(heads, -1, last).transpose(0, 2, 1))
            out /= weights.sum(axis=-1, keepdims=True)
            flat: Vector = out.reshape(-1)
            return flat

        return one_head if heads == 1 else many_heads


def _norm(x: Vector, weight: Vector, bias: Vector, eps: float) -> Vector:
    d = len(x)
    centred = x - np.float32(np.add.reduce(x) / d)
    centred *= np.float32(1.0 / math.sqrt(float(np.dot(centred, centred)) / d + eps))
    centred *= weight
    centred += bias
    return centred


_HALF_ROOT = np.float32(math.sqrt(0.5))


def _gelu(x: Vector) -> Vector:
    grown = erf(x * _HALF_ROOT)
    grown += np.float32(1.0)
    grown *= x
    grown *= np.float32(0.5)
    out: Vector = grown
    return out


Layers = list[dict[str, Vector]]


def thp_step(layers: Layers, _final: tuple[Vector, Vector] | None) -> Step:
    def step(x: Vector, extra: Vector, attend: Callable[[int, Vector], Vector]) -> Vector:
        for i, w in enumerate(layers):
            x = x + extra
            a = np.dot(w["out_weight"], attend(i, np.dot(w["qkv_weight"], x)))
            a += w["out_bias"]
            a += x
            y = _norm(a, w["norm1_weight"], w["norm1_bias"], 1e-6)
            z = np.dot(w["inner_weight"], y)
            z += w["inner_bias"]
            z = np.dot(w["outer_weight"], _gelu(z))
            z += w["outer_bias"]
            z += y
            x = _norm(z, w["norm2_weight"], w["norm2_bias"], 1e-6)
        return x

    return step


def sahp_step(layers: Layers, final: tuple[Vector, Vector] | None) -> Step:
    assert final is not None

    def step(x: Vector, _extra: Vector, attend: Callable[[int, Vector], Vector]) -> Vector:
        for i, w in enumerate(layers):
            qkv = np.dot(w["qkv_weight"], _norm(x, w["norm1_weight"], w["norm1_bias"], 1e-5))
            qkv += w["qkv_bias"]
            a = attend(i, qkv)
            if "out_weight" in w:
                a = np.dot(w["out_weight"], a)
                a += w["out_bias"]
            x = x + a
            if "inner_weight" in w:
                z = np.dot(w["inner_weight"], _norm(x, w["norm2_weight"], w["norm2_bias"], 1e-5))
                z += w["inner_bias"]
                z = np.dot(w["outer_weight"], _gelu(z))
                z += w["outer_bias"]
                x += z
        return _norm(x, *final, 1e-5)

    return step


def attnhp_step(layers: Layers, final: tuple[Vector, Vector] | None) -> Step:
    assert final is not None

    def step(x: Vector, extra: Vector, attend: Callable[[int, Vector], Vector]) -> Vector:
        for i, w in enumerate(layers):
            y = np.concatenate((_norm(x, w["norm_weight"], w["norm_bias"], 1e-5), extra))
            qkv = np.dot(w["qkv_weight"], y)
            qkv += w["qkv_bias"]
            a = np.dot(w["out_weight"], attend(i, qkv))
            a += w["out_bias"]
            x = x + np.tanh(a)
        return _norm(x, *final, 1e-5)

    return step


STEPS = {"THP": thp_step, "SAHP": sahp_step, "AttNHP": attnhp_step}
