"""The bands of claims 4 and 5, each made to agree, to be contradicted, and not to apply."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_up import about, costs, healthy, prices, retimed

from tppsd_bench.doctor.bands import Held, bands
from tppsd_bench.doctor.base import Estimate
from tppsd_bench.doctor.measurements import Acceptance, HistoryPoint, Measurements, Speed

AGREES, CONTRADICTED, IDLE = Held.AGREES, Held.CONTRADICTED, Held.IDLE


def held(m: Measurements, part: str) -> Held | None:
    """The band whose advice has this part; None where it is not among them."""
    found = [b.held for b in bands(m) if part in b.advice]
    assert len(found) <= 1, part
    return found[0] if found else None


def accepting(alpha: float, per_round: float | None = None, **more: Any) -> Measurements:
    mean = None if per_round is None else about(per_round)
    return healthy(acceptance=Acceptance(about(alpha, 0.005), accepted_per_round=mean), **more)


def test_k_four_to_eight() -> None:
    assert held(accepting(0.8), "4 to 8 is right") is AGREES
    assert held(accepting(0.99, costs=costs(prices(c=0.01))), "4 to 8 is right") is CONTRADICTED
    assert held(accepting(0.8, costs=costs(prices(c=1.0))), "4 to 8 is right") is IDLE


def test_k_one_is_judged_by_its_timing_where_there_is_one() -> None:
    m = accepting(0.8)
    assert held(m, "K = 1 gains nothing") is CONTRADICTED
    slow = replace(m, speed=Speed({1: Estimate(1.0, 0.97, 1.03), 8: about(2.0)}, about(1.0)))
    assert held(slow, "K = 1 gains nothing") is AGREES
    assert held(replace(m, speed=None), "K = 1 gains nothing") is CONTRADICTED
    dear = replace(accepting(0.8, costs=costs(prices(r=1.0))), speed=None)
    assert held(dear, "K = 1 gains nothing") is AGREES


@pytest.mark.parametrize(
    ("k", "alpha", "c", "mean", "part", "verdict"),
    [
        (16, 0.7, 0.1, 2.3, "below K/2", AGREES),
        (4, 0.4, 0.01, 0.6, "below K/2", CONTRADICTED),  # shorter drafts gain nothing: they are as good as free
        (4, 0.95, 0.05, 3.6, "near K", AGREES),
        (16, 0.99, 0.05, 14.9, "near K", IDLE),  # nothing is known of larger K
        (8, 0.98, 0.9, 7.4, "near K", CONTRADICTED),
        (8, 0.85, 0.05, 4.5, "leave K", AGREES),
    ],
)
def test_mean_accepted(k: int, alpha: float, c: float, mean: float, part: str, verdict: Held) -> None:
    m = accepting(alpha, mean, k=k, costs=costs(prices(c=c, r=0.0)))
    assert held(m, part) is verdict, bands(m)


def test_acceptance() -> None:
    ideal, weak, raise_k = "60% to 80% is ideal", "too weak", "raise K"
    assert held(accepting(0.7), ideal) is AGREES
    assert held(accepting(0.7, costs=costs(prices(c=1.5))), ideal) is CONTRADICTED
    assert held(accepting(0.85), ideal) is CONTRADICTED
    assert held(accepting(0.55), ideal) is IDLE
    assert held(accepting(0.45), weak) is CONTRADICTED
    assert held(accepting(0.45, costs=costs(prices(c=1.5))), weak) is AGREES
    assert held(accepting(0.55), weak) is None
    assert held(accepting(0.95, k=4), raise_k) is AGREES
    assert held(accepting(0.92, k=8, costs=costs(prices(c=0.4))), raise_k) is CONTRADICTED
    assert held(accepting(0.89), raise_k) is None


def test_histories() -> None:
    short, long = "below 100 events: K 3 to 5", "above 1,000 events: K 8 to 10"

    def after(n: int, c: float, alpha: float) -> Measurements:
        return accepting(alpha, history=(HistoryPoint(n, 2.0, 0.1, prices(c=c)),))

    assert held(after(64, 0.1, 0.7), short) is AGREES
    assert held(after(64, 0.02, 0.95), short) is CONTRADICTED
    assert held(after(64, 1.5, 0.7), short) is IDLE
    assert held(after(1024, 0.05, 0.9), long) is AGREES
    assert held(after(1024, 0.2, 0.6), long) is CONTRADICTED
    assert held(after(500, 0.2, 0.6), long) is None


def test_batches() -> None:
    part = "4 to 8 sequences"
    assert held(healthy(batch={4: about(1.5), 8: about(1.8), 32: about(1.8)}), part) is AGREES
    assert held(healthy(batch={4: about(1.5), 8: about(1.8), 32: about(3.0)}), part) is CONTRADICTED
    assert held(healthy(batch={4: about(1.0), 8: about(1.02), 32: about(1.0)}), part) is CONTRADICTED
    assert held(healthy(), part) is None


def test_an_unsteady_timing_is_not_held_against_anybody() -> None:
    m = retimed(accepting(0.8))
    assert m.speed is not None
    shaken = replace(m, speed=Speed({1: about(0.5), 8: about(2.0)}, about(1.2)))
    assert held(shaken, "K = 1 gains nothing") is CONTRADICTED, "by the law, not by what was timed"
