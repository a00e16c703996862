"""The law of the next gap as a log-normal mixture, and of its type: float64, log space, vectorised over histories.

ln gap = a x + b with x ~ sum_j w_j Normal(mu_j, sigma_j); (a, b) is the log-affine standardisation stored with a model.
Source: Shchur, Bilos, Guennemann (2020), Intensity-free learning of temporal point processes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from reference_impls.heads.normal import ndtr, ndtri
from reference_impls.heads.types import TypeLaw
from tppsd_bench.protocols import FloatArray, IntArray

_LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)
_ROOT_HALF = math.sqrt(0.5)
_LOG_LEAST = -600.0
"""A sum of exponentials above e^-600 has lost nothing to underflow."""
_TINY, _HUGE = float(np.finfo(np.float64).tiny), float(np.finfo(np.float64).max)
_LOG_HUGE = float(np.log(_HUGE))


@dataclass(frozen=True)
class LogNormalMixture:
    """Laws of the next event for ``n`` histories; parameters ``(n, C)``. Implements ``protocols.Conditional``.

    Scales and weights are made on first use: a draft step needs one draw, not the density.
    """

    loc: FloatArray
    log_scale: FloatArray
    logit: FloatArray
    """Mixture logits, unnormalised."""
    types: TypeLaw
    log_scale_gap: float = 1.0
    """a of ln gap = a x + b."""
    log_shift_gap: float = 0.0
    """b of ln gap = a x + b."""

    @property
    def n_types(self) -> int:
        return self.types.n_types

    @cached_property
    def scale(self) -> FloatArray:
        out: FloatArray = np.exp(self.log_scale)
        return out

    @cached_property
    def _root_precision(self) -> FloatArray:
        """(n, C) sqrt(1/2) / sigma_j."""
        out: FloatArray = np.exp(-self.log_scale)
        out *= _ROOT_HALF
        return out

    @cached_property
    def weight(self) -> FloatArray:
        """Normalised mixture weights (n, C)."""
        _, weight, total = self._softmax
        out: FloatArray = weight / total
        return out

    @cached_property
    def log_peak(self) -> FloatArray:
        """(n, C) ln(w_j / sigma_j); in log space, for a weight of e^-800 may still be all there is far out."""
        shifted, _, total = self._softmax
        out: FloatArray = shifted - (np.log(total) + self.log_scale)
        return out

    @cached_property
    def _softmax(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Logits less their maximum, the exponentials of these, and their sums (n, 1)."""
        shifted = self.logit - self.logit.max(axis=-1, keepdims=True)
        weight = np.exp(shifted)
        return shifted, weight, weight.sum(axis=-1, keepdims=True)

    def __len__(self) -> int:
        return len(self.loc)

    def take(self, rows: IntArray | slice) -> LogNormalMixture:
        return replace(
            self, loc=self.loc[rows], log_scale=self.log_scale[rows], logit=self.logit[rows], types=self.types.take(rows)
        )

    @classmethod
    def concat(cls, laws: Sequence[LogNormalMixture]) -> LogNormalMixture:
        """The rows of several laws of one model, one after the other."""
        first = laws[0]
        if len(laws) == 1:
            return first
        return replace(
            first,
            loc=np.concatenate([law.loc for law in laws]),
            log_scale=np.concatenate([law.log_scale for law in laws]),
            logit=np.concatenate([law.logit for law in laws]),
            types=type(first.types).concat([law.types for law in laws]),
        )

    def standardise(self, gap: FloatArray) -> FloatArray:
        """z = (ln gap - b) / a; a gap of 0 gives -inf."""
        with np.errstate(divide="ignore"):
            out: FloatArray = (np.log(gap) - self.log_shift_gap) / self.log_scale_gap
        return out

    def _scaled(self, z: FloatArray, by: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(z - mu_j) / sigma_j and ``by`` (n, C), broadcast to ``z.shape + (C,)``."""
        at = slice(None) if z.ndim == 1 else (slice(None), None)
        return (z[..., None] - self.loc[at]) / self.scale[at], by[at]

    def log_prob(self, gap: FloatArray) -> FloatArray:
        at = slice(None) if gap.ndim == 1 else (slice(None), None)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_gap = np.log(gap)
            exponent = ((log_gap - self.log_shift_gap) / self.log_scale_gap)[..., None] - self.loc[at]
            exponent *= self._root_precision[at]
            np.square(exponent, out=exponent)
            np.subtract(self.log_peak[at], exponent, out=exponent)
            weights = np.exp(exponent)
            total = np.log(np.add.reduce(weights, axis=-1))
            far = ~(total > _LOG_LEAST)
            if far.any():  # every component underflows, or might: there the largest is taken out of the sum first
                top = exponent[far].max(axis=-1)
                rest = np.exp(exponent[far] - np.where(np.isfinite(top), top, 0.0)[..., None]).sum(axis=-1)
                total[far] = np.log(rest) + top
            total -= _LOG_SQRT_2PI + math.log(self.log_scale_gap)
            total -= log_gap
        out: FloatArray = total
        if far.any():
            out[~(gap > 0)] = -np.inf
        return out

    def cdf(self, gap: FloatArray) -> FloatArray:
        s, weight = self._scaled(self.standardise(gap), self.weight)
        out: FloatArray = (weight * ndtr(s)).sum(axis=-1)
        return np.minimum(out, 1.0)

    def sf(self, gap: FloatArray) -> FloatArray:
        s, weight = self._scaled(self.standardise(gap), self.weight)
        out: FloatArray = (weight * ndtr(-s)).sum(axis=-1)
        return np.minimum(out, 1.0)

    def quantile(self, u: FloatArray) -> FloatArray:
        """F^-1(u) by bisection on log gap, bracketed by the components' own quantiles; relative error below 1e-12."""
        at = slice(None) if u.ndim == 1 else (slice(None), None)
        each = self.loc[at] + self.scale[at] * ndtri(u)[..., None]
        low, high = each.min(axis=-1), each.max(axis=-1)
        upper = u > 0.5
        for _ in range(64):
            middle = 0.5 * (low + high)
            s, weight = self._scaled(middle, self.weight)
            left = (weight * ndtr(s)).sum(axis=-1)
            right = (weight * ndtr(-s)).sum(axis=-1)
            below = np.where(upper, right > 1.0 - u, left < u)
            low, high = np.where(below, middle, low), np.where(below, high, middle)
            if np.all(high - low <= 1e-13 * np.maximum(1.0, np.abs(high))):
                break
        return self._gap(0.5 * (low + high))

    def log_gap_bumps(self) -> tuple[FloatArray, FloatArray]:
        """The components' locations and scales, in log gap."""
        return self.log_scale_gap * self.loc + self.log_shift_gap, self.log_scale_gap * self.scale

    def _gap(self, z: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            out: FloatArray = np.exp(self.log_scale_gap * z + self.log_shift_gap)
        return np.minimum(np.maximum(out, _TINY), _HUGE)

    def sample_gap(self, u: FloatArray) -> FloatArray:
        """Ancestral: ``u[..., 0]`` picks the component by inverse CDF, ``u[..., 1]`` its normal quantile."""
        if u.shape == (1, 2):
            return self._sample_one(float(u[0, 0]), float(u[0, 1]))
        cumulative = np.cumsum(self.weight, axis=-1)
        if u.ndim == 3:
            cumulative = cumulative[:, None, :]
        picks = (u[..., :1] * cumulative[..., -1:] >= cumulative[..., :-1]).sum(axis=-1)
        if u.ndim == 2:
            rows = np.arange(len(picks))
            loc, log_scale = self.loc[rows, picks], self.log_scale[rows, picks]
        else:
            loc = np.take_along_axis(self.loc, picks, axis=1)
            log_scale = np.take_along_axis(self.log_scale, picks, axis=1)
        return self._gap(loc + np.exp(log_scale) * ndtri(u[..., 1]))

    def _sample_one(self, u_component: float, u_normal: float) -> FloatArray:
        """The same draw for a single row, bit for bit, without array overhead: the draft makes K of them a round.

        ``np.exp``, for ``math.exp`` differs from it in the last bit of one value in twenty.
        """
        logit = self.logit[0]
        cumulative = np.add.accumulate(np.exp(logit - np.maximum.reduce(logit)))
        pick = min(int(cumulative.searchsorted(u_component * cumulative[-1], side="right")), len(logit) - 1)
        z = self.loc[0, pick] + np.exp(self.log_scale[0, pick]) * ndtri(u_normal)
        x = self.log_scale_gap * z + self.log_shift_gap
        return np.array([max(np.exp(x), _TINY) if x < _LOG_HUGE else _HUGE])

    def type_log_probs(self, gap: FloatArray) -> FloatArray:
        return self.types.log_probs(self.standardise(gap))


def sample_types(log_probs: FloatArray, u: FloatArray) -> IntArray:
    """Types by inverse CDF in float64: ``log_probs`` (..., M), ``u`` (...)."""
    cumulative = np.cumsum(np.exp(log_probs), axis=-1)
    out: IntArray = (u[..., None] * cumulative[..., -1:] >= cumulative[..., :-1]).sum(axis=-1).astype(np.int64)
    return out
