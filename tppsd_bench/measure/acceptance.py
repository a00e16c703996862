"""Acceptance: measured by position from a trace, and exactly from the two laws.

Three units that are never pooled: the gap, the type (given an accepted gap) and the event (all its components). Two rates that
are never confused: accepted / verified, which is alpha_i of the throughput law, and accepted / drafted, which also counts the
drafts behind a rejection that nobody looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tppsd_bench.protocols import COMPONENT_EVENT, COMPONENT_GAP, COMPONENT_TYPE, BucketedConditional, Conditional, Trace

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Unit = Literal["gap", "type", "event"]

_SMALLEST = float(np.finfo(np.float64).tiny)
_REACH, _GRID = 7.0, 64
"""Normal score of the outermost cuts, and points of the grid on which a CDF is inverted."""


def clopper_pearson(successes: IntArray, trials: IntArray, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
    """Exact two-sided binomial intervals, elementwise; (0, 1) where there was no trial."""
    x, n = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    tail = (1 - level) / 2
    lower: FloatArray = np.where(x > 0, special.betaincinv(np.maximum(x, 1), n - x + 1, tail), 0.0)
    upper: FloatArray = np.where(x < n, special.betaincinv(x + 1, np.maximum(n - x, 1), 1 - tail), 1.0)
    return lower, upper


@dataclass(frozen=True)
class PositionRates:
    """Counts of one unit by 0-based position in the round's draft; all arrays (K,)."""

    unit: Unit
    drafted: IntArray
    """Rounds that drafted this position."""
    verified: IntArray
    """Times this unit was put to the test at this position."""
    accepted: IntArray

    @property
    def accepted_per_verified(self) -> FloatArray:
        """alpha_i; NaN where nothing was verified."""
        return _rate(self.accepted, self.verified)

    @property
    def accepted_per_drafted(self) -> FloatArray:
        """Share of drafts that were of use; NaN where nothing was drafted."""
        return _rate(self.accepted, self.drafted)

    def interval(
        self, level: float = 0.95, *, per: Literal["verified", "drafted"] = "verified"
    ) -> tuple[FloatArray, FloatArray]:
        """Clopper-Pearson interval at each position. Contexts differ, so it is the interval of their mean rate."""
        return clopper_pearson(self.accepted, self.verified if per == "verified" else self.drafted, level)


@dataclass(frozen=True)
class AcceptanceByPosition:
    """One table per unit that the trace has records of."""

    event: PositionRates
    gap: PositionRates | None
    type: PositionRates | None
    undecided: int
    """Accepted gaps whose type was never verified because the run ended there (a gap across the horizon); in no event rate."""


def acceptance_by_position(trace: Trace) -> AcceptanceByPosition:
    """Count drafts, verifications and acceptances at every position of the round.

    Two-step rules: the event at a position is reached when its gap is verified and accepted when gap and type both are.
    Joint rules: the event is the one record. Traces without type records (single-type laws) accept an event with its gap.
    """
    width = int(max(trace.round_drafted.max(initial=0), trace.position.max(initial=-1) + 1))
    drafted = np.array([(trace.round_drafted > i).sum() for i in range(width)], dtype=np.int64)

    def count(mask: BoolArray) -> IntArray:
        return np.bincount(trace.position[mask], minlength=width).astype(np.int64)

    def rates(unit: Unit, component: int) -> PositionRates | None:
        mine = trace.component == component
        return PositionRates(unit, drafted, count(mine), count(mine & trace.accepted)) if mine.any() else None

    gap, kind, joint = rates("gap", COMPONENT_GAP), rates("type", COMPONENT_TYPE), rates("event", COMPONENT_EVENT)
    if joint is not None:
        return AcceptanceByPosition(joint, gap, kind, 0)
    if gap is None:
        nothing = np.zeros(width, dtype=np.int64)
        return AcceptanceByPosition(PositionRates("event", drafted, nothing, nothing), None, kind, 0)
    if kind is None:
        return AcceptanceByPosition(PositionRates("event", drafted, gap.verified, gap.accepted), gap, None, 0)
    undecided = gap.accepted - kind.verified
    event = PositionRates("event", drafted, gap.verified - undecided, kind.accepted)
    return AcceptanceByPosition(event, gap, kind, int(undecided.sum()))


@dataclass(frozen=True)
class ExactAcceptance:
    """Acceptance of one draft q under one target p, for each of n contexts; all arrays (n,)."""

    gap: FloatArray
    """1 - TV of the gap laws."""
    joint: FloatArray
    """1 - TV of the (gap, type) laws: acceptance of joint verification, and the ceiling of every rule."""
    two_step: FloatArray
    """Integral of min(p, q)(gap) sum_k min(p, q)(k | gap): acceptance of gap-then-type verification."""

    @property
    def type_given_gap(self) -> FloatArray:
        """Acceptance of the type once the gap is accepted; NaN where no gap can be."""
        return np.divide(self.two_step, self.gap, out=np.full_like(self.gap, np.nan), where=self.gap > 0)


def exact_acceptance(p: Conditional, q: Conditional, *, n_levels: int = 384, chunk_values: int = 2_000_000) -> ExactAcceptance:
    """Acceptance of drafts from ``q`` verified against ``p``, row by row, by quadrature; errors below 1e-4.

    The gap axis is cut near quantiles of both laws, densely in the tails (they need not be exact: any cut would do). A cell's
    gap mass comes from the two CDFs, its type law from the middle of the cell in log gap, so that masses sum to one and no
    density is integrated. Only cells in which p - q changes sign contribute an error, of second order in the cell's mass; laws over
    common time buckets (``gap_breaks``) have none. Rows are taken in chunks of about ``chunk_values`` numbers.
    """
    if len(p) != len(q) or p.n_types != q.n_types:
        raise ValueError(
            f"The target has {len(p)} rows of {p.n_types} types, the draft {len(q)} rows of {q.n_types}; "
            "both must describe the same contexts and types."
        )
    levels = _levels(n_levels)
    rows = max(1, chunk_values // (2 * len(levels) * p.n_types))
    parts = [_acceptance_of_chunk(p.take(s), q.take(s), levels) for s in _slices(len(p), rows)]
    empty = np.empty((3, 0))
    gap, joint, two_step = np.concatenate([empty, *parts], axis=1)
    return ExactAcceptance(gap, joint, two_step)


def _levels(n: int) -> FloatArray:
    """Quantile levels: half evenly spaced in probability, half evenly spaced in normal score out to 1e-12."""
    even = (np.arange(n // 2) + 0.5) / (n // 2)
    scores: FloatArray = special.ndtr(np.linspace(-7.0, 7.0, n // 2))
    return np.unique(np.concatenate([even, scores]))


def _slices(n: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def _acceptance_of_chunk(p: Conditional, q: Conditional, levels: FloatArray) -> FloatArray:
    """(3, rows): gap, joint and two-step acceptance."""
    cuts = [_near_quantiles(p, levels), _near_quantiles(q, levels), *(_breaks(law) for law in (p, q))]
    edges = np.sort(np.concatenate(cuts, axis=1), axis=1)
    masses_p, masses_q = (_masses(law, edges) for law in (p, q))
    logs = np.log(np.maximum(edges, _SMALLEST))
    inner = np.exp(0.5 * (logs[:, 1:] + logs[:, :-1]))
    middles = np.concatenate([edges[:, :1], inner, edges[:, -1:]], axis=1)
    types_p, types_q = np.exp(p.type_log_probs(middles)), np.exp(q.type_log_probs(middles))
    common_gap = np.minimum(masses_p, masses_q)
    joint = np.minimum(masses_p[..., None] * types_p, masses_q[..., None] * types_q).sum(axis=(1, 2))
    two_step = (common_gap * np.minimum(types_p, types_q).sum(axis=2)).sum(axis=1)
    out: FloatArray = np.minimum(np.stack([common_gap.sum(axis=1), joint, two_step]), 1.0)
    return out


def _breaks(law: Conditional) -> FloatArray:
    """(rows, g) gaps at which a law over time buckets jumps (its ``gap_breaks``): a cell across one would take the mean of two."""
    found = law.gap_breaks if isinstance(law, BucketedConditional) else np.empty(0)
    return np.broadcast_to(found, (len(law), len(found)))


def _near_quantiles(law: Conditional, levels: FloatArray) -> FloatArray:
    """(rows, levels) gaps near those quantiles: the CDF on a grid between the extreme ones, inverted by interpolation.

    Linear in log gap against the normal score of the CDF, which for a log-normal law is no approximation.
    """
    ends = law.quantile(np.broadcast_to(special.ndtr([-_REACH, _REACH]), (len(law), 2)))
    ends = np.log(np.maximum(ends, _SMALLEST))
    grid = ends[:, :1] + (ends[:, 1:] - ends[:, :1]) * np.linspace(0.0, 1.0, _GRID)
    score = special.ndtri(np.clip(law.cdf(np.exp(grid)), special.ndtr(-_REACH), special.ndtr(_REACH)))
    wanted = special.ndtri(levels)
    rows = [np.interp(wanted, s, x) for s, x in zip(np.maximum.accumulate(score, axis=1), grid, strict=True)]
    out: FloatArray = np.exp(np.array(rows).reshape(len(law), len(levels)))
    return out


def _masses(law: Conditional, edges: FloatArray) -> FloatArray:
    """(rows, g + 1) probabilities of the cells cut by (rows, g) edges, from the CDF or, in the upper half, the survival."""
    cdf, sf = law.cdf(edges), law.sf(edges)
    inner = np.where(cdf[:, :-1] < 0.5, np.diff(cdf, axis=1), -np.diff(sf, axis=1))
    out: FloatArray = np.maximum(np.concatenate([cdf[:, :1], inner, sf[:, -1:]], axis=1), 0.0)
    return out


def _rate(part: IntArray, whole: IntArray) -> FloatArray:
    out: FloatArray = np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)
    return out
