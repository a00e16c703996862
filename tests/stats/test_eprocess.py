"""The bets of the e-process: each has mean 1 under exactness, each wins against the fault it is there for.

Faults are hand-made: damaged uniforms for what a target's scores can show, members of the zoo for what needs a trace. An exact run
reaches 1/alpha with probability at most alpha = 1e-5, so that a detection here is never luck.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from eprocess_toys import GREY, followed
from grey_toys import Toy, generator, uniform_case
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

from reference_impls.mutants import Witness, mutant
from reference_impls.pairs import load_pair
from tppsd_bench.protocols import SampleRequest, SampleRun, Stop
from tppsd_bench.results import Axis
from tppsd_bench.runner.sequential import design_of, feed, follow
from tppsd_bench.stats.eprocess import FAMILIES, Design, EProcess, UnsettledBet, Wealth
from tppsd_bench.stats.eprocess.base import LAMBDAS, PLACES, Segments, linear, mixtures
from tppsd_bench.stats.eprocess.chunk import line_up
from tppsd_bench.stats.eprocess.counts import STOPS
from tppsd_bench.stats.eprocess.counts import TILTS as COUNT_TILTS
from tppsd_bench.stats.eprocess.impossible import Proofs
from tppsd_bench.stats.eprocess.process import PROOF, Best
from tppsd_bench.stats.eprocess.types import POWERS, tempered
from tppsd_bench.stats.eprocess.verification import _ALTERNATIVES, _acceptance_ratios
from tppsd_bench.stats.neyman import legendre
from tppsd_bench.streams import StreamKey

LEVEL = 1e-5
PAIR = load_pair("toy-marked")
STRESS = PAIR.drafts["stress"]


# -- mean 1 -----------------------------------------------------------------------------------------------------------------
def one_draw(scores: np.ndarray) -> Segments:
    return Segments(np.arange(scores.shape[-1]), scores.shape[-1])


def test_bets_on_shapes_have_mean_one_and_stay_positive() -> None:
    nodes, weights = np.polynomial.legendre.leggauss(12)
    u = (nodes + 1) / 2
    phi = legendre(u)
    growth = linear(one_draw(phi), phi, LAMBDAS, 3.0)
    assert np.exp(growth) @ weights / 2 == pytest.approx(1.0, abs=1e-12)
    ends = legendre(np.array([0.0, 1.0]))
    assert np.isfinite(linear(one_draw(ends), ends, (-9.0, 9.0), 3.0)).all()  # lambda is cut where it would bankrupt a bet


@given(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=6).filter(lambda p: sum(p) > 0.1))
def test_tempered_types_have_mean_one(weights: list[float]) -> None:
    p = np.array(weights) / sum(weights)
    with np.errstate(divide="ignore"):
        log_p = np.log(p)
    log_ratio = tempered(np.repeat(log_p[:, None], len(p), axis=1), log_p)
    mean = (np.exp(log_ratio) * p).sum(axis=1)
    assert mean == pytest.approx(np.ones(len(POWERS)), abs=1e-9)


@given(st.floats(-30.0, 0.0))
def test_acceptance_bets_have_mean_one(log_a: float) -> None:
    accepted, refused = (_acceptance_ratios(np.array([log_a]), np.array([x]))[:, 0] for x in (True, False))
    a = math.exp(log_a)
    mean = a * np.exp(accepted) + (-math.expm1(log_a) * np.exp(refused) if log_a < 0 else 0.0)
    assert mean == pytest.approx(np.ones(len(_ALTERNATIVES)), abs=1e-9)


def test_a_ratio_that_is_not_a_number_wins_nothing() -> None:
    ratios = _acceptance_ratios(np.array([np.nan, -np.inf, 0.0]), np.array([True, True, False]))
    assert (ratios <= 0).all()
    assert (mixtures(one_draw(np.zeros((1, 2))), np.array([np.nan, -np.inf]), (0.3,)) < 0).all()


@pytest.mark.parametrize("name", ["draft direction", "one event behind"])
def test_mixtures_with_another_law_have_mean_one(name: str) -> None:
    """By quadrature over the gap, and by sums over types, at one history."""
    batch = PAIR.sampler("target_only").sample(SampleRequest(1, Stop(n_events=3), StreamKey(seed=3))).events
    p, q = PAIR.target.conditionals(batch).take(slice(2, 3)), STRESS.conditionals(batch).take(slice(2, 3))
    if name == "one event behind":
        q = PAIR.target.conditionals(batch).take(slice(1, 2))
    weights = (0.01, 0.3, 0.9)

    def integrand(x: float) -> np.ndarray:
        gap = np.array([math.exp(x)])
        log_p, log_q = p.log_prob(gap), q.log_prob(gap)
        bets = np.exp(mixtures(one_draw(gap[None]), log_q - log_p, weights)[:, 0])
        return np.asarray(bets * np.exp(log_p) * gap)

    mean, _ = integrate.quad_vec(integrand, -12, 12, epsabs=1e-9)
    assert mean == pytest.approx(np.ones(3), abs=1e-6)


@pytest.mark.parametrize("left", [0.3, 2.0])
def test_bets_on_counts_have_mean_one_censored_or_not(left: float) -> None:
    """One unit-rate draw with ``left`` to go: an event of compensator L < left, or none."""
    survival = math.exp(-left)
    for c in COUNT_TILTS:
        event, _ = integrate.quad(lambda x, c=c: math.exp(c - math.expm1(c) * x - x), 0, left)
        assert event + survival * math.exp(-math.expm1(c) * left) == pytest.approx(1.0, abs=1e-9)
    for e in STOPS:
        assert (1 - e) * (1 - survival) + survival * (1 - e + e / survival) == pytest.approx(1.0, abs=1e-12)


# -- sums -------------------------------------------------------------------------------------------------------------------
def test_segments_sum_by_sequence_and_place() -> None:
    rng = generator("segments")
    sequence, place = np.repeat([0, 2, 3], [400, 3, 50]), rng.integers(0, 4, 453)  # sequence 1 is empty, 0 spans blocks
    factors = rng.uniform(0.2, 1.8, (2, 453))
    segments = Segments(sequence * 4 + place, 4, places=True)
    found = segments.log_product(segments.sort(factors)).reshape(2, len(PLACES), 4)
    assert found == pytest.approx(segments.log_sum(segments.sort(np.log(factors))).reshape(found.shape), rel=1e-9)
    for row, member in enumerate([{0, 1, 2, 3}, {0, 1}, {0}, {2}, {3}]):
        for s in range(4):
            keep = (sequence == s) & np.isin(place, list(member))
            assert found[:, row, s] == pytest.approx(np.log(factors[:, keep]).sum(axis=1), rel=1e-9)


def test_every_bet_has_a_phrase_and_the_money_is_one() -> None:
    design = Design(3, True, True, True, True, True, "leviathan_two_step")
    process = EProcess(design, generator("money"))
    prior = {name: math.exp(log) for name, log in process._prior.items()}
    assert set(prior) == {f.name for f in FAMILIES}
    assert sum(prior[f.name] * len(f.bets(design)) for f in FAMILIES) == pytest.approx(1.0)
    assert sum(prior[f.name] * len(f.bets(design)) for f in FAMILIES if f.axis is Axis.LAW) == pytest.approx(0.5)
    assert all(len(set(f.bets(design))) == len(f.bets(design)) for f in FAMILIES)


@pytest.mark.parametrize("stop", [Stop(n_events=20), Stop(horizon=12.0)], ids=["counted", "horizon"])
def test_wealth_does_not_depend_on_how_sequences_come(stop: Stop) -> None:
    sampler = PAIR.sampler("speculative", draft="stress", k=3)
    runs = [sampler.sample(SampleRequest(n, stop, StreamKey(seed=5), first_sequence=i)) for n, i in ((12, 0), (5, 0), (7, 5))]
    paths = []
    for parts in (runs[:1], runs[1:]):
        process = EProcess(design_of(parts[0], PAIR.target, STRESS, "leviathan_two_step"), generator("chunks"))
        for run in parts:
            feed(process, run, PAIR.target, STRESS)
        paths.append(process.wealth)
    assert paths[0].log_wealth == pytest.approx(paths[1].log_wealth, abs=1e-9)
    assert (paths[0].events == paths[1].events).all()
    assert len(paths[0].log_wealth) == 12


def test_a_sequence_without_events_moves_nothing_but_its_crossing_draw() -> None:
    run = PAIR.sampler("speculative", draft="stress", k=3).sample(SampleRequest(30, Stop(horizon=0.3), StreamKey(seed=6)))
    assert (run.events.lengths == 0).any()
    wealth = follow(run, PAIR.target, STRESS, "leviathan_two_step", generator("empty"))
    assert np.isfinite(wealth.log_wealth).all()


# -- scores that are none, events that cannot be ----------------------------------------------------------------------------
def test_a_score_that_is_not_a_number_settles_nothing() -> None:
    rng = generator("nan")
    batch, scores = uniform_case(rng.random((4, 10)), rng.random((4, 10)))
    process = EProcess(GREY, rng)
    process.feed(SampleRun(batch), scores)
    before = process.wealth
    more, others = uniform_case(rng.random((4, 10)), rng.random((4, 10)))
    others.log_density[7] = np.nan
    with pytest.raises(UnsettledBet, match="Sequence 0, event 7: the log-density is nan"):
        process.feed(SampleRun(more), others)
    assert process.wealth.log_wealth.tolist() == before.log_wealth.tolist()


def test_what_has_probability_zero_is_proof() -> None:
    rng = generator("zero")
    batch, scores = uniform_case(rng.random((4, 10)), rng.random((4, 10)))
    scores.type_probs[25] = np.eye(3)[(batch.types[25] + 1) % 3]
    process = EProcess(GREY, rng)
    process.feed(SampleRun(batch), scores)
    wealth = process.wealth
    assert np.isfinite(wealth.log_wealth).tolist() == [True, True, False, False]
    assert wealth.leading == PROOF
    assert "probability 0" in wealth.phrase
    assert wealth.detection(LEVEL) == 2
    assert wealth.largest(Axis.LAW) == math.inf


def test_a_repeated_sequence_is_proof_however_far_apart() -> None:
    rng = generator("repeat")
    u, v = rng.random((9, 10)), rng.random((9, 10))
    u[8] = u[2]
    assert followed(u, v, rng).detection(LEVEL) == 8


def test_both_halves_together_err_as_often_as_the_whole() -> None:
    """An axis is blamed only where the whole wealth suffices; a half that is enough by itself is blamed whatever the other says."""
    path = Wealth(np.arange(1, 4), np.log([0.5, 30.0, 200.0]), np.log([0.5, 80.0, 90.0]), (), {})
    alpha = 0.01
    assert path.detection(alpha) == 1
    assert path.detection(alpha, Axis.MECHANISM) == 1
    assert path.detection(alpha, Axis.LAW) == 2
    assert path.largest(Axis.LAW) == pytest.approx(math.log(290.0))
    assert path.led_by() == ("", "")
    bets = (Best("acceptance", "x", 2.0, Axis.MECHANISM), Best("types", "y", 1.0, Axis.LAW))
    assert replace(path, top=bets).led_by(Axis.LAW) == ("types", "y")


# -- every family wins against its fault ------------------------------------------------------------------------------------
def damaged(fault: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    u, v = rng.random((60, 50)), rng.random((60, 50))
    if fault == "gap shape":
        u **= 1.15
    elif fault == "type shape":
        v = np.clip(v + 0.05 * np.sin(2 * np.pi * v), 0, 1 - 1e-12)
    elif fault == "tails":
        u *= 0.99
    elif fault == "memory":  # uniform margins: each gap leans on the one before
        for i in range(1, 50):
            again = rng.random(60) < 0.15
            u[again, i] = (u[again, i - 1] + 0.02 * rng.random(again.sum())) % 1
    elif fault == "neighbours":
        alike = rng.random((60, 50)) < 0.3
        for s in range(1, 60):
            u[s, alike[s]] = (u[s - 1, alike[s]] + 0.01 * rng.random(alike[s].sum())) % 1
    elif fault == "types":  # type 1 at twice its share, against the edges of v
        v = np.where(rng.random(v.shape) < 0.15, 0.34 + 0.3 * v, v)
    return u, v


@pytest.mark.parametrize("family", ["gap shape", "type shape", "tails", "memory", "neighbours", "types"])
def test_a_family_wins_against_its_fault(family: str) -> None:
    rng = generator(family)
    wealth = followed(*damaged(family, rng), rng)
    assert wealth.detection(LEVEL) is not None
    best = {bet.family: bet.log_wealth for bet in wealth.top}
    assert best[family] > math.log(1 / LEVEL)
    exact = followed(rng.random((60, 50)), rng.random((60, 50)), rng)
    assert exact.detection(LEVEL) is None


@pytest.mark.parametrize(
    ("family", "fault", "draft", "n"),
    [
        ("draft direction", "bonus_from_draft", "stress", 60), ("one event behind", "offby1_shared", "stress", 12),
        ("acceptance", "lenient", "stress", 12), ("shared noise", "shared_noise", "stress", 40),
        ("proposals", "q_mismatch", "stress", 100), ("roles", "type_residual_after_gap", "stress", 40),
    ],
)  # fmt: skip
def test_a_white_family_wins_against_its_fault(family: str, fault: str, draft: str, n: int) -> None:
    sampler = mutant(fault).sampler(PAIR, witness=Witness("toy-marked", draft, length=50))
    run = sampler.sample(SampleRequest(n, Stop(n_events=50), StreamKey(seed=7, cell=fault)))
    wealth = follow(run, PAIR.target, PAIR.drafts[draft], sampler.declares.rule, generator(fault))
    best = {bet.family: bet.log_wealth for bet in wealth.top}
    assert wealth.detection(LEVEL) is not None
    assert best[family] > math.log(1 / LEVEL)


def test_a_sequence_that_just_stops_is_seen_by_its_count() -> None:
    stop = Stop(horizon=30.0)
    run = PAIR.sampler("target_only").sample(SampleRequest(60, stop, StreamKey(seed=8)))
    cut = replace_lengths(run, 20)
    wealth = follow(cut, PAIR.target, None, "other", generator("stops"))
    assert {bet.family: bet.log_wealth for bet in wealth.top}["counts"] > math.log(1 / LEVEL)
    assert follow(run, PAIR.target, None, "other", generator("stops")).detection(LEVEL) is None


def replace_lengths(run: SampleRun, most: int) -> SampleRun:
    """Every sequence cut after ``most`` events, and still called observed to its horizon."""
    return SampleRun(replace(run.events.prefix(most), horizon=run.events.horizon))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("residual_from_target", "replacement that the residual law never draws"), ("ratio_inverted", "against a certain one"),
        ("row_shift", "not the target's"), ("batch_leak", "not the draft's"), ("extra_event", "after its round had ended"),
    ],
)  # fmt: skip
def test_what_the_rule_never_does_is_proof(fault: str, said: str) -> None:
    sampler = mutant(fault).sampler(PAIR, witness=Witness("toy-marked", "stress", length=40))
    run = sampler.sample(SampleRequest(8, Stop(n_events=40), StreamKey(seed=9, cell=fault)))
    wealth = follow(run, PAIR.target, STRESS, sampler.declares.rule, generator(fault))
    assert math.isinf(wealth.largest(Axis.MECHANISM))
    laws, scores = PAIR.target.conditionals(run.events), PAIR.target.score(run.events)
    design, (a, b) = design_of(run, PAIR.target, STRESS, sampler.declares.rule), generator(fault).spawn(2)
    chunk = line_up(run, scores, design, (a, b), np.empty(0), laws, STRESS)
    assert any(said in what for _, _, what in Proofs(1e-3).find(chunk, design))


def test_an_exact_history_dependent_law_is_left_alone() -> None:
    toy, rng = Toy(), generator("history")
    batch = toy.draw(rng.random((60, 50)), rng.random((60, 50)))
    process = EProcess(GREY, rng)
    process.feed(SampleRun(batch), toy.score(batch))
    assert process.wealth.detection(LEVEL) is None
    stale = toy.draw(rng.random((60, 50)), rng.random((60, 50)), stale=True)
    process = EProcess(GREY, rng)
    process.feed(SampleRun(stale), toy.score(stale))
    assert process.wealth.detection(LEVEL) is not None
    assert {bet.family: bet.log_wealth for bet in process.wealth.top}["memory"] > math.log(1 / LEVEL)
