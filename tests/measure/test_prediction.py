"""The cost model and what it promises: exact where it was timed, exact between where costs are linear, refused where unknown."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tppsd_bench.measure.prediction import CostModel, cost_model, fastest, loss, predict_run
from tppsd_bench.measure.rounds import expected_rounds

ALONG = np.full((1, 100), 0.8)
KS = (1, 2, 4, 8)


def true_cost(drafted: float) -> float:
    """c = .1, v = 1 + .05 K, r = .3 + .02 K, all linear."""
    return 0.1 * drafted + 1 + 0.05 * drafted + 0.3 + 0.02 * drafted


def calibrated(timed: tuple[int, ...]) -> CostModel:
    rounds = {}
    for k in timed:
        drafted = expected_rounds(ALONG, k).drafted_per_round
        rounds[k] = drafted, true_cost(drafted)
    return cost_model(0.1, {k: 1 + 0.05 * k for k in (0, *KS)}, rounds)


@pytest.mark.parametrize("k", KS)
def test_where_rounds_were_timed_the_promise_is_exact(k: int) -> None:
    promised = predict_run(expected_rounds(ALONG, k), calibrated(KS))
    assert promised.round_cost == pytest.approx(true_cost(promised.drafted_per_round), rel=1e-12)
    assert promised.speedup == pytest.approx(100 / (promised.rounds * true_cost(promised.drafted_per_round)))
    assert promised.pays == (promised.speedup > 1)


def test_between_them_it_is_exact_where_what_is_left_is_linear() -> None:
    promised = predict_run(expected_rounds(ALONG, 4), calibrated((1, 8)))
    assert promised.round_cost == pytest.approx(
        true_cost(promised.drafted_per_round), rel=0.003
    )  # r is linear in K, not in drafts
    assert predict_run(expected_rounds(ALONG, 4), calibrated((1, 2))).rest_cost != pytest.approx(promised.rest_cost, rel=0.003)


def test_a_pass_that_jumps_is_known_from_its_own_timing() -> None:
    """The pass costs three times as much from K = 4: only K = 1 and 8 were timed whole, and K = 2 must not inherit the jump."""
    verify = {0: 1.0, 1: 1.0, 2: 1.0, 4: 3.0, 8: 3.0}
    costs = cost_model(0.0, verify, {1: (1.0, 1.2), 8: (8.0, 3.2)})
    assert costs.parts(2.0, 2)[1] == 1.0
    assert costs.parts(4.0, 4)[1] == 3.0
    assert costs.rest == pytest.approx((0.2, 0.2))


def test_the_fastest_is_the_fastest_and_the_smaller_of_equals() -> None:
    costs = calibrated(KS)
    predictions = [predict_run(expected_rounds(ALONG, k), costs) for k in KS]
    assert fastest(predictions).speedup == max(p.speedup for p in predictions)
    sure = [predict_run(expected_rounds(np.zeros((1, 50)), k), CostModel(0.0, (0.0,), (1.0,), (1.0,), (0.5,))) for k in KS]
    assert fastest(sure).k == 1


@given(
    st.integers(1, 32), st.floats(0.05, 1), st.floats(0, 2), st.floats(0, 3), st.floats(-0.5, 3),
)  # fmt: skip
def test_the_four_losses_add_up_to_what_was_lost(k: int, share: float, draft: float, growth: float, rest: float) -> None:
    committed, cost = 1 + k * share, max(1 + draft + growth + rest, 0.1)
    parts = loss(k, committed, draft, growth, cost)
    assert parts.total == pytest.approx(math.log((k + 1) * cost / committed), abs=1e-9)


def test_the_largest_loss_has_a_name() -> None:
    assert loss(8, 8.9, 0.1, 3.0, 4.2).largest == "verification"
    assert loss(8, 1.2, 0.1, 0.1, 1.3).largest == "acceptance"
    assert loss(8, 8.9, 4.0, 0.1, 5.2).largest == "draft cost"
    assert loss(8, 8.9, 0.1, 0.1, 5.2).largest == "overhead"


def test_costs_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="verifying pass cannot cost nothing"):
        cost_model(0.1, {0: 0.0}, {1: (1.0, 1.0)})
    with pytest.raises(ValueError, match="K increasing"):
        CostModel(0.1, (1.0, 0.0), (1.0, 1.0), (1.0,), (0.0,))
    with pytest.raises(ValueError, match="time one there"):
        predict_run(expected_rounds(ALONG, 4), CostModel(0.0, (0.0,), (1.0,), (1.0,), (-2.0,)))
