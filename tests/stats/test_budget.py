"""The numbers of the error budget and the identities between them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tppsd_bench import budget


def test_shares_sum_to_the_run_level():
    shares = budget.ANALYTIC_LEVEL + budget.PERMUTATION_LEVEL + budget.EPROCESS_LEVEL
    assert shares == pytest.approx(budget.RUN_LEVEL, rel=1e-12)
    assert pytest.approx(budget.ANALYTIC_LEVEL, rel=1e-12) == budget.LAW_ANALYTIC_LEVEL + budget.MECHANISM_LEVEL


@pytest.mark.parametrize(("n", "ks", "theta"), [(8_000, 0.04, 0.06), (32_000, 0.02, 0.03), (200_000, 0.008, 0.012)])
def test_margins_at_the_quoted_sizes(n, ks, theta):
    assert round(budget.delta_ks(n), 3 if n > 1e5 else 2) == ks
    assert round(budget.delta_theta(n), 3 if n > 1e5 else 2) == theta


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("alpha", [0.05, 3e-5])
def test_confirmation_thresholds_spend_exactly_alpha(alpha, k):
    thresholds = budget.confirmation_thresholds(alpha, k)
    reach, spent = 1.0, 0.0
    for fail_at, pass_above in thresholds:
        spent += reach * fail_at
        reach *= pass_above - fail_at
    assert spent == pytest.approx(alpha, rel=1e-9)


def test_permutation_floor_can_fail_from_round_two():
    floor = 1 / (1 + budget.PERMUTATIONS)
    first, second, _ = budget.confirmation_thresholds(budget.PERMUTATION_LEVEL)
    assert first[0] < floor < second[0]
    assert floor < first[1]


def test_round_sizes_grow_once():
    assert [budget.round_size(100, j) for j in (1, 2, 3)] == [100, 400, 400]


def test_dkw_half_width():
    assert budget.dkw_half_width(1000, 0.05) == pytest.approx(0.042947, abs=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        lambda: budget.delta_ks(0),
        lambda: budget.dkw_half_width(10, 0.0),
        lambda: budget.round_size(10, 0),
        lambda: budget.confirmation_thresholds(0.05, 0),
        lambda: budget.confirmation_thresholds(1.0),
    ],
)
def test_impossible_numbers_are_refused(call):
    with pytest.raises(ValueError, match=r"expected|at least|count from"):
        call()


def test_budget_needs_no_numpy():
    code = "import sys, tppsd_bench.budget; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
