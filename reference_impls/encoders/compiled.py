"""Compiled kernels for CPUs: attention over cached histories, and a shallow network event by event.

An operation of numpy or torch costs a microsecond or more before it computes anything, which is more than the arithmetic of one event
through a layer of this width. Here loops take the place of operations: attention holds the scores of two queries in a core's
innermost cache and never writes them out, and a whole draft step is one call. ``numba`` compiles them at first use and keeps the result
beside this file (all of them are in it, because numba looks at no other file for changes). The sums run in another order than
BLAS's; tests hold all forms together to 1e-5. Exactness does not rest on that agreement: a proposal is judged by the q it was drawn
from.

NaN and infinities keep their meaning: ``_FAST`` allows reordered sums and fused products, no more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

_FAST = {"reassoc", "contract", "nsz", "arcp"}


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    kernel: Callable[..., Any] = njit(fastmath=_FAST, cache=True, error_model="numpy", nogil=True)(function)
    return kernel


def _storing(function: Callable[..., Any]) -> Callable[..., Any]:
    """For loops that store what they compute: nothing is reordered.

    LLVM takes such a loop in vectors only where its arrays do not seem to overlap, and two that merely touch do: reordered, the last
    bits would depend on where memory happens to lie, and a sampler's events with them.
    """
    kernel: Callable[..., Any] = njit(fastmath={"contract"}, cache=True, error_model="numpy", nogil=True)(function)
    return kernel


_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
_LEAST, _MOST = np.float32(-126.0), np.float32(127.0)
_LOW, _HIGH = np.float32(1e-30), np.float32(1e30)
"""Sums of powers of two between these prove that leaving out the maximum lost nothing that matters."""
_P0, _P1, _P2, _P3, _P4, _P5, _P6 = (
    np.float32(c)
    for c in (
        0.9999999999718311, 0.6931472000679499, 0.24022651101428855, 0.05550340668098202, 0.009618039929130014,
        0.0013395285364546051, 0.00015465318042474387,
    )
)  # fmt: skip
"""Chebyshev fit of 2^f on [-1/2, 1/2]; relative error 6e-9 before rounding."""
_ROUND = np.float32(1.5 * 2**23)
"""Added to a float32 below 2^22, it leaves the nearest integer in the last bits."""
_MANTISSA = np.int32(23)
_LANES = 16
"""Columns are taken in whole vectors, for a loop over what is left would cost as much again; and a line of the cache holds as many."""


@_storing  # reordered, the rounding by _ROUND would cancel
def _exp2(x: Any) -> Any:
    """2^x in float32, branch-free; below -126 it gives 2^-126, above 127 its power, of NaN NaN."""
    x = _LEAST if x < _LEAST else x
    x = _MOST if x > _MOST else x
    y = np.float32(x + _ROUND)
    f = x - (y - _ROUND)
    power = np.float32(_P0 + f * (_P1 + f * (_P2 + f * (_P3 + f * (_P4 + f * (_P5 + f * _P6))))))
    return np.int32(power.view(np.int32) + np.int32(y.view(np.int32) << _MANTISSA)).view(np.float32)


@intrinsic
def _prefetch(_context: Any, array: Any, row: Any, column: Any) -> Any:
    """Ask for the line of ``array`` (contiguous, two axes) that holds [row, column], without waiting for it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = make_array(signature.args[0])(context, builder, arguments[0])  # type: ignore[no-untyped-call]
        width = builder.extract_value(data.shape, 1)
        place = builder.add(builder.mul(arguments[1], width), arguments[2])
        pointer = builder.bitcast(builder.gep(data.data, [place]), ir.PointerType(ir.IntType(8)))
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number])
        name = "llvm.prefetch.p0i8" if "*" in str(pointer.type) else "llvm.prefetch.p0"
        read, second_level, data_cache = (ir.Constant(number, value) for value in (0, 2, 1))
        function = cgutils.get_or_insert_function(builder.module, kind, name)  # type: ignore[no-untyped-call]
        builder.call(function, [pointer, read, second_level, data_cache])
        return context.get_dummy_value()

    return types.void(array, row, column), generate


# No views are made: each costs two atomic counts of references, more than a column's arithmetic. Keys and values are (rows, capacity), those
# of a head the ``width`` rows from ``at``; queries are flat from ``qa`` and ``qb``; sa, sb (capacity,) hold the scores of the two.


@_storing
def _score_two(q: Any, qa: int, qb: int, keys: Any, at: int, width: int, sa: Any, sb: Any, padded: int) -> None:
    """Scores (base 2) of two queries over ``padded`` columns."""
    by_eight = width - width % 8
    for w in range(0, by_eight, 8):
        i, j, k = qa + w, qb + w, at + w
        a0, a1, a2, a3, a4, a5, a6, a7 = q[i], q[i + 1], q[i + 2], q[i + 3], q[i + 4], q[i + 5], q[i + 6], q[i + 7]
        b0, b1, b2, b3, b4, b5, b6, b7 = q[j], q[j + 1], q[j + 2], q[j + 3], q[j + 4], q[j + 5], q[j + 6], q[j + 7]
        for t in range(padded):
            x0, x1, x2, x3 = keys[k, t], keys[k + 1, t], keys[k + 2, t], keys[k + 3, t]
            x4, x5, x6, x7 = keys[k + 4, t], keys[k + 5, t], keys[k + 6, t], keys[k + 7, t]
            a = a0 * x0 + a1 * x1 + a2 * x2 + a3 * x3 + a4 * x4 + a5 * x5 + a6 * x6 + a7 * x7
            b = b0 * x0 + b1 * x1 + b2 * x2 + b3 * x3 + b4 * x4 + b5 * x5 + b6 * x6 + b7 * x7
            sa[t], sb[t] = (a, b) if w == 0 else (sa[t] + a, sb[t] + b)
    for w in range(by_eight, width):
        a0, b0, k = q[qa + w], q[qb + w], at + w
        for t in range(padded):
            a, b = a0 * keys[k, t], b0 * keys[k, t]
            sa[t], sb[t] = (a, b) if w == 0 else (sa[t] + a, sb[t] + b)


@_compiled
def _weigh_two(sa: Any, sb: Any, end_a: int, end_b: int, padded: int) -> tuple[Any, Any]:
    """Scores into unnormalised weights, 0 from each query's end on; their sums."""
    for t in range(padded):
        sa[t], sb[t] = _exp2(sa[t]), _exp2(sb[t])
    for t in range(end_a, padded):
        sa[t] = _ZERO
    for t in range(end_b, padded):
        sb[t] = _ZERO
    total_a, total_b = _ZERO, _ZERO
    for t in range(padded):
        total_a += sa[t]
        total_b += sb[t]
    return total_a, total_b


@_storing
def _less_the_largest(s: Any, end: int, padded: int) -> None:
    top = s[0]
    for t in range(1, end):
        top = max(top, s[t])
    for t in range(padded):
        s[t] -= top


@_compiled
def _mix_two(
    sa: Any, sb: Any, values: Any, at: int, width: int, scale_a: Any, scale_b: Any, padded: int, out: Any, oa: int, ob: int
) -> None:  # fmt: skip
    """Weighted sums of values, times ``scale``, into ``out`` from ``oa`` and ``ob``."""
    by_four = width - width % 4
    for w in range(0, by_four, 4):
        a0, a1, a2, a3, b0, b1, b2, b3 = _ZERO, _ZERO, _ZERO, _ZERO, _ZERO, _ZERO, _ZERO, _ZERO
        v = at + w
        for t in range(padded):
            a, b, x0, x1, x2, x3 = sa[t], sb[t], values[v, t], values[v + 1, t], values[v + 2, t], values[v + 3, t]
            a0 += a * x0
            a1 += a * x1
            a2 += a * x2
            a3 += a * x3
            b0 += b * x0
            b1 += b * x1
            b2 += b * x2
            b3 += b * x3
        i, j = oa + w, ob + w
        out[i], out[i + 1], out[i + 2], out[i + 3] = a0 * scale_a, a1 * scale_a, a2 * scale_a, a3 * scale_a
        out[j], out[j + 1], out[j + 2], out[j + 3] = b0 * scale_b, b1 * scale_b, b2 * scale_b, b3 * scale_b
    for w in range(by_four, width):
        a0, b0, v = _ZERO, _ZERO, at + w
        for t in range(padded):
            a0 += sa[t] * values[v, t]
            b0 += sb[t] * values[v, t]
        out[oa + w], out[ob + w] = a0 * scale_a, b0 * scale_b


@_compiled
def _attend_two(
    q: Any, qa: int, qb: int, keys: Any, values: Any, at: int, width: int, end_a: int, end_b: int, sa: Any, sb: Any, out: Any,
    oa: int, ob: int,
) -> None:  # fmt: skip
    """One head's attention of the queries at ``qa`` and ``qb`` over columns [0, end) of its keys and values."""
    padded = min((max(end_a, end_b) + _LANES - 1) // _LANES * _LANES, keys.shape[1])
    _score_two(q, qa, qb, keys, at, width, sa, sb, padded)
    total_a, total_b = _weigh_two(sa, sb, end_a, end_b, padded)
    if not (total_a > _LOW and total_a < _HIGH and total_b > _LOW and total_b < _HIGH):
        _score_two(q, qa, qb, keys, at, width, sa, sb, padded)
        _less_the_largest(sa, end_a, padded)
        _less_the_largest(sb, end_b, padded)
        total_a, total_b = _weigh_two(sa, sb, end_a, end_b, padded)
    _mix_two(sa, sb, values, at, width, _ONE / total_a, _ONE / total_b, padded, out, oa, ob)


@_compiled
def attend_rows(
    qkv: Any, keys: Any, values: Any, first: Any, d: int, heads: int, null: int, sa: Any, sb: Any, out: Any
) -> None:
    """Attention of the new events of each history over its own past, whose keys and values are written first.

    ``qkv`` (n m 3 d,), queries scaled to base 2; ``keys``, ``values`` (n d, capacity) of one layer; ``out`` (n m d,); ``first`` (n,) column
    of each history's first new event; ``null`` 1 where a query sees the columns before its own (column 0 is a null key), 0 where its
    own too; ``sa``, ``sb`` (capacity,) scratch.
    """
    n = len(first)
    m, width = len(out) // (n * d), d // heads
    for i in range(n):
        begin = first[i]
        for w in range(d):
            for j in range(m):
                new = (i * m + j) * 3 * d + d + w
                keys[i * d + w, begin + j], values[i * d + w, begin + j] = qkv[new], qkv[new + d]
        for h in range(heads):
            at = i * d + h * width
            for a in range(0, m, 2):
                for w in range(at + width + a * width // m, min(at + width + (a + 2) * width // m, at + 2 * width, n * d)):
                    for t in range(0, first[w // d] + m, _LANES):  # the next head, or history, comes meanwhile
                        _prefetch(keys, w, t)  # type: ignore[call-arg]
                        _prefetch(values, w, t)
                qa, qb = i * m + a, i * m + min(a + 1, m - 1)
                end_a = begin + a + 1 - null
                _attend_two(
                    qkv, qa * 3 * d + h * width, qb * 3 * d + h * width, keys, values, at, width, end_a, end_a + qb - qa, sa, sb, out,
                    qa * d + h * width, qb * d + h * width,
                )  # fmt: skip


@_storing
def _affine(x: Any, weights: Any, at: int, bias: bool, out: Any) -> int:
    """x M [+ b] of one vector, M (in, out) from ``at`` in the weights and b behind it; gives where the next weights begin."""
    rows, columns = len(x), len(out)
    end, by_four = at + rows * columns, rows - rows % 4
    for j in range(columns):
        out[j] = weights[end + j] if bias else _ZERO
    for i in range(0, by_four, 4):
        x0, x1, x2, x3 = x[i], x[i + 1], x[i + 2], x[i + 3]
        m0, m1 = (
            np.uintp(at + i * columns),
            np.uintp(at + (i + 1) * columns),
        )  # unsigned: no look whether an index counts from the end
        m2, m3 = np.uintp(at + (i + 2) * columns), np.uintp(at + (i + 3) * columns)
        for j in range(np.uintp(columns)):
            out[j] += x0 * weights[m0 + j] + x1 * weights[m1 + j] + x2 * weights[m2 + j] + x3 * weights[m3 + j]
    for i in range(by_four, rows):
        for j in range(columns):
            out[j] += x[i] * weights[at + i * columns + j]
    return end + columns if bias else end


@_storing
def _scaled(x: Any, mean: Any, scale: Any, weights: Any, at: int, out: Any) -> None:
    d = len(x)
    for i in range(d):
        out[i] = (x[i] - mean) * scale * weights[at + i] + weights[at + d + i]


@_storing
def _add(x: Any, bias: Any, more: Any) -> None:
    """x += bias + more."""
    for j in range(len(x)):
        x[j] += bias[j] + more[j]


@_compiled
def _normed(x: Any, weights: Any, at: int, eps: float, out: Any) -> int:
    """Layer norm of ``x`` into the front of ``out``, scale and shift from ``at``; gives where the next weights begin."""
    d = len(x)
    mean, square = _ZERO, _ZERO
    for i in range(d):
        mean += x[i]
    mean /= np.float32(d)
    for i in range(d):
        square += (x[i] - mean) * (x[i] - mean)
    _scaled(x, mean, np.float32(_ONE / math.sqrt(square / np.float32(d) + np.float32(eps))), weights, at, out)
    return at + 2 * d


@_compiled
def norm_rows(x: Any, weights: Any, eps: float, out: Any) -> None:
    """Layer norm of each row of ``x`` (N, d); ``weights`` (2 d,): scale, then shift."""
    for i in range(len(x)):
        _normed(x[i], weights, 0, eps, out[i])


@_compiled
def add_norm_rows(x: Any, bias: Any, more: Any, weights: Any, eps: float, out: Any) -> None:
    """Layer norm of each row of x + bias + more, all (N, d) but ``bias`` (d,); ``x`` is overwritten by the sum."""
    for i in range(len(x)):
        _add(x[i], bias, more[i])
        _normed(x[i], weights, 0, eps, out[i])


@_storing
def _gelu(x: Any) -> None:
    for i in range(len(x)):
        x[i] *= np.float32(0.5) * (_ONE + np.float32(math.erf(x[i] * np.float32(0.7071067811865476))))


@_compiled
def _attend_event(
    qkv: Any, keys: Any, values: Any, history: int, column: int, heads: int, null: int, sa: Any, sb: Any, out: Any
) -> None:
    """One event of one history, whose keys and values are the rows from ``history``; ``qkv`` (3 d,)."""
    d = len(out)
    width = d // heads
    end = column + 1 - null
    for w in range(d):
        keys[history + w, column], values[history + w, column] = qkv[d + w], qkv[2 * d + w]
    for h in range(heads):
        q = h * width
        _attend_two(qkv, q, q, keys, values, history + q, width, end, end, sa, sb, out, q, q)


# Event by event through all layers and the head. x (N, d), extra (N, d or d_time); rows and columns (N,): whose event and where it goes,
# in the order of each history; weights: ``lean.packed``; inner: width of the feed-forward part, 0 without one; projection: whether one
# follows attention; keys, values (layers n d, capacity). Raw head rows into out (N, P).


@_compiled
def thp_events(
    x: Any, extra: Any, rows: Any, columns: Any, weights: Any, layers: int, inner: int, _projection: bool, heads: int, keys: Any,
    values: Any, out: Any,
) -> None:  # fmt: skip
    d, capacity, of_layer = x.shape[1], keys.shape[1], len(keys) // layers
    sa, sb, qkv = np.empty(capacity, np.float32), np.empty(capacity, np.float32), np.empty(3 * d, np.float32)
    h, a, y, z = np.empty(d, np.float32), np.empty(d, np.float32), np.empty(d, np.float32), np.empty(inner, np.float32)
    for e in range(len(x)):
        h[:] = x[e]
        at = 0
        for layer in range(layers):
            h += extra[e]
            at = _affine(h, weights, at, False, qkv)
            history = layer * of_layer + rows[e] * d
            _attend_event(qkv, keys, values, history, columns[e], heads, 0, sa, sb, y)
            at = _affine(y, weights, at, True, a)
            a += h
            at = _normed(a, weights, at, 1e-6, y)
            at = _affine(y, weights, at, True, z)
            _gelu(z)
            at = _affine(z, weights, at, True, a)
            a += y
            at = _normed(a, weights, at, 1e-6, h)
        _affine(h, weights, at, True, out[e])


@_compiled
def sahp_events(
    x: Any, _extra: Any, rows: Any, columns: Any, weights: Any, layers: int, inner: int, projection: bool, heads: int, keys: Any,
    values: Any, out: Any,
) -> None:  # fmt: skip
    d, capacity, of_layer = x.shape[1], keys.shape[1], len(keys) // layers
    sa, sb, qkv = np.empty(capacity, np.float32), np.empty(capacity, np.float32), np.empty(3 * d, np.float32)
    h, a, y, z = np.empty(d, np.float32), np.empty(d, np.float32), np.empty(d, np.float32), np.empty(inner, np.float32)
    for e in range(len(x)):
        h[:] = x[e]
        at = 0
        for layer in range(layers):
            at = _normed(h, weights, at, 1e-5, y)
            at = _affine(y, weights, at, True, qkv)
            history = layer * of_layer + rows[e] * d
            _attend_event(qkv, keys, values, history, columns[e], heads, 0, sa, sb, y)
            if projection:
                at = _affine(y, weights, at, True, a)
                h += a
            else:
                h += y
            if inner:
                at = _normed(h, weights, at, 1e-5, y)
                at = _affine(y, weights, at, True, z)
                _gelu(z)
                at = _affine(z, weights, at, True, a)
                h += a
        at = _normed(h, weights, at, 1e-5, y)
        _affine(y, weights, at, True, out[e])


@_compiled
def attnhp_events(
    x: Any, extra: Any, rows: Any, columns: Any, weights: Any, layers: int, _inner: int, _projection: bool, heads: int, keys: Any,
    values: Any, out: Any,
) -> None:  # fmt: skip
    d, capacity, of_layer = x.shape[1], keys.shape[1], len(keys) // layers
    sa, sb, qkv = np.empty(capacity, np.float32), np.empty(capacity, np.float32), np.empty(3 * d, np.float32)
    h, a, y, wide = (
        np.empty(d, np.float32),
        np.empty(d, np.float32),
        np.empty(d, np.float32),
        np.empty(d + extra.shape[1], np.float32),
    )
    for e in range(len(x)):
        h[:] = x[e]
        wide[d:] = extra[e]
        at = 0
        for layer in range(layers):
            at = _normed(h, weights, at, 1e-5, wide)
            at = _affine(wide, weights, at, True, qkv)
            history = layer * of_layer + rows[e] * d
            _attend_event(qkv, keys, values, history, columns[e], heads, 1, sa, sb, y)
            at = _affine(y, weights, at, True, a)
            for i in range(d):
                h[i] += np.float32(math.tanh(a[i]))
        at = _normed(h, weights, at, 1e-5, y)
        _affine(y, weights, at, True, out[e])
