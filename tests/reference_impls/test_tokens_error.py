"""The cost of discretising time: zero where nothing is lost, falling with the number of buckets, and right against plain integrals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import trapezoid

from reference_impls.tokens import Discretised, DiscretisedLaw
from reference_impls.tokens.error import discretisation_error, edge_mass
from reference_impls.tokens.point import measure_point, point_of_laws, token_acceptance
from reference_impls.toys import toy_draft, toy_target
from tests.reference_impls.token_laws import KINDS, STRATEGIES, buckets, law
from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch
from tppsd_bench.measure.acceptance import exact_acceptance
from tppsd_bench.protocols import Conditional, FloatArray
from tppsd_bench.stats.whitebox.bucket_integrals import integrate_gaps
from tppsd_bench.stats.whitebox.quadrature import integrate

TARGET = toy_target()
LAWS = TARGET.law(np.random.default_rng(3).normal(size=(12, 2)))


def test_distances_are_the_integrals_that_they_are_named_for() -> None:
    b = buckets(12)
    base = LAWS.take(slice(0, 2))
    tokens = DiscretisedLaw(base, b)
    found = discretisation_error(base, b)
    z = np.linspace(-12, 12, 400_001)
    x = np.broadcast_to(np.exp(z), (2, len(z)))
    off = np.abs(base.cdf(x) - tokens.cdf(x))
    f = np.exp(base.log_prob(x)) * x
    assert found.ks.value == pytest.approx(off.max(axis=1).mean(), rel=0.02)
    assert found.wasserstein_log.value == pytest.approx(trapezoid(off, z, axis=1).mean(), rel=2e-3)
    assert found.wasserstein.value == pytest.approx(trapezoid(off * x, z, axis=1).mean(), rel=2e-3)
    lost = trapezoid(f * (base.log_prob(x) - tokens.log_prob(x)), z, axis=1).mean()
    assert found.information.value == pytest.approx(lost, rel=2e-3)
    assert found.information_gap.value == found.information.value, "types that ignore the gap lose nothing"
    assert found.last_bucket.value == pytest.approx(float(base.sf(np.full(2, b.edges[-2])).mean()))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_more_buckets_cost_less(strategy: str) -> None:
    found = [discretisation_error(LAWS, buckets(n, strategy)) for n in (10, 50, 200)]
    for name in ("ks", "wasserstein_log", "information", "largest_bucket"):
        values = [getattr(e, name).value for e in found]
        assert values == sorted(values, reverse=True), name
        assert values[2] < 0.6 * values[0]
        assert all(getattr(e, name).low <= getattr(e, name).value <= getattr(e, name).high for e in found)


def test_types_that_look_at_the_gap_lose_by_not_seeing_it() -> None:
    base = toy_target(3, True).law(np.random.default_rng(1).normal(size=(6, 2)))
    coarse, fine = (discretisation_error(base, buckets(n)) for n in (5, 100))
    lost = [e.information.value - e.information_gap.value for e in (coarse, fine)]
    assert lost[0] > 0.005
    assert -1e-6 < lost[1] < 0.1 * lost[0]


@pytest.mark.parametrize("kind", KINDS)
def test_token_acceptance_is_the_overlap_of_the_tables(kind: str) -> None:
    b = buckets(30)
    p, q = law(kind, b), law("factorised", b, seed=5)
    found = token_acceptance(p, q)
    tables = [np.exp(made.log_token_probs()) for made in (p, q)]
    np.testing.assert_allclose(found.joint, np.minimum(*tables).sum(axis=(1, 2)), atol=1e-12)
    np.testing.assert_allclose(found.gap, np.minimum(*(t.sum(axis=2) for t in tables)).sum(axis=1), atol=1e-12)
    assert (found.two_step <= found.joint + 1e-12).all()
    assert (found.joint <= found.gap + 1e-12).all()
    np.testing.assert_allclose(token_acceptance(p, p).two_step, 1.0, atol=1e-12)
    by_quadrature = exact_acceptance(p, q)
    for name in ("gap", "joint", "two_step"):
        np.testing.assert_allclose(getattr(by_quadrature, name), getattr(found, name), atol=1e-9)


def test_coarser_tokens_are_accepted_no_less() -> None:
    """Total variation cannot grow when gaps are seen through buckets."""
    q = toy_draft(TARGET).law(np.random.default_rng(3).normal(size=(12, 2)))
    points = [point_of_laws(LAWS, q, buckets(n, "equal_width")) for n in (5, 20, 100)]
    gap = [p.tokens.gap.value for p in points]
    assert gap == sorted(gap, reverse=True)
    assert gap[2] > points[0].continuous.gap.value - 1e-4
    assert points[0].gain.value == pytest.approx(points[0].tokens.two_step.value - points[0].continuous.two_step.value)


def test_a_point_of_the_map_says_where_it_is() -> None:
    rng = np.random.default_rng(2)
    histories = EventBatch(np.exp(rng.normal(size=200)), rng.integers(0, 3, 200), np.full(4, 50), 3)
    draft = toy_draft(TARGET)
    point = measure_point(TARGET, draft, buckets(50, "log_width"), histories, np.random.default_rng(1), n_contexts=40)
    assert (point.n_buckets, point.strategy, point.within, point.n_types) == (50, "log_width", "uniform", 3)
    assert point.tokens.two_step.n == 40
    again = measure_point(TARGET, draft, buckets(50, "log_width"), histories, np.random.default_rng(1), n_contexts=40)
    assert point == again


def test_other_buckets_cannot_be_compared() -> None:
    with pytest.raises(InputError, match="give both the same buckets"):
        token_acceptance(law("joint", buckets(10)), law("joint", buckets(12)))


def test_atoms_are_seen_where_gaps_sit_on_middles_and_nowhere_else() -> None:
    b = buckets(40)
    rng = np.random.default_rng(8)
    x = Discretised(TARGET, b).initial(1).sample_gap(rng.random((1, 5000, 2)))[0]
    assert edge_mass(x, b).share == 0.0
    moved = np.where(rng.random(5000) < 0.3, b.middles()[b.bucket_of(x)], x)
    found = edge_mass(moved, b)
    assert found.low < 0.3 < found.high
    assert found.n == 5000
    assert edge_mass(b.edges[1:-1], b).share == 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_white_box_integrals_over_tokens_are_sums(kind: str) -> None:
    """Against plain sums over the tables, whole, up to a gap, and cut at a horizon; and the general quadrature is not far off."""
    b = buckets(30, "equal_width")
    p, q = law(kind, b, n=40), law("factorised", b, n=40, seed=5)
    rng = np.random.default_rng(4)
    gap, left = np.exp(rng.normal(size=40)), np.exp(rng.normal(1.0, 0.5, 40))

    def parts(f: Conditional, g: Conditional, x: FloatArray) -> FloatArray:
        a, c = np.exp(f.log_prob(x)), np.exp(g.log_prob(x))
        return np.stack([a, c, np.minimum(a, c)])

    below, whole = integrate_gaps(p, q, np.arange(40), gap, left, parts, (0, 1))
    tables = np.exp(p.log_bucket_probs), np.exp(q.log_bucket_probs)
    expected = np.stack([*tables, np.minimum(*tables)])
    for found, t in ((below, np.minimum(gap, left)), (whole, left)):
        at, share = b.bucket_of(t), b.shares(t)[0]
        weight = np.where(np.arange(30) < at[:, None], 1.0, np.where(np.arange(30) == at[:, None], share[:, None], 0.0))
        np.testing.assert_allclose(found, (expected * weight).sum(axis=2), atol=1e-10)
    general = integrate(p, q, np.arange(40), gap, left, parts, (0, 1))
    np.testing.assert_allclose(general[1], whole, atol=5e-3)
