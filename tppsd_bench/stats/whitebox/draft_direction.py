"""draft_direction: how much of the draft's law is left in the output, lambda-hat with its interval (0 = target, 1 = draft)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from tppsd_bench import budget
from tppsd_bench.protocols import BoolArray, Conditional, FloatArray, IntArray
from tppsd_bench.results import Axis, Evidence
from tppsd_bench.stats.base import POWER, Z95, two_sided_normal
from tppsd_bench.stats.whitebox.contexts import Contexts
from tppsd_bench.stats.whitebox.gap_integrals import P_S, Q_S, GapIntegrals, P, Q
from tppsd_bench.stats.whitebox.weights import clipped_score

POSITIONS = ("all", "first", "inner", "bonus")
_MIN_INFORMATION = 20.0  # sum of E_p s^2: below it lambda's standard error is above 0.22 and the tail is not normal


@dataclass(frozen=True)
class _Scores:
    """Per event: centred score, its central moments 2, 3, 4 under p, and its mean under q less that under p."""

    s: FloatArray
    m2: FloatArray
    m3: FloatArray
    m4: FloatArray
    drift: FloatArray


def draft_direction(c: Contexts, integrals: GapIntegrals | None, alpha: float) -> tuple[list[Evidence], list[str]]:
    """Score test of (1 - lambda) p + lambda q at lambda = 0, for gaps and types, pooled and by position in the round.

    s = q(x)/p(x) - 1 clipped at 20 and recentred exactly (gaps by quadrature, cut at the time left of a horizon run; types by
    sums). Z = sum s / sqrt(sum E_p s^2), lambda-hat = sum s / sum (E_q s - E_p s). Position is known before each draw. Gaps
    take the first events (``GapIntegrals.direction``), types all. Sees the rejection position lost over whole sequences.
    """
    if integrals is None:
        return [], ["draft_direction: needs conditionals of both the target and the draft"]
    if not c.events.n_events:
        return [], ["draft_direction: the run has no events"]
    members = [("gap", integrals.direction, _gap_scores(c, integrals))]
    if c.n_types > 1:
        every = np.arange(c.events.n_events)
        members.append(("type", every, _type_scores(c, integrals.p, integrals.q, every)))
    evidence: list[Evidence] = []
    missing: list[str] = []
    position, k = c.trace.event_position, c.trace.event_k
    for name, events, scores in members:
        x = position[events]
        bonus = x == k[events]
        strata: tuple[BoolArray, ...] = (np.ones(len(x), dtype=bool), (x == 0) & ~bonus, (x > 0) & ~bonus, bonus)
        for label, keep in zip(POSITIONS, strata, strict=True):
            information = float(scores.m2[keep].sum())
            if not information >= _MIN_INFORMATION:
                missing.append(
                    f"draft_direction.{name} at position {label}: information {information:.3g} over {keep.sum()} "
                    f"events, {_MIN_INFORMATION:g} is needed (draft too close to the target, or too few events)"
                )
                continue
            evidence.append(_evidence(name, label, scores, keep, alpha))
    return evidence, missing


def _gap_scores(c: Contexts, integrals: GapIntegrals) -> _Scores:
    events = integrals.direction
    rows, gap = c.event_row[events], c.events.gaps[events]
    whole = integrals.whole(events, slice(P, Q_S + 1))
    s = clipped_score(integrals.p.take(rows).log_prob(gap), integrals.q.take(rows).log_prob(gap))
    return _centred(s, whole[P_S:Q] / whole[P], whole[Q_S] / np.where(whole[Q] > 0, whole[Q], 1.0))


def _type_scores(c: Contexts, p: Conditional, q: Conditional, events: IntArray) -> _Scores:
    rows, gap = c.event_row[events], c.events.gaps[events]
    log_p, log_q = p.take(rows).type_log_probs(gap), q.take(rows).type_log_probs(gap)
    s, f, g = clipped_score(log_p, log_q), np.exp(log_p), np.exp(log_q)
    raw = np.stack([(f * s**k).sum(axis=1) for k in (1, 2, 3, 4)]) / f.sum(axis=1)
    return _centred(s[np.arange(len(rows)), c.events.types[events]], raw, (g * s).sum(axis=1) / g.sum(axis=1))


def _centred(s: FloatArray, raw: FloatArray, mean_q: FloatArray) -> _Scores:
    mean, r2, r3, r4 = raw
    m2 = np.maximum(r2 - mean**2, 0.0)
    m3 = r3 - 3 * mean * r2 + 2 * mean**3
    m4 = np.maximum(r4 - 4 * mean * r3 + 6 * mean**2 * r2 - 3 * mean**4, 0.0)
    return _Scores(s - mean, m2, m3, m4, mean_q - mean)


def _evidence(name: str, label: str, scores: _Scores, keep: BoolArray, alpha: float) -> Evidence:
    m2, m3, m4 = scores.m2[keep], scores.m3[keep], scores.m4[keep]
    sigma = math.sqrt(float(m2.sum()))
    z = float(scores.s[keep].sum()) / sigma
    drift = float(scores.drift[keep].sum())
    lam, error = z * sigma / drift, sigma / drift
    skew = float(m3.sum()) / sigma**3
    excess = float((m4 - 3 * m2**2).sum()) / sigma**4
    return Evidence(
        f"draft_direction.{name}",
        Axis.LAW,
        p_value=skewed_sum_p(z, skew, excess, (budget.SCORE_CLIP + 1.0) / sigma),
        statistic=z,
        n=int(keep.sum()),
        effect=lam,
        effect_name="lambda (0 = target, 1 = draft)",
        interval=(lam - Z95 * error, lam + Z95 * error),
        min_detectable=smallest_lambda(error, alpha, inflation=max(0.0, float(m3.sum()) / sigma**2)),
        null="N(0,1), corrected for skewness",
        method="score test in the direction of the draft",
        where={} if label == "all" else {"position": label},
    )


def skewed_sum_p(z: float, skew: float, excess: float, bound: float) -> float:
    """Two-sided p of a standardised sum of martingale differences with known skewness and excess kurtosis.

    Cornish-Fisher correction of z while |skew z| <= 1; beyond, Freedman's inequality 2 exp(-z^2 / (2 + 2 bound z / 3)), which
    always holds (``bound`` = largest term over the standard deviation) and cannot fold back as a polynomial does.
    """
    if abs(skew * z) <= 1.0 and abs(excess) * z * z <= 4.0:
        w = z - skew * (z**2 - 1) / 6 - excess * (z**3 - 3 * z) / 24 + skew**2 * (4 * z**3 - 7 * z) / 36
        return two_sided_normal(w)
    return min(1.0, 2.0 * math.exp(-z * z / (2.0 + 2.0 * bound * abs(z) / 3.0)))


def smallest_lambda(error: float, alpha: float, power: float = POWER, inflation: float = budget.SCORE_CLIP) -> float:
    """The smallest lambda that ``draft_direction`` finds at level ``alpha`` with this power, however skewed its terms are.

    Z has mean lambda / error and, as the draft's part scatters more, variance 1 + ``inflation`` lambda (inflation = sum m3 / sum m2,
    at most the clip). Freedman's critical value z solves z^2 = L (2 + 2 bound z / 3), L = log(2 / alpha), with 1 / ``error`` for the
    root of the information; lambda solves lambda / error = z + z_power sqrt(1 + inflation lambda). May exceed 1: then nothing is found.
    """
    log_level, z_power = math.log(2.0 / alpha), float(special.ndtri(power))
    third = log_level * (budget.SCORE_CLIP + 1.0) * error / 3.0
    z = third + math.sqrt(third * third + 2.0 * log_level)
    half = z + z_power**2 * inflation * error / 2.0
    return error * (half + math.sqrt(half * half - z * z + z_power**2))
