"""Paired timing: order-statistic ranks exactly, then busy loops whose true ratio is known."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from tppsd_bench.errors import RunBroken
from tppsd_bench.measure.timing import AA, PairedTiming, fewest_pairs, order_statistic_ranks, paired_timing
from tppsd_bench.streams import StreamKey


def rng(name: str) -> np.random.Generator:
    return StreamKey(seed=3, cell=name).generator()


def busy(iterations: int) -> Callable[[int], int]:
    """A side of 10 events whose work is proportional to ``iterations``."""

    def side(seed: int) -> int:
        x = seed & 0xFFFF
        for _ in range(iterations):
            x = (x * 1103515245 + 12345) & 0x7FFFFFFF
        return 10

    return side


def recorded(logs: np.ndarray, coverage: float = 0.999) -> PairedTiming:
    """A timing whose side ``s`` has the given log ratios against ``b``."""
    times = np.stack([np.ones(len(logs)), np.exp(-logs), np.ones(len(logs))], axis=1)
    events = np.ones(times.shape, dtype=np.int64)
    return PairedTiming("b", ("b", "s", AA), times, times, events, 1, coverage, 2, True, len(logs))


def test_thirty_pairs_at_999_permille_use_the_sixth_and_twenty_fifth() -> None:
    assert order_statistic_ranks(30, 0.999) == (6, 25)


@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.99, 0.999])
@pytest.mark.parametrize("n", [11, 12, 31, 60, 101])
def test_ranks_are_the_narrowest_that_cover(n: int, coverage: float) -> None:
    low, high = order_statistic_ranks(n, coverage)
    assert high == n + 1 - low
    assert 1 - 2 * stats.binom.cdf(low - 1, n, 0.5) >= coverage
    assert 1 - 2 * stats.binom.cdf(low, n, 0.5) < coverage or low == (n + 1) // 2


def test_too_few_pairs_for_the_coverage_are_refused_with_the_number_needed() -> None:
    assert fewest_pairs(0.999) == 11
    assert order_statistic_ranks(11, 0.999) == (1, 11)
    with pytest.raises(ValueError, match="use at least 11 pairs"):
        order_statistic_ranks(10, 0.999)


def test_the_interval_covers_the_true_median_as_often_as_it_says() -> None:
    """Against the exact coverage of the ranks used; misses beyond 5 standard errors happen once in 1.7 million."""
    generator, hits, n_runs = rng("coverage"), 0, 2000
    for _ in range(n_runs):
        ratio = recorded(generator.standard_t(2, size=30) + 0.3, coverage=0.9).ratio("s")
        hits += ratio.lower <= math.exp(0.3) <= ratio.upper
    exact = ratio.coverage
    assert abs(hits / n_runs - exact) < 5 * math.sqrt(exact * (1 - exact) / n_runs)


def test_the_ratio_ignores_a_minority_of_spoilt_pairs() -> None:
    logs = np.full(30, math.log(2.0))
    logs[:5] = -3.0
    ratio = recorded(logs).ratio("s")
    assert (ratio.median, ratio.lower, ratio.upper) == pytest.approx((2, 2, 2))


def test_busy_loops_of_ratio_three_halves_are_timed_as_such() -> None:
    timing = paired_timing(
        {"quick": busy(20_000), "slow": busy(30_000)}, baseline="slow", rng=rng("busy"), pairs=24, min_seconds=0.01
    )
    ratio = timing.ratio("quick")
    assert ratio.median == pytest.approx(1.5, rel=0.05)
    assert ratio.lower > 1.2
    assert timing.ratio(AA).median == pytest.approx(1, abs=0.05)
    assert not timing.unsettled()
    assert "1.5" in ratio.sentence() or "1.4" in ratio.sentence()


def test_every_side_of_a_pair_gets_the_same_seeds_and_pairs_get_new_ones() -> None:
    seen: dict[str, list[int]] = {"a": [], "b": []}

    def side(name: str, cost: float) -> Callable[[int], int]:
        def run(seed: int) -> int:
            seen[name].append(seed)
            until = time.process_time() + cost
            while time.process_time() < until:
                pass
            return 1

        return run

    timing = paired_timing(
        {"a": side("a", 0.001), "b": side("b", 0.002)}, baseline="a", rng=rng("seeds"), pairs=12, min_seconds=0.002
    )
    in_pairs_a, in_pairs_b = seen["a"][-24 * timing.calls :], seen["b"][-12 * timing.calls :]
    assert set(in_pairs_a) == set(in_pairs_b), "the baseline runs twice a pair, at the seeds of the other side"
    assert len(set(in_pairs_b)) == len(in_pairs_b)


def test_time_is_normalised_by_committed_events() -> None:
    def halved(seed: int) -> int:
        return busy(20_000)(seed) // 2

    timing = paired_timing(
        {"whole": busy(20_000), "half": halved}, baseline="whole", rng=rng("events"), pairs=12, min_seconds=0.005
    )
    assert timing.ratio("half").median == pytest.approx(0.5, rel=0.1)
    assert timing.events[0, 0] == 2 * timing.events[0, 1]


def test_a_budget_reduces_the_pairs_to_no_fewer_than_the_minimum_and_says_so() -> None:
    timing = paired_timing(
        {"only": busy(5_000)},
        baseline="only",
        rng=rng("budget"),
        pairs=500,
        min_seconds=0.002,
        budget_seconds=0.001,
        min_pairs=13,
    )
    assert timing.n_pairs == 13
    assert timing.note.startswith("13 pairs instead of 500")
    assert timing.to_dict()["note"] == timing.note


def test_the_collector_is_off_while_measuring_and_restored() -> None:
    states = []

    def side(seed: int) -> int:
        states.append(gc.isenabled())
        return busy(2_000)(seed)

    assert gc.isenabled()
    paired_timing({"side": side}, baseline="side", rng=rng("gc"), pairs=11, min_pairs=11, min_seconds=0.001)
    assert not any(states)
    assert gc.isenabled()


@pytest.mark.parametrize("theirs", [False, True])
def test_what_lived_before_is_not_collected_again_between_pairs_and_thaws_unless_the_caller_froze_it(theirs: bool) -> None:
    if theirs:
        gc.freeze()
    try:
        before, frozen = gc.get_freeze_count(), set[int]()

        def side(seed: int) -> int:
            frozen.add(gc.get_freeze_count())
            return 1

        paired_timing(
            {"a": side, "b": side}, baseline="a", rng=StreamKey(cell="frozen").generator(), pairs=12, min_seconds=1e-6
        )
        assert min(frozen) >= max(before, 10_000)
        assert (gc.get_freeze_count() > 0) is theirs
    finally:
        gc.unfreeze()


def test_a_side_that_commits_nothing_breaks_the_run() -> None:
    with pytest.raises(RunBroken, match="'idle' committed 0 events"):
        paired_timing({"side": busy(10), "idle": lambda _: 0}, baseline="side", rng=rng("idle"))


def test_bad_requests_are_named() -> None:
    with pytest.raises(ValueError, match="baseline 'x' is not among"):
        paired_timing({"side": busy(1)}, baseline="x", rng=rng("bad"))
    with pytest.raises(ValueError, match="at least 12 are needed"):
        paired_timing({"side": busy(1)}, baseline="side", rng=rng("bad"), pairs=5)


def test_another_side_can_be_the_one_timed_twice() -> None:
    timing = paired_timing(
        {"slow": busy(20_000), "quick": busy(5_000)},
        baseline="slow",
        again="quick",
        rng=rng("again"),
        pairs=12,
        min_seconds=0.002,
    )
    assert timing.ratio(AA).baseline == "quick"
    assert timing.ratio(AA).median == pytest.approx(1, abs=0.1)
    assert timing.ratio("quick").median == pytest.approx(4, rel=0.2)
    with pytest.raises(ValueError, match="time again, 'none'"):
        paired_timing({"slow": busy(1)}, baseline="slow", again="none", rng=rng("again"))


def test_a_short_budget_makes_pairs_shorter_and_fewer() -> None:
    timing = paired_timing(
        {"only": busy(5_000)}, baseline="only", rng=rng("short"), pairs=30, min_seconds=0.02, budget_seconds=0.2, min_pairs=12
    )
    assert 12 <= timing.n_pairs < 30
    assert "calls instead of" in timing.note
    assert timing.cpu.sum() * 10 * timing.calls < 0.4
