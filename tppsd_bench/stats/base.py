"""Shared machinery of the grey-box statistics: the registry, p-values, power, and how a number becomes evidence.

Error rates are part of the interface: every statistic says which effect ``n`` values find (``min_effect``) and how many
values an effect needs (``min_n``), so that "nothing found" is never confused with "nothing there".
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.optimize import brentq

from tppsd_bench.budget import DETECTION_POWER
from tppsd_bench.errors import InputError
from tppsd_bench.results import Axis, Evidence

if TYPE_CHECKING:
    from tppsd_bench.stats.pit import PitStream

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

POWER = DETECTION_POWER
Z95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Stratum:
    """A way to split a stream by something known *before* each draw: its name and all values it can take."""

    name: str
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Design:
    """What is fixed before any data is seen; it alone decides the size of the family."""

    n_types: int
    strata: tuple[Stratum, ...] = ()
    horizon: bool = False

    @property
    def marked(self) -> bool:
        """Whether there is more than one type: with one, all type statistics leave the family."""
        return self.n_types > 1


class Statistic(ABC):
    """One member of the battery. Subclasses state only what differs; ``register`` puts an instance into the registry."""

    name: str
    null: str
    """Null distribution in words."""
    effect_name: str

    @abstractmethod
    def members(self, design: Design) -> int:
        """Number of p-values it adds to the deciding family under this design, whatever the data."""

    @abstractmethod
    def evaluate(self, stream: PitStream, design: Design, alpha: float) -> list[Evidence]:
        """The evidence of one stream; ``alpha`` is the level of a single member, used for the detectable effects."""

    @abstractmethod
    def min_effect(self, n: int, alpha: float, power: float = POWER) -> float:
        """The smallest effect that ``n`` values find at level ``alpha`` with this power."""

    def min_n(self, effect: float, alpha: float, power: float = POWER) -> int:
        """The smallest ``n`` whose ``min_effect`` is at most ``effect``."""
        if not effect > 0:
            raise InputError(f"The effect to find is {effect}; no sample finds it: give a positive effect.")
        low, high = 1, 2
        while self.min_effect(high, alpha, power) > effect:
            low, high = high, 2 * high
            if high > 10**15:
                raise InputError(
                    f"{self.name} would need more than 1e15 values to find an effect of {effect}; ask for a larger one."
                )
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.min_effect(middle, alpha, power) > effect else (low, middle)
        return high


class NormalStatistic(Statistic):
    """A standardised mean: Z = sqrt(n) effect + N(0, 1)."""

    def min_effect(self, n: int, alpha: float, power: float = POWER) -> float:
        return normal_min_effect(n, alpha, power)


class ChiSquareStatistic(Statistic):
    """A quadratic form: chi-square with ``df`` degrees of freedom and noncentrality n effect^2."""

    df: int

    def min_effect(self, n: int, alpha: float, power: float = POWER) -> float:
        return math.sqrt(noncentrality(self.df, alpha, power) / n)


REGISTRY: dict[str, Statistic] = {}


def register(statistic: Statistic) -> Statistic:
    """Add a statistic under its name; names are unique."""
    if statistic.name in REGISTRY:
        raise InputError(f"A statistic named {statistic.name!r} is already registered; choose another name.")
    REGISTRY[statistic.name] = statistic
    return statistic


# -- p-values and power ---------------------------------------------------------------------------------------------------
def two_sided_normal(z: float) -> float:
    """P(|Z| >= |z|)."""
    return float(2.0 * special.ndtr(-abs(z)))


def chi_square_p(statistic: float, df: int) -> float:
    """P(chi2(df) >= statistic)."""
    return float(special.chdtrc(df, statistic))


def binomial_two_sided(hits: int, n: int, p: float) -> float:
    """Exact two-sided binomial p-value: twice the smaller tail, at most 1."""
    lower = float(special.bdtr(hits, n, p))
    upper = float(special.bdtrc(hits - 1, n, p)) if hits > 0 else 1.0
    return min(1.0, 2.0 * min(lower, upper))


def clopper_pearson(hits: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Exact interval of a binomial probability."""
    tail = (1 - level) / 2
    low = float(special.betaincinv(hits, n - hits + 1, tail)) if hits > 0 else 0.0
    high = float(special.betaincinv(hits + 1, n - hits, 1 - tail)) if hits < n else 1.0
    return low, high


def normal_min_effect(n: int, alpha: float, power: float = POWER) -> float:
    """(z_{1 - alpha/2} + z_power) / sqrt(n)."""
    return float((special.ndtri(1 - alpha / 2) + special.ndtri(power)) / math.sqrt(n))


@lru_cache(maxsize=4096)
def noncentrality(df: int, alpha: float, power: float) -> float:
    """The noncentrality at which a level-``alpha`` chi-square test with ``df`` degrees of freedom has this power."""
    critical = float(special.chdtri(df, alpha))
    return float(brentq(lambda nc: special.chndtr(critical, df, nc) - (1 - power), 1e-9, 10 * critical + 100))


# -- evidence -------------------------------------------------------------------------------------------------------------
def normal_evidence(
    name: str, z: float, n: int, alpha: float, effect_name: str, *, method: str = "", where: dict[str, str] | None = None
) -> Evidence:
    """Evidence of a standardised mean; the effect is z / sqrt(n) with its 95 % interval."""
    root = math.sqrt(n)
    return Evidence(
        name,
        Axis.LAW,
        p_value=two_sided_normal(z),
        statistic=z,
        n=n,
        effect=z / root,
        effect_name=effect_name,
        interval=((z - Z95) / root, (z + Z95) / root),
        min_detectable=normal_min_effect(n, alpha),
        null="N(0, 1)",
        method=method,
        where=where or {},
    )


def chi_square_evidence(
    name: str,
    statistic: float,
    df: int,
    n: int,
    alpha: float,
    effect_name: str,
    *,
    method: str = "",
    where: dict[str, str] | None = None,
) -> Evidence:
    """Evidence of a chi-square; the effect sqrt((X - df)+ / n) is freed of the noise that df adds.

    The interval uses sqrt(X) = sqrt(df - 1/2 + noncentrality) + error with standard deviation at most 1: a little wide.
    """
    root = math.sqrt(statistic)
    ends = [max(end, 0.0) ** 2 - df + 0.5 for end in (root - Z95, root + Z95)]
    low, high = (math.sqrt(max(end, 0.0) / n) for end in ends)
    return Evidence(
        name,
        Axis.LAW,
        p_value=chi_square_p(statistic, df),
        statistic=statistic,
        n=n,
        effect=math.sqrt(max(statistic - df, 0.0) / n),
        effect_name=effect_name,
        interval=(low, high),
        min_detectable=math.sqrt(noncentrality(df, alpha, POWER) / n),
        null=f"chi2({df})",
        method=method,
        where=where or {},
    )


def undersized(name: str, n: int, needed: int, where: dict[str, str] | None = None, unit: str = "values") -> Evidence:
    """A member of the family that the data could not fill: shown, without a p-value; the family keeps its size."""
    return Evidence(
        name,
        Axis.LAW,
        n=n,
        where=where or {},
        display=True,
        detail=f"Undersized: {n} {unit}, this test needs {needed}; draw more sequences.",
    )
