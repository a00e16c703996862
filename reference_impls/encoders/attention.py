"""Attention of a batch of histories at different lengths, on their own key/value columns; and the softmax of the forms in torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reference_impls.encoders.compiled import attend_rows
from tppsd_bench.protocols import IntArray

Scores = NDArray[np.float32]

ROWS_FROM = 4
"""New events in all from which products of rows are numpy's and attention is compiled; below, torch takes one event's step."""
SAFE = (1e-30, 1e30)
"""Sums of powers of two between these prove that leaving out the maximum lost nothing that matters."""


def softmax_of_log2(scores: Tensor) -> tuple[Tensor, Tensor]:
    """(unnormalised weights, their sums) of base-2 scores; falls back to subtracting the maximum where 2^score leaves float32.

    Leaving out the maximum saves two passes over the scores. Sums between 1e-30 and 1e30 prove that nothing that matters
    was lost: no weight overflowed, and what underflowed is below 1e-8 of the sum.
    """
    weights = torch.exp2(scores)
    sums = weights.sum(dim=-1, keepdim=True)
    low, high = torch.aminmax(sums)
    if not (float(low) > SAFE[0] and float(high) < SAFE[1]):
        weights = torch.exp2(scores - scores.amax(dim=-1, keepdim=True))
        sums = weights.sum(dim=-1, keepdim=True)
    return weights, sums


def attend_ragged(store: Tensor, encoder: Any, index: IntArray) -> Any:
    """An ``Attend`` for new events at ``index`` (n, m) of each history; writes their keys and values, then reads the past.

    ``store`` is a cache's (layers, 2, n, d, capacity). A query sees the columns up to its own (strict: before its own, and the
    null key). On a CPU each history is worked on by itself in compiled loops; elsewhere in torch in one piece.
    """
    if store.device.type != "cpu":
        return _in_one_piece(store, encoder, index)
    return InNumpy(_by_rows(store.numpy(), encoder, index))


@dataclass(frozen=True, slots=True)
class InNumpy:
    """An ``Attend`` whose work is done by ``on_arrays``, the same from array to array."""

    on_arrays: Callable[[int, Scores], Scores]

    def __call__(self, layer: int, qkv: Tensor) -> Tensor:
        return torch.from_numpy(self.on_arrays(layer, qkv.numpy()))


def on_arrays(attend: Callable[[int, Tensor], Tensor]) -> Callable[[int, Scores], Scores]:
    """An ``Attend`` of the cache as a function from array to array."""
    if isinstance(attend, InNumpy):
        return attend.on_arrays
    return lambda layer, qkv: attend(layer, torch.from_numpy(qkv)).numpy()


def _by_rows(store: Scores, encoder: Any, index: IntArray) -> Callable[[int, Scores], Scores]:
    (n, m), d, heads, null = index.shape, encoder.d_attention, encoder.n_heads, int(encoder.strict)
    first, capacity = index[:, 0] + null, store.shape[-1]
    scratch = np.empty(capacity, dtype=np.float32), np.empty(capacity, dtype=np.float32)

    def attend(layer: int, qkv: Scores) -> Scores:
        out = np.empty(n * m * d, dtype=np.float32)
        keys, values = store[layer, 0].reshape(n * d, -1), store[layer, 1].reshape(n * d, -1)
        attend_rows(qkv.reshape(-1), keys, values, first, d, heads, null, *scratch, out)
        return out.reshape(*qkv.shape[:-1], d)

    return attend


def _in_one_piece(store: Tensor, encoder: Any, index: IntArray) -> Any:
    n, m = index.shape
    heads, null, d = encoder.n_heads, int(encoder.strict), encoder.d_attention
    width, capacity = d // heads, store.shape[-1]
    at = torch.as_tensor(index + null, device=store.device)
    limit = at if null else at + 1
    end = int(limit.max())
    hidden = torch.arange(end, device=store.device)[None, None, :] >= limit[:, :, None]
    mask = torch.zeros(hidden.shape, device=store.device).masked_fill_(hidden, -torch.inf)[:, None]
    columns = at[:, None, :].expand(n, d, m)

    def attend(layer: int, qkv: Tensor) -> Tensor:
        keys, values = store[layer].unbind(0)
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
