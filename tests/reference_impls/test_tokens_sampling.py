"""Speculative sampling over tokens: the residual is exact, the run is consistent, and the law certified over a grid of buckets."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from scipy import stats

from reference_impls.mutants import mutant
from reference_impls.pairs import Pair, load_pair
from reference_impls.samplers.residual_tokens import TokenResidual, shared_tokens
from reference_impls.samplers.speculative import Speculative
from reference_impls.samplers.verification import Joint, TwoStep
from reference_impls.stress import StressDraft
from reference_impls.tokens.discretise import discretised_pair
from reference_impls.tokens.fitting import buckets_of_model
from reference_impls.tokens.point import token_acceptance
from reference_impls.toys import toy_draft, toy_target
from tests.reference_impls.sampler_runs import check_run, same_events
from tests.reference_impls.token_laws import KINDS, buckets, law
from tppsd_bench.certificate import certify
from tppsd_bench.errors import InputError
from tppsd_bench.measure.acceptance import acceptance_by_position
from tppsd_bench.protocols import IntArray, SampleRequest, Stop
from tppsd_bench.results import Outcome
from tppsd_bench.streams import StreamKey

pair_of = lru_cache(load_pair)
RULES = ("leviathan_two_step", "leviathan_joint")


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize(
    ("p_kind", "q_kind"), [("joint", "factorised"), ("given_bucket", "joint"), ("discretised", "discretised")]
)
def test_residual_draws_follow_the_residual_of_tokens(p_kind: str, q_kind: str, joint: bool) -> None:
    b = buckets(12)
    p, q = law(p_kind, b, n=1), law(q_kind, b, n=1, seed=9)
    n = 30_000
    rows = np.zeros(n, dtype=np.int64)
    rng = StreamKey(seed=5, cell="token residual").generator()
    drawn = TokenResidual().draw(p.take(rows), q.take(rows), np.arange(n), lambda rows, m: rng.random((len(rows), m)), joint)
    log_p, log_q = (made.log_token_probs() if joint else made.log_bucket_probs for made in (p, q))
    expected = np.maximum(np.exp(log_p) - np.exp(log_q), 0.0)[0]
    expected *= n / expected.sum()
    counts = np.zeros_like(expected)
    np.add.at(counts, (b.bucket_of(drawn.gap), drawn.type) if joint else b.bucket_of(drawn.gap), 1)
    assert counts[expected == 0.0].sum() == 0
    keep = expected > 5
    assert stats.chi2.sf(((counts - expected)[keep] ** 2 / expected[keep]).sum(), keep.sum() - 1) > 1e-4
    assert stats.kstest(b.shares(drawn.gap)[0], "uniform").pvalue > 1e-4
    assert not drawn.kept.any()
    assert joint or (drawn.type == -1).all()


@pytest.mark.parametrize("kind", KINDS)
def test_where_both_laws_agree_the_proposal_is_kept(kind: str) -> None:
    p = law(kind, buckets(), n=4)
    for joint in (False, True):
        drawn = TokenResidual().draw(p, p, np.arange(4), lambda rows, m: np.full((len(rows), m), 0.5), joint)
        assert drawn.kept.all()


def test_laws_over_other_tokens_are_refused() -> None:
    with pytest.raises(InputError, match="they must share edges and within law"):
        shared_tokens(law("joint", buckets(10)), law("joint", buckets(11)))
    continuous = toy_target().law(np.zeros((1, 2)))
    with pytest.raises(InputError, match=r"The draft hands out LogNormalMixture, no law over tokens"):
        shared_tokens(law("joint", buckets(10)), continuous)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("draft", ["shipped", "stress"])
@pytest.mark.parametrize("stop", [Stop(n_events=25), Stop(horizon=15.0)], ids=["count", "horizon"])
def test_a_run_over_tokens_keeps_its_books(rule: str, draft: str, stop: Stop) -> None:
    pair = pair_of("toy-tokens")
    sampler = pair.sampler("speculative", draft=draft, k=4, rule=rule)
    assert isinstance(sampler.residual, TokenResidual)
    request = SampleRequest(20, stop, StreamKey(seed=1, cell="tokens"))
    run = sampler.sample(request)
    check_run(run, sampler, request, 1e-9)
    assert run.counts.residual_switches == 0
    again = replace(sampler, batch_size=7).sample(request)
    assert same_events(run.events, again.events)


@pytest.mark.parametrize("rule", RULES)
def test_acceptance_is_what_the_tables_say(rule: str) -> None:
    """Measured at position 0 against the sum over tokens, averaged over the very contexts: within 4.5 standard errors."""
    pair = pair_of("toy-tokens")
    run = pair.sampler("speculative", draft="stress", k=3, rule=rule).sample(
        SampleRequest(200, Stop(n_events=60), StreamKey(seed=2))
    )
    assert run.trace is not None
    first = np.unique(
        run.events.offsets[run.trace.sequence[run.trace.position == 0]] + run.trace.event[run.trace.position == 0]
    )
    p, q = (model.conditionals(run.events).take(first) for model in (pair.target, pair.drafts["stress"]))
    exact = token_acceptance(p, q)
    rates = acceptance_by_position(run.trace).event
    a = exact.joint if rule == "leviathan_joint" else exact.two_step
    assert rates.verified[0] == len(first)
    assert abs(rates.accepted[0] - a.sum()) < 4.5 * np.sqrt((a * (1 - a)).sum())
    assert abs(rates.accepted[0] - exact.gap.sum()) > 4.5 * np.sqrt((a * (1 - a)).sum()), "another rate must be told apart"


def token_pair(strategy: str, n: int, n_types: int, within: str = "uniform", given_gap: bool = False) -> Pair:
    target = toy_target(n_types, given_gap)
    draft = toy_draft(target)
    pair = Pair("toy", "toy", target, {"shipped": draft, "stress": StressDraft(draft)})
    return discretised_pair(pair, buckets_of_model(target, n, strategy, within, n_sequences=400))  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", RULES)
def test_the_law_over_tokens_is_certified(rule: str) -> None:
    pair = pair_of("toy-tokens")
    sampler = pair.sampler("speculative", draft="stress", rule=rule, batch_size=64)
    made = certify(sampler, pair.target, draft=pair.drafts["stress"], seed=6, n_events=5000)
    assert made.outcome is Outcome.PASS, made.sentence


GRID = [
    (strategy, n, n_types, ("uniform", "log_uniform", "empirical")[i % 3], RULES[(i + i // 2) % 2])
    for i, (strategy, n, n_types) in enumerate(
        itertools.product(("quantile", "equal_width", "log_width"), (10, 100, 500), (1, 50))
    )
]


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "n", "n_types", "within", "rule"), GRID)
def test_the_law_is_certified_for_all_buckets(strategy: str, n: int, n_types: int, within: str, rule: str) -> None:
    """18 exact samplers, each failing with probability 5e-5 at most."""
    pair = token_pair(strategy, n, n_types, within)
    sampler = pair.sampler("speculative", draft="stress", rule=rule, batch_size=64)
    made = certify(sampler, pair.target, draft=pair.drafts["stress"], seed=8, n_events=8000)
    assert made.outcome is Outcome.PASS, made.sentence


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_types_that_look_at_the_gap_are_certified(rule: str) -> None:
    pair = token_pair("quantile", 20, 3, given_gap=True)
    sampler = pair.sampler("speculative", draft="stress", rule=rule, batch_size=64)
    made = certify(sampler, pair.target, draft=pair.drafts["stress"], seed=8, n_events=5000)
    assert made.outcome is Outcome.PASS, made.sentence


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", ["bucket_edges", "split_token_residual", "unnormalised_tokens"])
def test_token_faults_are_caught(name: str, seed: int) -> None:
    made = mutant(name)
    pair = pair_of(made.witness.pair)
    found = certify(made.sampler(pair), pair.target, draft=pair.drafts[made.witness.draft], seed=seed, n_events=20_000)
    assert found.outcome in (Outcome.FAIL, Outcome.INVALID)
    seen = {e.name for e in found.evidence if e.passed is False or (e.p_value is not None and e.p_value < 1e-6)}
    assert any(name.startswith(made.killers) for name in seen)


def test_the_rules_take_mixed_pairs() -> None:
    """A joint target with a factorised draft: the joint residual of two tables, whoever made them."""
    b = buckets(15)
    p, q = law("joint", b, n=200), law("given_bucket", b, n=200, seed=3)
    u = np.random.default_rng(2).random((200, 3))
    x = q.sample_gap(u[:, :2])
    types: IntArray = np.zeros(200, dtype=np.int64)
    for rule in (Joint(), TwoStep()):
        found = rule.verify(p, q, x[:, None], types[:, None], u[:, 2:], u[:, 2:])
        at = b.bucket_of(x)
        rows = np.arange(200)
        ratio = (p.log_token_probs() - q.log_token_probs())[rows, at, 0]
        if isinstance(rule, TwoStep):
            ratio = (p.log_bucket_probs - q.log_bucket_probs)[rows, at]
        np.testing.assert_array_equal(found.gap_accepted[:, 0], np.log(u[:, 2]) < ratio)


def test_the_faults_change_one_decision_each() -> None:
    pair = pair_of("toy-tokens")
    for name in ("split_token_residual", "unnormalised_tokens"):
        made = mutant(name)
        sampler, exact = made.sampler(pair), made.witness.exact(pair)
        assert isinstance(sampler, Speculative)
        assert (type(sampler.residual) is type(exact.residual)) == (name == "unnormalised_tokens")
        assert type(sampler.rule) is not type(exact.rule) or name == "split_token_residual"
