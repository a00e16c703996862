"""What the attention encoders share: event inputs, the key/value cache, and attention with and without it.

Layout: keys and values are stored transposed, (n, H * head width, capacity), because products with a history that is contiguous in
memory run about twice as fast on a CPU as with one strided by head.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(layer, q, k, v), each (n, m, d) -> attended values (n, m, d)."""


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

    def encode(self, x: Tensor, extra: Tensor, attend: Attend) -> Tensor:
        """All layers; contexts (n, m, d)."""
        ...


def sinusoid_rates(d: int) -> FloatArray:
    """(d,) angular rates 10000^(-2 floor(i / 2) / d), interleaved for sine and cosine."""
    out: FloatArray = 10000.0 ** (-2.0 * (np.arange(d) // 2) / d)
    return out


_QUARTER = np.pi / 2


def interleaved_encoding(times: FloatArray, rates: FloatArray) -> FloatArray:
    """sin of even, cos of odd coordinates of times x rates; phases in float64. (n, m) -> (n, m, d)."""
    phase = times[..., None] * rates
    phase[..., 1::2] += _QUARTER
    return np.sin(phase, out=phase)


class LayerWeights(nn.Module):
    """A bag of named weights of one layer, read as attributes; ``plain`` hands them out without module overhead."""

    def __init__(self, **linears: nn.Module) -> None:
        super().__init__()
        for name, module in linears.items():
            self.add_module(name, module)

    def plain(self) -> dict[str, Tensor]:
        """Flat ``name_weight`` / ``name_bias`` tensors (bias may be absent)."""
        return {name.replace(".", "_"): p for name, p in self.named_parameters()}


def causal_attend(n_heads: int, strict: bool, length: int, device: torch.device) -> Attend:
    """Attention over a whole sequence at once, without a cache: for training. Rows are independent of what follows them."""
    mask: Tensor | None = None
    if strict:  # columns: null key, then events 0..L-1; query i sees null and events < i
        mask = torch.ones(length, length + 1, dtype=torch.bool, device=device).tril(0)

    def attend(_layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        n, m, d = q.shape
        if strict:
            k, v = F.pad(k, (0, 0, 1, 0)), F.pad(v, (0, 0, 1, 0))
        heads = [t.view(n, -1, n_heads, d // n_heads).transpose(1, 2) for t in (q, k, v)]
        out = F.scaled_dot_product_attention(*heads, attn_mask=mask, is_causal=not strict)
        return out.transpose(1, 2).reshape(n, m, d)

    return attend


class KeyValueCache:
    """Keys and values of ``n`` histories, each of its own length, with per-sequence rollback. Implements ``base.Cache``."""

    def __init__(self, encoder: Encoder, n: int, capacity: int, device: torch.device) -> None:
        self._encoder, self._device = encoder, device
        self._null = 1 if encoder.strict else 0
        self.lengths = np.zeros(n, dtype=np.int64)
        self.times = np.zeros((n, capacity + 1))
        """Event times with a leading 0, so that ``times[i, lengths[i]]`` is the last event's."""
        shape = (n, encoder.d_attention, capacity + self._null)
        self.keys = [torch.zeros(shape, device=device) for _ in range(encoder.n_layers)]
        self.values = [torch.zeros(shape, device=device) for _ in range(encoder.n_layers)]

    @property
    def capacity(self) -> int:
        return self.times.shape[1] - 1

    def rollback(self, lengths: IntArray) -> None:
        self.lengths = np.asarray(lengths, dtype=np.int64).copy()

    def keep(self, rows: IntArray) -> None:
        self.lengths, self.times = self.lengths[rows], self.times[rows]
        at = torch.as_tensor(rows, device=self._device)
        self.keys = [k.index_select(0, at) for k in self.keys]
        self.values = [v.index_select(0, at) for v in self.values]

    def _grow(self, needed: int) -> None:
        extra = max(needed, 2 * self.capacity) - self.capacity
        self.times = np.pad(self.times, ((0, 0), (0, extra)))
        self.keys = [F.pad(k, (0, extra)) for k in self.keys]
        self.values = [F.pad(v, (0, extra)) for v in self.values]

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
        if n == 1:
            first = int(start[0])
            self.times[0, first + 1 : first + m + 1] = self.times[0, first] + np.cumsum(gaps[0])
            times = self.times[:, first + 1 : first + m + 1]
            index = np.arange(first, first + m)[None, :]
        else:
            index = start[:, None] + np.arange(m)
            rows = np.arange(n)[:, None]
            times = self.times[rows, start[:, None]] + np.cumsum(gaps, axis=1)
            self.times[rows, index + 1] = times
        self.lengths = start + counts
        inputs = EventInputs(times, gaps, torch.from_numpy(types).to(self._device), index)
        return inputs, (self._attend_one(int(start[0]), m) if n == 1 else self._attend_ragged(index, m))

    def _attend_one(self, first: int, m: int) -> Attend:
        """One sequence: plain slices; only the last m x m block needs a mask."""
        heads, null = self._encoder.n_heads, self._null
        begin, end = first + null, first + null + m
        width = self._encoder.d_attention // heads
        scale = 1.0 / math.sqrt(width)
        # strict: query j (event first + j) sees columns < begin + j; else also its own column
        block = torch.full((m, m), -torch.inf, device=self._device).triu(1 - null) if m > 1 else None
        last = end if not null else end - 1
        if block is not None and null:
            block = block[:, : m - 1]

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys, values = self.keys[layer][0], self.values[layer][0]
            keys[:, begin:end] = k[0].t()
            values[:, begin:end] = v[0].t()
            scores = torch.matmul(
                (q[0] * scale).view(m, heads, width).transpose(0, 1), keys[:, :last].view(heads, width, last)
            )
            if block is not None:
                scores[:, :, begin:last] += block
            weights = torch.softmax(scores, dim=-1)
            out = torch.matmul(weights, values[:, :last].view(heads, width, last).transpose(1, 2))
            return out.transpose(0, 1).reshape(1, m, heads * width)

        return attend

    def _attend_ragged(self, index: IntArray, m: int) -> Attend:
        """Many sequences, each at its own length: scatter the new columns, mask what a query must not see."""
        heads, null = self._encoder.n_heads, self._null
        n = len(index)
        d = self._encoder.d_attention
        width = d // heads
        scale = 1.0 / math.sqrt(width)
        at = torch.as_tensor(index + null, device=self._device)
        end = int(index.max()) + 1 + null
        limit = at if null else at + 1
        hidden = torch.arange(end, device=self._device)[None, None, :] >= limit[:, :, None]
        mask = torch.zeros(hidden.shape, device=self._device).masked_fill_(hidden, -torch.inf)[:, None]
        columns = at[:, None, :].expand(n, d, m)

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys, values = self.keys[layer], self.values[layer]
            keys.scatter_(2, columns, k.transpose(1, 2))
            values.scatter_(2, columns, v.transpose(1, 2))
            scores = torch.matmul(
                (q * scale).view(n, m, heads, width).transpose(1, 2), keys[:, :, :end].view(n, heads, width, end)
            )
            weights = torch.softmax(scores.add_(mask), dim=-1)
            out = torch.matmul(weights, values[:, :, :end].view(n, heads, width, end).transpose(2, 3))
            return out.transpose(1, 2).reshape(n, m, d)

        return attend
