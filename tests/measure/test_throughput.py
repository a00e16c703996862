"""The throughput law: closed forms against sums, the run-length recursion against simulation, the quoted numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tppsd_bench.measure import throughput as law
from tppsd_bench.streams import StreamKey

PROBABILITY = st.floats(0, 0.999)


@given(PROBABILITY, st.integers(0, 20))
def test_expected_committed_has_the_geometric_closed_form(alpha: float, k: int) -> None:
    closed = (1 - alpha ** (k + 1)) / (1 - alpha)
    assert law.expected_committed(alpha, k) == pytest.approx(closed, rel=1e-12)


@given(st.lists(PROBABILITY, min_size=1, max_size=8))
def test_expected_committed_is_the_mean_of_the_outcomes(alphas: list[float]) -> None:
    p = law.outcome_probabilities(alphas, len(alphas))
    assert p.sum() == pytest.approx(1)
    assert law.expected_committed(alphas, len(alphas)) == pytest.approx((p * np.arange(1, len(p) + 1)).sum())


def test_full_and_no_acceptance_are_the_extremes() -> None:
    assert law.expected_committed(1.0, 7) == 8
    assert law.expected_committed(0.0, 7) == 1
    assert law.finite_rounds(24, 7, 1.0) == 3
    assert law.finite_rounds(24, 7, 0.0) == 24


@pytest.mark.parametrize(("n_events", "share"), [(38, 0.878), (160, 0.971), (500, 0.990)])
def test_finite_runs_fall_short_of_the_law_by_the_quoted_shares(n_events: int, share: float) -> None:
    per_round = n_events / law.finite_rounds(n_events, 10, 0.98)
    assert per_round / law.expected_committed(0.98, 10) == pytest.approx(share, abs=5e-4)


def simulated_rounds(n_events: int, k: int, alphas: np.ndarray, n_runs: int, rng: np.random.Generator) -> np.ndarray:
    rounds = np.zeros(n_runs)
    for run in range(n_runs):
        left = n_events
        while left:
            drafted = min(k, left - 1)
            rejected = np.flatnonzero(rng.random(drafted) >= alphas[:drafted])
            left -= (int(rejected[0]) if len(rejected) else drafted) + 1
            rounds[run] += 1
    return rounds


@pytest.mark.parametrize("alphas", [(0.8, 0.8, 0.8, 0.8), (0.9, 0.7, 0.5, 0.2)])
def test_finite_rounds_match_a_simulation_of_the_rounds(alphas: tuple[float, ...]) -> None:
    """A z beyond 5 happens once in 1.7 million runs of an exact recursion; the long-run law must be beyond it."""
    rng = StreamKey(seed=1, cell="test_finite_rounds").generator()
    rounds = simulated_rounds(23, 4, np.array(alphas), 4000, rng)
    error = rounds.std() / np.sqrt(len(rounds))
    assert abs(rounds.mean() - law.finite_rounds(23, 4, alphas)) < 5 * error
    assert abs(rounds.mean() - 23 / law.expected_committed(alphas, 4)) > 5 * error


COSTS = law.StepCosts(draft=0.1, verify=(1.0, 1.05, 1.1, 1.2, 1.4, 1.8, 2.6, 4.2), rest=0.15)


@given(st.floats(0, 1), st.integers(0, 6))
def test_raising_k_pays_exactly_where_the_speedup_rises(alpha: float, k: int) -> None:
    gain = law.speedup(alpha, k + 1, COSTS) - law.speedup(alpha, k, COSTS)
    if abs(gain) > 1e-12:
        assert law.raising_k_pays(alpha, k, COSTS) == (gain > 0)


@given(st.floats(0, 1))
def test_k_one_pays_exactly_where_its_speedup_exceeds_one(alpha: float) -> None:
    if abs(1 + alpha - COSTS.round(1)) > 1e-12:
        assert law.k_one_pays(alpha, COSTS) == (law.speedup(alpha, 1, COSTS) > 1)


def test_best_k_is_the_best_of_all_and_says_when_none_pays() -> None:
    best = law.best_k(0.9, COSTS)
    assert best.speedup == max(law.speedup(0.9, k, COSTS) for k in range(1, 8))
    assert best.pays
    assert "pays" in best.sentence()
    slow = law.best_k(0.2, law.StepCosts(draft=0.5, verify=(1.0, 1.3, 1.6)))
    assert not slow.pays
    assert slow.sentence().startswith("Speculation does not pay")


def test_a_finite_run_is_slower_than_the_law_and_approaches_it() -> None:
    flat = law.StepCosts(draft=0.05, verify=(1.0,) * 6, rest=0.1)
    finite = [law.predict(0.9, 5, flat, n_events=m).speedup for m in (10, 100, 1000)]
    assert finite == sorted(finite)
    assert finite[-1] == pytest.approx(law.predict(0.9, 5, flat).speedup, rel=0.01)


def test_a_residual_is_split_into_acceptance_and_overhead() -> None:
    prediction = law.predict(0.9, 5, COSTS)
    worse = law.explain(prediction, 0.8 * prediction.speedup, 0.8 * prediction.expected_committed)
    assert worse.acceptance == pytest.approx(np.log(0.8))
    assert worse.overhead == pytest.approx(0, abs=1e-12)
    dearer = law.explain(prediction, prediction.speedup / 1.3, prediction.expected_committed)
    assert (dearer.acceptance, dearer.overhead) == (0, pytest.approx(-np.log(1.3)))
    assert dearer.total == pytest.approx(-np.log(1.3))


def test_what_was_never_measured_is_refused() -> None:
    with pytest.raises(ValueError, match=r"K = 9 has no measured verifying cost; v is known for K = 0\.\.7"):
        law.predict(0.9, 9, COSTS)
    with pytest.raises(ValueError, match="between 0 and 1"):
        law.expected_committed(1.2, 3)
