"""The error budget: every level, margin and sample-size rule of the suite, in one place and without numpy.

A run of an exact sampler fails with probability at most ``RUN_LEVEL``, split over three families of evidence, each of which decides at
its own share: the analytic and the permutation family through Gandy-Scott confirmation on fresh seeds (``stats.decide.gandy_scott``), the
e-process once it reaches 1 over its share, at any time (``stats.eprocess``). A PASS of the law also needs every primary effect's
one-sided 95 % upper bound below its margin (an intersection-union test, which needs no multiplicity correction).
``assert p > 0.05`` is nowhere.
"""

from __future__ import annotations

import math
from typing import Final

ANALYTIC_LEVEL: Final = 3e-5
"""Share of the analytic family: q = min(1, M * min p), M fixed before the data."""
PERMUTATION_LEVEL: Final = 1e-5
"""Share of the permutation family: one maxT p-value."""
EPROCESS_LEVEL: Final = 1e-5
"""Share of the e-process: reject at E >= 1 / EPROCESS_LEVEL, divided by the number of law and horizon cells. It is followed in every one of
them over the main round's sequences in index order; a sequential run also stops there. Law and mechanism share it (``eprocess.Wealth``)."""
RUN_LEVEL: Final = 5e-5
"""P(FAIL | exact) of a whole run: the sum of the three shares."""
MECHANISM_LEVEL: Final = 1e-5
"""The mechanism verdict's part of the analytic share (the verdicts are never merged, the budget is common) ..."""
LAW_ANALYTIC_LEVEL: Final = 2e-5
"""... and the law verdict's part: the two sum to ``ANALYTIC_LEVEL``."""

CONFIRMATION_ROUNDS: Final = 3
"""k of the Gandy-Scott rule: at most this many looks, each on fresh seeds."""
CONFIRMATION_GROWTH: Final = 4
"""Rounds after the first use this many times the first round's n."""

PERMUTATIONS: Final = 9_999
"""B of the permutation family. Its floor 1 / (1 + B) can only send a run to round 2; that is enough."""

KS_MARGIN_SCALE: Final = 3.6
"""delta_KS = 3.6 / sqrt(n)."""
THETA_MARGIN_SCALE: Final = 5.4
"""delta_theta = 5.4 / sqrt(n)."""
EQUIVALENCE_CONFIDENCE: Final = 0.95
"""Confidence of the one-sided upper bound that a primary effect must keep below its margin."""
DISPLAY_CONFIDENCE: Final = 0.95
"""Confidence of the intervals shown to people."""
DETECTION_POWER: Final = 0.95
"""Power at which minimum detectable effects are stated."""

GATE_LEVEL: Final = 1e-4
"""Of a regression gate, for counts and for drift each, over all cells: P(it fails | the change stays within its margin)."""
GATE_COVERAGE: Final = 0.999
"""Of the interval of a speed; a gate fails only where two of them, of separate processes, lie wholly beyond the margin."""

STRATUM_FRACTION: Final = 0.9
"""m_j of a stratum: this share of its expected count, fixed before the data."""
MIN_VARIANCE_NORMAL: Final = 100.0
"""Sum a(1-a) from which the acceptance statistic is read as normal; below, the exact Poisson-binomial tail."""
MIN_EXPECTED_SMALL_P: Final = 20.0
"""Chi-square cells are merged below this expected count: p-values under 1e-5 are read."""
SCORE_CLIP: Final = 20.0
"""Clip of the draft-direction score q/p - 1 (recentred exactly afterwards)."""


def delta_ks(n: int) -> float:
    """Equivalence margin of a pooled Kolmogorov-Smirnov distance at ``n`` events: 3.6 / sqrt(n)."""
    return KS_MARGIN_SCALE / math.sqrt(_positive(n))


def delta_theta(n: int) -> float:
    """Equivalence margin of a pooled Legendre effect theta_k at ``n`` events: 5.4 / sqrt(n)."""
    return THETA_MARGIN_SCALE / math.sqrt(_positive(n))


def dkw_half_width(n: int, alpha: float) -> float:
    """Half width of the one-sample DKW band at ``n`` independent values: sqrt(log(2/alpha) / (2n))."""
    return math.sqrt(math.log(2.0 / _level(alpha)) / (2.0 * _positive(n)))


def round_size(n: int, round_number: int) -> int:
    """Events (or sequences) of confirmation round 1, 2, 3, ...: n, 4n, 4n, ..."""
    if round_number < 1:
        raise ValueError(f"The confirmation round is {round_number}; rounds count from 1.")
    return _positive(n) * (1 if round_number == 1 else CONFIRMATION_GROWTH)


def confirmation_thresholds(alpha: float, k: int = CONFIRMATION_ROUNDS) -> tuple[tuple[float, float], ...]:
    """(fail at or below, pass above) of each round: beta_1 = alpha/k, gamma = beta_1**(1/k), beta <- beta/gamma.

    Round j fails at q <= beta_j and passes at q > gamma + beta_j. Source: Gandy and Scott 2020, arXiv 2001.06465.
    """
    if k < 1:
        raise ValueError(f"The number of confirmation rounds is {k}; expected at least 1.")
    beta = _level(alpha) / k
    gamma = beta ** (1.0 / k)
    return tuple((beta / gamma**j, gamma + beta / gamma**j) for j in range(k))


def _positive(n: int) -> int:
    if n < 1:
        raise ValueError(f"n is {n}; margins and bands need at least one event.")
    return n


def _level(alpha: float) -> float:
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"The level is {alpha}; expected a number strictly between 0 and 1.")
    return alpha
