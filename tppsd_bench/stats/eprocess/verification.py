"""Bets on the declared rule: accepted as often as it says, from proposals that have the law it says. They concern the mechanism.

Acceptance: given the proposal, A is Bernoulli(a), a = min(1, p/q) by the reported log densities (exact match: types with a = p), so the
likelihood ratio of Bernoulli(a') has mean 1 for any a' that the past and the proposal determine. Proposals: whether one is verified
is decided by earlier draws, so its PIT under the draft's law is U(0, 1) given the past, and tempered type laws are likelihood
ratios as in ``types``. Roles: given its gap and how that gap came about, a type has the target's law.
"""

from __future__ import annotations

import math

import numpy as np

from tppsd_bench.protocols import (
    COMPONENT_EVENT,
    COMPONENT_GAP,
    COMPONENT_TYPE,
    ROLE_ACCEPTED,
    ROLE_RESIDUAL,
    ROLE_TARGET,
    BoolArray,
    FloatArray,
    IntArray,
)
from tppsd_bench.results import Axis
from tppsd_bench.stats.eprocess.base import LAMBDAS, Design, Family, Segments, linear, mixtures, phrases
from tppsd_bench.stats.eprocess.chunk import Chunk
from tppsd_bench.stats.eprocess.shapes import BOUND, ORDERS
from tppsd_bench.stats.eprocess.types import POWERS, tempered
from tppsd_bench.stats.neyman import legendre

VERIFYING = ("leviathan_two_step", "leviathan_joint", "exact_match")
TILTS = (-1.0, -0.3, -0.1, -0.03, 0.03, 0.1, 0.3, 1.0)
EXPONENTS = (0.5, 0.75, 1.5, 2.0)
LENIENT = (0.01, 0.1, 0.5)
NOISE_TILTS = (-1.2, -0.4, -0.1, 0.1, 0.4, 1.2)
ROLE_WEIGHTS = (0.03, 0.1, 0.3, 0.9)
_ROLES = ((ROLE_ACCEPTED, "an accepted gap"), (ROLE_RESIDUAL, "a replaced gap"), (ROLE_TARGET, "a gap of the target's own"))


class Acceptance(Family):
    """a' with odds exp(c) times those of a, a' = a^g, a' = a + e (1 - a); by component and for all together."""

    name = "acceptance"
    axis = Axis.MECHANISM

    def bets(self, design: Design) -> tuple[str, ...]:
        if not design.trace or design.rule not in VERIFYING:
            return ()
        return tuple(
            f"{what} accepted too {'often' if often else 'seldom'} ({how})"
            for what, _ in _groups(design) for often, how in _ALTERNATIVES
        )  # fmt: skip

    def growth(self, chunk: Chunk, design: Design) -> FloatArray:
        t = chunk.trace
        segments = Segments(t.sequence, len(chunk.batch))
        logs = _acceptance_ratios(log_acceptance_ratio(chunk, design), t.accepted)
        sums = [segments.log_sum(segments.sort(logs * np.isin(t.component, of))) for _, of in _groups(design)]
        return np.concatenate(sums)


class Noise(Family):
    """Odds of acceptance that depend on where in the draft's law the proposed gap lies: random numbers used twice."""

    name = "shared noise"
    axis = Axis.MECHANISM

    def bets(self, design: Design) -> tuple[str, ...]:
        if not (design.trace and design.draft and design.rule in VERIFYING):
            return ()
        return tuple(
            f"acceptance tilted by the {order} of the proposed gap ({c:+g})" for order in ORDERS[:2] for c in NOISE_TILTS
        )

    def growth(self, chunk: Chunk, design: Design) -> FloatArray:
        t, (at, u) = chunk.trace, _proposed_gaps(chunk)
        log_ratio = log_acceptance_ratio(chunk, design)[at]
        a = np.exp(np.minimum(np.where(np.isnan(log_ratio), -np.inf, log_ratio), 0.0))
        segments, accepted = Segments(t.sequence[at], len(chunk.batch)), t.accepted[at]
        rows = []
        for score in legendre(u)[:2]:
            rows += [np.where(accepted, c * score, 0.0) - np.log1p(a * np.expm1(c * score)) for c in NOISE_TILTS]
        return segments.log_sum(segments.sort(np.stack(rows)))


class Roles(Family):
    """Types by the role of their gap, towards the draft and towards the residual of the types (two-step rules)."""

    name = "roles"
    axis = Axis.MECHANISM

    def bets(self, design: Design) -> tuple[str, ...]:
        if not (design.trace and design.draft and design.marked and design.rule in ("leviathan_two_step", "exact_match")):
            return ()
        return tuple(
            f"types after {what} towards the {law} (lambda {w:+g})"
            for law in ("draft", "residual of the types") for _, what in _ROLES for w in ROLE_WEIGHTS
        )  # fmt: skip

    def growth(self, chunk: Chunk, design: Design) -> FloatArray:
        batch, q = chunk.batch, chunk.draft_laws
        assert q is not None
        of_events = q.take(np.flatnonzero(chunk.is_event)) if chunk.censored else q
        log_q = of_events.type_log_probs(batch.gaps).T
        p, at = chunk.scores.type_probs.T, np.arange(batch.n_events)
        rest = np.maximum(p - np.exp(log_q), 0.0)
        mass = rest.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            towards_draft = log_q[batch.types, at] - chunk.log_type_probs[batch.types, at]
            residual = np.log(rest[batch.types, at] / mass) - chunk.log_type_probs[batch.types, at]
        segments = Segments(batch.sequence_index, len(batch))
        out = []
        for ratio in (towards_draft, np.where(mass > 0, residual, 0.0)):
            out += [mixtures(segments, np.where(chunk.trace.gap_role == role, ratio, 0.0), ROLE_WEIGHTS) for role, _ in _ROLES]
        return np.concatenate(out)


class Proposals(Family):
    """Verified proposals under the draft's law: shape of the gaps' PIT, tempered types."""

    name = "proposals"
    axis = Axis.MECHANISM

    def bets(self, design: Design) -> tuple[str, ...]:
        if not (design.trace and design.draft and design.rule in VERIFYING):
            return ()
        names = phrases(LAMBDAS, tuple(f"{order} of the proposed gaps" for order in ORDERS), ("pooled",))
        if design.marked:
            names += tuple(
                f"proposed types {'flatter' if a < 10 else 'sharper'} than the draft's (power {a / 10:g})" for a in POWERS
            )
        return names

    def growth(self, chunk: Chunk, design: Design) -> FloatArray:
        t, q, n = chunk.trace, chunk.draft_laws, len(chunk.batch)
        assert q is not None
        row, (at, u) = record_rows(chunk, crossing=chunk.censored), _proposed_gaps(chunk)
        segments = Segments(t.sequence[at], n)
        out = linear(segments, segments.sort(legendre(u)), LAMBDAS, BOUND)
        if not design.marked:
            return out
        at = np.flatnonzero((row >= 0) & (t.component != COMPONENT_GAP))
        log_q = np.ascontiguousarray(q.take(row[at]).type_log_probs(t.gap[at]).T)
        segments = Segments(t.sequence[at], n)
        ratios = tempered(log_q, log_q[t.type[at], np.arange(len(at))])
        return np.concatenate([out, segments.log_sum(segments.sort(ratios))])


def _proposed_gaps(chunk: Chunk) -> tuple[IntArray, FloatArray]:
    """Records of proposed gaps whose context has a law, and their PIT under the draft's (1/2, no bet, where it is not a number)."""
    t, q = chunk.trace, chunk.draft_laws
    assert q is not None
    row = record_rows(chunk, crossing=chunk.censored)
    at = np.flatnonzero((row >= 0) & (t.component != COMPONENT_TYPE))
    return at, np.clip(np.nan_to_num(q.take(row[at]).cdf(t.gap[at]), nan=0.5), 0.0, 1.0)


def _acceptance_ratios(log_ratio: FloatArray, accepted: BoolArray) -> FloatArray:
    """(alternatives, V) log likelihood ratio of each a' against a = min(1, exp(log_ratio)); 0 where a leaves no choice."""
    x = np.minimum(np.where(np.isnan(log_ratio), -np.inf, log_ratio), 0.0)
    a = np.exp(x)
    rows = [np.where(accepted, c, 0.0) - np.log1p(a * math.expm1(c)) for c in TILTS]
    with np.errstate(divide="ignore", invalid="ignore"):
        rows += [np.where(accepted, (g - 1) * x, np.log(np.expm1(g * x) / np.expm1(x))) for g in EXPONENTS]
        rows += [np.where(accepted, np.log1p(e * np.expm1(np.minimum(-x, 700.0))), math.log1p(-e)) for e in LENIENT]
    out = np.stack(rows)
    out[:, x == 0.0] = 0.0
    out[:, np.isneginf(x) & accepted] = 0.0  # proof, see ``impossible``; no bet is won by it
    return out


_ALTERNATIVES = (
    *((c > 0, f"tilt {c:+g}") for c in TILTS),
    *((g < 1, f"power {g:g}") for g in EXPONENTS),
    *((True, f"lenient by {e:g}") for e in LENIENT),
)


def _groups(design: Design) -> tuple[tuple[str, tuple[int, ...]], ...]:
    if design.rule == "leviathan_joint":
        return (("events", (COMPONENT_EVENT,)),)
    gaps, types = ("gaps", (COMPONENT_GAP,)), ("types", (COMPONENT_TYPE,))
    return (gaps, types, ("gaps and types", (COMPONENT_GAP, COMPONENT_TYPE))) if design.marked else (gaps,)


def log_acceptance_ratio(chunk: Chunk, design: Design) -> FloatArray:
    """(V,) log p - log q as reported; exact match accepts a type with probability p."""
    t = chunk.trace
    with np.errstate(invalid="ignore"):
        ratio: FloatArray = t.log_p - t.log_q
    return np.where(t.component == COMPONENT_TYPE, t.log_p, ratio) if design.rule == "exact_match" else ratio


def record_rows(chunk: Chunk, *, crossing: bool) -> IntArray:
    """(V,) row of the record's context among the laws of all events (``crossing``: of all draws), -1 where there is none."""
    t, batch = chunk.trace, chunk.batch
    extra = int(crossing)
    start = batch.offsets[:-1] + extra * np.arange(len(batch))
    return np.where(t.event < batch.lengths[t.sequence] + extra, start[t.sequence] + t.event, -1)
