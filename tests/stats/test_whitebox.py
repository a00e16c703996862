"""White box: exact samplers pass at calibrated levels, each hand-made fault is rejected by the statistic it has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from test_whitebox_toy import EXACT, N_TYPES, STRESS, TARGET, Fault, Model, ScoreOnly, sample

from reference_impls.heads.lognormal_mixture import LogNormalMixture
from reference_impls.heads.types import OneType
from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import Counts, Declaration, SampleRequest, SampleRun, Stop
from tppsd_bench.results import Axis
from tppsd_bench.stats.decide import family_q
from tppsd_bench.stats.whitebox import family_size, inspect_run, reproducible
from tppsd_bench.stats.whitebox.acceptance import poisson_binomial_p
from tppsd_bench.stats.whitebox.draft_direction import skewed_sum_p
from tppsd_bench.stats.whitebox.quadrature import integrate
from tppsd_bench.stats.whitebox.weights import role_weight
from tppsd_bench.streams import StreamKey

RULES = ("leviathan_two_step", "leviathan_joint", "exact_match")
LEVEL = 1e-6  # a correct battery breaks a test below in at most about one of 1e6 runs


def battery(run, rule="leviathan_two_step", *, target=TARGET, draft=STRESS, cell="battery", max_rows=1200, **more):
    rng = StreamKey(cell=cell, purpose="pit").generator()
    return list(inspect_run(run, target, draft, rule, rng, tol=1e-9, max_rows=max_rows, **more).evidence)


def caught(evidence, level=LEVEL):
    """Names of statistics that reject after Bonferroni over the whole battery, or prove a fault."""
    m = sum(e.p_value is not None for e in evidence)
    return {e.name for e in evidence if e.passed is False or (e.p_value is not None and m * e.p_value < level)}


# -- exact samplers ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("rule", RULES)
def test_exact_sampler_passes(rule):
    run = sample(50, 80, StreamKey(cell=f"exact {rule}"), rule=rule)
    assert caught(battery(run, rule)) == set()


@pytest.mark.parametrize("rule", ["leviathan_two_step", "leviathan_joint"])
def test_exact_horizon_sampler_passes_with_its_crossing_draws(rule):
    run = sample(150, 200, StreamKey(cell=f"horizon {rule}"), rule=rule, horizon=30.0)
    assert (run.trace.event == run.events.lengths[run.trace.sequence]).sum() > 100
    box = inspect_run(run, TARGET, STRESS, rule, StreamKey(cell="pit").generator(), tol=1e-9, max_rows=1200)
    assert caught(box.evidence) == set()
    assert not any("past the end" in reason for reason in box.not_possible)


@pytest.mark.parametrize("k", [1, 6])
def test_exact_sampler_passes_with_other_draft_lengths_and_one_type(k):
    one = replace(TARGET, n_types=1)
    run = sample(40, 60, StreamKey(cell=f"unmarked {k}"), target=one, draft=replace(STRESS, n_types=1), k=k)
    evidence = battery(run, target=one, draft=replace(STRESS, n_types=1))
    assert caught(evidence) == set()
    assert not any(".type" in e.name and e.p_value is not None for e in evidence)


def test_draft_equal_to_target_is_exact_and_says_what_it_cannot_test():
    run = sample(40, 60, StreamKey(cell="draft is target"), draft=TARGET)
    box = inspect_run(run, TARGET, TARGET, "leviathan_two_step", StreamKey().generator(), tol=1e-9)
    assert caught(box.evidence) == set()
    assert any(r.startswith("draft_direction.gap") for r in box.not_possible)
    assert any(r.startswith("role_law.gap.residual") for r in box.not_possible)


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_p_values_are_uniform_over_exact_runs(rule):
    """Second level: 120 exact runs; each statistic's p-values against U(0,1), one-sided (too small), Bonferroni at 1e-4."""
    p_values: dict[str, list[float]] = {}
    for i in range(120):
        run = sample(30, 100, StreamKey(cell=f"calibration {rule}", seed=i), rule=rule)
        for e in battery(run, rule, cell=f"calibration {rule} {i}"):
            if e.p_value is not None:
                p_values.setdefault(f"{e.name} {e.where}", []).append(e.p_value)
    level = {name: stats.kstest(p, "uniform", alternative="greater").pvalue for name, p in p_values.items() if len(p) > 50}
    assert min(level.values()) > 1e-4 / len(level), level


@pytest.mark.slow
def test_whole_family_holds_its_level_on_exact_runs():
    """200 exact runs at level .05: more than 23 rejections have probability below 1e-4 when the level holds."""
    rule, rejections = "leviathan_two_step", 0
    for i in range(200):
        run = sample(25, 60, StreamKey(cell="family level", seed=i))
        found = [e for e in battery(run, cell=f"family level {i}", max_rows=600) if e.axis is Axis.MECHANISM]
        rejections += family_q(found, family_size(rule, N_TYPES, True)).q <= 0.05
    assert stats.binom.sf(23, 200, 0.05) < 1e-4
    assert rejections <= 23


# -- faults ------------------------------------------------------------------------------------------------------------------
FAULTS = {
    "lenient": (Fault(lenient=1.05), "acceptance_identity.type", 120),
    "residual_from_target": (Fault(residual_from_target=True), "support.gap", 20),
    "residual_from_target, by law": (Fault(residual_from_target=True), "role_law.gap.residual", 60),
    "residual_cap": (Fault(residual_tries=3), "support.gap", 20),
    "bonus_from_draft": (Fault(bonus_from_draft=True), "role_law.gap.target", 60),
    "bonus_from_draft, by direction": (Fault(bonus_from_draft=True), "draft_direction.type", 120),
    "type_unverified": (Fault(type_unverified=True), "acceptance_identity.type", 60),
    "type_unverified, by law": (Fault(type_unverified=True), "draft_direction.type", 60),
    "type_residual_after_gap": (Fault(type_residual_after_gap=True), "role_law.type.after_residual_gap", 100),
    "lost_position": (Fault(lost_position=True), "draft_direction.gap", 100),
    "q_mismatch": (Fault(colder=0.85), "draft_law.gap", 100),
    "row_shift": (Fault(wrong_row=True), "density_agreement.p.gap", 20),
    "q_constant": (Fault(shifted_q=0.05), "density_agreement.q.gap", 20),
    "keep_after_rejection": (Fault(keep_after_rejection=True), "accounting.nothing_after_rejection", 20),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_rejected_by_the_expected_statistic(name):
    fault, killer, n = FAULTS[name]
    run = sample(n, 100, StreamKey(cell=f"fault {name}"), fault=fault)
    rows = 4096 if killer == "draft_direction.gap" else 1000
    assert killer in caught(battery(run, cell=name, max_rows=rows), 1e-3)


@pytest.mark.parametrize(
    ("fault", "killer"),
    [(Fault(lenient=1.12), "acceptance_identity.event"), (Fault(residual_from_target=True), "support.event")],
)
def test_joint_faults(fault, killer):
    run = sample(80, 100, StreamKey(cell=f"joint {killer}"), fault=fault, rule="leviathan_joint")
    assert killer in caught(battery(run, "leviathan_joint"), 1e-3)


def test_lambda_hat_reads_how_much_of_the_draft_is_left():
    run = sample(60, 100, StreamKey(cell="lambda"), fault=Fault(bonus_from_draft=True))
    bonus = next(e for e in battery(run) if e.name == "draft_direction.type" and e.where == {"position": "bonus"})
    assert abs(bonus.effect - 1.0) < 5 * (bonus.interval[1] - bonus.interval[0]) / 3.92  # wrong in 6 of 1e7 runs


def test_declaring_another_rule_is_noticed():
    run = sample(60, 100, StreamKey(cell="wrong rule"))
    assert "acceptance_identity.type" in caught(battery(run, "exact_match"))


# -- access ------------------------------------------------------------------------------------------------------------------
def test_what_access_does_not_allow_is_named():
    run = sample(20, 60, StreamKey(cell="access"))
    scores_only = battery(run, target=ScoreOnly(TARGET), draft=None)
    assert {e.name for e in scores_only if e.p_value is not None} == {"acceptance_identity.gap", "acceptance_identity.type"}
    assert (
        next(e for e in scores_only if e.name == "density_agreement.p.gap").n
        == run.trace.accepted[run.trace.component == 0].sum()
    )
    assert caught(scores_only) == set()
    reasons = inspect_run(run, ScoreOnly(TARGET), None, "leviathan_two_step", StreamKey().generator(), tol=1e-9).not_possible
    assert any("no conditionals" in r for r in reasons)
    assert any("no draft was given" in r for r in reasons)
    assert inspect_run(
        SampleRun(run.events), TARGET, STRESS, "leviathan_two_step", StreamKey().generator(), tol=1e-9
    ).not_possible == ("white box: the run has no trace",)
    assert "other" in inspect_run(run, TARGET, STRESS, "other", StreamKey().generator(), tol=1e-9).not_possible[0]
    assert battery(run, "other") == []


def test_scores_alone_see_a_wrong_row():
    run = sample(20, 60, StreamKey(cell="score row"), fault=Fault(wrong_row=True))
    assert "density_agreement.p.gap" in caught(battery(run, target=ScoreOnly(TARGET), draft=None))


def test_stale_draft_rests_nothing_on_the_teacher_forced_draft():
    run = sample(60, 60, StreamKey(cell="stale"), draft=Model(shift=-0.2))  # what it sampled from is not STRESS
    assert {"density_agreement.q.gap", "draft_law.gap"} <= caught(battery(run))
    assert caught(battery(run, stale_draft=True)) == set()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("draft", [STRESS, None])
def test_family_size_bounds_what_can_be_tested(rule, draft):
    run = sample(110, 60, StreamKey(cell=f"family {rule}"), rule=rule)
    evidence = battery(run, rule, draft=draft)
    for axis in (Axis.MECHANISM, Axis.LAW):
        found = sum(e.p_value is not None and e.axis is axis for e in evidence)
        size = family_size(rule, N_TYPES, draft is not None, axis=axis)
        assert found <= size
        assert found == size or rule == "exact_match" or (axis is Axis.LAW and draft is None)


# -- accounting --------------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def exact_run():
    return sample(10, 40, StreamKey(cell="accounting"), fault=EXACT)


def _changed(run, name, change):
    array = getattr(run.trace, name).copy()
    change(array)
    return replace(run, trace=replace(run.trace, **{name: array}))


def _set(index, value):
    def change(array):
        array[index] = value

    return change


@pytest.mark.parametrize(
    ("name", "change", "killer"),
    [
        ("round_accepted", _set(0, 9), "accounting.rounds"),
        ("round_committed", _set(3, 0), "accounting.rounds"),
        ("round_verified", _set(2, 8), "accounting.rounds"),
        ("gap_role", _set(slice(None), 0), "accounting.records.gap"),
        ("type_role", _set(slice(None), 1), "accounting.roles"),
        ("event_position", lambda a: np.add(a, 1, out=a), "accounting.records.gap"),
        ("accepted", lambda a: np.logical_not(a, out=a), "accounting.records.type"),
    ],
)
def test_a_trace_that_contradicts_itself(exact_run, name, change, killer):
    assert killer in caught(battery(_changed(exact_run, name, change)))


def test_counts_that_contradict_the_trace(exact_run):
    wrong = replace(exact_run, counts=exact_run.counts + Counts(accepted=1))
    assert "accounting.totals" in caught(battery(wrong))
    given_up = replace(exact_run, counts=exact_run.counts + Counts(residual_give_ups=1))
    assert "accounting.residual_give_ups" in caught(battery(given_up))
    assert "accounting.forwards" in caught(battery(exact_run, measured=Counts(target_calls=7)))


def test_a_trace_of_the_wrong_shape_is_refused_with_a_sentence(exact_run):
    with pytest.raises(InputError, match="round_accepted has 1 entries; expected"):
        battery(replace(exact_run, trace=replace(exact_run.trace, round_accepted=np.zeros(1, dtype=np.int64))))
    with pytest.raises(InputError, match="sequence 77"):
        battery(_changed(exact_run, "sequence", _set(0, 77)))


# -- exact identities --------------------------------------------------------------------------------------------------------
def test_poisson_binomial_is_the_binomial_when_probabilities_are_equal():
    for n, p, x in ((300, 0.3, 110), (5000, 0.01, 20), (7, 0.5, 7)):
        expected = min(1.0, 2 * min(stats.binom.cdf(x, n, p), stats.binom.sf(x - 1, n, p)))
        assert poisson_binomial_p(np.full(n, p), x) == pytest.approx(expected, rel=1e-6)


def test_poisson_binomial_handles_certain_outcomes():
    assert poisson_binomial_p(np.array([1.0, 1.0, 0.0]), 2) == 1.0
    assert poisson_binomial_p(np.array([1.0, 1.0, 0.0]), 1) < 1e-12
    assert poisson_binomial_p(np.array([1.0, 0.5]), 2) == 1.0


def test_quadrature_splits_the_target_into_kept_and_residual_mass():
    rng = StreamKey(cell="quadrature").generator()
    history, kind = rng.normal(size=300), rng.integers(0, N_TYPES, 300)
    p, q = TARGET.law(history, kind), STRESS.law(history, kind)
    gap, rows, forever = p.sample_gap(rng.random((300, 2))), np.arange(300), np.full(300, np.inf)

    def parts(p, q, x):
        log_p, log_q = p.log_prob(x), q.log_prob(x)
        kept, residual = (role_weight(role, log_p, log_q) for role in ("accepted", "residual"))
        return np.stack([np.exp(log_p), kept, residual, np.exp(log_q)])

    below, whole = integrate(p, q, rows, gap, forever, parts, (0, 3))
    np.testing.assert_allclose(whole[0], 1.0, atol=1e-3)
    np.testing.assert_allclose(below[0], p.cdf(gap), atol=1e-3)
    np.testing.assert_allclose(whole[1] + whole[2], whole[0], rtol=1e-12)
    cut, total = integrate(p, q, rows, gap, 2 * gap, parts, (0, 3))
    np.testing.assert_allclose(total[0], p.cdf(2 * gap), atol=1e-3)
    np.testing.assert_allclose(cut[0], below[0], atol=1e-3)


def test_quadrature_finds_components_far_narrower_than_its_panels():
    """Networks trained on rounded times put spikes of width 1e-3 in log gap beside broad components."""
    rng = StreamKey(cell="spikes").generator()
    n = 200
    loc, scale = rng.normal(size=(n, 6)), np.tile([1e-3, 2e-3, 1e-2, 0.1, 0.5, 1.0], (n, 1))
    p = LogNormalMixture(loc, np.log(scale), rng.normal(size=(n, 6)), OneType(n))
    q = replace(p, loc=loc + 0.3 * scale, log_scale=np.log(1.5 * scale))
    gap = p.sample_gap(rng.random((n, 2)))

    def parts(p, q, x):
        log_p, log_q = p.log_prob(x), q.log_prob(x)
        return np.stack([np.exp(log_p), np.exp(log_q), np.exp(np.minimum(log_p, log_q))])

    below, whole = integrate(p, q, np.arange(n), gap, np.full(n, np.inf), parts, (0, 1))
    np.testing.assert_allclose(whole[:2], 1.0, atol=2e-3)
    np.testing.assert_allclose(below[0], p.cdf(gap), atol=2e-3)
    np.testing.assert_allclose(below[1], q.cdf(gap), atol=2e-3)


def test_skewed_sums_are_judged_at_their_level():
    """Centred Poisson(100) sums: at z = 4.5 the corrected tail is within a factor 2, the normal one is not."""
    z = 4.5
    exact = stats.poisson.sf(100 + z * 10, 100)
    assert 0.5 < skewed_sum_p(z, 0.1, 0.01, 0.1) / 2 / exact < 2
    assert stats.norm.sf(z) / exact < 0.5


def test_skewed_sum_p_never_folds_back():
    p = [skewed_sum_p(z, 0.2, 0.05, 0.2) for z in np.linspace(0.5, 80, 200)]
    assert p[-1] < 1e-10
    assert max(p[60:]) < 1e-6


# -- reproducibility ---------------------------------------------------------------------------------------------------------
class Renewal:
    """Exponential gaps, one stream a sequence; ``leak`` lets the batch size in, ``deaf`` ignores the seed."""

    def __init__(self, *, leak=False, deaf=False, unsteady=False):
        self.declares = Declaration(reproducible=True, batch_independent=True)
        self._leak, self._deaf, self._unsteady, self._calls = leak, deaf, unsteady, 0

    def sample(self, request):
        self._calls += 1
        key = StreamKey() if self._deaf else request.key
        if self._unsteady:
            key = key.replace(stage=str(self._calls))
        n = request.n_sequences
        gaps = [key.generator(request.first_sequence + i).exponential(size=5) * (n if self._leak else 1) for i in range(n)]
        return SampleRun(EventBatch.from_gaps(gaps))


@pytest.mark.parametrize(
    ("sampler", "killed"),
    [
        (Renewal(), set()),
        (Renewal(leak=True), {"reproducible.batch_size"}),
        (Renewal(deaf=True), {"reproducible.new_seed"}),
        (Renewal(unsteady=True), {"reproducible.same_seed", "reproducible.batch_size"}),
    ],
)
def test_reproducible(sampler, killed):
    request = SampleRequest(7, Stop(n_events=5), StreamKey(cell="reproducible"))
    assert {e.name for e in reproducible(sampler, request) if not e.passed} == killed


def test_reproducible_asks_only_what_is_declared():
    sampler = Renewal(leak=True)
    sampler.declares = Declaration()
    assert reproducible(sampler, SampleRequest(4, Stop(n_events=5), StreamKey())) == []
