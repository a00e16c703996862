"""Every step on both sides of its thresholds, from made-up measurements."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_up import about, costs, healthy, look, prices, retimed

from tppsd_bench.doctor import thresholds
from tppsd_bench.doctor.base import REGISTRY, Estimate, Finding, Member, step
from tppsd_bench.doctor.diagnosis import STEPS, diagnose
from tppsd_bench.doctor.measurements import Acceptance, Buckets, Cache, HistoryPoint, Measurements, Speed, decided
from tppsd_bench.errors import Exit
from tppsd_bench.measure.throughput import StepCosts

OK, ATTENTION, CAUSE, UNANSWERED, NONE = (
    Finding.OK, Finding.ATTENTION, Finding.CAUSE, Finding.UNANSWERED, Finding.NOT_APPLICABLE,
)  # fmt: skip


def accepted(value: float, **more: Any) -> Acceptance:
    return Acceptance(about(value, 0.005), **more)


def ill(m: Measurements) -> Measurements:
    """Timed below target-only sampling, whatever the law says."""
    return replace(m, speed=Speed({m.k: about(0.7)}, about(1.0)))


def test_a_healthy_pair_has_nothing_but_ok() -> None:
    d = diagnose(healthy())
    assert [s.outcome for s in d.steps] == [OK, OK, NONE, OK, OK, OK, OK, OK], [s.sentence for s in d.steps]
    assert (d.exit_code, d.cause) == (Exit.PASS, None)
    assert d.sentence.startswith("Healthy")


def test_steps_are_numbered_without_gaps_and_a_number_is_given_once() -> None:
    assert sorted(REGISTRY) == list(range(1, len(STEPS) + 1))
    assert all(isinstance(m, Member) for m in REGISTRY.values())
    with pytest.raises(ValueError, match="already 'K'"):
        step(2, "another")(lambda _: look(2, healthy()))  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    ("low", "high", "verdict"), [(1.01, 1.2, True), (0.9, 0.99, False), (0.95, 1.05, None), (1.0, 1.2, None), (0.8, 1.0, None)]
)
def test_a_speed_decides_with_its_whole_interval(low: float, high: float, verdict: bool | None) -> None:
    assert decided(Estimate((low + high) / 2, low, high)) is verdict
    assert decided(None) is None


# -- 1 ----------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("alpha", "pays", "outcome"),
    [(0.61, True, OK), (0.59, True, ATTENTION), (0.506, True, ATTENTION), (0.49, True, CAUSE), (0.49, False, CAUSE),
     (0.59, False, CAUSE), (0.61, False, OK)],
)  # fmt: skip
def test_draft_accuracy(alpha: float, pays: bool, outcome: Finding) -> None:
    m = healthy(acceptance=accepted(alpha))
    assert look(1, m if pays else ill(m)).outcome is outcome


def test_a_better_draft_that_would_not_pay_is_not_named() -> None:
    m = ill(healthy(acceptance=accepted(0.55), costs=costs(prices(c=1.0))))
    found = look(1, m)
    assert found.outcome is ATTENTION
    assert "alone would not pay" in found.advice
    assert diagnose(m).cause is not None
    assert diagnose(m).cause.number == 5  # type: ignore[union-attr]


def test_low_acceptance_says_where_it_is_lost_and_contradicts_claim_11_where_predictions_are_good() -> None:
    m = healthy(acceptance=accepted(0.45, gap=about(0.5), type=about(0.9)))
    found = look(1, m)
    assert "most is lost on the gap (50.0% of gaps, 10.0% of types)" in found.sentence
    assert any("Claim 11" in c for c in found.contradicts)
    a = m.accuracy
    assert a is not None
    worse = replace(m, accuracy=replace(a, type_difference=Estimate(-0.1, -0.12, -0.08)))
    assert look(1, worse).contradicts == ()
    assert diagnose(m).exit_code is Exit.FAIL
    assert "though speculation pays" in diagnose(m).sentence


def test_a_draft_as_good_as_its_target_on_data_is_advised_to_be_sampled() -> None:
    assert "sample the draft" in look(1, healthy(held_out=about(0.005))).advice
    assert look(1, healthy(held_out=about(0.02))).advice == ""


# -- 2 ----------------------------------------------------------------------------------------------------------------------
def test_k_is_the_cause_where_another_one_pays() -> None:
    dear = costs(prices(r=1.2))
    m = retimed(healthy(k=1, costs=dear))
    assert m.pays is False
    found = look(2, m)
    assert found.outcome is CAUSE
    assert found.advice == f"Use K = {m.best().k}."
    assert diagnose(m).cause is not None
    assert diagnose(m).next == f"doctor --pair some-pair --k {m.best().k}"
    assert look(2, retimed(healthy(k=12, costs=dear))).outcome is OK


def test_k_is_not_the_cause_where_none_pays_or_timing_says_that_the_better_one_does_not_either() -> None:
    none = retimed(healthy(costs=costs(prices(c=1.0))))
    assert look(2, none).outcome is OK
    assert "No K up to 16 pays" in look(2, none).sentence
    m = retimed(healthy(k=1, costs=costs(prices(r=1.2))))
    assert m.speed is not None
    slow = replace(m, speed=replace(m.speed, by_k={1: about(0.8), m.best().k: about(0.9)}))
    assert look(2, slow).outcome is OK
    assert look(4, slow).outcome is CAUSE


def test_a_k_that_loses_a_tenth_deserves_attention() -> None:
    assert look(2, healthy(k=8)).outcome is OK
    found = look(2, healthy(k=2))
    assert found.outcome is ATTENTION
    assert found.readings[0].value is not None
    assert found.readings[0].value.value > thresholds.K_REGRET
    assert look(2, healthy(k=40)).outcome is UNANSWERED


# -- 3 ----------------------------------------------------------------------------------------------------------------------
def tokens(**changes: Any) -> Buckets:
    base = Buckets(100, "quantile", about(0.01, 0.001), about(0.03, 0.001), Estimate(0, 0, 1e-4), about(0.86), about(0.85))
    return replace(base, **changes)


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [({}, OK), ({"open_mass": about(0.07)}, ATTENTION), ({"open_mass": about(0.055)}, OK), ({"fullest": about(0.3)}, ATTENTION),
     ({"edge_share": Estimate(0.01, 0.005, 0.02)}, ATTENTION), ({"joint": about(0.8)}, ATTENTION),
     ({"joint": about(0.84)}, OK), ({"continuous": None}, OK)],
)  # fmt: skip
def test_buckets(changes: dict[str, Any], outcome: Finding) -> None:
    assert look(3, healthy(buckets=tokens(**changes), continuous=False)).outcome is outcome


def test_buckets_are_a_cause_only_where_tokens_overlap_less_than_what_they_were_made_from() -> None:
    crowded, lost = (
        ill(healthy(buckets=tokens(**c), continuous=False)) for c in ({"fullest": about(0.5)}, {"joint": about(0.7)})
    )
    assert (look(3, crowded).outcome, look(3, lost).outcome) == (ATTENTION, CAUSE)
    assert any("too many buckets" in c for c in look(3, crowded).contradicts)


def test_continuous_time_needs_no_buckets_and_contradicts_claim_6_where_much_is_accepted() -> None:
    assert any("Claim 6" in c for c in look(3, healthy()).contradicts)
    assert look(3, healthy(acceptance=accepted(0.5))).contradicts == ()
    assert look(3, healthy(continuous=None)).outcome is UNANSWERED


# -- 4 ----------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("share", "outcome"), [(0.93, OK), (0.85, ATTENTION), (1.1, OK), (1.2, ATTENTION)])
def test_the_laws_promise_is_held_to_a_tenth(share: float, outcome: Finding) -> None:
    assert look(4, retimed(healthy(), share)).outcome is outcome


def test_a_promise_that_it_pays_which_timing_refutes_is_the_cause_and_says_where_it_is_lost() -> None:
    m = retimed(healthy(), 0.25)
    assert m.pays is False
    assert look(4, m).outcome is CAUSE
    assert "rounds cost more than their parts" in look(4, m).sentence
    assert m.speed is not None
    fewer = replace(m, speed=replace(m.speed, committed={m.k: 0.2 * m.predict(m.k).expected_committed}))
    assert "fewer events a round" in look(4, fewer).sentence
    assert diagnose(m).cause is not None
    assert diagnose(m).cause.number == 4  # type: ignore[union-attr]


def test_an_unsteady_machine_gives_no_verdict() -> None:
    m = healthy()
    assert m.speed is not None
    shaken = replace(m, speed=replace(m.speed, self_ratio=about(1.07)))
    assert shaken.pays is None
    assert diagnose(shaken).exit_code is Exit.INCONCLUSIVE
    assert look(4, shaken).outcome is ATTENTION
    assert replace(m, speed=replace(m.speed, self_ratio=about(1.04))).pays is True


def test_calibrations_that_differ_deserve_attention_unless_all_of_them_say_that_it_does_not_pay() -> None:
    wide = {"spread": Estimate(1.0, 0.8, 1.1)}
    assert look(4, healthy(costs=costs(prices(), **wide))).outcome is ATTENTION
    assert look(4, healthy(costs=costs(prices(c=2.0), **wide))).outcome is OK
    border = retimed(healthy(costs=costs(prices(c=0.52), **wide)))
    assert border.pays is False
    assert 0.92 < border.predict(border.k).speedup < 0.97
    assert look(4, border).outcome is ATTENTION


# -- 5 ----------------------------------------------------------------------------------------------------------------------
def test_c_is_held_to_its_break_even() -> None:
    limit = healthy().break_even_draft
    for factor, outcome in ((1.1, CAUSE), (0.9, ATTENTION)):
        m = healthy(costs=costs(prices(c=factor * limit)))
        assert m.best().pays is (factor < 1)
        assert look(5, m).outcome is outcome
    at = healthy(costs=costs(prices(c=limit)))
    assert at.best().speedup == pytest.approx(1.0, abs=1e-9)


def test_where_even_a_free_draft_would_not_pay_the_draft_is_not_the_cause() -> None:
    m = healthy(costs=costs(prices(c=0.5, r=9.0)))
    assert m.break_even_draft < 0
    assert look(5, m).outcome is not CAUSE
    assert diagnose(m).cause is not None
    assert diagnose(m).cause.number == 8  # type: ignore[union-attr]


def test_claim_2_is_contradicted_by_a_fastest_k_with_a_dear_draft() -> None:
    assert look(5, healthy(k=2)).outcome is OK
    assert any("Claim 2 splits" in c for c in look(5, healthy(costs=costs(prices(c=0.2)))).contradicts)
    large = costs(prices(), target_parameters=100, draft_parameters=30)
    assert any("0.30 of them pays" in c for c in look(5, healthy(costs=large)).contradicts)
    small = costs(prices(c=2.0), target_parameters=100, draft_parameters=3)
    assert any("cost 2.00 target steps" in c for c in look(5, healthy(costs=small)).contradicts)


# -- 6 ----------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("ms", "outcome"), [(5.9, OK), (6.1, ATTENTION)])
def test_the_cost_of_a_long_history(ms: float, outcome: Finding) -> None:
    points = tuple(HistoryPoint(n, t, 0.1, prices()) for n, t in ((64, 2.0), (256, 3.0), (1024, ms)))
    assert look(6, healthy(history=points)).outcome is outcome
    assert look(6, healthy(history=points[:2])).outcome is UNANSWERED


def test_acceptance_that_fades_and_speculation_that_stops_paying_along_the_sequence() -> None:
    fading = {"early": about(0.9), "late": about(0.8), "fade": Estimate(0.1, 0.06, 0.14)}
    assert look(6, healthy(acceptance=accepted(0.85, **fading))).outcome is ATTENTION
    assert look(6, healthy(acceptance=accepted(0.45, **fading))).outcome is CAUSE
    law = {64: prices(), 1024: prices(c=1.5)}
    points = tuple(HistoryPoint(n, 2.0, 0.1, found) for n, found in law.items())
    m = ill(healthy(n_events=1000, history=points))
    assert look(6, m).outcome is CAUSE
    assert look(6, replace(m, n_events=100)).outcome is OK


# -- 7 and 8 ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("cache", "pays", "outcome"),
    [(Cache(about(1.6), 32, 9.0), True, OK), (Cache(about(1.2), 32, 9.0), True, ATTENTION),
     (Cache(about(3.0), 32, 13.0), True, OK), (Cache(about(3.0), 32, 14.0), True, ATTENTION),
     (Cache(about(3.0), 32, 14.0), False, CAUSE), (Cache(about(1.2), 32, 9.0), False, ATTENTION), (Cache(None), True, UNANSWERED)],
)  # fmt: skip
def test_cache(cache: Cache, pays: bool, outcome: Finding) -> None:
    m = healthy(cache=cache)
    assert look(7, m if pays else ill(m)).outcome is outcome


def test_verification_and_overhead() -> None:
    assert look(8, healthy()).outcome is OK
    assert look(8, healthy(costs=costs(prices(r=1.0)))).outcome is ATTENTION
    overhead = healthy(costs=costs(prices(r=9.0)))
    assert look(8, overhead).outcome is CAUSE
    assert "rest of a round" in look(8, overhead).sentence
    growing = healthy(costs=costs(prices(v=2.0, r=0.0)))
    assert look(8, growing).outcome is CAUSE
    assert "Verifying 9 events" in look(8, growing).sentence
    assert look(8, healthy(costs=costs(prices(c=2.0)))).outcome is not CAUSE, "the draft is to blame there"


@pytest.mark.parametrize("alpha", [0.3, 0.6, 0.85, 0.99])
@pytest.mark.parametrize("law", [prices(), prices(c=0.5), prices(c=1.2), prices(r=3.0), prices(v=0.9), prices(c=0.3, r=0.7)])
def test_wherever_speculation_does_not_pay_a_cause_is_named(alpha: float, law: StepCosts) -> None:
    for k in (1, 4, 16):
        m = healthy(acceptance=accepted(alpha), costs=costs(law), k=k, n_events=24)
        for share in (0.3, 1.0, 2.0):
            d = diagnose(retimed(m, share))
            assert (d.exit_code is Exit.FAIL) == d.measurements.ill
            assert (d.cause is not None) == d.measurements.ill, d.sentence


def test_nothing_known_means_nothing_answered() -> None:
    m = Measurements("some-pair", "shipped", 5, 100, 1, "made up", continuous=None, from_run=True)
    d = diagnose(m)
    assert d.exit_code is Exit.INCONCLUSIVE
    assert {s.outcome for s in d.steps} == {UNANSWERED}
    assert all(s.advice == "Answered by: doctor --pair some-pair" for s in d.steps)
    assert d.bands == ()
    assert d.next == "doctor --pair some-pair --k 5"
