"""Holding a frozen prediction to what was measured afterwards: error, regret of the predicted best K, and whether speculation pays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from tppsd_bench.measure.acceptance import clopper_pearson
from tppsd_bench.measure.timing import order_statistic_ranks

FloatArray = NDArray[np.float64]
Share = tuple[float, float, float]
"""(value, low, high): a proportion with its Clopper-Pearson interval at 95 %."""


def share(hits: int, n: int) -> Share:
    """A proportion and its exact interval; (nan, 0, 1) of nothing."""
    low, high = clopper_pearson(np.array([hits]), np.array([n]))
    return hits / n if n else float("nan"), float(low[0]), float(high[0])


@dataclass(frozen=True)
class TimedRounds:
    """Timed runs at several K's, pair by pair: (pairs, K) arrays.

    Speed is events a round over the cost of a round. The cost is timed, free of the luck of acceptance; events and rounds are counted, free
    of the clock's noise. A run's own time per event has both, and takes several times the runs for the same interval.
    """

    log_cost: FloatArray
    """log(time of a round / time of a target step) of each pair."""
    events: FloatArray
    rounds: FloatArray
    counted: tuple[tuple[FloatArray, FloatArray], ...] = ()
    """For each K (events, rounds) of further sequences, which were counted and not timed; empty: none were."""

    def _groups(self, column: int) -> tuple[FloatArray, FloatArray]:
        """Independent (events, rounds) of one K: its measurements, then its counted sequences."""
        events, rounds = self.events[:, column], self.rounds[:, column]
        if not self.counted:
            return events, rounds
        return np.concatenate([events, self.counted[column][0]]), np.concatenate([rounds, self.counted[column][1]])

    def events_per_round(self) -> tuple[FloatArray, FloatArray]:
        """(K,) pooled events a round, and its standard error by the ratio estimator over groups."""
        value, error = np.empty(self.events.shape[1]), np.empty(self.events.shape[1])
        for j in range(len(value)):
            events, rounds = self._groups(j)
            value[j] = events.sum() / rounds.sum()
            n = len(events)
            error[j] = math.sqrt(n / (n - 1) * float(((events - value[j] * rounds) ** 2).sum())) / rounds.sum()
        return value, error

    def log_speed(self) -> FloatArray:
        """(K,) log(pooled events a round) - median over pairs of log cost."""
        out: FloatArray = np.log(self.events_per_round()[0]) - np.median(self.log_cost, axis=0)
        return out

    def log_speed_interval(self, coverage: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """(K,) lower and upper ends: order statistics for the cost, a t interval for events a round, in quadrature."""
        n = len(self.events)
        low, high = order_statistic_ranks(n, coverage)
        ordered, middle = np.sort(self.log_cost, axis=0), np.median(self.log_cost, axis=0)
        mean, error = self.events_per_round()
        luck = special.stdtrit(n - 1, (1 + coverage) / 2) * error / mean
        speed = self.log_speed()
        return speed - np.hypot(luck, ordered[high - 1] - middle), speed + np.hypot(luck, middle - ordered[low - 1])

    def halves(self) -> tuple[TimedRounds, TimedRounds]:
        """Every other pair, and every other counted sequence."""
        first, second = (
            TimedRounds(
                self.log_cost[i::2], self.events[i::2], self.rounds[i::2], tuple((e[i::2], r[i::2]) for e, r in self.counted)
            )
            for i in (0, 1)
        )
        return first, second

    def without(self, pair: int) -> TimedRounds:
        """All pairs but one."""
        keep = np.arange(len(self.events)) != pair
        return TimedRounds(self.log_cost[keep], self.events[keep], self.rounds[keep], self.counted)


@dataclass(frozen=True)
class Regret:
    """log(speed of the measured best K / speed of the predicted best K); 0.03 = 3 % slower. Negative where the choice proved better."""

    value: float
    standard_error: float
    """By leaving out one pair at a time."""
    measured_best: tuple[int, int]
    """Columns chosen by the first and by the second half."""


def regret(timed: TimedRounds, predicted: int) -> Regret:
    """Regret of column ``predicted``, without the winner's curse.

    The best column by the even pairs is judged by the odd ones, and the other way round; a column judged by the pairs that chose it
    would look better than it is. The mean of both is unbiased for the columns chosen.
    """
    n = len(timed.events)
    if n < 6:
        raise ValueError(f"{n} pairs; expected at least 6, three in each half.")
    halves = timed.halves()
    best = [int(half.log_speed().argmax()) for half in halves]

    def judged(half: int, without: int | None = None) -> float:
        speed = (halves[half] if without is None else halves[half].without(without)).log_speed()
        return float(speed[best[1 - half]] - speed[predicted])

    variance = 0.0
    for half in (0, 1):
        m = len(halves[half].events)
        left_out = np.array([judged(half, i) for i in range(m)])
        variance += (m - 1) / m * float(((left_out - left_out.mean()) ** 2).sum())
    return Regret((judged(0) + judged(1)) / 2, math.sqrt(variance) / 2, (best[0], best[1]))


@dataclass(frozen=True)
class PayCheck:
    """Did the law know where speculation pays? Points whose interval holds 1 are undecided and count nowhere."""

    true_pay: int
    false_pay: int
    """Promised to pay, and measured slower than target-only."""
    missed_pay: int
    true_loss: int
    undecided: int

    @property
    def precision(self) -> Share:
        """Of the points promised to pay, those that do."""
        return share(self.true_pay, self.true_pay + self.false_pay)

    @property
    def recall(self) -> Share:
        """Of the points that pay, those promised to."""
        return share(self.true_pay, self.true_pay + self.missed_pay)


def pay_check(predicted: Sequence[float], lower: Sequence[float], upper: Sequence[float]) -> PayCheck:
    """Predicted speedups against measured intervals: it pays where the whole interval lies above 1, not where below."""
    p, low, high = (np.asarray(a, dtype=np.float64) for a in (predicted, lower, upper))
    pays, loses, promised = low > 1, high < 1, p > 1
    return PayCheck(
        int((promised & pays).sum()), int((promised & loses).sum()), int((~promised & pays).sum()),
        int((~promised & loses).sum()), int((~pays & ~loses).sum()),
    )  # fmt: skip


def within(log_errors: ArrayLike, limit: float = 0.05) -> Share:
    """Share of predictions within ``limit`` of what was measured (|measured / predicted - 1|)."""
    errors = np.expm1(np.asarray(log_errors, dtype=np.float64))
    return share(int((np.abs(errors) <= limit).sum()), len(errors))
