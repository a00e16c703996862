"""What the study computes, against enumeration, simulation and identities."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from reference_impls.mutants import mutant
from reference_impls.pairs import load_pair
from reference_impls.tokens.apart import apart, coupling, distance, redrawn_apart, verified_apart
from reference_impls.tokens.discretise import DiscretisedLaw
from reference_impls.tokens.fitting import buckets_of_model
from reference_impls.tokens.lab import TokenLab
from reference_impls.toys import toy_draft, toy_target
from tests.reference_impls.token_laws import buckets, law
from tppsd_bench.measure.acceptance import exact_acceptance
from tppsd_bench.protocols import FloatArray
from tppsd_bench.streams import StreamKey
from tppsd_bench.studies.buckets.decoders import events_to_a_tie, events_to_notice, staircase_distance
from tppsd_bench.studies.buckets.ratios import log_ratio, proposals, spread


def tables(coupled: bool, seed: int = 0, shape: tuple[int, int, int] = (3, 4, 3)) -> tuple[FloatArray, FloatArray]:
    """Laws over tokens, at random; products of their marginals unless ``coupled``."""
    rng = np.random.default_rng(seed)
    made = rng.dirichlet(np.ones(shape[1] * shape[2]), (2, shape[0])).reshape(2, *shape)
    if not coupled:
        made = made.sum(axis=3, keepdims=True) * made.sum(axis=2, keepdims=True)
    return made[0], made[1]


def enumerated(p: FloatArray, q: FloatArray) -> FloatArray:
    """The output of verification apart of one context, case by case."""
    out = np.zeros_like(p)
    (p_b, q_b), (p_k, q_k) = ((p.sum(axis=a), q.sum(axis=a)) for a in (1, 0))
    r_b, r_k = (np.maximum(a - b, 0) / np.maximum(a - b, 0).sum() for a, b in ((p_b, q_b), (p_k, q_k)))
    for b, k in itertools.product(*map(range, p.shape)):
        a, c = min(1.0, p_b[b] / q_b[b]), min(1.0, p_k[k] / q_k[k])
        out[b, k] += q[b, k] * a * c
        out[:, k] += q[b, k] * (1 - a) * c * r_b
        out[b, :] += q[b, k] * a * (1 - c) * r_k
        out += q[b, k] * (1 - a) * (1 - c) * np.outer(r_b, r_k)
    return out


def test_verification_apart_is_what_enumeration_says() -> None:
    p, q = tables(coupled=True)
    out, accepted = verified_apart(p, q)
    for i in range(len(p)):
        np.testing.assert_allclose(out[i], enumerated(p[i], q[i]), atol=1e-15)
    np.testing.assert_allclose(out.sum(axis=2), p.sum(axis=2), atol=1e-14)
    np.testing.assert_allclose(out.sum(axis=1), p.sum(axis=1), atol=1e-14)
    assert (distance(out, p) > 0.01).all(), "both marginals right, the joint law wrong"
    assert (accepted < 1).all()


def test_apart_is_exact_where_nothing_is_coupled_and_redrawing_apart_is_not() -> None:
    p, q = tables(coupled=False)
    assert distance(verified_apart(p, q)[0], p).max() < 1e-14
    assert distance(redrawn_apart(p, q), p).min() > 1e-3
    assert coupling(p).max() < 1e-13
    assert coupling(redrawn_apart(p, q)).min() > 1e-5


def test_a_draft_that_is_the_target_breaks_nothing() -> None:
    p, _ = tables(coupled=True)
    out, accepted = verified_apart(p, p)
    # accepted always, hence exact even where the law couples
    assert max(distance(out, p).max(), distance(redrawn_apart(p, p), p).max()) < 1e-14
    np.testing.assert_allclose(accepted, 1.0)


def test_the_mutant_draws_what_the_formula_says() -> None:
    """The fault ``split_token_residual`` on one context: chi-square of its residual draws, level 1e-4; the exact residual is refused."""
    b = buckets(8)
    p, q = law("joint", b, n=1), law("joint", b, n=1, seed=9)
    n, rows = 40_000, np.zeros(40_000, dtype=np.int64)
    rng = StreamKey(seed=1, cell="the mutant draws").generator()
    pair = load_pair("toy-tokens")
    residual = mutant("split_token_residual").sampler(pair).residual  # type: ignore[attr-defined]
    drawn = residual.draw(p.take(rows), q.take(rows), np.arange(n), lambda rows, m: rng.random((len(rows), m)), True)
    counts = np.zeros((len(b), p.n_types))
    np.add.at(counts, (b.bucket_of(drawn.gap), drawn.type), 1)
    table_p, table_q = np.exp(p.log_token_probs()), np.exp(q.log_token_probs())
    shortcut = (redrawn_apart(table_p, table_q) - np.minimum(table_p, table_q))[0]
    exact = np.maximum(table_p - table_q, 0.0)[0]

    def p_value(expected: FloatArray) -> float:
        expected = expected * n / expected.sum()
        keep = expected > 5
        return float(stats.chi2.sf(((counts - expected)[keep] ** 2 / expected[keep]).sum(), keep.sum() - 1))

    assert p_value(shortcut) > 1e-4
    assert p_value(exact) < 1e-10


@pytest.mark.parametrize("kind", ["joint", "given_bucket", "discretised_given_gap"])
def test_apart_of_laws_is_that_of_their_tables(kind: str) -> None:
    p, q = law(kind, buckets(12), n=7), law(kind, buckets(12), n=7, seed=3)
    found = apart(p, q)
    table_p, table_q = np.exp(p.log_token_probs()), np.exp(q.log_token_probs())
    np.testing.assert_allclose(found.apart, distance(verified_apart(table_p, table_q)[0], table_p), atol=1e-14)
    np.testing.assert_allclose(found.coupling_target, coupling(table_p), atol=1e-14)
    assert (found.redrawn_buckets <= found.redrawn + 1e-12).all()


def test_ties_come_when_the_birthday_problem_says() -> None:
    """Of 2,000 samples of the stated size 95 % have a tie: within 4 standard errors, and those of half the size do not."""
    mass = np.random.default_rng(0).dirichlet(np.full(60, 5.0))
    n = round(events_to_a_tie(mass))
    rng = StreamKey(seed=2, cell="ties come").generator()

    def tied(size: int) -> float:
        drawn = np.sort(rng.choice(len(mass), (2000, size), p=mass), axis=1)
        return float((np.diff(drawn, axis=1) == 0).any(axis=1).mean())

    assert abs(tied(n) - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 2000) + 0.01  # the formula is good to a point
    assert tied(n // 2) < 0.8


def test_a_staircase_is_half_a_bucket_from_uniform() -> None:
    """One context, n buckets of equal mass: middles are off by half a bucket's mass, upper edges by a whole one."""
    target = toy_target(1)
    p = target.law(np.zeros((1, 2)))
    edges = p.quantile(np.linspace(0, 1, 11)[None, 1:-1])[0]
    probs = np.full((1, 10), 0.1)
    middles = p.quantile(np.linspace(0.05, 0.95, 10)[None])[0]
    assert staircase_distance(p, probs, middles) == pytest.approx(0.05, abs=1e-9)
    assert staircase_distance(p, probs, np.append(edges, edges[-1] * 100)) == pytest.approx(0.1, abs=1e-3)


def test_a_kolmogorov_test_notices_then() -> None:
    """At the stated number of events the distance is the critical value: half of the samples of middles are beyond it, few uniform ones."""
    far = 0.05
    n = round(events_to_notice(far))
    rng = StreamKey(seed=3, cell="a kolmogorov test notices").generator()
    critical = stats.kstwo.ppf(1 - 1e-3, n)
    stairs = [stats.kstest(0.05 + 0.1 * rng.integers(10, size=n), "uniform").statistic > critical for _ in range(60)]
    exact = [stats.kstest(rng.random(n), "uniform").statistic > critical for _ in range(60)]
    assert sum(stairs) > 20
    assert sum(exact) <= 2  # 60 exact ones exceed it twice or more with probability .002


def test_ratios_on_proposals_accept_what_the_laws_say() -> None:
    target = toy_target(3, True)
    draft = toy_draft(target)
    h = np.random.default_rng(1).normal(size=(64, 2))
    p, q = target.law(h), draft.law(h)
    gap, types, u = proposals(q, 200, StreamKey(seed=4, cell="ratios").generator())
    assert abs(q.cdf(gap).mean() - 0.5) < 4.5 / np.sqrt(12 * gap.size)
    assert u.shape == types.shape == gap.shape
    found = spread(log_ratio(p, q, gap, types), np.log(1000.0))
    exact = exact_acceptance(p, q).joint
    half = (found["accepted"]["high"] - found["accepted"]["low"]) / 2
    assert abs(found["accepted"]["value"] - exact.mean()) < 4.5 * half / 1.96
    buckets_of = buckets_of_model(target, 100)
    tokens = spread(log_ratio(DiscretisedLaw(p, buckets_of), DiscretisedLaw(q, buckets_of), gap, types), np.log(1000.0))
    assert tokens["sd"]["value"] < found["sd"]["value"], "a ratio over tokens is the mean of the ratio within them"


def test_float32_needs_log_space_where_clocks_are_slow() -> None:
    lab = TokenLab()
    for unit, finite in ((0.0, True), (101.0, False)):
        p = toy_target(1, log_unit=unit).law(np.random.default_rng(2).normal(size=(5, 2)))
        gap = p.quantile(np.broadcast_to(np.linspace(0.01, 0.99, 50), (5, 50)))
        log_density, density = lab.log_density_float32(p, gap)
        np.testing.assert_allclose(log_density, p.log_prob(gap), atol=2e-4)
        assert bool((density > 0).all()) == finite
        if finite:
            np.testing.assert_allclose(np.log(density), p.log_prob(gap), atol=1e-4)
