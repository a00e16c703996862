"""Independence of sequences: exact duplicates, and correlation between neighbours of a batch.

Shared or repeated random streams leave every sequence right by itself; only comparisons between sequences see them.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.events import EventBatch
from tppsd_bench.results import Axis, Evidence
from tppsd_bench.stats.base import (
    POWER,
    Design,
    FloatArray,
    IntArray,
    NormalStatistic,
    Statistic,
    normal_evidence,
    register,
    undersized,
)
from tppsd_bench.stats.neyman import MIN_VALUES
from tppsd_bench.stats.pit import PitStream

NEIGHBOURS = (1, 2)
MIN_EVENTS = 2


def sequence_hashes(batch: EventBatch) -> NDArray[np.uint64]:
    """(n,) 64-bit hashes of each sequence's gaps and types, in order (splitmix64 of every event, summed)."""
    x = batch.gaps.view(np.uint64) ^ (batch.types.astype(np.uint64) * np.uint64(0xD6E8FEB86659FD93))
    x += batch.event_index.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x ^= x >> np.uint64(shift)
        x *= np.uint64(factor)
    x ^= x >> np.uint64(31)
    total = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(x, dtype=np.uint64)])
    out: NDArray[np.uint64] = total[batch.offsets[1:]] - total[batch.offsets[:-1]]
    return out


def duplicates(batch: EventBatch) -> tuple[int, tuple[int, int] | None]:
    """(number of sequences that repeat an earlier one, the first such pair); sequences of fewer than 2 events never count."""
    rows = np.flatnonzero(batch.lengths >= MIN_EVENTS)
    _, first, group = np.unique(sequence_hashes(batch)[rows], return_index=True, return_inverse=True)
    repeats = np.flatnonzero(first[group] != np.arange(len(rows)))
    same = [(int(rows[first[group[r]]]), int(rows[r])) for r in repeats[:1]]
    if not same or not _equal(batch, *same[0]):
        return 0, None
    return len(repeats), same[0]


def _equal(batch: EventBatch, a: int, b: int) -> bool:
    one, two = (slice(batch.offsets[i], batch.offsets[i + 1]) for i in (a, b))
    return np.array_equal(batch.gaps[one], batch.gaps[two]) and np.array_equal(batch.types[one], batch.types[two])


class Duplicates(Statistic):
    """Exact duplicates among sequences: a continuous law never repeats one, so a single pair is proof."""

    name = "cross_sequence.duplicates"
    null = "never happens"
    effect_name = "share of sequences that repeat an earlier one"

    def members(self, design: Design) -> int:
        return 0

    def min_effect(self, n: int, alpha: float, power: float = POWER) -> float:
        """1 - (1 - power)^(1/n): the share of repeats of which n sequences contain one."""
        return -math.expm1(math.log1p(-power) / n)

    def evaluate(self, stream: PitStream, design: Design, alpha: float) -> list[Evidence]:
        count, pair = duplicates(stream.batch)
        n = len(stream.batch)
        detail = "" if pair is None else f"Sequence {pair[1]} repeats sequence {pair[0]} exactly ({count} such repeats)."
        return [
            Evidence(
                self.name,
                Axis.LAW,
                passed=count == 0,
                statistic=float(count),
                n=n,
                effect=count / max(n, 1),
                effect_name=self.effect_name,
                null=self.null,
                method="exact, by hash",
                detail=detail,
            )
        ]


def neighbour_sum(z: FloatArray, lengths: IntArray, distance: int) -> tuple[float, int]:
    """(sum of z_{r,i} z_{r+distance,i}, number of pairs) over sequences r and equal indices i."""
    shared = np.minimum(lengths[:-distance], lengths[distance:])
    starts = np.concatenate([[0], np.cumsum(lengths)])[:-1]
    n = int(shared.sum())
    if n == 0:
        return 0.0, 0
    before = np.concatenate([[0], np.cumsum(shared)[:-1]])
    index = np.arange(n) - np.repeat(before, shared)
    here = index + np.repeat(starts[:-distance], shared)
    there = index + np.repeat(starts[distance:], shared)
    return float(np.dot(z[here], z[there])), n


class Neighbours(NormalStatistic):
    """Correlation of normal scores at equal index between sequences one and two rows apart."""

    null = "N(0, 1)"
    effect_name = "correlation between neighbours"

    def __init__(self, name: str, which: str) -> None:
        self.name, self.which = name, which

    def members(self, design: Design) -> int:
        return len(NEIGHBOURS) if self.which == "u" or design.marked else 0

    def evaluate(self, stream: PitStream, design: Design, alpha: float) -> list[Evidence]:
        if not self.members(design):
            return []
        z = stream.normal_u if self.which == "u" else stream.normal_v
        out: list[Evidence] = []
        for distance in NEIGHBOURS:
            name, (total, pairs) = f"{self.name}_{distance}", neighbour_sum(z, stream.lengths, distance)
            if pairs < MIN_VALUES:
                out.append(undersized(name, pairs, MIN_VALUES, unit="pairs"))
            else:
                out.append(
                    normal_evidence(name, total / math.sqrt(pairs), pairs, alpha, self.effect_name, method="equal index")
                )
        return out


register(Duplicates())
register(Neighbours("cross_sequence.time_neighbour", "u"))
register(Neighbours("cross_sequence.type_neighbour", "v"))
