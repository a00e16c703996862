"""L1, drift: has the law of the output moved between baseline and candidate? Legendre effects of both PITs, as total variation.

Both sides' PITs u (gaps) and v (types) have effects theta_k = mean phi_k, k = 1..4. Their difference d stands for the density difference
h = sum d_k phi_k on (0, 1). On the set where phi_k > 0 the two laws differ by D_k = 1/2 integral sign(phi_k) h, linear in d, and total
variation is the largest such difference over all sets: every |D_k| is a lower bound of the series' total variation, exact for a
linear tilt (k = 1). So nothing is maximised over the data, and D_k has a plain normal error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.polynomial.legendre import Legendre
from numpy.typing import NDArray

from tppsd_bench import budget
from tppsd_bench.events import EventBatch
from tppsd_bench.gate.base import DRIFT, Check
from tppsd_bench.protocols import Scores
from tppsd_bench.results import Outcome
from tppsd_bench.studies.gate.table import Margins

FloatArray = NDArray[np.float64]
ORDER = 4
_NOTHING = 1e-8
"""A file keeps nine digits."""
SHAPES = ("location", "scale", "skew", "kurtosis")


def _set_differences() -> FloatArray:
    """(4, 4) entry (k, j): 1/2 integral of sign(phi_k) phi_j over (0, 1), exactly, between the roots of phi_k."""
    out = np.empty((ORDER, ORDER))
    for k in range(1, ORDER + 1):
        edges = np.concatenate([[-1.0], np.sort(Legendre.basis(k).roots().real), [1.0]])
        signs = (-1.0) ** np.arange(k, -1, -1)
        for j in range(1, ORDER + 1):
            whole = Legendre.basis(j).integ()
            out[k - 1, j - 1] = 0.25 * math.sqrt(2 * j + 1) * float((signs * np.diff(whole(edges))).sum())
    return out


SET_DIFFERENCES = _set_differences()


@dataclass(frozen=True)
class Effects:
    """theta_1..4 of u, then of v where there are types (m = 8 or 4), with their covariance over sequences."""

    theta: FloatArray
    """(m,)"""
    covariance: FloatArray
    """(m, m)"""
    n_events: int
    influence: FloatArray | None = None
    """(n, m) each sequence's part in the error; kept where sides may be paired, not in a baseline's file."""


def legendre_sums(batch: EventBatch, scores: Scores, rng: np.random.Generator) -> FloatArray:
    """(n, m) sums of phi_k(u), and of phi_k(v), over each sequence's events; ``rng`` randomises the PIT of types."""
    from tppsd_bench.stats.neyman import legendre
    from tppsd_bench.stats.pit import type_pit

    values = [legendre(scores.cdf)]
    if batch.n_types > 1:
        values.append(legendre(type_pit(batch.types, scores.type_probs, rng.random(batch.n_events))))
    return summed(np.concatenate(values), batch.sequence_index, len(batch))


def summed(scores: FloatArray, sequence: NDArray[np.int64], n: int) -> FloatArray:
    """(n, m) sums over each sequence's events of (m, N) scores; ``sequence`` (N,) says whose they are."""
    return np.stack([np.bincount(sequence, phi, n).astype(np.float64) for phi in scores], axis=1)


def effects(sums: FloatArray, lengths: NDArray[np.int64]) -> Effects:
    """Effects from each sequence's sums (n, m) and number of events (n,); errors over sequences, never over events."""
    n, events = len(sums), int(lengths.sum())
    theta = sums.sum(axis=0) / events
    influence = (sums - lengths[:, None] * theta) / events
    return Effects(theta, n / (n - 1) * influence.T @ influence, events, influence)


@dataclass(frozen=True)
class Drift:
    """D_k of u, then of v: (m,) values and standard errors."""

    value: FloatArray
    error: FloatArray
    paired: bool


def drift(candidate: Effects, baseline: Effects, *, paired: bool) -> Drift:
    """``paired``: both sides drew at the same seeds; used where both influences are there, of as many sequences."""
    mine, theirs = candidate.influence, baseline.influence
    if paired and mine is not None and theirs is not None and mine.shape == theirs.shape:
        n, apart = len(mine), mine - theirs
        covariance = n / (n - 1) * apart.T @ apart
    else:
        covariance, paired = candidate.covariance + baseline.covariance, False
    m = len(candidate.theta)
    to_sets = np.kron(np.eye(m // ORDER), SET_DIFFERENCES)
    variance = np.diag(to_sets @ covariance @ to_sets.T)
    return Drift(to_sets @ (candidate.theta - baseline.theta), np.sqrt(np.maximum(variance, 0.0)), paired)


def judge_drift(cell: str, candidate: Effects, baseline: Effects, margins: Margins, *, paired: bool, cells: int) -> Check:
    """FAIL where some |D_k| is certainly beyond the margin, PASS where each one's 95 % upper bound is below what must be found.

    Certainly: all intervals hold together with probability 1 - GATE_LEVEL, over directions and ``cells``.
    """
    found = drift(candidate, baseline, paired=paired)
    size = np.abs(found.value)
    strict = NormalDist().inv_cdf(1 - budget.GATE_LEVEL / (2 * cells * len(size)))
    lower = np.maximum(size - strict * found.error, 0.0)
    upper = size + NormalDist().inv_cdf(budget.EQUIVALENCE_CONFIDENCE) * found.error
    worst = int(lower.argmax()) if lower.any() else int(size.argmax())
    where = f"{('gaps', 'types')[worst // ORDER]}, {SHAPES[worst % ORDER]}"
    interval = float(lower[worst]), float(size[worst] + strict * found.error[worst])
    told = f"total variation from the baseline's law {size[worst]:.4f} ({interval[0]:.4f} to {interval[1]:.4f}; {where}"
    how = "paired by seed" if found.paired else "both errors"
    if size.max() < _NOTHING:
        outcome, sentence = Outcome.PASS, "The effects of the PITs are the baseline's."
    elif lower.max() > margins.tv:
        outcome, sentence = Outcome.FAIL, f"The law has drifted: {told}, {how}), wholly above the margin of {margins.tv:g}."
    elif upper.max() < margins.tv_found:
        outcome, sentence = (
            Outcome.PASS,
            f"No drift: {told}, {how}); margin {margins.tv:g}, above {margins.tv_found:g} excluded.",
        )
    else:
        needed = _needed(found.error, candidate.n_events, margins, strict)
        outcome = Outcome.INCONCLUSIVE
        sentence = (
            f"Undecided: {told}, {how}); a drift of {margins.tv_found:g} is not excluded, about {needed:,} events are needed."
        )
    return Check(DRIFT, cell, outcome, sentence, float(size[worst]), interval, margins.tv)


def _needed(error: Sequence[float] | FloatArray, n_events: int, margins: Margins, strict: float) -> int:
    """Events at which a drift of ``tv_found`` is found with power .99, both sides growing alike."""
    reach = (strict + NormalDist().inv_cdf(0.99)) * float(np.max(error))
    return 100 * math.ceil(n_events * (reach / (margins.tv_found - margins.tv)) ** 2 / 100)
