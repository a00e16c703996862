"""L2, time: CPU speed over the baseline's, with an A/A control, and a second look in a fresh process before anything fails."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tppsd_bench import budget
from tppsd_bench.gate.base import TIME, Check
from tppsd_bench.measure.timing import order_statistic_ranks
from tppsd_bench.results import Outcome
from tppsd_bench.studies.gate.table import Margins

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Speed:
    """A log ratio of CPU times (positive: faster) with its bounds, and the A/A control's median."""

    log_ratio: float
    """Median over pairs."""
    low: float
    high: float
    """Ends of the interval of coverage GATE_COVERAGE, by order statistics."""
    lower: float
    upper: float
    """One-sided 95 % bounds."""
    same: float
    """Median log ratio of one sampler against itself."""
    n_pairs: int = 0

    def over(self, baseline: Speed) -> Speed:
        """This speedup over the baseline's, of another job; distances from the medians add up in squares.

        Source: the method of variance estimates recovery, Zou and Donner 2008 (Statistics in Medicine 27).
        """
        value = self.log_ratio - baseline.log_ratio

        def end(mine: float, theirs: float, sign: int) -> float:
            return value + sign * math.hypot(mine - self.log_ratio, theirs - baseline.log_ratio)

        return Speed(
            value, end(self.low, baseline.high, -1), end(self.high, baseline.low, 1), end(self.lower, baseline.upper, -1),
            end(self.upper, baseline.lower, 1), self.same, self.n_pairs,
        )  # fmt: skip


def speed_of(log_ratios: FloatArray, again: FloatArray) -> Speed:
    """From paired log ratios (pairs,): median and order statistics; ``again`` are those of the A/A control."""
    ordered = np.sort(log_ratios)
    outer = order_statistic_ranks(len(ordered), budget.GATE_COVERAGE)
    inner = order_statistic_ranks(len(ordered), 2 * budget.EQUIVALENCE_CONFIDENCE - 1)
    low, high, lower, upper = (float(ordered[rank - 1]) for rank in (*outer, *inner))
    return Speed(float(np.median(ordered)), low, high, lower, upper, float(np.median(again)), len(ordered))


def judge_speed(
    cell: str, look: Callable[[int], Speed], margins: Margins, *, what: str = "CPU speed", advisory: bool = False
) -> Check:
    """``look(1)`` is the speed over the baseline's; unless it passes, ``look(2)`` measures again in fresh processes.

    FAIL only where both intervals lie wholly below the margin. PASS where the first look's 95 % lower bound is above ``speed_found``; in the
    second, a chance more, the end of its wider interval has to be: two chances of 5 % would pass a slow candidate one time in ten. Where one
    sampler differs from itself by more than ``same`` the look says nothing, and two such looks are inconclusive.
    """
    first = look(1)
    found, outcome = [first], _outcome(first, margins)
    if outcome is not Outcome.PASS and not advisory:
        found.append(look(2))
        second = _outcome(replace(found[1], lower=found[1].low), margins)
        both = outcome is second is Outcome.FAIL
        outcome = Outcome.FAIL if both else Outcome.PASS if second is Outcome.PASS else Outcome.INCONCLUSIVE
    last = found[-1]
    told = " and again in a fresh process ".join(_told(s) for s in found)
    if outcome is Outcome.FAIL:
        end = f"wholly below the margin of {margins.speed:g}"
    elif outcome is Outcome.PASS:
        end = f"a speed of {margins.speed_found:g} is excluded, margin {margins.speed:g}"
    elif _unsteady(last, margins):
        end = f"the machine is too unsteady to tell: one sampler differs from itself by {math.exp(abs(last.same)) - 1:.1%}"
    else:
        end = f"undecided about the margin of {margins.speed:g}: run on a quieter machine, or time more pairs"
    sentence = f"{what} {told} times the baseline's; {end}."
    return Check(
        TIME, cell, outcome, sentence, last.log_ratio, (last.low, last.high), math.log(margins.speed), advisory=advisory
    )


def _outcome(speed: Speed, margins: Margins) -> Outcome:
    if _unsteady(speed, margins):
        return Outcome.INCONCLUSIVE
    if speed.high < math.log(margins.speed):
        return Outcome.FAIL
    return Outcome.PASS if speed.lower > math.log(margins.speed_found) else Outcome.INCONCLUSIVE


def _unsteady(speed: Speed, margins: Margins) -> bool:
    return abs(speed.same) > math.log1p(margins.same)


def _told(speed: Speed) -> str:
    value, low, high = (math.exp(x) for x in (speed.log_ratio, speed.low, speed.high))
    return f"{value:.3f} ({low:.3f} to {high:.3f}, {speed.n_pairs} pairs)"
