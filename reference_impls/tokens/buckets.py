"""Time buckets: a partition of (0, inf) with a fixed law of the gap inside each bucket, shared by everything that speaks tokens.

Bucket b is [e_b, e_{b+1}), e_0 = 0; the last bucket is open. A token model decides on buckets only; the gap inside follows the within
law w_b, the same for target and draft. Hence log f(gap) = log P(bucket) + log w_bucket(gap) is a density like any other, and the
second term cancels in p / q.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from tppsd_bench.errors import InputError
from tppsd_bench.protocols import FloatArray, IntArray

Strategy = Literal["quantile", "equal_width", "log_width"]
Within = Literal["uniform", "log_uniform", "empirical"]

PARTS = 8
"""Cells in a bucket: the pieces of the empirical within law, and the panels of integrals over a bucket."""
_TINY, _HUGE = float(np.finfo(np.float64).tiny), float(np.finfo(np.float64).max)
_BELOW_ONE = 1.0 - 2.0**-53


@dataclass(frozen=True, eq=False)
class TimeBuckets:
    """Edges and within laws; made by ``fitting.fit_buckets``.

    Within laws, on each closed bucket: ``uniform``; ``log_uniform``, density proportional to 1/gap (the first bucket, which reaches
    down to 0, has (gap/e_1)^a below gap instead); ``empirical``, piecewise uniform over ``PARTS`` cells, or uniform where a bucket held
    too few gaps. On the open bucket, whatever ``within``: generalised Pareto, P(excess > y) = (1 + shape y / scale)^(-1/shape),
    exponential for shape 0.
    """

    cells: FloatArray
    """(B, PARTS + 1) cell edges; first column the buckets' own edges, ``cells[0, 0]`` 0 and ``cells[-1, -1]`` infinite."""
    weights: FloatArray
    """(B, PARTS) share of each cell in its bucket among the gaps that were fitted."""
    strategy: Strategy
    within: Within
    head_shape: float
    """a of the first bucket's log_uniform law."""
    tail_scale: float
    tail_shape: float

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def name(self) -> str:
        return f"{len(self)} {self.strategy} buckets, {self.within}"

    @cached_property
    def edges(self) -> FloatArray:
        """(B + 1,) from 0 to infinity."""
        return np.append(self.cells[:, 0], np.inf)

    @cached_property
    def log_cells(self) -> FloatArray:
        """(B, PARTS + 1), from -inf to inf."""
        with np.errstate(divide="ignore"):
            return np.log(self.cells)

    def same_as(self, other: TimeBuckets) -> bool:
        """Whether both cut time alike and fill their buckets alike."""
        return self is other or (
            self.within == other.within
            and np.array_equal(self.cells, other.cells)
            and (self.within != "empirical" or np.array_equal(self.weights, other.weights))
            and (self.head_shape, self.tail_scale, self.tail_shape) == (other.head_shape, other.tail_scale, other.tail_shape)
        )

    # -- pieces: where the within law has one formula --------------------------------------------------------------------
    @cached_property
    def _per_bucket(self) -> int:
        return PARTS if self.within == "empirical" else 1

    @cached_property
    def _starts(self) -> FloatArray:
        """Starts of all pieces; the last one is the open bucket, whole."""
        closed = self.cells[:-1, :-1] if self.within == "empirical" else self.cells[:-1, :1]
        return np.append(closed.ravel(), self.cells[-1, 0])

    @cached_property
    def _ends(self) -> FloatArray:
        return np.append(self._starts[1:], np.inf)

    @cached_property
    def _share(self) -> FloatArray:
        """Share of each piece in its bucket."""
        closed = self.weights[:-1] if self.within == "empirical" else np.ones((len(self) - 1, 1))
        return np.append(closed.ravel(), 1.0)

    @cached_property
    def _before(self) -> FloatArray:
        """Share of the bucket below each piece."""
        closed = self._share[:-1].reshape(len(self) - 1, -1)
        return np.append((np.cumsum(closed, axis=1) - closed).ravel(), 0.0)

    @cached_property
    def _log_constant(self) -> FloatArray:
        """c of log w(gap) = c + slope log gap on each closed piece."""
        start, end = self._starts[:-1], self._ends[:-1]
        if self.within != "log_uniform":
            return np.append(np.log(self._share[:-1] / (end - start)), 0.0)
        out = -np.log(np.log(end[1:] / start[1:]))
        return np.concatenate([[np.log(self.head_shape) - self.head_shape * np.log(end[0])], out, [0.0]])

    @cached_property
    def _slope(self) -> FloatArray:
        out = np.full(len(self._starts), -1.0 if self.within == "log_uniform" else 0.0)
        out[0] = self.head_shape - 1.0 if self.within == "log_uniform" else 0.0
        return out

    def _pieces(self, gap: FloatArray) -> IntArray:
        out: IntArray = self._starts[1:].searchsorted(gap, side="right")
        return out

    # -- the within law --------------------------------------------------------------------------------------------------
    def bucket_of(self, gap: FloatArray) -> IntArray:
        """The bucket of each gap, any shape."""
        out: IntArray = self.cells[1:, 0].searchsorted(gap, side="right")
        return out

    def log_density(self, gap: FloatArray) -> FloatArray:
        """log w(gap | its bucket), per unit of time; any shape."""
        piece = self._pieces(gap)
        out: FloatArray = self._log_constant[piece]
        if self.within == "log_uniform":
            with np.errstate(divide="ignore", invalid="ignore"):
                out = out + self._slope[piece] * np.log(gap)
        tail = piece == len(self._starts) - 1
        if tail.any():
            out = np.where(tail, self._tail_log_density(gap - self._starts[-1]), out)
        return np.where((gap > 0) & (gap < np.inf), out, -np.inf)

    def shares(self, gap: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(share of its bucket below each gap, share above), each accurate where it is small."""
        piece = self._pieces(gap)
        start, end, whole, before = self._starts[piece], self._ends[piece], self._share[piece], self._before[piece]
        tail = piece == len(self._starts) - 1
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.within == "log_uniform":
                log_below = np.where(start > 0, np.log(gap / start), 0.0) / np.log(end / start)
                below = np.where(start > 0, log_below, (gap / end) ** self.head_shape)
                above = np.where(start > 0, np.log(end / gap) / np.log(end / start), 1.0 - below)
            else:
                below, above = (gap - start) / (end - start), (end - gap) / (end - start)
        above_tail = self._tail_survival(np.where(tail, np.minimum(gap, _HUGE) - self._starts[-1], 0.0))
        below = np.where(
            tail, self._tail_cdf(np.where(tail, np.minimum(gap, _HUGE) - self._starts[-1], 0.0)), before + whole * below
        )
        above = np.where(tail, above_tail, (1.0 - before - whole) + whole * above)
        return np.clip(below, 0.0, 1.0), np.clip(above, 0.0, 1.0)

    def gap_at(self, bucket: IntArray, below: FloatArray, above: FloatArray | None = None) -> FloatArray:
        """The gap with share ``below`` of its bucket below it; ``above`` (1 - below) may be given where it is known better."""
        share = np.minimum(np.maximum(below, 0.0), _BELOW_ONE)
        piece = bucket * self._per_bucket
        if self.within == "empirical":
            inner = self._before[:-1].reshape(len(self) - 1, -1)[np.minimum(bucket, len(self) - 2)]
            piece = np.minimum(piece + (share[..., None] >= inner[..., 1:]).sum(axis=-1), len(self._starts) - 1)
            piece = np.where(bucket == len(self) - 1, len(self._starts) - 1, piece)
            share = np.minimum(np.maximum((share - self._before[piece]) / self._share[piece], 0.0), 1.0)
        start, end = self._starts[piece], self._ends[piece]
        if self.within == "log_uniform":
            with np.errstate(divide="ignore", invalid="ignore"):
                first = end * share ** (1.0 / self.head_shape)
                out = np.where(start > 0, start * (end / np.where(start > 0, start, 1.0)) ** share, first)
        else:
            with np.errstate(invalid="ignore"):
                out = start + share * (end - start)
        tail = piece == len(self._starts) - 1
        if tail.any():
            left = 1.0 - share if above is None else np.minimum(above, 1.0)
            out = np.where(tail, start + self._tail_excess(np.maximum(left, _TINY)), out)
        return np.maximum(np.minimum(np.maximum(out, start), np.nextafter(end, 0.0)), _TINY)

    def middles(self) -> FloatArray:
        """(B,) the median gap of each bucket: what a decoder without a within law would emit."""
        return self.gap_at(np.arange(len(self)), np.full(len(self), 0.5))

    # -- the open bucket -------------------------------------------------------------------------------------------------
    def _tail_log_survival(self, excess: FloatArray) -> FloatArray:
        y = np.maximum(excess, 0.0) / self.tail_scale
        return -y if self.tail_shape == 0.0 else -np.log1p(self.tail_shape * y) / self.tail_shape

    def _tail_survival(self, excess: FloatArray) -> FloatArray:
        out: FloatArray = np.exp(self._tail_log_survival(excess))
        return out

    def _tail_cdf(self, excess: FloatArray) -> FloatArray:
        out: FloatArray = -np.expm1(self._tail_log_survival(excess))
        return out

    def _tail_log_density(self, excess: FloatArray) -> FloatArray:
        out: FloatArray = (1.0 + self.tail_shape) * self._tail_log_survival(excess) - np.log(self.tail_scale)
        return out

    def _tail_excess(self, survival: FloatArray) -> FloatArray:
        log_s, shape = np.log(survival), self.tail_shape
        unit = -log_s if shape == 0.0 else np.expm1(-shape * log_s) / shape
        return self.tail_scale * unit

    # -- files -----------------------------------------------------------------------------------------------------------
    def to_json(self) -> dict[str, Any]:
        """Plain numbers and lists; ``from_json`` gives the same buckets to the last bit."""
        return {
            "cells": [[*row] if np.isfinite(row[-1]) else [*row[:-1], None] for row in self.cells.tolist()],
            "weights": self.weights.tolist(), "strategy": self.strategy, "within": self.within,
            "head_shape": self.head_shape, "tail_scale": self.tail_scale, "tail_shape": self.tail_shape,
        }  # fmt: skip

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> TimeBuckets:
        """InputError where keys are missing or edges do not increase."""
        wanted = {"cells", "weights", "strategy", "within", "head_shape", "tail_scale", "tail_shape"}
        if set(found) != wanted:
            raise InputError(
                f"Buckets with the keys {sorted(found)}; expected exactly {sorted(wanted)}, as to_json writes them."
            )
        cells = np.array([[np.inf if x is None else x for x in row] for row in found["cells"]], dtype=np.float64)
        flat = np.append(cells[:, :-1].ravel(), np.inf)
        if cells.ndim != 2 or cells.shape[1] != PARTS + 1 or len(cells) < 2 or cells[0, 0] != 0.0 or (np.diff(flat) <= 0).any():
            raise InputError(
                f"Buckets whose cells have shape {cells.shape} and start at {cells.ravel()[:1]}; expected two rows or more of "
                f"{PARTS + 1} edges that increase from 0."
            )
        weights = np.array(found["weights"], dtype=np.float64)
        numbers = (float(found[k]) for k in ("head_shape", "tail_scale", "tail_shape"))
        return cls(cells, weights, found["strategy"], found["within"], *numbers)
