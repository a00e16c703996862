"""A model without its cache: every pass encodes the whole histories anew, padded to the longest. The law is the same.

What published code does, kept to be measured: it says what a cache is worth, and there alone packing by length matters.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from reference_impls.base import Law
from tppsd_bench.errors import InputError
from tppsd_bench.protocols import FloatArray, IntArray


class PlainHistories:
    """Events of ``n`` histories and nothing encoded. Implements ``base.Cache``."""

    def __init__(self, n: int, capacity: int) -> None:
        self.lengths = np.zeros(n, dtype=np.int64)
        self.gaps, self.types = np.ones((n, capacity)), np.zeros((n, capacity), dtype=np.int64)

    def rollback(self, lengths: IntArray) -> None:
        self.lengths = np.asarray(lengths, dtype=np.int64).copy()

    def keep(self, rows: IntArray) -> None:
        self.lengths, self.gaps, self.types = self.lengths[rows], self.gaps[rows], self.types[rows]

    def append(self, gaps: FloatArray, types: IntArray, counts: IntArray) -> IntArray:
        """Write the (n, m) new events, padding too, behind each history; gives their columns (n, m)."""
        columns = self.lengths[:, None] + np.arange(gaps.shape[1])
        extra = int(columns.max(initial=-1)) + 1 - self.gaps.shape[1]
        if extra > 0:
            self.gaps = np.pad(self.gaps, ((0, 0), (0, extra)), constant_values=1.0)
            self.types = np.pad(self.types, ((0, 0), (0, extra)))
        rows = np.arange(len(gaps))[:, None]
        self.gaps[rows, columns], self.types[rows, columns] = gaps, types
        self.lengths = self.lengths + counts
        return columns


@dataclass
class Encoded:
    """Positions that passes ran over: of events, and of padding to the longest history of the batch."""

    positions: int = 0
    padded: int = 0


@dataclass(frozen=True)
class Recomputing:
    """``model`` as a ``base.Model`` whose cache holds events only. It needs ``laws_at``, which networks have."""

    model: Any
    encoded: Encoded = field(default_factory=Encoded)

    def __post_init__(self) -> None:
        if not hasattr(self.model, "laws_at"):
            raise InputError(f"{self.model.name} encodes nothing, so there is no cache to leave out; give a pair of networks.")

    @property
    def name(self) -> str:
        return f"{self.model.name}, recomputing"

    @property
    def n_types(self) -> int:
        return int(self.model.n_types)

    def start(self, n: int, capacity: int) -> PlainHistories:
        return PlainHistories(n, capacity)

    def initial(self, n: int) -> Law:
        law: Law = self.model.initial(n)
        return law

    def extend(self, cache: PlainHistories, gaps: FloatArray, types: IntArray, counts: IntArray) -> Law:
        columns = cache.append(gaps, types, counts)
        width = int(columns.max()) + 1
        self.encoded.positions += int(cache.lengths.sum())
        self.encoded.padded += len(gaps) * width - int(cache.lengths.sum())
        law: Law = self.model.laws_at(cache.gaps[:, :width], cache.types[:, :width], columns)
        return law
