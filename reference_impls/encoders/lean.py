"""Encoders in numpy, for CPUs: one event of one sequence through a shallow network, or many events at once through any.

A draft is called K times a round with a single event. There a torch operation costs ten times its arithmetic, so that a one-layer
step takes 0.2 ms, as much as several layers of the target; the same float32 arithmetic on plain vectors takes about 0.05 ms. On many
rows, numpy's products of matrices this small take half of torch's time. Tests hold all forms together to 1e-5. Exactness does not
rest on that agreement: a proposal is judged by the q it was drawn from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.special import erf
from torch import Tensor

from reference_impls.encoders.attention import SAFE
from tppsd_bench.protocols import IntArray

Vector = NDArray[np.float32]
Step = Callable[[Vector, Vector, Callable[[int, Vector], Vector]], Vector]
"""(x, extra, attend(layer, qkv)) -> context, all (d,), or all (N, d)."""

MAX_LAYERS = 2
"""Layers of a network that goes through a history one event at a time, whatever the number of new events: cheap when shallow."""


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
            weights = np.exp2(scores)
            total = np.dot(weights, ones)
            if not SAFE[0] < total < SAFE[1]:
                weights = np.exp2(scores - np.maximum.reduce(scores))
                total = np.dot(weights, ones)
            out: Vector = np.dot(store[d:, :last], weights)
            out /= total
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
    centred: Vector = x - np.dot(x, _mean_weights(d))
    centred *= np.float32(1.0 / math.sqrt(float(np.dot(centred, centred)) / d + eps))
    centred *= weight
    centred += bias
    return centred


@lru_cache
def _mean_weights(d: int) -> Vector:
    return np.full(d, 1.0 / d, dtype=np.float32)


_HALF_ROOT = np.float32(math.sqrt(0.5))
_ONE = np.float32(1.0)


def _gelu(x: Vector) -> Vector:
    """sqrt(2) gelu(sqrt(2) x) = x (1 + erf x): the roots are folded into the matrices around it."""
    grown: Vector = erf(x)
    grown += _ONE
    grown *= x
    return grown


def _norm_rows(x: Vector, weight: Tensor, bias: Tensor, eps: float) -> Vector:
    out: Vector = torch.native_layer_norm(torch.from_numpy(x), weight.shape, weight, bias, eps)[0].numpy()
    return out


def _gelu_rows(x: Vector) -> Vector:
    out: Vector = F.gelu(torch.from_numpy(x)).numpy()
    return out


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """What differs between one vector (d,) and rows (N, d): on vectors numpy's own few operations are the cheaper ones."""

    norm: Callable[..., Vector]
    """(x, weight, bias, eps)"""
    gelu: Callable[[Vector], Vector]
    norm_weights: Callable[[Tensor], Any]
    """In what form ``norm`` wants its weights."""
    gelu_scale: np.float32
    """What the matrices before and after ``gelu`` are multiplied by."""


VECTOR = Arithmetic(_norm, _gelu, lambda w: w.detach().cpu().numpy(), _HALF_ROOT)
ROWS = Arithmetic(_norm_rows, _gelu_rows, lambda w: w.detach().cpu(), _ONE)

Layers = list[dict[str, Any]]


def numpy_layers(layers: Sequence[dict[str, Tensor]], form: Arithmetic) -> Layers:
    """Weights of the cached path as numpy arrays, matrices transposed: (in, out), contiguous, so that rows times them are fast."""

    def convert(name: str, w: Tensor) -> Any:
        if name.startswith("norm"):
            return form.norm_weights(w)
        matrix: Vector = np.ascontiguousarray(w.detach().cpu().numpy().T)
        return matrix * form.gelu_scale if name in ("inner_weight", "inner_bias", "outer_weight") else matrix

    return [{name: convert(name, w) for name, w in layer.items()} for layer in layers]


def thp_step(layers: Layers, _final: tuple[Any, Any] | None, form: Arithmetic) -> Step:
    norm, gelu = form.norm, form.gelu

    def step(x: Vector, extra: Vector, attend: Callable[[int, Vector], Vector]) -> Vector:
        for i, w in enumerate(layers):
            x = x + extra
            a = np.dot(attend(i, np.dot(x, w["qkv_weight"])), w["out_weight"])
            a += w["out_bias"]
            a += x
            y = norm(a, w["norm1_weight"], w["norm1_bias"], 1e-6)
            z = np.dot(y, w["inner_weight"])
            z += w["inner_bias"]
            z = np.dot(gelu(z), w["outer_weight"])
            z += w["outer_bias"]
            z += y
            x = norm(z, w["norm2_weight"], w["norm2_bias"], 1e-6)
        return x

    return step


def sahp_step(layers: Layers, final: tuple[Any, Any] | None, form: Arithmetic) -> Step:
    assert final is not None
    norm, gelu = form.norm, form.gelu

    def step(x: Vector, _extra: Vector, attend: Callable[[int, Vector], Vector]) -> Vector:
        for i, w in enumerate(layers):
            qkv = np.dot(norm(x, w["norm1_weight"], w["norm1_bias"], 1e-5), w["qkv_weight"])
            qkv += w["qkv_bias"]
            a = attend(i, qkv)
            if "out_weight" in w:
                a = np.dot(a, w["out_weight"])
                a += w["out_bias"]
            x = x + a
            if "inner_weight" in w:
                z = np.dot(norm(x, w["norm2_weight"], w["norm2_bias"], 1e-5), w["inner_weight"])
                z += w["inner_bias"]
                z = np.dot(gelu(z), w["outer_weight"])
                z += w["outer_bias"]
                x += z
        return norm(x, *final, 1e-5)

    return step


def attnhp_step(layers: Layers, final: tuple[Any, Any] | None, form: Arithmetic) -> Step:
    assert final is not None
    norm = form.norm

    def step(x: Vector, extra: Vector, attend: Callable[[int, Vector], Vector]) -> Vector:
        for i, w in enumerate(layers):
            y = np.concatenate((norm(x, w["norm_weight"], w["norm_bias"], 1e-5), extra), axis=-1)
            qkv = np.dot(y, w["qkv_weight"])
            qkv += w["qkv_bias"]
            a = np.dot(attend(i, qkv), w["out_weight"])
            a += w["out_bias"]
            x = x + np.tanh(a)
        return norm(x, *final, 1e-5)

    return step


STEPS = {"THP": thp_step, "SAHP": sahp_step, "AttNHP": attnhp_step}
