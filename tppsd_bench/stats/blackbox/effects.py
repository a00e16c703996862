"""Effect sizes of the black-box statistics, with intervals over sequences (no bootstrap).

Whole sequences are the independent units: a standard error is the spread of per-sequence influences over sqrt(n) (delta
method); where the effect is a maximum, the interval is a band as wide as the maximum is under permutation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np

from tppsd_bench import budget
from tppsd_bench.events import FloatArray

Z95 = NormalDist().inv_cdf((1 + budget.DISPLAY_CONFIDENCE) / 2)
Z_POWER = NormalDist().inv_cdf(budget.DETECTION_POWER)


@dataclass(frozen=True)
class Effect:
    """An estimate, its 95 % interval where there is a simple one, and where it is largest."""

    estimate: float
    interval: tuple[float, float] | None = None
    where: dict[str, str] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Null:
    """A statistic over permutations: mean, standard deviation, and the 95 % quantile of its absolute value."""

    mean: float
    sd: float
    q95: float


def interval(estimate: float, se: float, floor: float = -math.inf, ceiling: float = math.inf) -> tuple[float, float] | None:
    """Normal 95 % interval, cut to the parameter's range; None where the standard error is unknown."""
    if not math.isfinite(se):
        return None
    return band(estimate, Z95 * se, floor, ceiling)


def band(estimate: float, half_width: float, floor: float = -math.inf, ceiling: float = math.inf) -> tuple[float, float]:
    """Estimate plus and minus a half width, cut to the parameter's range.

    For a maximum of differences the half width is the permutations' 95 % quantile of that maximum: as in a Kolmogorov-Smirnov
    band it bounds every difference's error at once, so that picking the largest does not spoil the coverage.
    """
    return min(max(estimate - half_width, floor), ceiling), min(max(estimate + half_width, floor), ceiling)


def min_sequences(effect: float, min_detectable: float, n_sequences: int) -> int:
    """Sequences per arm that find ``effect``, given what ``n_sequences`` detect: n (detectable / effect)^2."""
    if not effect > 0:
        raise ValueError(f"The effect is {effect}; expected a positive number.")
    return math.ceil(n_sequences * (min_detectable / effect) ** 2)


def detectable_noncentrality(critical: float, null: Null) -> float:
    """Squared distance d at which a noncentral-chi-square-like statistic exceeds ``critical`` with the budget's power.

    Its mean is m + d and its variance s^2 (1 + 2 d / m), m and s^2 the null mean and variance; solves
    critical = m + d - z sqrt(s^2 (1 + 2 d / m)).
    """
    above, spread = critical - null.mean, Z_POWER * null.sd
    middle = above + spread**2 / max(null.mean, 1e-300)
    return middle + math.sqrt(max(middle**2 - above**2 + spread**2, 0.0))


def ratio_se(numerator: FloatArray, denominator: FloatArray | None) -> float:
    """Standard error of sum(numerator) / sum(denominator) over n independent sequences (denominator None: of the mean)."""
    n = len(numerator)
    if n < 2:
        return math.inf
    below = np.ones(n) if denominator is None else denominator
    total = max(float(below.sum()), 1e-300)
    residual = numerator - numerator.sum() / total * below
    return float(np.sqrt((residual**2).sum() * n / (n - 1))) / total


def difference_se(sut: tuple[FloatArray, FloatArray | None], reference: tuple[FloatArray, FloatArray | None]) -> float:
    """Standard error of the difference of two arms' ratios (or means)."""
    return float(np.hypot(ratio_se(*sut), ratio_se(*reference)))


def phi_squared(sut: FloatArray, reference: FloatArray) -> FloatArray:
    """(b,) X^2 / N of 2 x K tables whose rows are the arms' hits (b, K)."""
    a, r = sut.astype(np.float64), reference.astype(np.float64)
    n_a, n_r = a.sum(axis=1, keepdims=True), r.sum(axis=1, keepdims=True)
    both = a + r
    difference = a / np.maximum(n_a, 1) - r / np.maximum(n_r, 1)
    weight = (n_a * n_r / np.maximum(n_a + n_r, 1))[:, 0]
    out: FloatArray = weight * (difference**2 / np.maximum(both, 1e-300)).sum(axis=1)
    return out


def phi_squared_se(sut: FloatArray, reference: FloatArray) -> float:
    """Delta-method standard error of phi^2 from per-sequence hits (n1, K) and (n2, K), arm weights held fixed.

    It vanishes where the arms agree; there the spread under permutation takes over (as a noncentral chi-square's variance
    2k + 4 lambda is the central part plus the linear part).
    """
    a, r = sut.sum(axis=0), reference.sum(axis=0)
    n_a, n_r = max(float(a.sum()), 1.0), max(float(r.sum()), 1.0)
    w_a, w_r = n_a / (n_a + n_r), n_r / (n_a + n_r)
    difference = a / n_a - r / n_r
    mean = np.maximum((a + r) / (n_a + n_r), 1e-300)
    gradient_a = w_a * w_r * (2 * difference / mean - w_a * difference**2 / mean**2)
    gradient_r = w_a * w_r * (-2 * difference / mean - w_r * difference**2 / mean**2)
    return difference_se((sut @ gradient_a, sut.sum(axis=1)), (reference @ gradient_r, reference.sum(axis=1)))


def largest_contribution(sut: FloatArray, reference: FloatArray) -> int:
    """Column of the 2 x K table that adds most to chi-square."""
    difference = sut / max(float(sut.sum()), 1.0) - reference / max(float(reference.sum()), 1.0)
    return int((difference**2 / np.maximum(sut + reference, 1e-300)).argmax())


def autocorrelation(sums: FloatArray) -> FloatArray:
    """(b, L) autocorrelations from the sums of ``summaries.acf_sums`` (b, 3 + 2 L)."""
    n_lags = (sums.shape[1] - 3) // 2
    total = np.maximum(sums[:, :1], 1)
    mean, square = sums[:, 1:2] / total, sums[:, 2:3] / total
    product = sums[:, 3 : 3 + n_lags] / np.maximum(sums[:, 3 + n_lags :], 1)
    out: FloatArray = (product - mean**2) / np.maximum(square - mean**2, 1e-12)
    return out


def log_fano_se(counts: FloatArray) -> float:
    """Delta-method standard error of log(variance / mean) of counts (n,)."""
    n, mean, variance = len(counts), float(counts.mean()), float(counts.var())
    if n < 2 or mean <= 0 or variance <= 0:
        return math.inf
    influence = ((counts - mean) ** 2 - variance) / variance - (counts - mean) / mean
    return float(influence.std(ddof=1) / np.sqrt(n))
