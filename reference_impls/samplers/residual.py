"""Exact draws from the residual (p - q)+ / TV, the law of what replaces a rejected proposal.

By rejection from p: a candidate x ~ p is taken with probability (1 - q(x)/p(x))+, so one that is taken has density proportional to
(p - q)+. The expected number of tries is 1/TV, without bound when p and q nearly agree; so after ``TRIES`` of them, which are
independent of what follows, the draw is made by inverting the CDF of (p - q)+ computed by quadrature: still exact in law, up to
the quadrature (relative error below 1e-9). Where the whole residual mass is below ``RESOLUTION``, p and q are the same law to
within rounding; the proposal is kept.

A residual lives on gaps alone (two-step verification: M = 1 branch) or on (gap, type) pairs (joint verification: M branches).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from reference_impls.base import Law
from reference_impls.heads.lognormal_mixture import sample_types
from tppsd_bench.protocols import BoolArray, FloatArray, IntArray

Uniforms = Callable[[IntArray, int], FloatArray]
"""(rows, m) -> (len(rows), m) fresh uniforms of each row's own stream."""

TRIES = 1024
"""They cost together what one inversion does: a few milliseconds. Stopping there costs at most twice what the wiser of both would."""
AT_ONCE = 64
"""Tries whose random numbers a row draws at once. Fixed: what it draws must not depend on the rows beside it."""
_FIRST_TRIES = 16
"""Of these, looked at first: enough for most rows, at a quarter of the cost."""
RESOLUTION = 1e-12
_REACH = 8.0
"""Widths beyond a bump's centre at which nothing is left of it."""
_CELLS_A_WIDTH = 4
"""Cells of the quadrature in one width of the narrowest bump at hand."""
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
        n, none = len(rows), np.zeros(len(rows), dtype=bool)
        gaps, types, lost = np.ones(n), np.full(n, 0 if joint else -1, dtype=np.int64), np.arange(n)
        for begin in range(0, self.tries, AT_ONCE):
            u = uniforms(rows[lost], 4 * min(AT_ONCE, self.tries - begin)).reshape(len(lost), -1, 4)
            looks = (
                (slice(_FIRST_TRIES), slice(_FIRST_TRIES, None)) if begin == 0 and u.shape[1] > _FIRST_TRIES else (slice(None),)
            )
            for part in looks:
                p_there, q_there = (p, q) if len(lost) == n else (p.take(lost), q.take(lost))
                gap, kind, taken = self._try(p_there, q_there, u[:, part], joint)
                hit, first = np.asarray(taken.any(axis=1)), taken.argmax(axis=1)
                at = np.flatnonzero(hit)
                gaps[lost[at]], types[lost[at]] = gap[at, first[at]], kind[at, first[at]]
                lost, u = lost[~hit], u[~hit]
                if not len(lost):
                    return ResidualDraw(gaps, types, none, none, none)
        return self.beyond_tries(p, q, rows, uniforms, joint, lost, gaps, types)

    def _try(self, p: Law, q: Law, u: FloatArray, joint: bool) -> tuple[FloatArray, IntArray, BoolArray]:
        """Candidates from p, one for each (n, tries) of ``u`` (n, tries, 4): gaps, types, and whether each is taken."""
        gap = p.sample_gap(u[..., :2])
        types = np.full(gap.shape, -1, dtype=np.int64)
        log_ratio = q.log_prob(gap) - p.log_prob(gap)
        if joint:
            log_pk, log_qk = p.type_log_probs(gap), q.type_log_probs(gap)
            types = sample_types(log_pk, u[..., 3])
            log_ratio = log_ratio + np.take_along_axis(log_qk - log_pk, types[..., None], -1)[..., 0]
        with np.errstate(over="ignore"):
            taken: BoolArray = u[..., 2] < -np.expm1(np.minimum(log_ratio, 0.0))
        return gap, types, taken

    def beyond_tries(
        self, p: Law, q: Law, rows: IntArray, uniforms: Uniforms, joint: bool, lost: IntArray, gap: FloatArray, types: IntArray
    ) -> ResidualDraw:
        """What rows do that found nothing in ``tries`` tries (``lost``, among all rows): the inverse CDF."""
        u = uniforms(rows[lost], 1)[:, 0]
        kept, switched = np.zeros(len(rows), dtype=bool), np.zeros(len(rows), dtype=bool)
        drawn_gap, drawn_type, empty = invert_residual(p.take(lost), q.take(lost), u, joint)
        gap[lost[~empty]], types[lost[~empty]] = drawn_gap[~empty], drawn_type[~empty]
        kept[lost], switched[lost] = empty, ~empty
        return ResidualDraw(gap, types, kept, switched, np.zeros(len(rows), dtype=bool))


def _differences(p: Law, q: Law, x: FloatArray, joint: bool) -> FloatArray:
    """(n, g, branches): density of p minus q per unit of log gap at log gaps ``x`` (n, g), by row."""
    gap = np.exp(x)
    log_p, log_q = (p.log_prob(gap) + x)[..., None], (q.log_prob(gap) + x)[..., None]
    if joint:
        log_p, log_q = log_p + p.type_log_probs(gap), log_q + q.type_log_probs(gap)
    out: FloatArray = np.exp(log_p) - np.exp(log_q)
    return out


def invert_residual(p: Law, q: Law, u: FloatArray, joint: bool) -> tuple[FloatArray, IntArray, BoolArray]:
    """(gap, type, empty) at level ``u`` (n,) of each row's residual CDF; ``empty`` where its mass is below resolution.

    Cells in log gap are split at the sign changes of p - q, their masses are Gauss-Legendre sums, the last step is Newton's.
    Types are -1 unless ``joint``. A row's draw does not depend on the other rows, to the last bit.
    """
    edges = _cell_edges(p, q)
    values = _differences(p, q, edges, joint)
    row, cell, branch = np.nonzero(np.sign(values[:, :-1]) * np.sign(values[:, 1:]) < 0)
    roots = _roots(p, q, joint, row, branch, edges[row, cell], edges[row, cell + 1])
    points = _with_roots(edges, values.shape[2], roots, row, branch)
    n, branches, width = points.shape
    low, high = points[..., :-1].reshape(n, -1), points[..., 1:].reshape(n, -1)
    of = np.broadcast_to(np.repeat(np.arange(branches), width - 1), low.shape)
    cumulative = np.cumsum(np.maximum(_masses(p, q, joint, of, low, high), 0.0), axis=1)
    total = cumulative[:, -1]
    wanted = np.minimum(u * total, np.nextafter(total, 0.0))
    pick = (cumulative > wanted[:, None]).argmax(axis=1)
    at = np.arange(n)
    wanted -= np.where(pick > 0, cumulative[at, pick - 1], 0.0)
    x = _solve(p, q, joint, of[at, pick], low[at, pick], high[at, pick], wanted)
    types = of[at, pick] if joint else np.full(n, -1)
    return np.exp(x), types.astype(np.int64), ~(total > RESOLUTION)


def _cell_edges(p: Law, q: Law) -> FloatArray:
    """(n, g) edges of cells in log gap, a quarter as wide as the narrowest bump they touch: it may hold the whole residual.

    Rows that need fewer cells repeat their last edge.
    """
    (p_at, p_width), (q_at, q_width) = p.log_gap_bumps(), q.log_gap_bumps()
    centre, width = np.concatenate([p_at, q_at], axis=1), np.concatenate([p_width, q_width], axis=1)
    ends = np.sort(np.concatenate([centre - _REACH * width, centre + _REACH * width], axis=1), axis=1)
    length = np.diff(ends, axis=1)
    near = np.abs((ends[:, :-1] + 0.5 * length)[..., None] - centre[:, None]) <= _REACH * width[:, None]
    narrowest = np.where(near, width[:, None], np.inf).min(axis=2)
    cells = np.cumsum(_CELLS_A_WIDTH * length / narrowest, axis=1)
    count = np.ceil(cells[:, -1]).astype(np.int64)
    share = np.minimum(np.arange(count.max() + 1) / count[:, None], 1.0) * cells[:, -1:]
    return np.stack([np.interp(s, np.append(0.0, c), e) for s, c, e in zip(share, cells, ends, strict=True)])


def _with_roots(edges: FloatArray, branches: int, roots: FloatArray, row: IntArray, branch: IntArray) -> FloatArray:
    """(n, branches, points): every branch's cells, split at its own roots; shorter ones repeat their last edge."""
    n = len(edges)
    of = row * branches + branch
    order = np.argsort(of, kind="stable")
    count = np.bincount(of, minlength=n * branches)
    rank = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
    extra = np.repeat(edges[:, -1], branches * count.max()).reshape(n * branches, -1)
    extra[of[order], rank] = roots[order]
    return np.sort(np.concatenate([np.repeat(edges, branches, axis=0), extra], axis=1), axis=1).reshape(n, branches, -1)


def _solve(p: Law, q: Law, joint: bool, branch: IntArray, start: FloatArray, end: FloatArray, mass: FloatArray) -> FloatArray:
    """x in [start, end] with ``mass`` of its branch's residual between start and x, one per row: Newton, kept in a bracket."""
    low, high = start, end
    x = 0.5 * (low + high)
    moving = np.ones(len(x), dtype=bool)
    for _ in range(60):
        excess = _masses(p, q, joint, branch[:, None], start[:, None], x[:, None])[:, 0] - mass
        low, high = np.where(excess < 0.0, x, low), np.where(excess < 0.0, high, x)
        slope = _differences(p, q, x[:, None], joint)[np.arange(len(x)), 0, branch]
        step = excess / np.where(slope > 0.0, slope, 1.0)
        inside = (slope > 0.0) & (x - step > low) & (x - step < high)
        new = np.where(inside, x - step, 0.5 * (low + high))
        settled = np.abs(new - x) <= 1e-13 * np.maximum(1.0, np.abs(x))
        x = np.where(moving, new, x)  # rows that have settled stay, whatever the others still need
        moving &= ~settled
        if not moving.any():
            break
    return x


def _roots(p: Law, q: Law, joint: bool, row: IntArray, branch: IntArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Sign changes of p - q inside each [low, high], by false position (Illinois), all at once."""
    if not len(low):
        return low
    at = np.arange(len(low))
    p_at, q_at = p.take(row), q.take(row)

    def f(x: FloatArray) -> FloatArray:
        out: FloatArray = _differences(p_at, q_at, x[:, None], joint)[at, 0, branch]
        return out

    f_low, f_high = f(low), f(high)
    x = low
    for _ in range(8):  # an error d of a root costs d^2 of mass, p - q being 0 there
        x = np.clip((low * f_high - high * f_low) / (f_high - f_low), low, high)
        f_x = f(x)
        upper = np.sign(f_x) == np.sign(f_high)  # the root lies below x
        low, high = np.where(upper, low, x), np.where(upper, x, high)
        f_low, f_high = np.where(upper, 0.5 * f_low, f_x), np.where(upper, f_x, 0.5 * f_high)
    return x


def _masses(p: Law, q: Law, joint: bool, branch: IntArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Integral of p - q over each of the (n, i) intervals, of the branch named for it."""
    half = 0.5 * (high - low)
    x = (low + half)[..., None] + half[..., None] * _NODES
    values = _differences(p, q, x.reshape(len(x), -1), joint).reshape(*x.shape, -1)
    picked = np.take_along_axis(values, branch[..., None, None], axis=-1)[..., 0]
    out: FloatArray = half * (picked * _WEIGHTS).sum(axis=-1)
    return out


def residual_types(log_p: FloatArray, log_q: FloatArray, u: FloatArray) -> tuple[IntArray, NDArray[np.bool_]]:
    """Types from (p_k - q_k)+ by inverse CDF: (n, M), (n,) -> (types, kept where the residual mass is below resolution)."""
    difference = np.maximum(np.exp(log_p) - np.exp(log_q), 0.0)
    cumulative = np.cumsum(difference, axis=-1)
    kept = ~(cumulative[:, -1] > RESOLUTION)
    types: IntArray = (u[:, None] * cumulative[:, -1:] >= cumulative[:, :-1]).sum(axis=-1).astype(np.int64)
    return types, kept
