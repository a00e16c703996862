"""The two-sample statistics of the black-box battery: one small class a kind, one registry.

A statistic maps the summed summaries of two arms, for a block of relabellings at once, to one number each, in units of its
effect. Two-sided statistics are signed. It must depend on the arms as *sets* of sequences (never on row order), or the
permutation p-value loses its exactness.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from tppsd_bench.events import FloatArray, IntArray
from tppsd_bench.stats.blackbox import effects
from tppsd_bench.stats.blackbox.arms import ArmRows, ArmSums
from tppsd_bench.stats.blackbox.effects import Effect, Null


class Statistic(Protocol):
    """``key``: the summary it needs (absent: not applicable); ``value`` gives (b,); ``effect`` reads the observed arms."""

    @property
    def name(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def effect_name(self) -> str: ...
    @property
    def two_sided(self) -> bool: ...
    def value(self, arms: ArmSums) -> FloatArray: ...
    def effect(self, arms: ArmRows, value: float, null: Null) -> Effect: ...
    def detectable(self, critical: float, null: Null) -> float:
        """Smallest effect found with the budget's power by a test that rejects at ``|value| >= critical``."""
        ...


class _Direct:
    """Statistics whose value is their effect: detectable = critical value + z(power) null standard deviations."""

    def detectable(self, critical: float, null: Null) -> float:
        return critical + effects.Z_POWER * null.sd


class _Quadratic:
    """Statistics that are a squared distance plus its mean by chance; the effect is a function of what is beyond chance."""

    def beyond_chance(self, squared: float) -> float:
        return float(np.sqrt(max(squared, 0.0)))

    def detectable(self, critical: float, null: Null) -> float:
        return self.beyond_chance(effects.detectable_noncentrality(critical, null))


@dataclass(frozen=True)
class KolmogorovSmirnov(_Direct):
    """max over pooled-quantile edges of |F_sut - F_reference|, from cumulative histograms whose last column is the total."""

    name: str
    key: str
    effect_name: str
    axis: str
    two_sided: bool = False

    def value(self, arms: ArmSums) -> FloatArray:
        a, r = _cdf(arms.sut[self.key]), _cdf(arms.reference[self.key])
        out: FloatArray = np.abs(a - r).max(axis=1, initial=0.0)
        return out

    def effect(self, arms: ArmRows, value: float, null: Null) -> Effect:
        a, r = arms.linear(self.key)
        difference = _cdf(a.sum(axis=0)[None])[0] - _cdf(r.sum(axis=0)[None])[0]
        if not len(difference):
            return Effect(value)
        at = int(np.abs(difference).argmax())
        interval = effects.band(value, null.q95, floor=0.0, ceiling=1.0)
        return Effect(value, interval, {self.axis: arms.label(self.key, at)}, note="located at the largest distance")


@dataclass(frozen=True)
class ChiSquare(_Quadratic):
    """phi^2 = X^2 / N of the 2 x K table of hits by arm: w1 w2 sum_k (p1_k - p2_k)^2 / p_k."""

    name: str
    key: str
    cell: str
    effect_name: str = "Cramér's V beyond chance"
    two_sided: bool = False

    def value(self, arms: ArmSums) -> FloatArray:
        return effects.phi_squared(arms.sut[self.key], arms.reference[self.key])

    def effect(self, arms: ArmRows, value: float, null: Null) -> Effect:
        a, r = arms.linear(self.key)
        se = float(np.hypot(effects.phi_squared_se(a, r), null.sd))
        at = effects.largest_contribution(a.sum(axis=0), r.sum(axis=0))
        beyond = value - null.mean
        squared = effects.interval(beyond, se, floor=0.0)
        ends = None if squared is None else (self.beyond_chance(squared[0]), self.beyond_chance(squared[1]))
        return Effect(
            self.beyond_chance(beyond), ends, {self.cell: arms.label(self.key, at)}, note="located at the largest contribution"
        )


@dataclass(frozen=True)
class AcfDifference(_Direct):
    """max over lags of |r_l(sut) - r_l(reference)|, r_l = (mean z_t z_(t+l) - mean^2) / variance within each arm."""

    name: str
    key: str
    effect_name: str = "difference of autocorrelations"
    two_sided: bool = False

    def value(self, arms: ArmSums) -> FloatArray:
        difference = effects.autocorrelation(arms.sut[self.key]) - effects.autocorrelation(arms.reference[self.key])
        out: FloatArray = np.abs(difference).max(axis=1)
        return out

    def effect(self, arms: ArmRows, value: float, null: Null) -> Effect:
        a, r = arms.linear(self.key)
        acf_a, acf_r = (effects.autocorrelation(x.sum(axis=0)[None])[0] for x in (a, r))
        at = int(np.abs(acf_a - acf_r).argmax())
        estimate = float(acf_a[at] - acf_r[at])
        return Effect(estimate, effects.band(estimate, null.q95), {"lag": arms.label(self.key, at)}, note="at the worst lag")


@dataclass(frozen=True)
class MeanDifference(_Direct):
    """Mean over sequences of the first column of a summary, SUT minus reference."""

    name: str
    key: str
    effect_name: str
    two_sided: bool = True

    def value(self, arms: ArmSums) -> FloatArray:
        out: FloatArray = arms.sut[self.key][:, 0] / arms.sut.size - arms.reference[self.key][:, 0] / arms.reference.size
        return out

    def effect(self, arms: ArmRows, value: float, null: Null) -> Effect:
        a, r = (x[:, 0] for x in arms.linear(self.key))
        return Effect(value, effects.interval(value, effects.difference_se((a, None), (r, None))))


@dataclass(frozen=True)
class LogFano(_Direct):
    """log of the ratio of Fano factors (variance / mean of the counts), SUT over reference."""

    name: str = "count_fano"
    key: str = "count"
    effect_name: str = "log ratio of Fano factors"
    two_sided: bool = True

    def value(self, arms: ArmSums) -> FloatArray:
        return _log_fano(arms.sut[self.key], arms.sut.size) - _log_fano(arms.reference[self.key], arms.reference.size)

    def effect(self, arms: ArmRows, value: float, null: Null) -> Effect:
        a, r = (x[:, 0] for x in arms.linear(self.key))
        return Effect(value, effects.interval(value, float(np.hypot(effects.log_fano_se(a), effects.log_fano_se(r)))))


@dataclass(frozen=True)
class EnergyDistance(_Direct):
    """2 E|X-Y| - E|X-X'| - E|Y-Y'| over 2 E|X-Y|, on normal scores of the summary vectors (Székely and Rizzo 2013)."""

    name: str = "energy"
    key: str = "scores"
    effect_name: str = "energy coefficient (0 = same law)"
    two_sided: bool = False

    def value(self, arms: ArmSums) -> FloatArray:
        a, r = arms.sut.pairwise_labels, arms.reference.pairwise_labels
        n_a, n_r = np.maximum(a.sum(axis=1), 1), np.maximum(r.sum(axis=1), 1)
        to_a, to_r = arms.sut.distance_sums, arms.reference.distance_sums
        between = np.einsum("bn,bn->b", to_a, r).astype(np.float64) / (n_a * n_r)
        within_a = np.einsum("bn,bn->b", to_a, a).astype(np.float64) / n_a**2
        within_r = np.einsum("bn,bn->b", to_r, r).astype(np.float64) / n_r**2
        within = within_a + within_r
        out: FloatArray = np.maximum(2 * between - within, 0.0) / np.maximum(2 * between, 1e-300)
        return out

    def effect(self, arms: ArmRows, value: float, null: Null) -> Effect:
        return Effect(value, note=f"{null.mean:.3g} is expected from chance alone")


@dataclass(frozen=True)
class Discriminant(_Quadratic):
    """Classifier two-sample test: squared distance of the arms' mean whitened summary vectors, Fisher's discriminant.

    It is monotone in Hotelling's T^2. The effect is the area under the ROC curve Phi(D / sqrt 2) with D^2 beyond its mean by
    chance, so that the optimism of judging in sample is taken off.
    """

    name: str = "classifier"
    key: str = "scores"
    effect_name: str = "AUC of the linear discriminant (0.5 = chance)"
    two_sided: bool = False

    def value(self, arms: ArmSums) -> FloatArray:
        difference = arms.sut[self.key] / arms.sut.size - arms.reference[self.key] / arms.reference.size
        out: FloatArray = (difference**2).sum(axis=1)
        return out

    def effect(self, arms: ArmRows, value: float, null: Null) -> Effect:
        return Effect(self.beyond_chance(value - null.mean))

    def beyond_chance(self, squared: float) -> float:
        return float(ndtr(np.sqrt(max(squared, 0.0) / 2)))


@dataclass(frozen=True)
class RangeScreen(_Direct):
    """Range screen: how many sequences of either arm lie beyond the other arm's extremes, averaged over summary features."""

    name: str = "range_screen"
    key: str = "scores"
    effect_name: str = "sequences beyond the other arm's extremes, per feature"
    two_sided: bool = False

    def value(self, arms: ArmSums) -> FloatArray:
        total = np.zeros(len(arms.sut.labels))
        extremes = arms.sut.pooled.extremes
        for rows, tie_start in extremes:
            a, r = arms.sut.holds(rows), arms.reference.holds(rows)
            total += _beyond(a, r, tie_start) + _beyond(r, a, tie_start)
        return total * 2 / max(len(extremes), 1)

    def effect(self, arms: ArmRows, value: float, null: Null) -> Effect:
        return Effect(value, note=f"{null.mean:.3g} are expected from chance alone")


REGISTRY: tuple[Statistic, ...] = (
    KolmogorovSmirnov("gap_ks", "gap_cumulative", "KS distance of gaps", "gap"),
    ChiSquare("types_chi2", "types", "type"),
    ChiSquare("bucket_type_chi2", "bucket_type", "bucket and type"),
    ChiSquare("transitions_chi2", "transitions", "transition"),
    AcfDifference("gap_acf", "gap_acf"),
    AcfDifference("intensity_acf", "window_acf"),
    MeanDifference("count_mean", "count", "difference of mean counts (events per sequence)"),
    LogFano(),
    KolmogorovSmirnov("count_ks", "count_cumulative", "KS distance of counts", "count"),
    KolmogorovSmirnov("largest_gap", "largest_cumulative", "KS distance of largest gaps", "largest gap"),
    MeanDifference("ending", "ending", "difference of mean end times (of time left to the horizon, where there is one)"),
    MeanDifference("log_likelihood", "log_likelihood", "difference of mean log-likelihoods (nats per sequence)"),
    EnergyDistance(),
    Discriminant(),
    RangeScreen(),
)


def _cdf(cumulative: NDArray[Any]) -> FloatArray:
    out: FloatArray = cumulative[:, :-1] / np.maximum(cumulative[:, -1:], 1).astype(np.float64)
    return out


def _log_fano(sums: FloatArray, n: int) -> FloatArray:
    mean = sums[:, 0] / n
    variance = np.maximum(sums[:, 1] / n - mean**2, 0.0) * n / max(n - 1, 1)
    out: FloatArray = np.log(np.maximum(variance, 1e-12)) - np.log(np.maximum(mean, 1e-12))
    return out


def _beyond(inner: NDArray[np.bool_], other: NDArray[np.bool_], tie_start: IntArray) -> FloatArray:
    """(b,) members of ``inner`` strictly more extreme than every member of ``other``; columns run from the extreme inwards."""
    first = other.argmax(axis=1)
    stop = np.where(other.any(axis=1), tie_start[first], other.shape[1])
    out: FloatArray = (inner & (np.arange(inner.shape[1]) < stop[:, None])).sum(axis=1).astype(np.float64)
    return out
