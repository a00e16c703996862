"""Compiled networks for CPUs: new events of many histories through all layers in one call, and attention over cached histories.

An operation of numpy or torch costs a microsecond or more before it computes anything, which at one event, or a few, is more than its
arithmetic. Here loops take the place of operations. Events are taken through a layer in groups that stay in a core's inner caches;
attention never writes scores out, and asks for the next head's keys and values while it works on this one's.

``numba`` compiles the kernels at first use and keeps the result beside this file. What rounds is written in vectors of a fixed shape
(``lanes``), every sum in one order: an event's numbers are the same bits however many events, of however many histories, are in the call.
They are not torch's bits; tests hold all forms together to 1e-5. Exactness does not rest on that agreement: a proposal is judged
by the q it was drawn from.

Layout. ``cells`` (flat) are a cache's keys and values: (layer, keys | values, history, head, block, width, 16), sixteen events a block,
so that a head's history is one stretch of memory. ``weights``: ``lean.packed``. Rows are padded to whole vectors with zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from reference_impls.encoders import lanes as vectors
from reference_impls.encoders.lanes import LANES

v: Any = vectors
"""Its functions are typed by numba, inside compiled functions."""
LANES_STATE = "0732fe338244c97b"
"""Of ``lanes``, whose functions are compiled into those below (the first digits of the file's SHA-256)."""


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """No freedom to reorder: loops that LLVM finds by itself only copy."""
    kernel: Callable[..., Any] = njit(cache=True, error_model="numpy", nogil=True)(function)
    return kernel


_START = np.int64(0)
"""Of a known type: numba compiles a function once more for every argument that is a literal, and types every 0 as one at first."""
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
_LOW, _HIGH = np.float32(1e-30), np.float32(1e30)
"""Sums of powers of two between these prove that leaving out the maximum lost nothing that matters."""
_GROUP = 32
"""Events that go through a layer together."""
_TILE = 64
"""Blocks of a history that all queries work on before the next ones: keys and values then come from an inner cache but once."""
_FOUR = 4 if vectors.WIDE else 1 << 30
"""From how many rows on four are taken together."""
_TWO = np.float32(2.0)
_LOG2_E = np.float32(math.log2(math.e))
_ROOT_HALF = np.float32(math.sqrt(0.5))
_HALF = np.float32(0.5)


# -- rows ------------------------------------------------------------------------------------------------------------------------
@_compiled
def _padded(width: int) -> int:
    return (width + LANES - 1) // LANES * LANES


@_compiled
def _affine(
    x: Any, begin: int, stride: int, depth: int, rows: int, weights: Any, at: int, columns: int, out: Any, to: int
) -> int:  # fmt: skip
    """x M + b of rows of ``x`` from ``begin``: M (depth, columns padded) from ``at``, b behind it; gives where the next weights begin."""
    columns = _padded(columns)
    bias, c = at + depth * columns, 0
    while c < columns:  # a strip of the matrix stays in the innermost cache while all rows meet it
        m, b, o, wide, r = at + c, bias + c, to + c, columns - c >= 4 * LANES, 0
        while r < rows:
            mine, theirs = begin + r * stride, o + r * columns
            if rows - r >= _FOUR:
                if wide:
                    v.tile_four_by_four(x, mine, stride, depth, weights, m, columns, b, out, theirs, columns)
                else:
                    v.tile_four_by_one(x, mine, stride, depth, weights, m, columns, b, out, theirs, columns)
                r += 4
            else:
                if wide:
                    v.tile_one_by_four(x, mine, stride, depth, weights, m, columns, b, out, theirs, columns)
                else:
                    v.tile_one_by_one(x, mine, stride, depth, weights, m, columns, b, out, theirs, columns)
                r += 1
        c += 4 * LANES if wide else LANES
    return bias + columns


@_compiled
def _norm(
    x: Any, at: int, stride: int, d: int, rows: int, weights: Any, place: int, eps: float, out: Any, to: int, far: int
) -> int:  # fmt: skip
    """Layer norm of rows of ``d`` numbers from x[at + r stride] into out[to + r far]; gives where the next weights begin."""
    padded = _padded(d)
    for r in range(rows):
        here, there = at + r * stride, to + r * far
        sums = v.fill(_ZERO)
        for c in range(0, padded, LANES):
            sums = v.add(sums, v.load(x, here + c))
        mean = v.fill(v.total(sums) / np.float32(d))
        sums = v.fill(_ZERO)
        for c in range(0, padded, LANES):
            off = v.before(v.less(v.load(x, here + c), mean), d - c)
            sums = v.fma(off, off, sums)
        scale = v.fill(np.float32(_ONE / math.sqrt(v.total(sums) / np.float32(d) + np.float32(eps))))
        for c in range(0, padded, LANES):
            off = v.times(v.before(v.less(v.load(x, here + c), mean), d - c), scale)
            v.store(out, there + c, v.fma(off, v.load(weights, place + c), v.load(weights, place + padded + c)))
    end: int = place + 2 * padded
    return end


@_compiled
def _add(x: Any, at: int, more: Any, begin: int, numbers: int) -> None:
    """x[at:] += more[begin:], whole vectors."""
    for c in range(0, numbers, LANES):
        v.store(x, at + c, v.add(v.load(x, at + c), v.load(more, begin + c)))


@_compiled
def _gelu(x: Any, numbers: int) -> None:
    """x Phi(x); erf by Abramowitz and Stegun 7.1.26, absolute error 1.5e-7."""
    for c in range(0, numbers, LANES):
        y = v.load(x, c)
        z = v.times(y, v.fill(_ROOT_HALF))
        t = v.over(v.fill(_ONE), v.fma(v.fill(np.float32(0.3275911)), v.magnitude(z), v.fill(_ONE)))
        p = v.fma(t, v.fill(np.float32(1.061405429)), v.fill(np.float32(-1.453152027)))
        p = v.fma(t, p, v.fill(np.float32(1.421413741)))
        p = v.fma(t, p, v.fill(np.float32(-0.284496736)))
        p = v.times(v.fma(t, p, v.fill(np.float32(0.254829592))), t)
        far = v.less(v.fill(_ONE), v.times(p, v.exp2(v.times(v.times(z, z), v.fill(-_LOG2_E)))))
        v.store(x, c, v.times(v.times(y, v.fill(_HALF)), v.add(v.fill(_ONE), v.with_sign(far, z))))


@_compiled
def _add_tanh(x: Any, at: int, more: Any, begin: int, numbers: int) -> None:
    """x[at:] += tanh(more[begin:])."""
    for c in range(0, numbers, LANES):
        y = v.load(more, begin + c)
        e = v.exp2(v.times(v.magnitude(y), v.fill(np.float32(-_TWO * _LOG2_E))))
        tanh = v.with_sign(v.over(v.less(v.fill(_ONE), e), v.add(v.fill(_ONE), e)), y)
        v.store(x, at + c, v.add(v.load(x, at + c), tanh))


# -- attention ---------------------------------------------------------------------------------------------------------------------
@_compiled
def _largest_score(q: Any, at: int, cells: Any, keys: int, width: int, seen: int) -> Any:
    top = -np.float32(np.inf)
    for t in range(seen):
        place, score = keys + t // LANES * width * LANES + t % LANES, _ZERO
        for w in range(width):
            score += q[at + w] * cells[place + w * LANES]
        top = max(top, score)
    return top


@_compiled
def _attend_anew(
    q: Any, at: int, cells: Any, keys: int, values: int, width: int, seen: int, weights: Any, sums: Any, a: int, out: Any, to: int
) -> None:  # fmt: skip
    """One query whose powers of two leave float32: the largest score is taken out first."""
    top, blocks = _largest_score(q, at, cells, keys, width, seen), (seen + LANES - 1) // LANES
    v.weigh_one(q, at, 0, cells, keys, keys, 0, 0, width, 0, blocks, seen, top, weights, 0, sums, a, 0)
    v.mix_one(weights, 0, cells, values, values, 0, 0, width, 0, blocks, out, to, 0, 0)


@_compiled
def _attend_head(
    q: Any, at: int, stride: int, queries: int, cells: Any, keys: int, values: int, beyond: int, width: int, seen: int, weights: Any,
    sums: Any, out: Any, to: int, far: int,
) -> None:  # fmt: skip
    """One head's attention of successive events of one history; the first sees ``seen`` columns. ``beyond``: to the next head's cells."""
    room, blocks, block = len(weights) // 4, (seen + queries - 1 + LANES - 1) // LANES, width * LANES
    fours = queries // 4 if _FOUR == 4 else 0
    pace = 256 // (fours + (queries - 4 * fours + 1) // 2)  # what comes next is asked for evenly by all that is done before
    for begin in range(0, blocks, _TILE):
        end = min(begin + _TILE, blocks)
        ahead = beyond if end == blocks else end * block
        a = skip = 0
        while a < queries:
            k, w, mine, o, left = keys + ahead, values + ahead, at + a * stride, to + a * far, queries - a
            if left >= _FOUR:
                v.weigh_four(
                    q, mine, stride, cells, keys, k, skip, pace, width, begin, end, seen + a, _ZERO, weights, room, sums, a, begin,
                )  # fmt: skip
                v.mix_four(weights, room, cells, values, w, skip, pace, width, begin, end, out, o, far, begin)
                a += 4
            elif left >= 2:
                v.weigh_two(
                    q, mine, stride, cells, keys, k, skip, pace, width, begin, end, seen + a, _ZERO, weights, room, sums, a, begin,
                )  # fmt: skip
                v.mix_two(weights, room, cells, values, w, skip, pace, width, begin, end, out, o, far, begin)
                a += 2
            else:
                v.weigh_one(
                    q, mine, stride, cells, keys, k, skip, pace, width, begin, end, seen + a, _ZERO, weights, room, sums, a, begin,
                )  # fmt: skip
                v.mix_one(weights, room, cells, values, w, skip, pace, width, begin, end, out, o, far, begin)
                a += 1
            skip += (end - begin) * pace
    for a in range(queries):
        if not (sums[a] > _LOW and sums[a] < _HIGH):
            _attend_anew(q, at + a * stride, cells, keys, values, width, seen + a, weights, sums, a, out, to + a * far)
        scale = _ONE / sums[a]
        for w in range(width):
            out[to + a * far + w] *= scale


@_compiled
def attend(
    qkv: Any, stride: int, rows: Any, columns: Any, begin: int, end: int, cells: Any, layer: int, histories: int, blocks: int,
    heads: int, width: int, null: int, weights: Any, sums: Any, out: Any,
) -> None:  # fmt: skip
    """Attention of the events [begin, end) over their own pasts in one layer, their keys and values being written first.

    Event e is the one in column ``columns[e]`` of history ``rows[e]``, successive events of a history one after the other. ``qkv``: of
    each from begin on, queries scaled to base 2, keys, values, each (heads, width), ``stride`` numbers in all; ``cells`` of a cache of
    ``histories`` with ``blocks`` blocks each; ``null`` 1 where a query sees the columns before its own (column 0 is a null key), 0 where
    its own too; ``weights`` (4 blocks 16,), ``sums`` (end - begin,) scratch; ``out`` (end - begin) (heads, width).
    """
    head, d = blocks * width * LANES, heads * width
    all_keys = layer * 2 * histories * heads * head
    all_values = all_keys + histories * heads * head
    for e in range(begin, end):
        place = columns[e] // LANES * width * LANES + columns[e] % LANES + rows[e] * heads * head
        new = (e - begin) * stride + d
        for h in range(heads):
            for w in range(width):
                cells[all_keys + place + h * head + w * LANES] = qkv[new + h * width + w]
                cells[all_values + place + h * head + w * LANES] = qkv[new + d + h * width + w]
    e = begin
    while e < end:
        until = e + 1
        while until < end and rows[until] == rows[e]:
            until += 1
        follows = rows[until] if until < end else rows[e]
        for h in range(heads):
            mine = (rows[e] * heads + h) * head
            beyond = head if h + 1 < heads else follows * heads * head - mine
            _attend_head(
                qkv, (e - begin) * stride + h * width, stride, until - e, cells, all_keys + mine, all_values + mine, beyond, width,
                columns[e] + 1 - null, weights, sums, out, (e - begin) * d + h * width, d,
            )  # fmt: skip
        e = until


@_compiled
def _group_end(rows: Any, begin: int) -> int:
    """Where a group of events ends: with a history, unless a history has more events than a group."""
    end = min(begin + _GROUP, len(rows))
    if end == len(rows):
        return end
    cut = end
    while cut > begin and rows[cut - 1] == rows[end]:
        cut -= 1
    return cut if cut > begin else end


# Through all layers and the head. x (N, d), extra (N, d or d_time); rows and columns (N,): whose event and where it goes, in the order of
# each history; inner: width of the feed-forward part, 0 without one; projection: whether one follows attention; heads, width: of the
# cache, whose head width is a multiple of eight. Raw head rows into out (N padded P,).


@_compiled
def _scratch(cells: int, layers: int, histories: int, d: int) -> tuple[Any, Any]:
    """Weights of four queries, and sums of a group."""
    return np.empty(4 * cells // (2 * layers * histories * d), np.float32), np.empty(_GROUP, np.float32)


@_compiled
def _rows_padded(x: Any) -> Any:
    """(N, d) as flat rows of whole vectors, zeros behind."""
    n, d = x.shape
    stride = _padded(d)
    out = np.zeros(n * stride, np.float32)
    for e in range(n):
        for i in range(d):
            out[e * stride + i] = x[e, i]
    return out


@_compiled
def thp_events(
    x: Any, extra: Any, rows: Any, columns: Any, weights: Any, layers: int, inner: int, _projection: bool, heads: int, width: int,
    null: int, cells: Any, histories: int, blocks: int, p: int, out: Any,
) -> None:  # fmt: skip
    n, d, wide = x.shape[0], x.shape[1], heads * width
    s, s_qkv, s_inner = _padded(d), _padded(3 * wide), _padded(inner)
    h, t = _rows_padded(x), _rows_padded(extra)
    scores, sums = _scratch(len(cells), layers, histories, wide)
    qkv, y, mixed = np.empty(_GROUP * s_qkv, np.float32), np.empty(_GROUP * s, np.float32), np.empty(_GROUP * wide, np.float32)
    a, z = np.empty(_GROUP * s, np.float32), np.empty(_GROUP * s_inner, np.float32)
    at = behind = _START
    for layer in range(layers):
        begin = _START
        while begin < n:
            end = _group_end(rows, begin)
            m, here = end - begin, begin * s
            _add(h, here, t, here, m * s)
            at = _affine(h, here, s, d, m, weights, behind, 3 * wide, qkv, _START)
            attend(
                qkv, s_qkv, rows, columns, begin, end, cells, layer, histories, blocks, heads, width, null, scores, sums, mixed
            )
            at = _affine(mixed, _START, wide, wide, m, weights, at, d, a, _START)
            _add(a, _START, h, here, m * s)
            at = _norm(a, _START, s, d, m, weights, at, 1e-6, y, _START, s)
            at = _affine(y, _START, s, d, m, weights, at, inner, z, _START)
            _gelu(z, m * s_inner)
            at = _affine(z, _START, s_inner, inner, m, weights, at, d, a, _START)
            _add(a, _START, y, _START, m * s)
            at = _norm(a, _START, s, d, m, weights, at, 1e-6, h, here, s)
            begin = end
        behind = at
    _affine(h, _START, s, d, n, weights, behind, p, out, _START)


@_compiled
def sahp_events(
    x: Any, _extra: Any, rows: Any, columns: Any, weights: Any, layers: int, inner: int, projection: bool, heads: int, width: int,
    null: int, cells: Any, histories: int, blocks: int, p: int, out: Any,
) -> None:  # fmt: skip
    n, d, wide = x.shape[0], x.shape[1], heads * width
    s, s_qkv, s_inner = _padded(d), _padded(3 * wide), _padded(inner)
    h = _rows_padded(x)
    scores, sums = _scratch(len(cells), layers, histories, wide)
    qkv, y, mixed = np.empty(_GROUP * s_qkv, np.float32), np.empty(_GROUP * s, np.float32), np.empty(_GROUP * wide, np.float32)
    a, z = np.empty(_GROUP * s, np.float32), np.empty(_GROUP * s_inner, np.float32)
    at = behind = _START
    for layer in range(layers):
        begin = _START
        while begin < n:
            end = _group_end(rows, begin)
            m, here = end - begin, begin * s
            at = _norm(h, here, s, d, m, weights, behind, 1e-5, y, _START, s)
            at = _affine(y, _START, s, d, m, weights, at, 3 * wide, qkv, _START)
            attend(
                qkv, s_qkv, rows, columns, begin, end, cells, layer, histories, blocks, heads, width, null, scores, sums, mixed
            )
            if projection:
                at = _affine(mixed, _START, wide, wide, m, weights, at, d, a, _START)
                _add(h, here, a, _START, m * s)
            else:
                for e in range(m):
                    for i in range(d):
                        h[here + e * s + i] += mixed[e * wide + i // (d // heads) * width + i % (d // heads)]
            if inner:
                at = _norm(h, here, s, d, m, weights, at, 1e-5, y, _START, s)
                at = _affine(y, _START, s, d, m, weights, at, inner, z, _START)
                _gelu(z, m * s_inner)
                at = _affine(z, _START, s_inner, inner, m, weights, at, d, a, _START)
                _add(h, here, a, _START, m * s)
            begin = end
        behind = at
    y = np.empty(n * s, np.float32)
    at = _norm(h, _START, s, d, n, weights, behind, 1e-5, y, _START, s)
    _affine(y, _START, s, d, n, weights, at, p, out, _START)


@_compiled
def attnhp_events(
    x: Any, extra: Any, rows: Any, columns: Any, weights: Any, layers: int, _inner: int, _projection: bool, heads: int, width: int,
    null: int, cells: Any, histories: int, blocks: int, p: int, out: Any,
) -> None:  # fmt: skip
    n, d, wide, clock = x.shape[0], x.shape[1], heads * width, extra.shape[1]
    s, s_qkv, s_both = _padded(d), _padded(3 * wide), _padded(d) + _padded(clock)
    h = _rows_padded(x)
    scores, sums = _scratch(len(cells), layers, histories, wide)
    qkv, y, mixed = (
        np.empty(_GROUP * s_qkv, np.float32),
        np.empty(_GROUP * s_both, np.float32),
        np.empty(_GROUP * wide, np.float32),
    )
    a = np.empty(_GROUP * s, np.float32)
    at = behind = _START
    for layer in range(layers):
        begin = _START
        while begin < n:
            end = _group_end(rows, begin)
            m, here = end - begin, begin * s
            at = _norm(h, here, s, d, m, weights, behind, 1e-5, y, _START, s_both)
            for e in range(m):
                for i in range(clock):
                    y[e * s_both + d + i] = extra[begin + e, i]
            at = _affine(y, _START, s_both, d + clock, m, weights, at, 3 * wide, qkv, _START)
            attend(
                qkv, s_qkv, rows, columns, begin, end, cells, layer, histories, blocks, heads, width, null, scores, sums, mixed
            )
            at = _affine(mixed, _START, wide, wide, m, weights, at, d, a, _START)
            _add_tanh(h, here, a, _START, m * s)
            begin = end
        behind = at
    y = np.empty(n * s, np.float32)
    at = _norm(h, _START, s, d, n, weights, behind, 1e-5, y, _START, s)
    _affine(y, _START, s, d, n, weights, at, p, out, _START)
