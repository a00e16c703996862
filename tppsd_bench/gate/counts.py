"""L0, counts: target row forwards per committed event, candidate against baseline."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tppsd_bench import budget
from tppsd_bench.gate.base import COUNTS, Check
from tppsd_bench.results import Outcome
from tppsd_bench.studies.gate.table import Margins

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Counted:
    """What was counted of one cell, sequence by sequence; (n,) arrays."""

    committed: IntArray
    forwards: IntArray
    digest: str = ""
    """Of the sequences themselves, for goldens."""

    @property
    def per_event(self) -> float:
        return float(self.forwards.sum() / self.committed.sum())

    def influence(self) -> FloatArray:
        """(n,) each sequence's part in the error of log(sum F / sum N): F_s / sum F - N_s / sum N; they sum to zero."""
        out: FloatArray = self.forwards / self.forwards.sum() - self.committed / self.committed.sum()
        return out


@dataclass(frozen=True)
class Growth:
    """log(F_c / N_c) - log(F_b / N_b) of the totals, with its standard error over sequences."""

    value: float
    error: float
    df: int

    def bound(self, tail: float) -> float:
        """Half width that the value exceeds its expectation by with probability ``tail`` (Student's t)."""
        from scipy import stats

        return float(stats.t.isf(tail, self.df)) * self.error


def growth(candidate: Counted, baseline: Counted, *, paired: bool) -> Growth:
    """``paired``: both sides counted the same seeds, so that sequences cancel; else both errors add up."""
    value = math.log(candidate.per_event / baseline.per_event)
    mine, other = candidate.influence(), baseline.influence()
    if paired:
        n = len(mine)
        return Growth(value, math.sqrt(n / (n - 1) * float(((mine - other) ** 2).sum())), n - 1)
    sizes = len(mine), len(other)
    variance = sum(n / (n - 1) * float((x**2).sum()) for n, x in zip(sizes, (mine, other), strict=True))
    return Growth(value, math.sqrt(variance), min(sizes) - 1)


def judge_counts(
    cell: str, candidate: Counted, baseline: Counted, margins: Margins, *, paired: bool, cells: int, golden: bool = False
) -> Check:
    """FAIL where the growth's lower bound lies beyond the margin, PASS where its 95 % upper bound lies below what must be found.

    The lower bound holds with probability 1 - GATE_LEVEL over all ``cells``. ``golden``: sequences are compared bit for bit too.
    """
    same = paired and all(
        np.array_equal(a, b) for a, b in ((candidate.committed, baseline.committed), (candidate.forwards, baseline.forwards))
    )
    told = f"{candidate.per_event:.4f} target forwards per event"
    if same:
        drawn = ""
        if golden and candidate.digest and baseline.digest:
            bits = candidate.digest == baseline.digest
            drawn = ", the sequences too, bit for bit" if bits else ", but other sequences: their values have changed"
        sentence = f"{told}, the same in each of {len(candidate.committed)} sequences{drawn}."
        return Check(COUNTS, cell, Outcome.PASS, sentence, 0.0, (0.0, 0.0), math.log1p(margins.forwards))
    grown = growth(candidate, baseline, paired=paired)
    strict = grown.bound(budget.GATE_LEVEL / cells)
    low, high = grown.value - strict, grown.value + strict
    limit, found = math.log1p(margins.forwards), math.log1p(margins.forwards_found)
    if low > limit:
        outcome, end = Outcome.FAIL, f"wholly above the margin of {margins.forwards:+.0%}"
    elif grown.value + grown.bound(1 - budget.EQUIVALENCE_CONFIDENCE) < found:
        outcome, end = (
            Outcome.PASS,
            f"not shown to be above the margin of {margins.forwards:+.0%}, and {margins.forwards_found:+.0%} is excluded",
        )
    else:
        outcome, end = Outcome.INCONCLUSIVE, f"too wide to exclude {margins.forwards_found:+.0%}: count more sequences"
    how = "paired by sequence" if paired else "of two separate samples"
    sentence = (
        f"{told} against {baseline.per_event:.4f}: {_percent(grown.value)} ({_percent(low)} to {_percent(high)}, {how}), {end}."
    )
    return Check(COUNTS, cell, outcome, sentence, grown.value, (low, high), limit)


def _percent(log_ratio: float) -> str:
    return f"{math.expm1(log_ratio):+.1%}"
