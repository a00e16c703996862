"""Attention of a batch of histories at different lengths, on their own key/value columns; and the softmax all forms share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tppsd_bench.protocols import IntArray

Scores = NDArray[np.float32]

ROWS_FROM = 4
"""New events of each history from which numpy works history by history."""
SAFE = (1e-30, 1e30)
"""Sums of powers of two between these prove that leaving out the maximum lost nothing that matters."""
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
    if not (float(low) > SAFE[0] and float(high) < SAFE[1]):
        weights = torch.exp2(scores - scores.amax(dim=-1, keepdim=True))
        sums = weights.sum(dim=-1, keepdim=True)
    return weights, sums


def attend_ragged(store: Tensor, encoder: Any, index: IntArray) -> Any:
    """An ``Attend`` for new events at ``index`` (n, m) of each history; writes their keys and values, then reads the past.

    ``store`` is a cache's (layers, 2, n, d, capacity). A query sees the columns up to its own (strict: before its own, and the
    null key). On a CPU the work is done in numpy by blocks of rows; elsewhere in torch in one piece.
    """
    if store.device.type != "cpu":
        return _in_one_piece(store, encoder, index)
    return InNumpy((_by_rows if index.shape[1] >= ROWS_FROM else _by_blocks)(store.numpy(), encoder, index))


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


def _by_rows(store: Scores, encoder: Any, index: IntArray) -> Any:
    """Each history over its own columns: no padding, a mask of the new columns only, and scores that stay in a core's cache."""
    n, m = index.shape
    heads, d = encoder.n_heads, encoder.d_attention
    rows, later = _views_by_row(store, encoder, index), _later(m, int(encoder.strict))

    def read(layer: int, queries: Scores, out: Scores, sums: Scores, largest_first: bool) -> None:
        for i, (_, keys, values, scores, newest, flat, ones) in enumerate(rows):
            np.matmul(queries[i], keys[layer], out=scores)
            newest += later
            if largest_first:
                scores -= scores.max(axis=-1, keepdims=True)
            np.exp2(scores, out=scores)
            np.dot(flat, ones, out=sums[i])
            np.matmul(scores, values[layer], out=out[i])

    def attend(layer: int, qkv: Scores) -> Scores:
        new = qkv.reshape(n, m, 3, d)
        for row, written in zip(rows, new[:, :, 1:].transpose(0, 2, 3, 1), strict=True):
            row[0][layer][...] = written
        queries = np.ascontiguousarray(new[:, :, 0].reshape(n, m, heads, -1).swapaxes(1, 2))
        out, sums = np.empty_like(queries), np.empty((n, heads * m), dtype=np.float32)
        read(layer, queries, out, sums, False)
        if not (np.minimum.reduce(sums, axis=None) > SAFE[0] and np.maximum.reduce(sums, axis=None) < SAFE[1]):
            read(layer, queries, out, sums, True)
        mixed = np.empty((n, m, heads, d // heads), dtype=np.float32)
        np.divide(out.swapaxes(1, 2), sums.reshape(n, heads, m, 1).swapaxes(1, 2), out=mixed)
        return mixed.reshape(*qkv.shape[:-1], d)

    return attend


def _views_by_row(store: Scores, encoder: Any, index: IntArray) -> list[tuple[Any, ...]]:
    """Of each history: by layer, where its new keys and values go, its keys and its values; the scratch of its scores (heads, m, end),
    whole, newest columns and as a matrix; ones (end,). One scratch for all: it stays in the cache."""
    m, heads, null = index.shape[1], encoder.n_heads, int(encoder.strict)
    first = index[:, 0] + null
    ends = first + (m - null)
    longest = int(ends.max())
    scratch, ones = np.empty(heads * m * longest, dtype=np.float32), np.ones(longest, dtype=np.float32)
    views = []
    for row, begin, end in zip(store.swapaxes(0, 2).swapaxes(1, 2), first.tolist(), ends.tolist(), strict=True):
        keys, values = (row[:, i, :, :end].reshape(len(row), heads, -1, end) for i in (0, 1))
        scores = scratch[: heads * m * end].reshape(heads, m, end)
        by_layer = list(row[..., begin : begin + m]), list(keys), list(values.swapaxes(2, 3))
        views.append((*by_layer, scores, scores[..., begin:], scores.reshape(-1, end), ones[:end]))
    return views


@lru_cache(maxsize=256)
def _later(m: int, null: int) -> Scores:
    """(m, m - null) -inf where a query of a block must not see the block's column, 0 elsewhere."""
    out: Scores = np.triu(np.full((m, m), -np.inf, dtype=np.float32), 1 - null)[:, : m - null]
    return out


def _by_blocks(store: Scores, encoder: Any, index: IntArray) -> Any:
    n, m = index.shape
    heads, null, d = encoder.n_heads, int(encoder.strict), encoder.d_attention
    width = d // heads
    at = index + null
    limit = at if null else at + 1
    capacity = store.shape[-1]
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

    def attend(layer: int, qkv: Scores) -> Scores:
        new = qkv.reshape(n, m, 3, d)
        keys, values = store[layer, 0], store[layer, 1]
        if m == 1:
            store[layer][:, np.arange(n), :, at[:, 0]] = new[:, 0, 1:]
        else:
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
        return out.reshape(*qkv.shape[:-1], d)

    return attend


def _numpy_softmax(scores: Scores, ones: Scores) -> tuple[Scores, Scores]:
    """``softmax_of_log2`` in numpy."""
    shape = (*scores.shape[:-1], 1)
    weights = np.exp2(scores)
    sums = np.dot(weights.reshape(-1, len(ones)), ones).reshape(shape)
    if not (sums.min() > SAFE[0] and sums.max() < SAFE[1]):
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
