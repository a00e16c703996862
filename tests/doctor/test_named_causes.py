"""Pairs built to fail, examined from end to end on a clock that tests decide: the first cause named is the one that was built in."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from priced import PricedPair, examined, priced_pair, unlike

from tppsd_bench.doctor.base import Finding
from tppsd_bench.errors import Exit

CASES = {
    # name -> (pair, draft, K, the step that must be named)
    "a draft unrelated to the target": (lambda: priced_pair(unlike(2.0)), "shipped", 5, 1),
    "K = 1 under rounds that cost something": (lambda: priced_pair(rest=1.2), "shipped", 1, 2),
    "the target as its own draft": (lambda: priced_pair(), "target", 5, 5),
    "rounds that cost twenty target steps": (lambda: priced_pair(rest=20.0), "shipped", 5, 8),
}
MORE = {
    "K = 20 of which few are accepted": (lambda: priced_pair(unlike(1.0), draft_call=0.2), "shipped", 20, 2),
    "a draft as expensive as the target": (lambda: priced_pair(draft_call=1.02), "shipped", 8, 5),
    "passes that encode the history again": (lambda: priced_pair(rest=20.0, again=20), "shipped", 5, 7),
    "verification as expensive as sampling": (lambda: priced_pair(position=50.0), "shipped", 16, 8),
}


def check(case: tuple[Callable[[], PricedPair], str, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The first cause is the fault that was built in, and whatever comes before it is ok."""
    pair, draft, k, number = case
    d = examined(pair(), monkeypatch, k=k, draft=draft, length=40 if k > 8 else 20)
    assert d.exit_code is Exit.FAIL, d.sentence
    assert d.cause is not None, d.sentence
    assert d.cause.number == number, d.sentence
    assert f"step {number}, {d.cause.name}" in d.sentence
    before = {s.outcome for s in d.steps if s.number < number and s.name != "cost ratio"}  # c K of a long round is worth a word
    assert before <= {Finding.OK, Finding.NOT_APPLICABLE}, [s.sentence for s in d.steps]
    assert d.cause.advice


@pytest.mark.parametrize("name", CASES)
def test_the_first_step_that_is_not_ok_is_the_fault_that_was_built_in(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(CASES[name], monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", MORE)
def test_so_it_is_for_other_faults(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(MORE[name], monkeypatch)


def test_a_healthy_pair_is_left_alone_and_the_law_holds_on_an_exact_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = priced_pair()
    d = examined(pair, monkeypatch, k=8)
    assert d.exit_code is Exit.PASS
    assert d.cause is None
    m = d.measurements
    assert m.costs is not None
    assert m.speed is not None
    step = 1.02 * 19 / 20  # seconds an event: the first one needs no pass
    assert m.costs.step_ms.value == pytest.approx(1000 * step)
    assert m.costs.draft.value == pytest.approx(0.05 / 1.02)
    assert m.costs.law.verify[16] == pytest.approx((1 + 0.02 * 17) / step)
    assert m.costs.rest.value < 0.3, "rounds cost nothing besides; the luck of the runs is left"
    miss = m.speed.by_k[8].value / m.predict(8).speedup
    assert miss == pytest.approx(1.0, abs=0.15), "a median of eight runs of 20 events on other seeds"


@pytest.mark.slow
def test_a_cache_that_does_nothing_is_noticed_though_speculation_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    d = examined(priced_pair(position=0.1, history=0.15), monkeypatch, k=8)
    assert d.exit_code is Exit.PASS
    outcome = {s.number: s.outcome for s in d.steps}
    assert (outcome[6], outcome[7]) == (Finding.ATTENTION, Finding.ATTENTION)


@pytest.mark.slow
def test_two_examinations_with_one_seed_agree_to_the_last_digit(monkeypatch: pytest.MonkeyPatch) -> None:
    def once() -> PricedPair:
        return priced_pair(draft_call=0.3)

    first, second = (examined(once(), monkeypatch, k=4) for _ in range(2))
    assert first.measurements == second.measurements
