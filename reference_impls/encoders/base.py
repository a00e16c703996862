"""What the attention encoders share: event inputs, the key/value cache, and attention with and without it.

Layout: keys and values are stored transposed, (n, H * head width, capacity), because products with a history that is contiguous in
memory run about twice as fast on a CPU as with one strided by head.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from tppsd_bench.protocols import FloatArray, IntArray

Vector = NDArray[np.float32]

Attend = Callable[[int, Tensor], Tensor]
"""(layer, [q k v] side by side (..., m, 3 d)) -> attended values (..., m, d)."""
Weights = dict[str, Tensor]
"""One layer's weights by name, ``qkv_weight`` and so on."""


@dataclass(frozen=True, slots=True)
class EventInputs:
    """New events as an encoder sees them: float64 times and gaps (n, m), types (n, m), 0-based index in sequence (n, m)."""

    times: FloatArray
    gaps: FloatArray
    types: Tensor
    index: IntArray


class Encoder(Protocol):
    """History -> one context per event. ``strict``: a query attends to events strictly before its own, and to a null key."""

    n_layers: int
    n_heads: int
    d: int
    d_attention: int
    strict: bool

    def embed(self, inputs: EventInputs) -> tuple[Tensor, Tensor]:
        """(first layer's input, the extra input of every layer), float32 (n, m, d)."""
        ...

    def embed_one(self, time: float, gap: float, type_: int, index: int) -> tuple[Vector, Vector]:
        """The same for one event of one sequence, as numpy vectors."""
        ...

    def encode(self, x: Tensor, extra: Tensor, attend: Attend, layers: Sequence[Weights]) -> Tensor:
        """All layers; contexts of the shape of ``x``. ``layers`` come from ``plain_layers`` or ``folded_layers``."""
        ...


def sinusoid_rates(d: int) -> FloatArray:
    """(d,) angular rates 10000^(-2 floor(i / 2) / d), interleaved for sine and cosine."""
    out: FloatArray = 10000.0 ** (-2.0 * (np.arange(d) // 2) / d)
    return out


_QUARTER = np.pi / 2


def sinusoid_shifts(d: int) -> FloatArray:
    """(d,) 0 for sines, a quarter turn for cosines."""
    out: FloatArray = _QUARTER * (np.arange(d) % 2).astype(np.float64)
    return out


def interleaved_encoding(times: FloatArray, rates: FloatArray) -> FloatArray:
    """sin of even, cos of odd coordinates of times x rates; phases in float64. (n, m) -> (n, m, d)."""
    phase = times[..., None] * rates
    phase[..., 1::2] += _QUARTER
    np.sin(phase, out=phase)
    return phase


class LayerWeights(nn.Module):
    """A bag of named weights of one layer, read as attributes; ``plain`` hands them out without module overhead."""

    def __init__(self, **linears: nn.Module) -> None:
        super().__init__()
        for name, module in linears.items():
            self.add_module(name, module)

    def plain(self) -> Weights:
        """Flat ``name_weight`` / ``name_bias`` tensors (bias may be absent)."""
        return {name.replace(".", "_"): p for name, p in self.named_parameters()}


def plain_layers(encoder: nn.Module) -> list[Weights]:
    """Each layer's weights as they are: for training and teacher forcing."""
    return [layer.plain() for layer in encoder.layers]  # type: ignore[union-attr]


def folded_layers(encoder: nn.Module) -> list[Weights]:
    """Weights for the cached path, kept: attention's 1/sqrt(width) and log2(e) are folded into the query rows.

    Attribute look-ups and scalar products cost as much here as small matrix products, and exp2 is twice as fast as exp.
    """
    cached: list[Weights] | None = encoder.__dict__.get("_folded")
    if cached is None:
        d = int(encoder.d_attention)  # type: ignore[arg-type]
        factor = math.log2(math.e) / math.sqrt(d // int(encoder.n_heads))  # type: ignore[arg-type]
        cached = []
        for weights in plain_layers(encoder):
            folded = {name: w.detach().clone() for name, w in weights.items()}
            for name in ("qkv_weight", "qkv_bias"):
                if name in folded:
                    folded[name][:d] *= factor
            cached.append(folded)
        if not encoder.training:
            encoder.__dict__["_folded"] = cached
    return cached


def causal_attend(n_heads: int, strict: bool, length: int, device: torch.device) -> Attend:
    """Attention over a whole sequence at once, without a cache: for training and teacher forcing, with ``plain_layers``."""
    mask: Tensor | None = None
    if strict:  # columns: null key, then events 0..L-1; query i sees null and events < i
        mask = torch.ones(length, length + 1, dtype=torch.bool, device=device).tril(0)

    def attend(_layer: int, qkv: Tensor) -> Tensor:
        n, m, d3 = qkv.shape
        q, k, v = qkv.chunk(3, dim=-1)
        if strict:
            k, v = F.pad(k, (0, 0, 1, 0)), F.pad(v, (0, 0, 1, 0))
        q, k, v = (t.view(n, -1, n_heads, d3 // 3 // n_heads).transpose(1, 2) for t in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=not strict)
        return out.transpose(1, 2).reshape(n, m, d3 // 3)

    return attend


_SAFE = (1e-30, 1e30)
"""Sums of powers of two between these prove that leaving out the maximum lost nothing that matters."""


def softmax_of_log2(scores: Tensor) -> tuple[Tensor, Tensor]:
    """(unnormalised weights, their sums) of base-2 scores; falls back to subtracting the maximum where 2^score leaves float32.

    Leaving out the maximum saves two passes over the scores. Sums between 1e-30 and 1e30 prove that nothing that matters
    was lost: no weight overflowed, and what underflowed is below 1e-8 of the sum.
    """
    weights = torch.exp2(scores)
    sums = weights.sum(dim=-1, keepdim=True)
    low, high = torch.aminmax(sums)
    if not (float(low) > _SAFE[0] and float(high) < _SAFE[1]):
        weights = torch.exp2(scores - scores.amax(dim=-1, keepdim=True))
        sums = weights.sum(dim=-1, keepdim=True)
    return weights, sums


class KeyValueCache:
    """The torch form of ``lean.CompiledCache``, for accelerators: keys and values of ``n`` histories. Implements ``base.Cache``."""

    def __init__(self, encoder: Encoder, n: int, capacity: int, device: torch.device) -> None:
        self._encoder, self._device = encoder, device
        self._null = 1 if encoder.strict else 0
        self.lengths = np.zeros(n, dtype=np.int64)
        self.times = np.zeros((n, capacity + 1))
        """Event times with a leading 0, so that ``times[i, lengths[i]]`` is the last event's."""
        self.store = self._zeros(n, capacity)
        """(layer, keys | values, sequence, d, event): sequences and heads merge into one batch axis without a copy."""

    @property
    def capacity(self) -> int:
        return self.times.shape[1] - 1

    def rollback(self, lengths: IntArray) -> None:
        self.lengths = np.asarray(lengths, dtype=np.int64).copy()

    def keep(self, rows: IntArray) -> None:
        self.lengths, self.times = self.lengths[rows], self.times[rows]
        self.store = self.store.index_select(2, torch.as_tensor(rows, device=self._device))

    def _grow(self, needed: int) -> None:
        extra = max(needed, 2 * self.capacity) - self.capacity
        used, old = int(self.lengths.max()) + self._null, self.store
        self.times = np.pad(self.times, ((0, 0), (0, extra)))
        self.store = self._zeros(old.shape[2], self.capacity)
        self.store[..., :used] = old[..., :used]

    def _zeros(self, n: int, capacity: int) -> Tensor:
        """Zeros, for masked columns must stay finite."""
        shape = (self._encoder.n_layers, 2, n, self._encoder.d_attention, capacity + self._null)
        return torch.zeros(shape, device=self._device)

    def append(self, gaps: FloatArray, types: IntArray, counts: IntArray) -> tuple[EventInputs, Attend]:
        """Make room for the (n, m) new events and return the encoder's inputs and the attention that reads and writes the cache.

        ``lengths`` grow by ``counts``. Padding columns (j >= counts[i]) are written beyond a row's length, where the next append
        overwrites them; no valid query sees them.
        """
        n, m = gaps.shape
        start = self.lengths
        needed = int(start.max()) + m
        if needed > self.capacity:
            self._grow(needed)
        index = start[:, None] + np.arange(m)
        rows = np.arange(n)[:, None]
        times = self.times[rows, start[:, None]] + np.cumsum(gaps, axis=1)
        self.times[rows, index + 1] = times
        self.lengths = start + counts
        return EventInputs(times, gaps, torch.from_numpy(types).to(self._device), index), self._attend(index)

    def _attend(self, index: IntArray) -> Attend:
        """Each query sees the columns up to its own (strict: before its own, and the null key)."""
        (n, m), heads, null, d = index.shape, self._encoder.n_heads, self._null, self._encoder.d_attention
        width, capacity = d // heads, self.store.shape[-1]
        at = torch.as_tensor(index + null, device=self._device)
        limit = at if null else at + 1
        end = int(limit.max())
        hidden = torch.arange(end, device=self._device)[None, None, :] >= limit[:, :, None]
        mask = torch.zeros(hidden.shape, device=self._device).masked_fill_(hidden, -torch.inf)[:, None]
        columns = at[:, None, :].expand(n, d, m)

        def attend(layer: int, qkv: Tensor) -> Tensor:
            keys, values = self.store[layer].unbind(0)
            q, k, v = qkv.view(n, m, 3 * d).chunk(3, dim=-1)
            keys.scatter_(2, columns, k.transpose(1, 2))
            values.scatter_(2, columns, v.transpose(1, 2))
            queries = q.reshape(n, m, heads, width).transpose(1, 2).reshape(n * heads, m, width)
            scores = torch.bmm(queries, keys.view(n * heads, width, capacity)[..., :end])
            scores.view(n, heads, m, end).add_(mask)
            weights, sums = softmax_of_log2(scores)
            out = torch.bmm(weights, values.view(n * heads, width, capacity)[..., :end].transpose(1, 2)) / sums
            return out.view(n, heads, m, width).transpose(1, 2).reshape(n, m, d)

        return attend
