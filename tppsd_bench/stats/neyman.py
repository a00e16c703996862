"""Uniformity of the pooled PITs: Neyman's smooth test of order 4, with KS and Anderson-Darling beside it for people.

The Legendre scores theta_k = mean phi_k(u) are at once the test and the effect sizes: location, scale, skew, kurtosis.
References: Neyman (1937), "Smooth test" for goodness of fit; Marsaglia and Marsaglia (2004) for Anderson-Darling.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy import stats

from tppsd_bench.budget import delta_ks, delta_theta, dkw_half_width
from tppsd_bench.results import Axis, Evidence
from tppsd_bench.stats.base import (
    POWER,
    Z95,
    ChiSquareStatistic,
    Design,
    FloatArray,
    IntArray,
    Statistic,
    chi_square_evidence,
    normal_min_effect,
    register,
    two_sided_normal,
    undersized,
)
from tppsd_bench.stats.pit import PitStream

ORDER = 4
MIN_VALUES = 200
N_CELLS = 256
_MEANING = ("location", "scale", "skew", "kurtosis")


def legendre(u: FloatArray) -> FloatArray:
    """(4, n) orthonormal Legendre polynomials on (0, 1) at u: mean 0, variance 1, uncorrelated when u is uniform."""
    out = np.empty((ORDER, len(u)))
    x = 2.0 * u - 1.0
    square = x * x
    np.multiply(x, math.sqrt(3), out=out[0])
    np.multiply(square, 1.5 * math.sqrt(5), out=out[1])
    out[1] -= 0.5 * math.sqrt(5)
    np.multiply(square, 2.5 * math.sqrt(7), out=out[2])
    out[2] -= 1.5 * math.sqrt(7)
    out[2] *= x
    np.multiply(square, 35 * 3 / 8, out=out[3])
    out[3] -= 30 * 3 / 8
    out[3] *= square
    out[3] += 3 * 3 / 8
    return out


def _cell_scores() -> FloatArray:
    """(4, N_CELLS) the Legendre polynomials made exactly orthonormal on equal cells, so that histograms lose no exactness."""
    middles = (np.arange(N_CELLS) + 0.5) / N_CELLS
    basis = np.vstack([np.ones(N_CELLS), legendre(middles)]).T
    q, r = np.linalg.qr(basis)
    scores: FloatArray = (q * np.sign(np.diag(r)) * math.sqrt(N_CELLS)).T[1:]
    return scores


_CELL_SCORES = _cell_scores()


def cells(u: FloatArray, n_cells: int) -> IntArray:
    """(n,) equal cells 0..n_cells-1 of the unit interval."""
    return np.minimum((u * n_cells).astype(np.int64), n_cells - 1)


def neyman_from_histogram(counts: IntArray) -> tuple[FloatArray, FloatArray, IntArray]:
    """Smooth tests of many strata at once.

    Args:
        counts: (S, 256) counts in equal cells of (0, 1).

    Returns:
        theta (S, 4), chi-square (S,) with 4 degrees of freedom, n (S,).
    """
    n = counts.sum(axis=1)
    theta = counts @ _CELL_SCORES.T / np.maximum(n, 1)[:, None]
    return theta, n * (theta**2).sum(axis=1), n


def kolmogorov_smirnov(u: FloatArray) -> tuple[float, float]:
    """(D, p) of the one-sample test against U(0, 1), from *sorted* values; p by ``kstwo``."""
    n = len(u)
    grid = np.arange(n) / n
    distance = max(float((u - grid).max()), float((grid - u).max()) + 1 / n)
    return distance, float(np.clip(stats.kstwo.sf(distance, n), 0.0, 1.0))


def anderson_darling(u: FloatArray) -> tuple[float, float]:
    """(A^2, p) against U(0, 1), from *sorted* values; asymptotic distribution with an exponential tail beyond 10."""
    n = len(u)
    inside = np.clip(u, 1e-300, 1 - 2.0**-53)
    terms = np.log(inside)
    terms += np.log1p(-inside)[::-1]
    a2 = float(-n - np.dot(2.0 * np.arange(n) + 1.0, terms) / n)
    z = min(max(a2, 1e-3), 10.0)
    if z < 2:
        inner = 2.00012 + (0.247105 - (0.0649821 - (0.0347962 - (0.011672 - 0.00168691 * z) * z) * z) * z) * z
        return a2, 1.0 - math.exp(-1.2337141 / z) / math.sqrt(z) * inner
    inner = 1.0776 - (2.30695 - (0.43424 - (0.082433 - (0.008056 - 0.0003146 * z) * z) * z) * z) * z
    p = -math.expm1(-math.exp(inner))
    return a2, p * math.sqrt(z / a2) * math.exp(z - a2) if a2 > z else p


class Neyman(ChiSquareStatistic):
    """Order-4 smooth test of one pooled PIT, and its four components as primary effects."""

    df = ORDER
    null = "chi2(4)"
    effect_name = "length of (theta_1..theta_4)"

    def __init__(self, name: str, which: str) -> None:
        self.name, self.which = name, which

    def members(self, design: Design) -> int:
        return 1 if self.which == "u" or design.marked else 0

    def evaluate(self, stream: PitStream, design: Design, alpha: float) -> list[Evidence]:
        if not self.members(design):
            return []
        values = stream.u if self.which == "u" else stream.type_values
        if len(values) < MIN_VALUES:
            small = undersized(self.name, len(values), MIN_VALUES)
            # primary without an effect: no run this small can pass
            return [replace(small, primary=True, margin=delta_theta(MIN_VALUES))]
        n = len(values)
        scores = legendre(values)
        theta = scores.sum(axis=1) / n
        spread = np.sqrt(np.maximum(np.einsum("kn,kn->k", scores, scores) / n - theta**2, 0.0))
        joint = chi_square_evidence(
            self.name, n * float(theta @ theta), ORDER, n, alpha, self.effect_name, method="smooth test of order 4"
        )
        return [joint, *(self._component(k, float(theta[k]), float(spread[k]), n, alpha) for k in range(ORDER))]

    def _component(self, k: int, theta: float, spread: float, n: int, alpha: float) -> Evidence:
        half = Z95 * spread / math.sqrt(n)
        return Evidence(
            f"{self.name.split('.')[0]}.theta_{k + 1}",
            Axis.LAW,
            p_value=two_sided_normal(theta * math.sqrt(n)),
            statistic=theta * math.sqrt(n),
            n=n,
            effect=theta,
            effect_name=f"theta_{k + 1} ({_MEANING[k]})",
            interval=(theta - half, theta + half),
            min_detectable=normal_min_effect(n, alpha),
            margin=delta_theta(n),
            null="N(0, 1)",
            method="Legendre score; interval by its own standard deviation",
            primary=True,
            display=True,
        )


class Kolmogorov(Statistic):
    """KS distance of one pooled PIT (a primary effect, no vote on failure) and Anderson-Darling, both for people."""

    null = "Kolmogorov's distribution (kstwo)"
    effect_name = "KS distance"

    def __init__(self, name: str, which: str) -> None:
        self.name, self.which = name, which

    def members(self, design: Design) -> int:
        return 0

    def min_effect(self, n: int, alpha: float, power: float = POWER) -> float:
        """Critical distance plus the one-sided DKW half-width of the power: sufficient, not sharp."""
        return dkw_half_width(n, alpha) + math.sqrt(math.log(1 / (1 - power)) / (2 * n))

    def evaluate(self, stream: PitStream, design: Design, alpha: float) -> list[Evidence]:
        values = stream.u if self.which == "u" else stream.v
        if values is None or len(values) == 0:
            return []
        n, ordered = len(values), np.sort(values)
        distance, p = kolmogorov_smirnov(ordered)
        half = dkw_half_width(n, 0.05)
        ks = Evidence(
            self.name,
            Axis.LAW,
            p_value=p,
            statistic=distance * math.sqrt(n),
            n=n,
            effect=distance,
            effect_name=self.effect_name,
            interval=(max(0.0, distance - half), min(1.0, distance + half)),
            min_detectable=self.min_effect(n, alpha),
            margin=delta_ks(n),
            null=self.null,
            method="kstwo; interval by DKW",
            primary=True,
            display=True,
        )
        a2, p_ad = anderson_darling(ordered)
        name = f"{self.name.split('.')[0]}.anderson_darling"
        return [ks, Evidence(name, Axis.LAW, p_value=p_ad, statistic=a2, n=n, null="A^2, asymptotic", display=True)]


register(Neyman("pit_time.neyman", "u"))
register(Neyman("pit_type.neyman", "v"))
register(Kolmogorov("pit_time.ks", "u"))
register(Kolmogorov("pit_type.ks", "v"))
