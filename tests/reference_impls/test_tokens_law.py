"""Token laws: probabilities that sum, one law behind every method, and the integral of the continuous law they came from."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from reference_impls.heads.lognormal_mixture import LogNormalMixture, sample_types
from reference_impls.tokens import Discretised, DiscretisedLaw, JointTokens
from reference_impls.tokens.discretise import one_more_each, spare_uniform
from reference_impls.toys import toy_target
from tests.reference_impls.token_laws import KINDS, WITHINS, buckets, law
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import Conditional
from tppsd_bench.streams import StreamKey

RNG = np.random.default_rng(11)
GAP = np.exp(RNG.normal(-0.3, 1.3, (5, 60)))


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_sum_to_one_and_split_into_bucket_and_type(kind: str) -> None:
    made = law(kind, buckets())
    assert isinstance(made, Conditional)
    table = made.log_token_probs()
    assert table.shape == (5, 40, 3)
    np.testing.assert_allclose(np.exp(table).sum(axis=(1, 2)), 1.0, atol=1e-12)
    np.testing.assert_allclose(np.logaddexp.reduce(table, axis=2), made.log_bucket_probs, atol=1e-9)
    bucket = made.buckets.bucket_of(GAP)
    rows = np.arange(5)[:, None]
    np.testing.assert_allclose(made.log_bucket(bucket) + made.log_types(bucket)[..., 1], table[rows, bucket, 1], atol=1e-9)
    np.testing.assert_allclose(np.exp(made.log_types(bucket)).sum(axis=-1), 1.0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("within", WITHINS)
def test_density_cdf_survival_and_quantile_are_of_one_law(kind: str, within: str) -> None:
    made = law(kind, buckets(25, within=within))
    cdf, sf = made.cdf(GAP), made.sf(GAP)
    np.testing.assert_allclose(cdf + sf, 1.0, atol=1e-12)
    np.testing.assert_allclose(made.quantile(cdf), GAP, rtol=1e-9)
    step = 1e-6 * GAP
    jumps = np.abs(made.log_prob(GAP - step) - made.log_prob(GAP + step)) > 1e-4
    slope = (made.cdf(GAP + step) - made.cdf(GAP - step)) / (2 * step)
    np.testing.assert_allclose(np.exp(made.log_prob(GAP))[~jumps], slope[~jumps], rtol=1e-4, atol=1e-8)
    one = GAP[:, 0]
    np.testing.assert_array_equal(made.log_prob(one), made.log_prob(GAP)[:, 0])
    np.testing.assert_allclose(made.cdf(one), cdf[:, 0], rtol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_stay_themselves_when_taken_and_joined(kind: str) -> None:
    made: Any = law(kind, buckets(), n=6)
    joined = type(made).concat([made.take(np.array([4, 0])), made.take(slice(1, 3))])
    order = np.array([4, 0, 1, 2])
    x = np.exp(np.linspace(-2, 2, 4))
    np.testing.assert_array_equal(joined.log_prob(x), made.take(order).log_prob(x))
    np.testing.assert_allclose(joined.log_token_probs(), made.log_token_probs()[order], atol=1e-12)
    assert len(joined) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_draws_follow_the_law(kind: str) -> None:
    """One law, 40,000 draws: PIT of the gap, and the counts of (coarse bucket, type); each at level 1e-4, fixed seed."""
    made = law(kind, buckets(30), n=1)
    rng = StreamKey(seed=7, cell="token draws").generator()
    u = rng.random((1, 40_000, 3))
    x = made.sample_gap(u[..., :2])
    types = sample_types(made.type_log_probs(x), u[..., 2])[0]
    assert stats.kstest(made.cdf(x)[0], "uniform").pvalue > 1e-4
    within = made.buckets.shares(x)[0][0]
    assert stats.kstest(within, "uniform").pvalue > 1e-4
    expected = 40_000 * np.exp(made.log_token_probs())[0]
    counts = np.zeros_like(expected)
    np.add.at(counts, (made.buckets.bucket_of(x)[0], types), 1)
    keep = expected > 5
    statistic = float(((counts - expected)[keep] ** 2 / expected[keep]).sum())
    assert stats.chi2.sf(statistic, keep.sum() - 1) > 1e-4
    swapped = float(((counts[:, ::-1] - expected)[keep] ** 2 / expected[keep]).sum())
    assert stats.chi2.sf(swapped, keep.sum() - 1) < 1e-4, "the test must see types that are swapped"


def test_one_draw_at_a_time_is_the_same_draw() -> None:
    made = law("discretised", buckets(), n=5)
    u = RNG.random((5, 2))
    np.testing.assert_array_equal(
        made.sample_gap(u), np.concatenate([made.take(slice(i, i + 1)).sample_gap(u[i : i + 1]) for i in range(5)])
    )


def test_what_a_component_leaves_of_its_uniform_is_independent_of_the_gap() -> None:
    base = toy_target().law(np.zeros((1, 2)))
    u = StreamKey(seed=3, cell="spare").generator().random((1, 40_000, 2))
    spare, x = spare_uniform(base, u[..., 0])[0], base.sample_gap(u)[0]
    assert stats.kstest(spare, "uniform").pvalue > 1e-4
    assert abs(stats.spearmanr(spare, x).statistic) < 4 / np.sqrt(40_000)
    assert abs(stats.spearmanr(u[0, :, 0], x).statistic) > 0.5, "the whole uniform is not independent of it"


def test_bucket_probabilities_are_the_mixtures_own_even_far_out() -> None:
    b = buckets(100, "log_width")
    base = toy_target().law(np.array([[0.0, 0.0], [3.0, -3.0], [-8.0, 6.0]]))
    found = DiscretisedLaw(base, b).log_bucket_probs
    for row in range(3):
        one = base.take(slice(row, row + 1))
        for at in (0, 3, 50, 99):
            low, high = np.log(max(b.edges[at], 1e-30)), np.log(min(b.edges[at + 1], 1e30))

            def density(z: float, one: LogNormalMixture = one) -> float:
                return float(np.exp(one.log_prob(np.array([np.exp(z)]))[0] + z))

            centre, width = one.log_gap_bumps()
            stops = np.concatenate([centre[0] + k * width[0] for k in range(-8, 9)])
            points = np.unique(np.clip(np.concatenate([stops, [low, high]]), low, high)).tolist()
            mass = sum(integrate.quad(density, a, c, epsabs=0, epsrel=1e-10)[0] for a, c in pairwise(points))
            assert np.exp(found[row, at]) == pytest.approx(mass, rel=1e-6, abs=1e-280)
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize(
    ("n", "strategy", "limit"),
    [(50, "quantile", 5e-5), (100, "log_width", 1e-5), (10, "quantile", 1e-3), (10, "equal_width", 2e-3)],
)
def test_types_are_averaged_over_the_bucket(n: int, strategy: str, limit: float) -> None:
    """Against a fine midpoint sum inside each bucket, weighted with the bucket's probability; the accuracy that is documented."""
    b = buckets(n, strategy)
    base = toy_target(3, True).law(np.random.default_rng(1).normal(size=(3, 2)))
    found = DiscretisedLaw(base, b)
    edges = np.clip(b.log_cells[:, 0], -8.0, 8.0), np.clip(np.append(b.log_cells[1:, 0], np.inf), -8.0, 8.0)
    z = edges[0][:, None] + (edges[1] - edges[0])[:, None] * (np.arange(400) + 0.5) / 400
    x = np.broadcast_to(np.exp(z.ravel()), (3, z.size))
    density = (np.exp(base.log_prob(x)) * x).reshape(3, n, 400, 1)
    mean = (density * np.exp(base.type_log_probs(x)).reshape(3, n, 400, 3)).sum(axis=2) / density.sum(axis=2)
    off = np.abs(np.exp(found.log_types(np.broadcast_to(np.arange(n), (3, n)))) - mean).max(axis=-1)
    probs = np.exp(found.log_bucket_probs)
    assert (off * probs).sum(axis=1).mean() < limit
    assert off[probs > 1e-6].max() < 1.5e-2


def test_a_discretised_base_without_mixture_is_integrated_by_its_cdf() -> None:
    """Buckets within buckets: the fine law is no mixture, so the coarse one goes through CDF and survival alone."""
    fine, coarse = buckets(400, "log_width"), buckets(20)
    base = law("discretised", fine, n=3)
    over, direct = DiscretisedLaw(base, coarse), DiscretisedLaw(base.base, coarse)  # type: ignore[attr-defined]
    np.testing.assert_allclose(np.exp(over.log_bucket_probs), np.exp(direct.log_bucket_probs), atol=2e-3)
    u = RNG.random((3, 2000, 2))
    assert stats.kstest(over.cdf(over.sample_gap(u)).ravel(), "uniform").pvalue > 1e-4
    assert not np.allclose(over.log_types(np.zeros(3, dtype=np.int64)), 0.0)


def test_joint_logits_in_float32_are_normalised_in_float64() -> None:
    b = buckets(100)
    logits = (30 * RNG.normal(size=(3, 100 * 50))).astype(np.float32)
    made = JointTokens(b, logits, 50)
    np.testing.assert_allclose(np.exp(made.log_token_probs()).sum(axis=(1, 2)), 1.0, atol=1e-12)
    shifted = JointTokens(b, logits + np.float32(64.0), 50)
    np.testing.assert_allclose(shifted.log_prob(GAP[:3, 0]), made.log_prob(GAP[:3, 0]), atol=1e-4)


def test_a_discretised_model_scores_the_wait_after_the_last_event() -> None:
    model = Discretised(toy_target(), buckets())
    batch = EventBatch(np.array([0.4, 1.2, 0.3]), np.array([0, 1, 2]), np.array([2, 0, 1]), 3, np.array([2.0, 1.0, 5.0]))
    scores = model.score(batch)
    plain = model.score(EventBatch(batch.gaps, batch.types, batch.lengths, 3))
    np.testing.assert_allclose(scores.log_density, plain.log_density, atol=1e-13)
    laws = model.conditionals(one_more_each(batch))
    assert scores.crossing_cdf is not None
    np.testing.assert_allclose(scores.crossing_cdf, laws.take(np.array([2, 3, 5])).cdf(np.array([0.4, 1.0, 4.7])), atol=1e-12)
