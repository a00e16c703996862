"""Verification rules: which drafted events survive. Small objects that see the two laws at every drafted position.

Leviathan, Kalman, Matias (2023, arXiv 2211.17192): accept x ~ q with probability min(1, p(x)/q(x)), else draw from (p - q)+.
Accepted mass min(p, q) plus rejected mass TV times (p - q)+/TV is p: the output has exactly the law p. In log space, and
``log u < log p - log q`` is False for a NaN: an undefined ratio is never an acceptance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tppsd_bench.protocols import BoolArray, Conditional, FloatArray, IntArray, Rule


@dataclass(slots=True)
class Verification:
    """Per drafted position (n, K): the log densities that were compared and what was accepted."""

    log_p_gap: FloatArray
    log_q_gap: FloatArray
    log_p_type: FloatArray
    log_q_type: FloatArray
    gap_accepted: BoolArray
    type_accepted: BoolArray


class VerificationRule(Protocol):
    @property
    def rule(self) -> Rule: ...
    @property
    def joint(self) -> bool: ...

    def verify(
        self, p: Conditional, q: Conditional, gaps: FloatArray, types: IntArray, u_gap: FloatArray, u_type: FloatArray
    ) -> Verification:
        """p and q have one row per (n, K) position, row-major; gaps, types and uniforms are (n, K)."""
        ...


def picked_type_log_probs(law: Conditional, gaps: FloatArray, types: IntArray) -> FloatArray:
    """log p(type | H, gap) of one type per row."""
    table = law.type_log_probs(gaps)
    out: FloatArray = table[np.arange(len(table)), types]
    return out


def log_densities(
    p: Conditional, q: Conditional, gaps: FloatArray, types: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """log p(gap), log q(gap), log p(type | gap), log q(type | gap) of the drafted events, each (n, K)."""
    flat, shape = gaps.ravel(), gaps.shape
    log_p, log_q = p.log_prob(flat).reshape(shape), q.log_prob(flat).reshape(shape)
    if p.n_types == 1:
        return log_p, log_q, np.zeros(shape), np.zeros(shape)
    k = types.ravel()
    return log_p, log_q, picked_type_log_probs(p, flat, k).reshape(shape), picked_type_log_probs(q, flat, k).reshape(shape)


class TwoStep:
    """Gap first, against the gap densities; then, only for an accepted gap, the type against p(k | H, gap) / q(k | H, gap)."""

    rule: Rule = "leviathan_two_step"
    joint = False

    def accepts(self, log_p: FloatArray, log_q: FloatArray, u: FloatArray) -> BoolArray:
        """u < p/q, elementwise: the decision itself, for gaps and for types."""
        out: BoolArray = np.log(u) < log_p - log_q
        return out

    def verify(
        self, p: Conditional, q: Conditional, gaps: FloatArray, types: IntArray, u_gap: FloatArray, u_type: FloatArray
    ) -> Verification:
        log_p, log_q, log_pk, log_qk = log_densities(p, q, gaps, types)
        with np.errstate(invalid="ignore"):
            gap_accepted = self.accepts(log_p, log_q, u_gap)
            type_accepted = self.accepts(log_pk, log_qk, u_type)
        return Verification(log_p, log_q, log_pk, log_qk, gap_accepted, type_accepted)


class Joint:
    """The event (gap, type) as one object, against the joint densities; a rejection redraws both from the joint residual."""

    rule: Rule = "leviathan_joint"
    joint = True

    def verify(
        self, p: Conditional, q: Conditional, gaps: FloatArray, types: IntArray, u_gap: FloatArray, u_type: FloatArray
    ) -> Verification:
        log_p, log_q, log_pk, log_qk = log_densities(p, q, gaps, types)
        with np.errstate(invalid="ignore"):
            accepted = np.log(u_gap) < (log_p + log_pk) - (log_q + log_qk)
        return Verification(log_p + log_pk, log_q + log_qk, log_pk, log_qk, accepted, accepted)
