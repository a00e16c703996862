"""Outcomes of claims follow from intervals and limits alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tppsd_bench.errors import InputError
from tppsd_bench.studies.claims.judge import hold, outcome
from tppsd_bench.studies.outcomes import Found
from tppsd_bench.suite import load_suite


def quantity(low: float, high: float, name: str = "x") -> dict[str, Any]:
    return {"name": name, "label": name, "value": (low + high) / 2, "low": low, "high": high, "where": "", "n": 9, "unit": ""}


BETWEEN = {"quantity": "x", "at_least": 2.0, "at_most": 6.0}


@pytest.mark.parametrize(
    ("intervals", "found"),
    [
        ([(2.5, 3.0)], Found.REPRODUCED),
        ([(2.0, 6.0), (4.0, 4.0)], Found.REPRODUCED),
        ([(1.0, 1.9)], Found.REFUTED),
        ([(6.1, 7.0), (0.5, 1.5)], Found.REFUTED),
        ([(1.9, 2.1)], Found.BOUNDED),
        ([(2.5, 3.0), (1.0, 1.9)], Found.BOUNDED),
        ([], Found.PENDING),
    ],
)
def test_an_interval_decides_only_where_it_lies_on_one_side(intervals: list[tuple[float, float]], found: Found) -> None:
    assert outcome([BETWEEN], [quantity(*i) for i in intervals]) is found


def test_every_criterion_must_hold_and_be_measured() -> None:
    other = {"quantity": "y", "at_most": 1.05, "at_least": None}
    inside, outside = quantity(0.9, 1.0, "y"), quantity(1.2, 1.3, "y")
    assert outcome([BETWEEN, other], [quantity(3, 4), inside]) is Found.REPRODUCED
    assert outcome([BETWEEN, other], [quantity(3, 4), outside]) is Found.BOUNDED
    assert outcome([BETWEEN, other], [quantity(7, 8), outside]) is Found.REFUTED
    assert outcome([BETWEEN, other], [quantity(3, 4)]) is Found.BOUNDED
    assert outcome([], [quantity(3, 4)]) is Found.PENDING


@given(st.floats(-10, 10), st.floats(0, 5))
def test_the_three_sides_are_complementary(low: float, width: float) -> None:
    held = hold(BETWEEN, [quantity(low, low + width)])
    assert held.n == 1
    assert bool(held.inside) == (low >= 2.0 and low + width <= 6.0)
    assert bool(held.outside) == (low + width < 2.0 or low > 6.0)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (['study.claims.claim.3.criteria=[{quantity = "x"}]'], "at_least, at_most or both"),
        (['study.claims.claim.3.hypothesis=""'], "hypothesis, measure, pairs and criteria"),
        (['study.claims.claim.17.reason=""'], "a reason"),
    ],
)
def test_a_claim_without_limits_or_reasons_is_refused(settings: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        load_suite("claims", settings)
