"""Decisions: family values, confirmation at its level, and what each verdict says."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tppsd_bench import budget
from tppsd_bench.results import Axis, Evidence, Outcome, Verdict
from tppsd_bench.stats.decide import (
    Confirmation,
    eprocess_confirmation,
    family_q,
    gandy_scott,
    law_verdict,
    mechanism_verdict,
    needed_n,
    upper_bound,
    validity_verdict,
)
from tppsd_bench.streams import StreamKey

PASSED = Confirmation(Outcome.PASS, 1e-5, (0.4,), ((1e-6, 0.01),))
FAILED = Confirmation(Outcome.FAIL, 1e-5, (1e-3, 1e-9), ((1e-6, 0.01), (1e-4, 0.01)))


def law(name="pit_time.neyman", p=0.3, **more):
    return Evidence(name, Axis.LAW, p_value=p, **more)


def theta(effect=0.0, n=8000, margin=None):
    half = 1.959964 / math.sqrt(n)
    return law(
        "pit_time.theta_1", n=n, effect=effect, effect_name="theta_1", interval=(effect - half, effect + half),
        margin=budget.delta_theta(n) if margin is None else margin, primary=True, display=True,
    )  # fmt: skip


# -- family ------------------------------------------------------------------------------------------------------------------
def test_family_q_is_bonferroni_with_fixed_size():
    family = family_q([law(p=0.02), law(p=0.001), law(p=0.5)], m_fixed=10)
    assert family.q == pytest.approx(0.01)
    assert family.worst is not None
    assert family.worst.p_value == 0.001
    assert [round(p, 6) for _, p in family.holm] == [0.01, 0.18, 1.0]


def test_display_and_deterministic_evidence_do_not_count():
    family = family_q([law(p=1e-9, display=True), Evidence("x", Axis.LAW, passed=False), law(p=0.4)], m_fixed=1)
    assert family.q == 0.4


def test_empty_family_has_q_one():
    assert family_q([], 5).q == 1.0


def test_more_tests_than_fixed_or_no_number_is_an_error():
    with pytest.raises(ValueError, match="fixed at 1"):
        family_q([law(), law()], 1)
    with pytest.raises(ValueError, match=r"pit_time\.neyman"):
        family_q([law(p=math.nan)], 1)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.integers(0, 5))
def test_holm_is_monotone_and_starts_at_q(ps, extra):
    family = family_q([law(p=p) for p in ps], len(ps) + extra)
    adjusted = [p for _, p in family.holm]
    assert adjusted == sorted(adjusted)
    assert adjusted[0] == family.q


# -- confirmation ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("alpha", [0.3, 0.05])
def test_gandy_scott_fails_exact_samplers_at_most_alpha(alpha, k):
    rng = StreamKey(cell=f"gandy_scott {alpha} {k}").generator()
    n = 20_000
    fails = sum(gandy_scott(lambda _: rng.random(), alpha, k).outcome is Outcome.FAIL for _ in range(n))
    # one-sided binomial test of P(FAIL) <= alpha: wrong in 1 of 1e6 runs; and it does spend its level
    assert stats.binom.sf(fails - 1, n, alpha) > 1e-6
    assert stats.binom.cdf(fails, n, 0.8 * alpha) > 1 - 1e-6


def test_rerunning_until_it_passes_or_fails_would_be_noticed():
    """The same simulation rejects a rule that keeps its first threshold's complement: fail at q <= alpha in any of 3 rounds."""
    rng = StreamKey(cell="gandy_scott naive").generator()
    n, alpha = 20_000, 0.05
    fails = sum(min(rng.random(3)) <= alpha for _ in range(n))
    assert stats.binom.sf(fails - 1, n, alpha) < 1e-6


def test_gandy_scott_walks_the_rule():
    asked: list[int] = []

    def answers(values):
        def round(j):
            asked.append(j)
            return values[j - 1]

        return round

    (b1, c1), (b2, _), (b3, _) = budget.confirmation_thresholds(3e-5, 3)
    assert gandy_scott(answers([b1]), 3e-5, 3).outcome is Outcome.FAIL
    assert asked == [1]
    assert gandy_scott(answers([c1 * 1.01]), 3e-5, 3).rounds == 1
    middle = gandy_scott(answers([b1 * 2, b2 * 2, b3 * 1.01]), 3e-5, 3)
    assert (middle.outcome, middle.rounds) == (Outcome.PASS, 3)
    late = gandy_scott(answers([b1 * 2, b2 * 2, b3]), 3e-5, 3)
    assert (late.outcome, late.q_value) == (Outcome.FAIL, b3)


def test_gandy_scott_refuses_what_is_no_p_value():
    with pytest.raises(ValueError, match="round 1 returned q = nan"):
        gandy_scott(lambda _: math.nan, 0.05)


def test_eprocess_threshold():
    assert eprocess_confirmation(math.log(1e5) + 1e-9).outcome is Outcome.FAIL
    assert eprocess_confirmation(math.log(1e5) - 1e-6).outcome is Outcome.PASS
    assert eprocess_confirmation(-3.0).q_value == 1.0


# -- bounds ------------------------------------------------------------------------------------------------------------------
def test_upper_bounds():
    assert upper_bound(theta(-0.01)) == pytest.approx(0.01 + 1.6448536 / math.sqrt(8000), rel=1e-6)
    assert upper_bound(law(effect=0.01, effect_name="KS distance", interval=(0.0, 0.025))) == 0.025
    assert upper_bound(law()) == math.inf


def test_exact_runs_are_rarely_inconclusive():
    """8 thetas in 4 cells: the chance that any upper bound reaches 5.4/sqrt(n) is below 2 %."""
    reach = budget.THETA_MARGIN_SCALE - stats.norm.ppf(budget.EQUIVALENCE_CONFIDENCE)
    assert 32 * 2 * stats.norm.sf(reach) < 0.02


def test_needed_n_inverts_the_margins():
    assert needed_n(theta(n=200, margin=budget.delta_theta(8000))) == 8000
    ks = law(effect=0.1, effect_name="KS distance", interval=(0, 0.2), margin=budget.delta_ks(32_000), n=100)
    assert needed_n(ks) == 32_000
    assert needed_n(theta(n=8000)) == 32_000


# -- verdicts ----------------------------------------------------------------------------------------------------------------
def test_validity():
    good = Evidence("target.integrates", Axis.VALIDITY, passed=True)
    bad = Evidence("target.prefix", Axis.VALIDITY, passed=False, detail="scores of sequence 3 move by 0.2 when events follow.")
    assert validity_verdict([good, law()]).outcome is Outcome.PASS
    broken = validity_verdict([good, bad])
    assert broken.outcome is Outcome.INVALID
    assert "sequence 3" in broken.sentence
    assert validity_verdict([good], reference=FAILED).outcome is Outcome.INVALID
    assert validity_verdict([]).outcome is Outcome.NOT_APPLICABLE


def test_law_passes_only_with_small_effects():
    verdict = law_verdict({"analytic": PASSED}, [theta(0.001), law()], n=8000)
    assert verdict.outcome is Outcome.PASS
    assert verdict.level == 1e-5
    wide = law_verdict({"analytic": PASSED}, [theta(0.001, n=200, margin=0.06), law()], n=200)
    assert (wide.outcome, wide.needed_n) == (Outcome.INCONCLUSIVE, 8100)
    assert "8,100 events" in wide.sentence


def test_law_fails_only_by_confirmation_or_proof():
    assert law_verdict({"analytic": PASSED}, [theta(), law(p=1e-30)], n=8000).outcome is Outcome.PASS
    failed = law_verdict({"analytic": FAILED, "permutation": PASSED}, [theta(), law(p=1e-30, where={"position": "3"})], n=8000)
    assert (failed.outcome, failed.rounds, failed.q_value) == (Outcome.FAIL, 2, 1e-9)
    assert "position 3" in failed.sentence
    proof = Evidence("cross_sequence.duplicates", Axis.LAW, passed=False, detail="sequences 3 and 9 are identical")
    assert law_verdict({"analytic": PASSED}, [theta(), proof], n=8000).outcome is Outcome.FAIL


def test_law_without_evidence_is_inconclusive_and_without_validity_invalid():
    assert law_verdict({"analytic": PASSED}, [law()], n=8000).outcome is Outcome.INCONCLUSIVE
    assert law_verdict({}, [], n=0).outcome is Outcome.INCONCLUSIVE
    invalid = Verdict(Axis.VALIDITY, Outcome.INVALID, "no")
    assert law_verdict({"analytic": FAILED}, [theta()], n=1, validity=invalid).outcome is Outcome.INVALID


def test_mechanism():
    ok = Evidence("support.gap", Axis.MECHANISM, passed=True)
    bad = Evidence("support.gap", Axis.MECHANISM, passed=False, detail="3 of 50 residual draws are impossible")
    rule = "leviathan_two_step"
    assert mechanism_verdict(PASSED, [ok], rule=rule, n=10).outcome is Outcome.PASS
    proof = mechanism_verdict(PASSED, [ok, bad], rule=rule, n=10)
    assert proof.outcome is Outcome.FAIL
    assert "3 of 50" in proof.sentence
    assert mechanism_verdict(FAILED, [ok], rule=rule, n=10).outcome is Outcome.FAIL
    absent = mechanism_verdict(None, [], rule="other", n=10, not_possible=["white box: the run has no trace"])
    assert absent.outcome is Outcome.NOT_APPLICABLE
    assert "no trace" in absent.sentence


def test_every_sentence_is_one_readable_sentence():
    verdicts = [
        validity_verdict([Evidence("a", Axis.VALIDITY, passed=True)]),
        law_verdict({"analytic": PASSED}, [theta()], n=8000),
        law_verdict({"analytic": PASSED}, [theta(n=100, margin=0.03)], n=100),
        law_verdict({"analytic": FAILED}, [theta(), law(p=1e-9, effect=0.2, effect_name="theta_1")], n=8000),
        mechanism_verdict(PASSED, [Evidence("a", Axis.MECHANISM, passed=True)], rule="leviathan_two_step", n=3),
    ]
    for verdict in verdicts:
        assert verdict.sentence[0].isupper()
        assert verdict.sentence.endswith(".")
        assert "nan" not in verdict.sentence
        assert "None" not in verdict.sentence
