"""Exact draws from the residual (p - q)+ / TV, the law of what replaces a rejected proposal.

By rejection from p: a candidate x ~ p is taken with probability (1 - q(x)/p(x))+, so one that is taken has density proportional to
(p - q)+. The expected number of tries is 1/TV, without bound when p and q nearly agree; so after ``TRIES`` tries, which are
independent of what follows, the draw is made by inverting the CDF of (p - q)+ computed by quadrature: still exact in law, up to
the quadrature (relative error below 1e-9). Where the whole residual mass is below ``RESOLUTION``, p and q are the same law to
within rounding; the proposal is kept.

A residual lives on gaps alone (two-step verification: M = 1 branch) or on (gap, type) pairs (joint verification: M branches).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from reference_impls.base import Law
from reference_impls.heads.lognormal_mixture import sample_types

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Uniforms = Callable[[IntArray, int], FloatArray]
"""(rows, m) -> (len(rows), m) fresh uniforms of each row's own stream."""

TRIES = 64
RESOLUTION = 1e-12
_CELLS = 192
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(5)


@dataclass(frozen=True, slots=True)
class ResidualDraw:
    """One draw per row; ``kept`` rows have no residual to speak of and keep their proposal."""

    gap: FloatArray
    type: IntArray
    """-1 where the residual is over gaps alone."""
    kept: NDArray[np.bool_]
    switched: NDArray[np.bool_]
    gave_up: NDArray[np.bool_]


class ResidualRule(Protocol):
    """How the replacement is drawn; mutants override it."""

    def draw(self, p: Law, q: Law, rows: IntArray, uniforms: Uniforms, joint: bool) -> ResidualDraw: ...


class ExactResidual:
    """The rule described above."""

    tries = TRIES

    def draw(self, p: Law, q: Law, rows: IntArray, uniforms: Uniforms, joint: bool) -> ResidualDraw:
        u = uniforms(rows, 4 * self.tries).reshape(len(rows), self.tries, 4)
        gap = p.sample_gap(u[..., :2])
        types = np.full(gap.shape, -1, dtype=np.int64)
        log_ratio = q.log_prob(gap) - p.log_prob(gap)
        if joint:
            log_pk, log_qk = p.type_log_probs(gap), q.type_log_probs(gap)
            types = sample_types(log_pk, u[..., 3])
            picked = types[..., None]
            log_ratio = log_ratio + np.take_along_axis(log_qk - log_pk, picked, -1)[..., 0]
        with np.errstate(over="ignore"):
            taken = u[..., 2] < -np.expm1(np.minimum(log_ratio, 0.0))
        found = np.asarray(taken.any(axis=1))
        first = taken.argmax(axis=1)
        at = np.arange(len(rows))
        out_gap, out_type = gap[at, first], types[at, first]
        kept = np.zeros(len(rows), dtype=bool)
        lost = np.flatnonzero(~found)
        if len(lost):
            return self._beyond_tries(p, q, rows, uniforms, joint, lost, out_gap, out_type)
        return ResidualDraw(out_gap, out_type, kept, ~found, np.zeros(len(rows), dtype=bool))

    def _beyond_tries(
        self, p: Law, q: Law, rows: IntArray, uniforms: Uniforms, joint: bool, lost: IntArray,
        gap: FloatArray, types: IntArray,
    ) -> ResidualDraw:  # fmt: skip
        u = uniforms(rows[lost], 1)[:, 0]
        kept = np.zeros(len(rows), dtype=bool)
        for i, row in enumerate(lost):
            drawn = invert_residual(p.take(np.array([row])), q.take(np.array([row])), float(u[i]), joint)
            if drawn is None:
                kept[row] = True
            else:
                gap[row], types[row] = drawn
        switched = np.zeros(len(rows), dtype=bool)
        switched[lost] = ~kept[lost]
        return ResidualDraw(gap, types, kept, switched, np.zeros(len(rows), dtype=bool))


def _differences(p: Law, q: Law, x: FloatArray, joint: bool) -> FloatArray:
    """(branches, g): density of p minus q per unit of log gap at log gaps ``x`` (g,), p and q of one row."""
    gap = np.exp(x)[None, :]
    log_p, log_q = p.log_prob(gap) + x, q.log_prob(gap) + x
    if not joint:
        return np.asarray(np.exp(log_p) - np.exp(log_q))
    each = np.exp(log_p[..., None] + p.type_log_probs(gap)) - np.exp(log_q[..., None] + q.type_log_probs(gap))
    return np.asarray(each[0].T)


def invert_residual(p: Law, q: Law, u: float, joint: bool) -> tuple[float, int] | None:
    """(gap, type) at level ``u`` of the residual's CDF, or None where its mass is below resolution; p and q of one row.

    Cells in log gap are split at the sign changes of p - q, masses come from Gauss-Legendre sums, the last step is a bisection.
    """
    both = np.concatenate([p.log_gap_bounds(1e-14), q.log_gap_bounds(1e-14)])
    edges = np.linspace(both.min(), both.max(), _CELLS + 1)
    values = _differences(p, q, edges, joint)
    branch, cell = np.nonzero(np.sign(values[:, :-1]) * np.sign(values[:, 1:]) < 0)
    roots = _roots(p, q, joint, branch, edges[cell], edges[cell + 1])
    lows, highs, branches = [], [], []
    for b in range(len(values)):
        points = np.sort(np.concatenate([edges, roots[branch == b]]))
        lows.append(points[:-1])
        highs.append(points[1:])
        branches.append(np.full(len(points) - 1, b))
    low, high, of = np.concatenate(lows), np.concatenate(highs), np.concatenate(branches)
    mass = np.maximum(_masses(p, q, joint, of, low, high), 0.0)
    total = mass.sum()
    if not total > RESOLUTION:
        return None
    cumulative = np.cumsum(mass)
    pick = int(np.searchsorted(cumulative, u * cumulative[-1], side="right").clip(0, len(mass) - 1))
    wanted = u * cumulative[-1] - (cumulative[pick - 1] if pick else 0.0)
    start, at = np.array([low[pick]]), of[pick : pick + 1]

    def missing(x: float) -> float:
        return float(_masses(p, q, joint, at, start, np.array([x]))[0]) - wanted

    x = _solve(missing, float(low[pick]), float(high[pick]))
    return float(np.exp(x)), int(of[pick]) if joint else -1


def _solve(f: Callable[[float], float], low: float, high: float) -> float:
    """A root of an increasing function between ``low`` and ``high``, where rounding may leave f without a sign change."""
    if f(low) >= 0.0:
        return low
    if f(high) <= 0.0:
        return high
    root: Any = brentq(f, low, high, xtol=1e-13, rtol=1e-14)  # a tuple only with full_output
    return float(root)


def _roots(p: Law, q: Law, joint: bool, branch: IntArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Sign changes of p - q inside each [low, high], by bisection, all at once."""
    if not len(low):
        return low
    at = np.arange(len(low))
    sign = np.sign(_differences(p, q, low, joint)[branch, at])
    for _ in range(24):  # an error d of a root costs d^2 of mass, p - q being 0 there
        middle = 0.5 * (low + high)
        same = np.sign(_differences(p, q, middle, joint)[branch, at]) == sign
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return 0.5 * (low + high)


def _masses(p: Law, q: Law, joint: bool, branch: IntArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Integral of p - q over each interval of its branch."""
    half = 0.5 * (high - low)
    x = (low + half)[:, None] + half[:, None] * _NODES
    values = _differences(p, q, x.ravel(), joint)
    picked = values[np.repeat(branch, len(_NODES)), np.arange(x.size)].reshape(x.shape)
    out: FloatArray = half * (picked * _WEIGHTS).sum(axis=1)
    return out


def residual_types(log_p: FloatArray, log_q: FloatArray, u: FloatArray) -> tuple[IntArray, NDArray[np.bool_]]:
    """Types from (p_k - q_k)+ by inverse CDF: (n, M), (n,) -> (types, kept where the residual mass is below resolution)."""
    difference = np.maximum(np.exp(log_p) - np.exp(log_q), 0.0)
    cumulative = np.cumsum(difference, axis=-1)
    kept = ~(cumulative[:, -1] > RESOLUTION)
    types: IntArray = (u[:, None] * cumulative[:, -1:] >= cumulative[:, :-1]).sum(axis=-1).astype(np.int64)
    return types, kept
