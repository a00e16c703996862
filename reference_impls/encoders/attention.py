"""Attention of a batch of histories at different lengths, on their own key/value columns; and the softmax all forms share."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tppsd_bench.protocols import IntArray

Scores = NDArray[np.float32]

_SAFE = (1e-30, 1e30)
_BLOCK = 1 << 17
"""Attention scores held at a time: half a megabyte stays in a core's cache, where one pass over all rows would not."""


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


def attend_ragged(store: Tensor, encoder: Any, index: IntArray) -> Any:
    """An ``Attend`` for new events at ``index`` (n, m) of each history; writes their keys and values, then reads the past.

    ``store`` is a cache's (layers, 2, n, d, capacity). A query sees the columns up to its own (strict: before its own, and the
    null key). On a CPU the work is done in numpy by blocks of rows; elsewhere in torch in one piece.
    """
    return (_by_blocks if store.device.type == "cpu" else _in_one_piece)(store, encoder, index)


def _by_blocks(store: Tensor, encoder: Any, index: IntArray) -> Any:
    n, m = index.shape
    heads, null, d = encoder.n_heads, int(encoder.strict), encoder.d_attention
    width = d // heads
    at = index + null
    limit = at if null else at + 1
    arrays, capacity = store.numpy(), store.shape[-1]
    ends = limit.max(axis=1)
    rows = max(1, _BLOCK // (heads * m * int(ends.max())))
    blocks = []
    for begin in range(0, n, rows):
        part = slice(begin, min(begin + rows, n))
        end, shared = int(ends[part].max()), int(limit[part].min())
        hidden = np.arange(shared, end) >= limit[part, :, None]
        mask = np.where(hidden, np.float32(-np.inf), np.float32(0.0))[:, None] if hidden.any() else None
        blocks.append((part, end, shared, mask, np.ones(end, dtype=np.float32)))
    first = at[:, 0].tolist()

    def attend(layer: int, qkv: Tensor) -> Tensor:
        new = qkv.numpy().reshape(n, m, 3, d)
        keys, values = arrays[layer, 0], arrays[layer, 1]
        for i, column in enumerate(first):
            keys[i, :, column : column + m] = new[i, :, 1].T
            values[i, :, column : column + m] = new[i, :, 2].T
        queries = new[:, :, 0].reshape(n, m, heads, width).transpose(0, 2, 1, 3)
        by_head = keys.reshape(n, heads, width, capacity), values.reshape(n, heads, width, capacity)
        out = np.empty((n, m, heads, width), dtype=np.float32)
        for part, end, shared, mask, ones in blocks:
            scores = np.matmul(queries[part], by_head[0][part, ..., :end])
            if mask is not None:
                scores[..., shared:] += mask
            weights, sums = _numpy_softmax(scores, ones)
            mixed = np.matmul(weights, by_head[1][part, ..., :end].swapaxes(2, 3))
            mixed /= sums
            out[part] = mixed.transpose(0, 2, 1, 3)
        return torch.from_numpy(out.reshape(*qkv.shape[:-1], d))

    return attend


def _numpy_softmax(scores: Scores, ones: Scores) -> tuple[Scores, Scores]:
    """``softmax_of_log2`` in numpy."""
    shape = (*scores.shape[:-1], 1)
    weights = np.exp2(scores)
    sums = np.dot(weights.reshape(-1, len(ones)), ones).reshape(shape)
    if not (sums.min() > _SAFE[0] and sums.max() < _SAFE[1]):
        weights = np.exp2(scores - scores.max(axis=-1, keepdims=True))
        sums = np.dot(weights.reshape(-1, len(ones)), ones).reshape(shape)
    return weights, sums


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
