"""acceptance_identity: accepted as often as the declared rule says, A - a summed over verifications."""

from __future__ import annotations

import math

import numpy as np

from tppsd_bench import budget
from tppsd_bench.protocols import COMPONENT_TYPE, BoolArray, FloatArray, IntArray
from tppsd_bench.results import Axis, Evidence
from tppsd_bench.stats.base import Z95
from tppsd_bench.stats.whitebox.contexts import Contexts
from tppsd_bench.stats.whitebox.density_agreement import COMPONENTS
from tppsd_bench.stats.whitebox.uniformity import min_detectable_z

_LOG_IMPOSSIBLE = -45.0  # acceptance probability 3e-20: never seen in any run


def acceptance_identity(c: Contexts, tol: float, alpha: float) -> list[Evidence]:
    """Z = sum(A - a) / sqrt(sum a(1-a)), a = min(1, p/q) (exact match: types with a = p), per component.

    p-value: the exact Poisson-binomial tail, both sides (Z is displayed; it is what the tail tends to). At once, without any
    p-value: A = 0 where a = 1, or A = 1 where a = 0, beyond ``tol`` in log ratio; a ratio that is not a number never accepts.
    """
    t = c.trace
    log_ratio = c.best_log_p() - c.best_log_q()
    if c.rule == "exact_match":
        log_ratio = np.where(t.component == COMPONENT_TYPE, c.best_log_p(), log_ratio)
    evidence: list[Evidence] = []
    for component, name in enumerate(COMPONENTS):
        at = np.flatnonzero(t.component == component)
        if len(at):
            evidence += _component(c, name, at, log_ratio[at], t.accepted[at], tol, alpha)
    return evidence


def _component(
    c: Contexts, name: str, at: IntArray, log_ratio: FloatArray, accepted: BoolArray,
    tol: float, alpha: float,
) -> list[Evidence]:  # fmt: skip
    nan = np.isnan(log_ratio)
    a = np.where(nan, 0.0, np.exp(np.minimum(np.where(nan, 0.0, log_ratio), 0.0)))
    impossible = np.flatnonzero(np.where(accepted, nan | (log_ratio < _LOG_IMPOSSIBLE), log_ratio > tol))
    detail = ""
    if len(impossible):
        i = impossible[0]
        did = "accepted although the ratio says never" if accepted[i] else "rejected although p exceeds q"
        detail = (
            f"{c.record_said(int(at[i]))}: {name} {did} (log p - log q = {log_ratio[i]:.4g}); {len(impossible)} such decisions"
        )
    variance = float((a * (1 - a)).sum())
    excess = float((accepted - a).sum())
    out = [
        Evidence(
            f"acceptance_identity.{name}.certain",
            Axis.MECHANISM,
            passed=not len(impossible),
            statistic=float(len(impossible)),
            n=len(at),
            null="no decision against a certain one",
            method="deterministic",
            detail=detail,
        )
    ]
    if variance <= 0:
        return out
    z = excess / math.sqrt(variance)
    error = math.sqrt(variance) / len(at)
    out.append(
        Evidence(
            f"acceptance_identity.{name}",
            Axis.MECHANISM,
            p_value=poisson_binomial_p(a, int(accepted.sum())),
            statistic=z,
            n=len(at),
            effect=excess / len(at),
            effect_name="excess acceptance rate",
            interval=(excess / len(at) - Z95 * error, excess / len(at) + Z95 * error),
            min_detectable=min_detectable_z(error, alpha),
            null="Poisson-binomial (exact tail)" if variance < budget.MIN_VARIANCE_NORMAL else "N(0,1), by the exact tail",
            method="recomputed acceptance probabilities",
        )
    )
    return out


def poisson_binomial_p(a: FloatArray, count: int) -> float:
    """Two-sided p-value 2 min(P(X <= count), P(X >= count)), capped at 1, X a sum of independent Bernoulli(``a``).

    The law of X by multiplying generating polynomials in pairs; absolute accuracy about 1e-14, so p is floored there.
    """
    certain = int((a >= 1.0).sum())
    law = _sum_law(a[(a > 0.0) & (a < 1.0)])
    x = count - certain
    if x < 0 or x >= len(law):
        return 1e-14
    lower, upper = float(law[: x + 1].sum()), float(law[x:].sum())
    return min(1.0, max(2.0 * min(lower, upper), 1e-14))


def _sum_law(a: FloatArray) -> FloatArray:
    """(len(a) + 1,) probabilities of 0, 1, ... successes."""
    n = len(a)
    leaves = 1 << max(0, (n - 1).bit_length())
    padded = np.concatenate([a, np.zeros(leaves - n)])
    rows = np.stack([1.0 - padded, padded], axis=1)
    while len(rows) > 1:
        size = 2 * rows.shape[1] - 1
        if size <= 33:  # short polynomials: directly, without rounding from transforms
            left, right = rows[0::2], rows[1::2]
            rows = np.zeros((len(left), size))
            for j in range(left.shape[1]):
                rows[:, j : j + right.shape[1]] += left[:, j : j + 1] * right
        else:
            transform = np.fft.rfft(rows, 1 << (size - 1).bit_length(), axis=1)
            rows = np.fft.irfft(transform[0::2] * transform[1::2], axis=1)[:, :size]
    law: FloatArray = np.maximum(rows[0, : n + 1], 0.0)
    return law
