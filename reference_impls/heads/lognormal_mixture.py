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
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from reference_impls.heads.types import TypeLaw

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)
_TINY, _HUGE = np.finfo(np.float64).tiny, np.finfo(np.float64).max


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
    def weight(self) -> FloatArray:
        """Normalised mixture weights (n, C)."""
        w: FloatArray = np.exp(self.logit - self.logit.max(axis=-1, keepdims=True))
        w /= w.sum(axis=-1, keepdims=True)
        return w

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

    def _scaled(self, z: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """((z - mu_j) / sigma_j, sigma_j, w_j), broadcast to ``z.shape + (C,)``."""
        at = slice(None) if z.ndim == 1 else (slice(None), None)
        return (z[..., None] - self.loc[at]) / self.scale[at], self.scale[at], self.weight[at]

    def log_prob(self, gap: FloatArray) -> FloatArray:
        z = self.standardise(gap)
        s, scale, weight = self._scaled(z)
        with np.errstate(divide="ignore", invalid="ignore"):
            exponent = -0.5 * s * s
            top = exponent.max(axis=-1)
            # one shared maximum keeps the sum in range; components far below it underflow to an honest 0
            total = (np.exp(exponent - np.where(np.isfinite(top), top, 0.0)[..., None]) * (weight / scale)).sum(axis=-1)
            out: FloatArray = np.log(total) + top - _LOG_SQRT_2PI - np.log(self.log_scale_gap) - np.log(gap)
        return np.where(gap > 0, out, -np.inf)

    def cdf(self, gap: FloatArray) -> FloatArray:
        s, _, weight = self._scaled(self.standardise(gap))
        out: FloatArray = (weight * ndtr(s)).sum(axis=-1)
        return np.minimum(out, 1.0)

    def sf(self, gap: FloatArray) -> FloatArray:
        s, _, weight = self._scaled(self.standardise(gap))
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
            s, _, weight = self._scaled(middle)
            left = (weight * ndtr(s)).sum(axis=-1)
            right = (weight * ndtr(-s)).sum(axis=-1)
            below = np.where(upper, right > 1.0 - u, left < u)
            low, high = np.where(below, middle, low), np.where(below, high, middle)
            if np.all(high - low <= 1e-13 * np.maximum(1.0, np.abs(high))):
                break
        return self._gap(0.5 * (low + high))

    def log_gap_bounds(self, epsilon: float) -> FloatArray:
        """From the components' own quantiles: no mixture quantile lies outside them."""
        reach = float(ndtri(epsilon)) * self.scale
        z = np.stack([(self.loc + reach).min(axis=1), (self.loc - reach).max(axis=1)], axis=1)
        out: FloatArray = self.log_scale_gap * z + self.log_shift_gap
        return out

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
        """The same draw for a single row, without array overhead: the draft makes K of them a round."""
        logit = self.logit[0]
        cumulative = np.add.accumulate(np.exp(logit - np.maximum.reduce(logit)))
        pick = min(int(cumulative.searchsorted(u_component * cumulative[-1], side="right")), len(logit) - 1)
        z = self.loc[0, pick] + math.exp(self.log_scale[0, pick]) * ndtri(u_normal)
        x = self.log_scale_gap * z + self.log_shift_gap
        return np.array([min(max(math.exp(min(x, 709.0)), _TINY), _HUGE)])

    def type_log_probs(self, gap: FloatArray) -> FloatArray:
        return self.types.log_probs(self.standardise(gap))


def sample_types(log_probs: FloatArray, u: FloatArray) -> IntArray:
    """Types by inverse CDF in float64: ``log_probs`` (..., M), ``u`` (...)."""
    cumulative = np.cumsum(np.exp(log_probs), axis=-1)
    out: IntArray = (u[..., None] * cumulative[..., -1:] >= cumulative[..., :-1]).sum(axis=-1).astype(np.int64)
    return out
