"""The weights of accepted and residual draws, and the draft-direction score, from log densities of both laws."""

from __future__ import annotations

import math

import numpy as np

from tppsd_bench import budget
from tppsd_bench.protocols import FloatArray


def role_weight(role: str, log_p: FloatArray, log_q: FloatArray) -> FloatArray:
    """min(p, q) for accepted draws, (p - q)+ for residual ones."""
    if role == "accepted":
        return np.exp(np.minimum(log_p, log_q))
    with np.errstate(invalid="ignore", over="ignore"):
        share = np.where(np.isneginf(log_p), 0.0, np.maximum(-np.expm1(log_q - log_p), 0.0))
    return np.exp(log_p) * share


def clipped_score(log_p: FloatArray, log_q: FloatArray) -> FloatArray:
    """q/p - 1 clipped at 20; 20 where p is 0 (q decides nothing there that p ever draws)."""
    with np.errstate(invalid="ignore"):
        log_ratio = np.where(np.isneginf(log_p), np.inf, log_q - log_p)
    s: FloatArray = np.expm1(np.minimum(log_ratio, math.log1p(budget.SCORE_CLIP)))
    return s
