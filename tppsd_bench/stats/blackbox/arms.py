"""Arms as the statistics see them: pooled once, then summed under many labellings, or read row by row as observed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from tppsd_bench.events import FloatArray, IntArray
from tppsd_bench.stats.blackbox.summaries import Summaries

MAX_PAIRWISE = 800  # sequences of the energy distance: one permutation costs their square
SCREENED_PER_ARM = 200
_SCREEN_DEPTH = 16  # per arm and end: beyond this the count of outlying sequences stops
_MANY = 256  # sequences from which float32 sums of distances are exact enough: ties by repeated labellings are long gone


@dataclass(frozen=True)
class PooledArms:
    """The pooled sequences of arms that are permuted together, and what statistics of pairs and ranks precompute.

    ``blind_rows``: the sequences that the range screen (all) and the energy distance (the first ``MAX_PAIRWISE``) look at,
    in an order drawn blind to the arms: a choice that knew the arms would not be exchangeable.
    """

    summaries: Summaries
    blind_rows: IntArray
    n_arms: int
    bundle: int = 1
    """Consecutive sequences that are permuted together."""

    @cached_property
    def distances(self) -> NDArray[Any]:
        """Euclidean distances between the normal-score vectors of the first ``MAX_PAIRWISE`` blind rows."""
        x = self.summaries.normal_scores[self.blind_rows[:MAX_PAIRWISE]]
        return cdist(x, x).astype(np.float32 if len(x) >= _MANY else np.float64)

    @cached_property
    def stacked(self) -> dict[np.dtype[Any], tuple[NDArray[Any], dict[str, slice]]]:
        """All summaries of a dtype side by side, summed by bundle (n / bundle, all columns), and the columns of each."""
        out: dict[np.dtype[Any], tuple[NDArray[Any], dict[str, slice]]] = {}
        linear = self.summaries.linear
        for dtype in {table.dtype for table in linear.values()}:
            names = [name for name, table in linear.items() if table.dtype == dtype]
            ends = np.cumsum([linear[name].shape[1] for name in names])
            columns = {name: slice(int(e) - linear[name].shape[1], int(e)) for name, e in zip(names, ends, strict=True)}
            table = np.concatenate([linear[name] for name in names], axis=1)
            if self.bundle > 1:
                table = table.reshape(-1, self.bundle, table.shape[1]).sum(axis=1, dtype=dtype)
            out[dtype] = table, columns
        return out

    @cached_property
    def totals(self) -> dict[str, NDArray[Any]]:
        """Summaries of all arms together."""
        return {name: table.sum(axis=0, dtype=table.dtype) for name, table in self.summaries.linear.items()}

    @cached_property
    def extremes(self) -> list[tuple[IntArray, IntArray]]:
        """Per feature and end: rows from the most extreme inwards, and for each the position where its run of ties starts."""
        depth = _SCREEN_DEPTH * self.n_arms
        out = []
        for feature in self.summaries.features[self.blind_rows].T:
            for signed in (feature, -feature):
                order = np.argsort(signed, kind="stable")[:depth]
                out.append((self.blind_rows[order], np.searchsorted(signed[order], signed[order], side="left")))
        return out


@dataclass(frozen=True)
class LabelledArm:
    """One arm under ``b`` labellings: ``arm[name]`` are its summed summaries (b, k), ``labels`` the bundles that belong to it."""

    sums: Mapping[str, NDArray[Any]]
    labels: NDArray[np.bool_]
    size: int
    pooled: PooledArms
    given_distance_sums: NDArray[Any] | None = None

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.sums[name]

    def holds(self, rows: IntArray) -> NDArray[np.bool_]:
        """(b, len(rows)) whether each of these sequences belongs to the arm."""
        return self.labels[:, rows // self.pooled.bundle]

    @cached_property
    def pairwise_labels(self) -> NDArray[Any]:
        """(b, p) the same of those that the energy distance looks at."""
        return self.holds(self.pooled.blind_rows[:MAX_PAIRWISE]).astype(self.pooled.distances.dtype)

    @cached_property
    def distance_sums(self) -> NDArray[Any]:
        """(b, p) summed distance of each of those sequences to the arm's."""
        given = self.given_distance_sums
        return self.pairwise_labels @ self.pooled.distances if given is None else given


@dataclass(frozen=True)
class ArmSums:
    """The two arms of a cell, under the same labellings."""

    sut: LabelledArm
    reference: LabelledArm


@dataclass(frozen=True)
class ArmRows:
    """The arms as observed: which rows of the pooled summaries each holds."""

    pooled: PooledArms
    sut: IntArray
    reference: IntArray

    def linear(self, key: str) -> tuple[FloatArray, FloatArray]:
        table = self.pooled.summaries.linear[key]
        return table[self.sut].astype(np.float64), table[self.reference].astype(np.float64)

    def label(self, key: str, column: int) -> str:
        return self.pooled.summaries.columns[key][column]
