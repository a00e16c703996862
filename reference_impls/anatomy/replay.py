"""Recorded products done again alone, on memory laid out as it was.

Addresses that lay together lie together again, at the same offset in a page, so that operands meet the caches as they did, be they weights
read in every pass, columns of a key/value cache, or temporaries that the allocator puts in one place again and again. Memory holds zeros
(a product's speed does not depend on its values, subnormal ones aside), and a product allocates what it allocated.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from copy import copy
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from reference_impls.anatomy import kernels
from reference_impls.anatomy.phases import Path
from reference_impls.anatomy.products import Kind, Place, Product
from reference_impls.instrument import small_operations

_PAGE = 4096


class Memory:
    """Zeros in the places that the products touched, arranged as they were."""

    def __init__(self, places: Iterable[Place]) -> None:
        merged: list[list[int]] = []
        for low, high in sorted({p.span for p in places}):
            if merged and low <= merged[-1][1] + _PAGE:
                merged[-1][1] = max(merged[-1][1], high)
            else:
                merged.append([low, high])
        self._starts = [low for low, _ in merged]
        self._blocks = [_block(low, high) for low, high in merged]
        self._views: dict[Place, Any] = {}

    @property
    def nbytes(self) -> int:
        return sum(block.nbytes for block in self._blocks)

    def view(self, place: Place) -> Any:
        """An operand at its place: an array, or a tensor where it was one."""
        if place not in self._views:
            i = bisect_right(self._starts, place.span[0]) - 1
            array: NDArray[Any] = np.ndarray(
                place.shape, place.dtype, self._blocks[i].data, place.address - self._starts[i], place.strides
            )
            self._views[place] = torch.from_numpy(array) if place.torch else array
        return self._views[place]


def _block(low: int, high: int) -> NDArray[np.uint8]:
    """Bytes at the same offset in a page as ``low`` has; written, for untouched pages are all one page of zeros."""
    raw = np.empty(high - low + _PAGE, dtype=np.uint8)
    raw.fill(0)
    shift = (low - raw.__array_interface__["data"][0]) % _PAGE
    return raw[shift : shift + high - low]


Call = tuple[Any, tuple[Any, ...], dict[str, Any]]


class Replay:
    """Recorded products, ready to be done again alone in the order they were made."""

    def __init__(self, products: Sequence[Product]) -> None:
        with torch.inference_mode():
            memory = Memory(place for p in products for place in p.places)

            def laid_out(x: Any) -> Any:
                return memory.view(x) if isinstance(x, Place) else x

            self._made = [
                (p, (p.function, tuple(map(laid_out, p.args)), {name: laid_out(x) for name, x in p.kwargs.items()}))
                for p in products
            ]

    def __len__(self) -> int:
        return len(self._made)

    def part(self, kinds: Collection[Kind]) -> Replay:
        """The products of these kinds, in the same memory."""
        return self._with([(p, call) for p, call in self._made if p.kind in kinds])

    def products_only(self) -> Replay:
        """The same with a twin in each compiled kernel's place, which makes its products and nothing else."""
        return self._with(
            [
                (p, (kernels.products_only(call[0]), *call[1:]) if p.kind == "compiled kernel" else call)
                for p, call in self._made
            ]
        )

    def _with(self, made: list[tuple[Product, Call]]) -> Replay:
        out = copy(self)
        out._made = made
        return out

    def play(self) -> None:
        """Every product once."""
        calls = [call for _, call in self._made]
        with torch.inference_mode(), small_operations(), np.errstate(all="ignore"):
            for function, args, kwargs in calls:
                function(*args, **kwargs)

    def by_phase(self) -> dict[Path, float]:
        """Every product once, CPU seconds by phase; the clock is read where the phase changes."""
        seconds: dict[Path, float] = {}
        phases = [p.phase for p, _ in self._made]
        cuts = [0, *(i for i in range(1, len(phases)) if phases[i] != phases[i - 1]), len(phases)]
        with torch.inference_mode(), small_operations(), np.errstate(all="ignore"):
            for begin, end in pairwise(cuts):
                calls, since = [call for _, call in self._made[begin:end]], time.process_time()
                for function, args, kwargs in calls:
                    function(*args, **kwargs)
                taken = time.process_time() - since
                if calls:
                    seconds[phases[begin]] = seconds.get(phases[begin], 0.0) + taken
        return seconds
