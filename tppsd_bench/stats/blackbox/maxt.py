"""maxT over statistics and cells by permuting whole sequences between arms, as matrix products on label matrices.

Exactness: under the null the sequences of the arms that are permuted together are exchangeable, each statistic is a function
of (arm, sequence) pairs alone, and transforms and standardisation use the observed labelling and the permuted ones alike;
so the observed maximum's rank among all 1 + B is uniform up to ties, which count against rejection.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tppsd_bench import budget
from tppsd_bench.events import EventBatch, FloatArray
from tppsd_bench.stats.blackbox.arms import SCREENED_PER_ARM, ArmRows, ArmSums, LabelledArm, PooledArms
from tppsd_bench.stats.blackbox.effects import Null
from tppsd_bench.stats.blackbox.statistics import REGISTRY, Statistic
from tppsd_bench.stats.blackbox.summaries import summarise

_BLOCK = 1024
_MOST_UNITS = 1200  # sequences, or bundles of them, that are permuted: more cost more and show hardly anything
_TIE = 1e-9  # of a null standard deviation: values this close are ties (sums of the same rows in another order)


@dataclass(frozen=True)
class PermutationGroup:
    """Arms permuted together: one or more SUT arms, then the reference arm they share.

    Cell c compares arm c with the last arm. Under the null all m + 1 arms are draws from one law, so every assignment of the
    pooled sequences to arms of the given sizes is equally likely; permuting them all jointly, with the same permutation for
    every cell, keeps the dependence that the common reference puts between the cells. Very many sequences are permuted in
    bundles of equal size, formed before any is looked at: as exact, for bundles are exchangeable too, and many times cheaper.
    """

    cells: tuple[str, ...]
    pooled: PooledArms
    arm: NDArray[np.int64]
    """(n,) arm of every pooled sequence, the reference being number ``len(cells)``."""

    @classmethod
    def of(
        cls,
        cells: Sequence[str],
        arms: Sequence[EventBatch],
        rng: Generator,
        log_likelihood: Sequence[FloatArray] | None = None,
    ) -> PermutationGroup:
        """``arms``: the SUT arm of every cell, then the reference; ``log_likelihood`` likewise or None."""
        bundle = -(-sum(len(a) for a in arms) // _MOST_UNITS)
        kept = [len(a) // bundle * bundle or len(a) for a in arms]
        if any(n % bundle for n in kept):
            bundle, kept = 1, [len(a) for a in arms]
        pooled = EventBatch.concat([a if n == len(a) else a.select(slice(0, n)) for a, n in zip(arms, kept, strict=True)])
        ll = None
        if log_likelihood is not None:
            ll = np.concatenate([np.asarray(x, dtype=np.float64)[:n] for x, n in zip(log_likelihood, kept, strict=True)])
        summaries = summarise(pooled, log_likelihood=ll)
        blind = rng.permutation(len(pooled))[: SCREENED_PER_ARM * len(arms)]
        return cls(tuple(cells), PooledArms(summaries, blind, len(arms), bundle), np.repeat(np.arange(len(arms)), kept))

    def statistics(self) -> list[Statistic]:
        return [s for s in REGISTRY if s.key in self.pooled.summaries.linear]

    def rows(self, cell: int) -> ArmRows:
        return ArmRows(self.pooled, np.flatnonzero(self.arm == cell), np.flatnonzero(self.arm == len(self.cells)))

    def blocks(self, n_permutations: int, rng: Generator) -> Iterator[list[ArmSums]]:
        """Labelled sums of every cell, block by block; the very first labelling is the observed one."""
        done = 0
        while done <= n_permutations:
            size = min(_BLOCK, n_permutations + 1 - done)
            labels = np.tile(self.arm[:: self.pooled.bundle].astype(np.int16), (size, 1))
            start = 1 if done == 0 else 0
            labels[start:] = rng.permuted(labels[start:], axis=1)
            yield self._sums(labels)
            done += size

    def _sums(self, labels: NDArray[np.int16]) -> list[ArmSums]:
        """One matrix product a dtype and arm; the reference arm is what the others leave of the whole."""
        summed = [self._arm(labels == number) for number in range(len(self.cells))]
        rest = {name: self.pooled.totals[name] - sum(arm[name] for arm in summed) for name in self.pooled.totals}
        sizes = np.bincount(self.arm)
        arms = [LabelledArm(sums, labels == c, int(sizes[c]), self.pooled) for c, sums in enumerate(summed)]
        distances = self.pooled.distances.sum(axis=0) - sum(arm.distance_sums for arm in arms)
        reference = LabelledArm(rest, labels == len(arms), int(sizes[-1]), self.pooled, distances)
        return [ArmSums(arm, reference) for arm in arms]

    def _arm(self, mask: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
        """(b, k) sums of every summary over the labelled rows."""
        out: dict[str, NDArray[Any]] = {}
        for dtype, (table, columns) in self.pooled.stacked.items():
            sums = mask.astype(dtype) @ table
            out |= {name: sums[:, at] for name, at in columns.items()}
        return out

    def values(self, n_permutations: int, rng: Generator) -> FloatArray:
        """(cells, statistics, 1 + B) raw statistics; entry 0 is observed."""
        statistics = self.statistics()
        blocks = [
            np.array([[s.value(arms) for s in statistics] for arms in block]) for block in self.blocks(n_permutations, rng)
        ]
        return np.concatenate(blocks, axis=2)


@dataclass(frozen=True)
class Member:
    """One statistic in one cell, against its permutations."""

    cell: str
    statistic: Statistic
    value: float
    z: float
    """Transformed and standardised; large is unlikely."""
    null: Null
    p_single: float
    p_adjusted: float
    """Single-step maxT (Westfall and Young 1993): P(max over all members >= this z)."""
    critical: float
    """|value| from which ``p_adjusted`` is at or below the ``critical_level`` asked for."""


@dataclass(frozen=True)
class MaxT:
    p_value: float
    z: float
    n_permutations: int
    members: tuple[Member, ...]
    """Statistics that no relabelling changes (one type only, equal counts) say nothing and are left out."""


def max_t(groups: Sequence[PermutationGroup], n_permutations: int, rng: Generator, *, critical_level: float) -> MaxT:
    """p = (1 + #{b: max_b >= max_observed}) / (1 + B), the maximum over every statistic of every cell of draw b.

    Groups hold different sequences and are permuted independently. Each member is made near-normal by ``near_normal`` and
    standardised by its own mean and standard deviation over all 1 + B labellings.
    """
    if n_permutations < 1:
        raise ValueError(f"n_permutations is {n_permutations}; expected at least 1 (9999 for decisions).")
    raw = [g.values(n_permutations, rng) for g in groups]
    labels = [(cell, s) for g in groups for cell in g.cells for s in g.statistics()]
    values = np.concatenate([v.reshape(-1, n_permutations + 1) for v in raw])
    spread = values.std(axis=1)
    informative = spread > 1e-12 * np.maximum(np.abs(values).max(axis=1), 1e-300)
    labels = [label for label, keep in zip(labels, informative, strict=True) if keep]
    values = values[informative]
    if not labels:
        return MaxT(1.0, 0.0, n_permutations, ())
    z, means, sds = zip(
        *(_standardise(near_normal(v, s.two_sided)) for v, (_, s) in zip(values, labels, strict=True)), strict=True
    )
    maxima = np.max(z, axis=0)
    cut = float(np.quantile(maxima, 1 - critical_level))
    members = []
    for (cell, statistic), v, row, mean, sd in zip(labels, values, z, means, sds, strict=True):
        null = Null(float(v[1:].mean()), float(v[1:].std()), float(np.quantile(np.abs(v[1:]), budget.DISPLAY_CONFIDENCE)))
        critical = _back(mean + sd * cut, statistic.two_sided, float(v.std()))
        p_single, p_adjusted = _rank_p(row, float(row[0])), _rank_p(maxima, float(row[0]))
        members.append(Member(cell, statistic, float(v[0]), float(row[0]), null, p_single, p_adjusted, critical))
    return MaxT(_rank_p(maxima, float(maxima[0])), float(maxima[0]), n_permutations, tuple(members))


def near_normal(values: FloatArray, two_sided: bool) -> FloatArray:
    """Cube root (Wilson and Hilferty) of a statistic's values (1 + B,), of |z|^2 for a two-sided one.

    The cube root makes chi-squares near-normal. sqrt(n) KS needs it too: as it stands its right tail, P ~ 2 exp(-2 x^2) at an
    sd of .26, is so much longer than normal that it would own the maximum. sqrt(n) is a constant factor and cancels.
    """
    if two_sided:
        centred = values - values.mean()
        out: FloatArray = np.abs(centred / max(float(values.std()), 1e-300)) ** (2 / 3)
        return out
    root: FloatArray = np.cbrt(values)
    return root


def smallest_p(n_sut: int, n_reference: int, n_permutations: int) -> float:
    """The least p-value these arms can give: arrangements are few when sequences are."""
    return max(1 / (1 + n_permutations), 1 / math.comb(n_sut + n_reference, n_sut))


def _standardise(transformed: FloatArray) -> tuple[FloatArray, float, float]:
    mean, sd = float(transformed.mean()), max(float(transformed.std()), 1e-300)
    return (transformed - mean) / sd, mean, sd


def _back(transformed: float, two_sided: bool, spread: float) -> float:
    return spread * max(transformed, 0.0) ** 1.5 if two_sided else transformed**3


def _rank_p(null_and_observed: FloatArray, value: float) -> float:
    """(1 + #{b >= 1 at least ``value``}) / (1 + B) for 1 + B values of which entry 0 is the observed."""
    reached = int((null_and_observed[1:] >= value - _TIE).sum())
    return (1 + reached) / len(null_and_observed)


def group_by_reference(references: Mapping[str, EventBatch]) -> list[list[str]]:
    """Names of cells with the same reference sequences, together; in order of first appearance."""
    groups: list[list[str]] = []
    for name, batch in references.items():
        for group in groups:
            other = references[group[0]]
            if batch is other or (np.array_equal(batch.gaps, other.gaps) and np.array_equal(batch.lengths, other.lengths)):
                group.append(name)
                break
        else:
            groups.append([name])
    return groups
