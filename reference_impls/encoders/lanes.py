"""Sixteen float32 numbers at once: what compiled kernels are made of.

``numba`` leaves to LLVM which loops become vectors, and in which order their sums run; with explicit vectors both are decided here, so that a
result is the same bits wherever arrays lie, however many rows are worked on together, and on whatever CPU has fused products. LLVM maps a
vector to what the CPU has: one register with AVX-512, two with AVX2, four with NEON.

``Lanes`` is a type of numba's; the functions that take and give it work inside compiled functions only. ``weigh_*``, ``mix_*`` and ``tile_*``
are inner loops written out for a number of rows, so that what a loop loads serves all of them.

numba keeps compiled results by the file that calls: with a change here, change ``compiled.LANES_STATE`` (a test says to what).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model
from numba.np.arrayobj import make_array

LANES = 16
WIDE = bool(llvmlite.binding.get_host_cpu_features().get("avx512f", False))
"""Whether a vector is one register of 32; else fewer rows are taken together, for sums must stay in registers."""

_FLOAT, _INT, _LONG = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_VECTOR, _INTS = ir.VectorType(_FLOAT, LANES), ir.VectorType(_INT, LANES)
_ANY = ir.Undefined
Builder = Any


class LanesType(types.Type):
    """The type of sixteen float32 numbers in compiled functions."""

    def __init__(self) -> None:
        super().__init__(name="float32x16")


Lanes: Any = LanesType()


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, _VECTOR)  # type: ignore[no-untyped-call]


# -- in the builder's words ---------------------------------------------------------------------------------------------------
def _const(value: float) -> Any:
    return ir.Constant(_VECTOR, [float(np.float32(value))] * LANES)


def _long(value: int) -> Any:
    return ir.Constant(_LONG, value)


def _indices(values: Sequence[int]) -> Any:
    return ir.Constant(ir.VectorType(_INT, len(values)), list(values))


def _data(context: Any, builder: Builder, kind: Any, array: Any) -> Any:
    return make_array(kind)(context, builder, array).data  # type: ignore[no-untyped-call]


def _pointer(builder: Builder, data: Any, place: Any, kind: Any = _VECTOR) -> Any:
    return builder.bitcast(builder.gep(data, [place]), ir.PointerType(kind))


def _load(builder: Builder, data: Any, place: Any) -> Any:
    return builder.load(_pointer(builder, data, place), align=4)


def _store(builder: Builder, data: Any, place: Any, x: Any) -> None:
    builder.store(x, _pointer(builder, data, place, x.type), align=4)


def _splat(builder: Builder, x: Any, lanes: int = LANES) -> Any:
    kind = ir.VectorType(x.type, lanes)
    one = builder.insert_element(ir.Constant(kind, _ANY), x, ir.Constant(_INT, 0))
    return builder.shuffle_vector(one, ir.Constant(kind, _ANY), _indices([0] * lanes))


def _function(builder: Builder, name: str, kinds: Sequence[Any], arguments: Sequence[Any], out: Any = _VECTOR) -> Any:
    made = cgutils.get_or_insert_function(builder.module, ir.FunctionType(out, kinds), name)  # type: ignore[no-untyped-call]
    return builder.call(made, arguments)


def _fma(builder: Builder, a: Any, b: Any, c: Any) -> Any:
    return _function(builder, "llvm.fma.v16f32", [_VECTOR] * 3, [a, b, c])


def _prefetch(builder: Builder, data: Any, place: Any) -> None:
    """Ask for the line at ``place``, into the second level of the cache, without waiting; beyond the end it does nothing."""
    pointer = _pointer(builder, data, place, ir.IntType(8))
    name = "llvm.prefetch.p0i8" if "*" in str(pointer.type) else "llvm.prefetch.p0"
    hints = [ir.Constant(_INT, value) for value in (0, 2, 1)]
    _function(builder, name, [pointer.type, _INT, _INT, _INT], [pointer, *hints], ir.VoidType())


_EXP2 = (0.9999999999718311, 0.6931472000679499, 0.24022651101428855, 0.05550340668098202, 0.009618039929130014,
         0.0013395285364546051, 0.00015465318042474387)  # fmt: skip
"""Chebyshev fit of 2^f on [-1/2, 1/2]; relative error 6e-9 before rounding."""
_ROUND = 1.5 * 2**23
"""Added to a float32 below 2^22, it leaves the nearest integer in the last bits."""


def _exp2(builder: Builder, x: Any) -> Any:
    x = builder.select(builder.fcmp_ordered("<", x, _const(-126.0)), _const(-126.0), x)
    x = builder.select(builder.fcmp_ordered(">", x, _const(127.0)), _const(127.0), x)
    y = builder.fadd(x, _const(_ROUND))
    f = builder.fsub(x, builder.fsub(y, _const(_ROUND)))
    power = _const(_EXP2[-1])
    for c in _EXP2[-2::-1]:
        power = _fma(builder, f, power, _const(c))
    exponent = builder.shl(builder.bitcast(y, _INTS), ir.Constant(_INTS, [23] * LANES))
    return builder.bitcast(builder.add(builder.bitcast(power, _INTS), exponent), _VECTOR)


def _before(builder: Builder, x: Any, count: Any) -> Any:
    left = _splat(builder, builder.trunc(count, _INT))
    return builder.select(builder.icmp_signed("<", _indices(range(LANES)), left), x, _const(0.0))


def _folded(builder: Builder, vectors: list[Any]) -> Any:
    """The sum over the lanes of each of up to sixteen vectors (a power of two), in the lanes of one, in their order."""
    segment = LANES
    while segment > 1:
        pairs = zip(vectors[::2], vectors[1::2], strict=True) if len(vectors) > 1 else [(vectors[0], vectors[0])]
        low = [i * segment + j for i in range(LANES // segment) for j in range(segment // 2)]
        low += [LANES + i for i in low]
        high = [i + segment // 2 for i in low]
        vectors = [
            builder.fadd(builder.shuffle_vector(x, y, _indices(low)), builder.shuffle_vector(x, y, _indices(high)))
            for x, y in pairs
        ]
        segment //= 2
    return vectors[0]


# -- functions of Lanes ----------------------------------------------------------------------------------------------------------
def _of_lanes(arguments: int, build: Callable[..., Any], out: Any = Lanes) -> Any:
    """A function of one to three Lanes; ``build(builder, *them)``."""

    def generate(_context: Any, builder: Builder, _signature: Any, given: Any) -> Any:
        return build(builder, *given)

    if arguments == 1:
        return intrinsic(lambda _context, a: (out(a), generate))
    if arguments == 2:
        return intrinsic(lambda _context, a, b: (out(a, b), generate))
    return intrinsic(lambda _context, a, b, c: (out(a, b, c), generate))


add = _of_lanes(2, lambda builder, a, b: builder.fadd(a, b))
less = _of_lanes(2, lambda builder, a, b: builder.fsub(a, b))
times = _of_lanes(2, lambda builder, a, b: builder.fmul(a, b))
over = _of_lanes(2, lambda builder, a, b: builder.fdiv(a, b))
fma = _of_lanes(3, _fma)
exp2 = _of_lanes(1, _exp2)
"""2^x, branch-free; below -126 it gives 2^-126, above 127 its power, of NaN NaN."""
magnitude = _of_lanes(1, lambda builder, a: _function(builder, "llvm.fabs.v16f32", [_VECTOR], [a]))
with_sign = _of_lanes(2, lambda builder, a, b: _function(builder, "llvm.copysign.v16f32", [_VECTOR] * 2, [a, b]))
"""The first one's magnitude with the second one's sign."""
total = _of_lanes(1, lambda builder, a: builder.extract_element(_folded(builder, [a]), ir.Constant(_INT, 0)), types.float32)


@intrinsic
def load(_context: Any, array: Any, at: Any) -> Any:
    def generate(context: Any, builder: Builder, signature: Any, given: Any) -> Any:
        return _load(builder, _data(context, builder, signature.args[0], given[0]), given[1])

    return Lanes(array, types.int64), generate


@intrinsic
def store(_context: Any, array: Any, at: Any, x: Any) -> Any:
    def generate(context: Any, builder: Builder, signature: Any, given: Any) -> Any:
        _store(builder, _data(context, builder, signature.args[0], given[0]), given[1], given[2])
        return context.get_dummy_value()

    return types.void(array, types.int64, x), generate


@intrinsic
def fill(_context: Any, x: Any) -> Any:
    """The number in every lane."""

    def generate(_context: Any, builder: Builder, _signature: Any, given: Any) -> Any:
        return _splat(builder, given[0])

    return Lanes(types.float32), generate


@intrinsic
def before(_context: Any, x: Any, count: Any) -> Any:
    """``x`` in the first ``count`` lanes, 0 in the others, whatever they hold."""

    def generate(_context: Any, builder: Builder, _signature: Any, given: Any) -> Any:
        return _before(builder, *given)

    return Lanes(x, types.int64), generate


# -- inner loops -----------------------------------------------------------------------------------------------------------------
_N, _F = types.int64, types.float32


class _Sums:
    """Vectors that a loop adds to; LLVM keeps them in registers."""

    def __init__(self, builder: Builder, number: int) -> None:
        self._builder = builder
        self.places = [cgutils.alloca_once(builder, _VECTOR) for _ in range(number)]  # type: ignore[no-untyped-call]

    def set(self, x: Any) -> None:
        for place in self.places:
            self._builder.store(x, place)

    def get(self, i: int) -> Any:
        return self._builder.load(self.places[i])

    def add(self, i: int, x: Any) -> None:
        self._builder.store(self._builder.fadd(self.get(i), x), self.places[i])

    def add_product(self, i: int, a: Any, b: Any) -> None:
        self._builder.store(_fma(self._builder, a, b, self.get(i)), self.places[i])

    def all(self) -> list[Any]:
        return [self._builder.load(place) for place in self.places]


def _put(builder: Builder, data: Any, place: Any, x: Any, more: Any) -> None:
    """``x`` to its place, added to what is there where ``more`` is not 0."""
    with builder.if_else(builder.icmp_signed("!=", more, _long(0))) as (added, written):
        with added:
            old = builder.load(_pointer(builder, data, place, x.type), align=4)
            _store(builder, data, place, builder.fadd(old, x))
        with written:
            _store(builder, data, place, x)


def _paced(builder: Builder, b: Any, begin: Any, skip: Any, pace: Any, block: Any) -> Any:
    """Where the lines are that are asked for while block ``b`` is worked on."""
    blocks = builder.add(builder.mul(builder.sub(b, begin), pace), skip)
    return builder.mul(builder.lshr(blocks, _long(8)), block)


def _weighing(queries: int) -> Any:
    """weigh(q, at, stride, cells, keys, ahead, skip, pace, width, begin, end, seen, shift, weights, room, sums, to, more).

    Unnormalised weights 2^(score - shift) of ``queries`` events, one after the other, over the blocks [begin, end) of a head's keys, and
    their sums. Query r is ``q`` from at + r stride and sees the columns before seen + r; its weights go into ``weights`` from r room, 0 for
    columns that it does not see, their sum into sums[to + r], added to what is there where ``more`` is not 0. Keys are ``cells`` from
    ``keys``, blocks of (width, 16). Meanwhile lines from ``ahead`` are asked for, from ``skip`` blocks on, ``pace`` blocks for each of its
    own (both in 256ths).
    """

    @intrinsic
    def weigh(
        _context: Any, q: Any, at: Any, stride: Any, cells: Any, keys: Any, ahead: Any, skip: Any, pace: Any, width: Any, begin: Any,
        end: Any, seen: Any, shift: Any, weights: Any, room: Any, sums: Any, to: Any, more: Any,
    ) -> Any:  # fmt: skip
        def generate(context: Any, builder: Builder, signature: Any, given: Any) -> Any:
            data = [_data(context, builder, signature.args[i], given[i]) for i in (0, 3, 13, 15)]
            at, stride, keys, ahead, skip, pace, width, begin, end, seen, shift, room, to, more = (
                given[i] for i in (1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 17)
            )
            block = builder.mul(width, _long(LANES))
            starts = [builder.add(at, builder.mul(stride, _long(r))) for r in range(queries)]
            totals, scores = _Sums(builder, queries), _Sums(builder, queries)
            totals.set(_const(0.0))
            origin = _splat(builder, builder.fneg(shift))
            with cgutils.for_range_slice(builder, begin, end, _long(1)) as (b, _):
                scores.set(origin)
                first = builder.mul(b, _long(LANES))
                with cgutils.for_range_slice(builder, _long(0), width, _long(8)) as (w, _):
                    here = builder.add(keys, builder.add(builder.mul(b, block), builder.mul(w, _long(LANES))))
                    there = builder.add(
                        builder.add(ahead, _paced(builder, b, begin, skip, pace, block)), builder.mul(w, _long(LANES))
                    )
                    for i in range(8):
                        x = _load(builder, data[1], builder.add(here, _long(i * LANES)))
                        for r, start in enumerate(starts):
                            place = builder.add(builder.add(start, w), _long(i))
                            one = builder.load(builder.gep(data[0], [place]), align=4)
                            scores.add_product(r, _splat(builder, one), x)
                        _prefetch(builder, data[1], builder.add(there, _long(i * LANES)))
                for r in range(queries):
                    left = builder.sub(builder.add(seen, _long(r)), first)
                    weight = _before(builder, _exp2(builder, scores.get(r)), left)
                    totals.add(r, weight)
                    _store(builder, data[2], builder.add(builder.mul(room, _long(r)), first), weight)
            folded = _folded(builder, totals.all())
            _put(builder, data[3], to, builder.shuffle_vector(folded, folded, _indices(range(queries))), more)
            return context.get_dummy_value()

        return types.void(q, _N, _N, cells, *[_N] * 8, _F, weights, _N, sums, _N, _N), generate

    return weigh


def _mixing(queries: int) -> Any:
    """mix(weights, room, cells, values, ahead, skip, pace, width, begin, end, out, to, stride, more): weighted sums of values.

    Of query r into ``out`` from to + r stride, added to what is there where ``more`` is not 0. The rest is as in weigh.
    """
    dims = 8 if queries < 4 else 4

    @intrinsic
    def mix(
        _context: Any, weights: Any, room: Any, cells: Any, values: Any, ahead: Any, skip: Any, pace: Any, width: Any, begin: Any,
        end: Any, out: Any, to: Any, stride: Any, more: Any,
    ) -> Any:  # fmt: skip
        def generate(context: Any, builder: Builder, signature: Any, given: Any) -> Any:
            data = [_data(context, builder, signature.args[i], given[i]) for i in (0, 2, 10)]
            room, values, ahead, skip, pace, width, begin, end, to, stride, more = (
                given[i] for i in (1, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13)
            )
            block = builder.mul(width, _long(LANES))
            sums = _Sums(builder, queries * dims)
            with cgutils.for_range_slice(builder, _long(0), width, _long(dims)) as (w, _):
                sums.set(_const(0.0))
                with cgutils.for_range_slice(builder, begin, end, _long(1)) as (b, _):
                    here = builder.add(values, builder.add(builder.mul(b, block), builder.mul(w, _long(LANES))))
                    there = builder.add(
                        builder.add(ahead, _paced(builder, b, begin, skip, pace, block)), builder.mul(w, _long(LANES))
                    )
                    first = builder.mul(b, _long(LANES))
                    each = [_load(builder, data[0], builder.add(builder.mul(room, _long(r)), first)) for r in range(queries)]
                    for i in range(dims):
                        x = _load(builder, data[1], builder.add(here, _long(i * LANES)))
                        for r in range(queries):
                            sums.add_product(r * dims + i, each[r], x)
                        _prefetch(builder, data[1], builder.add(there, _long(i * LANES)))
                folded = _folded(builder, sums.all())
                for r in range(queries):
                    mixed = builder.shuffle_vector(folded, folded, _indices(range(r * dims, (r + 1) * dims)))
                    _put(builder, data[2], builder.add(builder.add(to, builder.mul(stride, _long(r))), w), mixed, more)
            return context.get_dummy_value()

        return types.void(weights, _N, cells, *[_N] * 7, out, _N, _N, _N), generate

    return mix


def _tiling(rows: int, vectors: int) -> Any:
    """tile(x, at, stride, depth, weights, matrix, columns, bias, out, to, far): ``rows`` x ``vectors`` lanes of x M + b.

    Row r of ``x`` from at + r stride, ``depth`` numbers; M (depth, columns) from ``matrix`` and b from ``bias`` in the weights; row r of the
    product to ``out`` from to + r far. An element's sum starts from b and runs through the depth, whatever the tile.
    """

    @intrinsic
    def tile(
        _context: Any, x: Any, at: Any, stride: Any, depth: Any, weights: Any, matrix: Any, columns: Any, bias: Any, out: Any,
        to: Any, far: Any,
    ) -> Any:  # fmt: skip
        def generate(context: Any, builder: Builder, signature: Any, given: Any) -> Any:
            data = [_data(context, builder, signature.args[i], given[i]) for i in (0, 4, 8)]
            at, stride, depth, matrix, columns, bias, to, far = (given[i] for i in (1, 2, 3, 5, 6, 7, 9, 10))
            sums = _Sums(builder, rows * vectors)
            for v in range(vectors):
                start = _load(builder, data[1], builder.add(bias, _long(v * LANES)))
                for r in range(rows):
                    builder.store(start, sums.places[r * vectors + v])
            starts = [builder.add(at, builder.mul(stride, _long(r))) for r in range(rows)]
            with cgutils.for_range(builder, depth) as loop:
                here = builder.add(matrix, builder.mul(loop.index, columns))
                m = [_load(builder, data[1], builder.add(here, _long(v * LANES))) for v in range(vectors)]
                for r, start in enumerate(starts):
                    one = builder.load(builder.gep(data[0], [builder.add(start, loop.index)]), align=4)
                    one = _splat(builder, one)
                    for v in range(vectors):
                        sums.add_product(r * vectors + v, one, m[v])
            for r in range(rows):
                for v in range(vectors):
                    place = builder.add(builder.add(to, builder.mul(far, _long(r))), _long(v * LANES))
                    _store(builder, data[2], place, sums.get(r * vectors + v))
            return context.get_dummy_value()

        return types.void(x, _N, _N, _N, weights, _N, _N, _N, out, _N, _N), generate

    return tile


weigh_one, weigh_two, weigh_four = _weighing(1), _weighing(2), _weighing(4)
mix_one, mix_two, mix_four = _mixing(1), _mixing(2), _mixing(4)
tile_four_by_four, tile_four_by_one, tile_one_by_four, tile_one_by_one = (_tiling(r, v) for r in (4, 1) for v in (4, 1))
