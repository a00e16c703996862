"""Evidence from values that are iid U(0,1) under the null, and the smallest effect each n can see."""

from __future__ import annotations

import math

import numpy as np

from tppsd_bench.protocols import FloatArray, IntArray
from tppsd_bench.results import Axis, Evidence
from tppsd_bench.stats.base import POWER, Z95, chi_square_p, noncentrality, normal_min_effect
from tppsd_bench.stats.neyman import MIN_VALUES, ORDER, legendre

MIN_UNIFORMS = MIN_VALUES
"""Below this many values the chi-square tail of the smooth test is not trusted and no p-value is given."""


def uniform_evidence(
    name: str, u: FloatArray, alpha: float, *, where: dict[str, str] | None = None, detail: str = ""
) -> Evidence:
    """Neyman's smooth test of order 4 as mechanism evidence; the effect shown is the theta largest in size, signed.

    ``alpha`` is the level of this single test, for the smallest detectable length of (theta_1..theta_4) at power .95.
    """
    n = len(u)
    theta = legendre(u).mean(axis=1)
    statistic = n * float(theta @ theta)
    k = int(np.argmax(np.abs(theta)))
    effect, half = float(theta[k]), Z95 / math.sqrt(n)
    return Evidence(
        name,
        Axis.MECHANISM,
        p_value=chi_square_p(statistic, ORDER),
        statistic=statistic,
        n=n,
        effect=effect,
        effect_name=f"theta_{k + 1}",
        interval=(effect - half, effect + half),
        min_detectable=math.sqrt(noncentrality(ORDER, alpha, POWER) / n),
        null=f"chi2({ORDER})",
        method="Neyman smooth test of order 4",
        where=where or {},
        detail=detail,
    )


def min_detectable_z(standard_error: float, alpha: float) -> float:
    """Smallest effect that a two-sided z test of level ``alpha`` finds with power .95."""
    return normal_min_effect(1, alpha) * standard_error


def type_pit(types: IntArray, weights: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Randomised PIT of ``types`` (n,) under weights (n, M) that need not be normalised: below + xi * own, over the sum."""
    cumulative = np.cumsum(weights, axis=1)
    row = np.arange(len(types))
    own = weights[row, types]
    with np.errstate(invalid="ignore", divide="ignore"):
        v: FloatArray = (cumulative[row, types] - own + rng.random(len(types)) * own) / cumulative[:, -1]
    return v
