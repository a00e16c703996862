"""Serial dependence of the PITs inside sequences: autocorrelation of normal scores at fixed lags, pooled over sequences.

The scores have mean 0 and variance 1 under the null, nothing is estimated: Z = sum z_i z_{i+lag} / sqrt(number of pairs).
"""

from __future__ import annotations

import math

import numpy as np

from tppsd_bench.results import Axis, Evidence
from tppsd_bench.stats.base import (
    Design,
    FloatArray,
    NormalStatistic,
    chi_square_p,
    normal_evidence,
    register,
    undersized,
)
from tppsd_bench.stats.neyman import MIN_VALUES
from tppsd_bench.stats.pit import PitStream

LAGS = (1, 2, 3, 5, 8)
LJUNG_BOX_VALUES = 2**17


def lagged_sum(z: FloatArray, index: np.ndarray[tuple[int], np.dtype[np.int64]], lag: int) -> tuple[float, int]:
    """(sum of z_i z_{i+lag} within sequences, number of pairs)."""
    inside = index[lag:] >= lag
    return float(np.dot(z[:-lag] * inside, z[lag:])), int(np.count_nonzero(inside))


class Serial(NormalStatistic):
    """Autocorrelation at lags 1, 2, 3, 5, 8, one member each; Ljung-Box beside it for people."""

    null = "N(0, 1)"
    effect_name = "autocorrelation of normal scores"

    def __init__(self, name: str, which: str) -> None:
        self.name, self.which = name, which

    def members(self, design: Design) -> int:
        return len(LAGS) if self.which == "u" or design.marked else 0

    def evaluate(self, stream: PitStream, design: Design, alpha: float) -> list[Evidence]:
        if not self.members(design):
            return []
        z = stream.normal_u if self.which == "u" else stream.normal_v
        out: list[Evidence] = []
        for lag in LAGS:
            name, (total, pairs) = f"{self.name}.lag_{lag}", lagged_sum(z, stream.index, lag)
            if pairs < MIN_VALUES:
                out.append(undersized(name, pairs, MIN_VALUES, unit="pairs"))
            else:
                out.append(
                    normal_evidence(name, total / math.sqrt(pairs), pairs, alpha, self.effect_name, method="within sequences")
                )
        if self.which == "u" and len(z) >= MIN_VALUES:
            out.append(ljung_box(z[:LJUNG_BOX_VALUES], max(LAGS)))
        return out


def ljung_box(z: FloatArray, lags: int) -> Evidence:
    """Ljung-Box of the concatenated stream (exact in the null, sequence borders included), for display."""
    from statsmodels.tsa.stattools import acf  # slow to import and needed here alone

    n, r = len(z), np.asarray(acf(z, nlags=lags, fft=True))[1:]
    statistic = n * (n + 2) * float((r**2 / (n - np.arange(1, lags + 1))).sum())
    return Evidence(
        "serial.time.ljung_box",
        Axis.LAW,
        p_value=chi_square_p(statistic, lags),
        statistic=statistic,
        n=n,
        null=f"chi2({lags})",
        method="Ljung-Box on statsmodels' autocorrelations",
        display=True,
    )


register(Serial("serial.time", "u"))
register(Serial("serial.type", "v"))
