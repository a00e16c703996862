"""L2: two looks before anything fails, an unsteady machine is no verdict, and speedups of two jobs compare by their medians' errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tppsd_bench.gate.speed import Speed, judge_speed, speed_of
from tppsd_bench.measure.timing import order_statistic_ranks
from tppsd_bench.results import Outcome
from tppsd_bench.streams import StreamKey
from tppsd_bench.studies.gate.table import Margins


def speed(ratio: float, half: float = 0.02, same: float = 0.0) -> Speed:
    at = math.log(ratio)
    return Speed(at, at - half, at + half, at - half / 2, at + half / 2, same, 30)


def judged(*looks: Speed, **more: bool) -> tuple[Outcome, int]:
    asked = []

    def look(i: int) -> Speed:
        asked.append(i)
        return looks[i - 1]

    return judge_speed("c", look, Margins(), **more).outcome, len(asked)


SLOW, SAME, SHAKY, WIDE = speed(0.8), speed(1.0), speed(1.0, same=0.06), speed(0.95, half=0.4)


@pytest.mark.parametrize(
    ("looks", "outcome", "asked"),
    [
        ((SAME,), Outcome.PASS, 1),
        ((SLOW, SLOW), Outcome.FAIL, 2),
        ((SLOW, SAME), Outcome.PASS, 2),
        ((SLOW, WIDE), Outcome.INCONCLUSIVE, 2),
        ((SHAKY, SAME), Outcome.PASS, 2),
        ((SHAKY, SHAKY), Outcome.INCONCLUSIVE, 2),
        ((SHAKY, SLOW), Outcome.INCONCLUSIVE, 2),
        ((WIDE, WIDE), Outcome.INCONCLUSIVE, 2),
        ((speed(0.92), speed(0.92)), Outcome.PASS, 1),
        ((speed(0.88, 0.04), speed(0.88, 0.04)), Outcome.PASS, 1),
        ((speed(0.88, 0.08),), Outcome.PASS, 1),
        ((WIDE, speed(0.88, 0.08)), Outcome.INCONCLUSIVE, 2),  # would have passed as the first look
    ],
)
def test_fails_only_where_two_looks_fail(looks: tuple[Speed, ...], outcome: Outcome, asked: int) -> None:
    assert judged(*looks) == (outcome, asked)


def test_advisory_time_is_looked_at_once() -> None:
    assert judged(SLOW, SLOW, advisory=True) == (Outcome.FAIL, 1)


def test_an_unsteady_machine_is_named() -> None:
    assert "too unsteady" in judge_speed("c", lambda i: SHAKY, Margins()).sentence


def test_bounds_are_order_statistics() -> None:
    logs = np.sort(StreamKey(seed=1, cell="gate speed").generator().normal(0, 0.1, 40))
    found = speed_of(logs, logs * 0)
    low, high = order_statistic_ranks(40, 0.999)
    assert (found.low, found.high) == (logs[low - 1], logs[high - 1])
    assert found.low < found.lower < found.log_ratio < found.upper < found.high


def test_two_jobs_compare_with_both_errors_and_an_exact_baseline_adds_none() -> None:
    apart = speed(1.2, 0.03).over(speed(1.5, 0.04))
    assert apart.log_ratio == pytest.approx(math.log(0.8))
    assert apart.high - apart.log_ratio == pytest.approx(0.05)
    mine = speed(1.2, 0.03)
    assert mine.over(Speed(0, 0, 0, 0, 0, 0, 30)).low == pytest.approx(mine.low)
