"""Judging a promise: regret without the winner's curse, both sides of pay and no pay, intervals that hold what they should."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tppsd_bench.measure.judging import TimedRounds, pay_check, regret, within
from tppsd_bench.streams import StreamKey


def timed(speed: list[float], rng: np.random.Generator, *, n: int = 12, noise: float = 0.03, rounds: int = 40) -> TimedRounds:
    """Pairs of runs at K's of known speed: rounds of 1 to 5 events (mean 3), the cost of a round such that speed comes out."""
    events = np.stack([rng.integers(1, 6, size=(n, rounds)).sum(axis=1) for _ in speed], axis=1).astype(float)
    cost = np.log(3.0) - np.log(speed) + rng.normal(0, noise, size=(n, len(speed)))
    return TimedRounds(cost, events, np.full((n, len(speed)), float(rounds)))


def test_speed_is_events_a_round_over_its_cost() -> None:
    exact = TimedRounds(np.log(np.full((6, 2), 1.5)), np.full((6, 2), 90.0), np.full((6, 2), 30.0))
    assert np.exp(exact.log_speed()) == pytest.approx([2.0, 2.0])
    low, high = exact.log_speed_interval()
    assert low == pytest.approx(high)


def test_the_interval_holds_the_true_speed_as_often_as_it_says() -> None:
    """400 sites of 4 K's, three of which share nothing: at 95 % (the cost's part covers 96 %) fewer than 90 % has odds below 1e-6."""
    rng = StreamKey(seed=1, cell="test_judging").generator()
    hits = 0
    for _ in range(400):
        low, high = timed([2.0] * 4, rng).log_speed_interval()
        hits += int(((low <= math.log(2.0)) & (high >= math.log(2.0))).sum())
    assert 0.90 <= hits / 1600 <= 0.999


def test_counted_sequences_sharpen_events_a_round_and_leave_the_cost_alone() -> None:
    rng = StreamKey(seed=4, cell="test_judging").generator()
    alone = timed([2.0], rng)
    more = rng.integers(1, 6, size=(60, 40)).sum(axis=1).astype(float), np.full(60, 40.0)
    both = TimedRounds(alone.log_cost, alone.events, alone.rounds, (more,))
    value, error = both.events_per_round()
    assert value[0] == pytest.approx((alone.events.sum() + more[0].sum()) / (12 * 40 + 60 * 40))
    assert error[0] == pytest.approx(alone.events_per_round()[1][0] / math.sqrt(6), rel=0.5)
    assert both.log_speed()[0] - np.log(value[0]) == pytest.approx(-np.median(alone.log_cost))
    first, second = both.halves()
    assert (len(first.counted[0][0]), len(second.counted[0][0]), len(first.events)) == (30, 30, 6)


def test_of_equal_speeds_the_regret_is_nothing_while_the_naive_one_is_not() -> None:
    """The mean over 200 sites lies within five standard errors of 0; the naive regret, best less chosen, does not."""
    rng = StreamKey(seed=2, cell="test_judging").generator()
    sites = [timed([2.0] * 6, rng) for _ in range(200)]
    honest = np.array([regret(s, 0).value for s in sites])
    naive = np.array([s.log_speed().max() - s.log_speed()[0] for s in sites])
    assert abs(honest.mean()) < 5 * honest.std(ddof=1) / math.sqrt(200)
    assert naive.mean() > 20 * naive.std(ddof=1) / math.sqrt(200) * 0.5
    errors = np.array([regret(s, 0).standard_error for s in sites])
    assert errors.mean() == pytest.approx(honest.std(ddof=1), rel=0.5)


def test_a_wrong_choice_is_regretted_by_what_it_loses() -> None:
    rng = StreamKey(seed=3, cell="test_judging").generator()
    found = [regret(timed([1.0, 1.5, 2.0], rng, rounds=400), 1) for _ in range(30)]
    assert np.mean([r.value for r in found]) == pytest.approx(math.log(2.0 / 1.5), abs=0.02)
    assert all(r.measured_best == (2, 2) for r in found)


def test_regret_needs_pairs_in_both_halves() -> None:
    with pytest.raises(ValueError, match="expected at least 6"):
        regret(timed([1.0, 2.0], StreamKey().generator(), n=5), 0)


def test_pay_is_checked_on_both_sides_and_the_undecided_are_left_out() -> None:
    check = pay_check([2.0, 2.0, 0.5, 0.5, 1.2, 0.9], [1.5, 0.3, 1.1, 0.2, 0.9, 0.9], [2.5, 0.9, 1.3, 0.4, 1.3, 1.1])
    assert (check.true_pay, check.false_pay, check.missed_pay, check.true_loss, check.undecided) == (1, 1, 1, 1, 2)
    assert check.precision[0] == check.recall[0] == 0.5
    assert check.precision[1] < 0.5 < check.precision[2]
    nothing = pay_check([0.5], [0.1], [0.4])
    assert math.isnan(nothing.precision[0])
    assert nothing.precision[1:] == (0.0, 1.0)


def test_within_counts_both_directions() -> None:
    value, low, high = within(np.log([1.0, 1.049, 0.951, 1.051, 0.9]))
    assert value == pytest.approx(0.6)
    assert low < 0.6 < high
