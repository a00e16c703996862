"""Laws of the next event: density, CDF, quantile and draws belong together; torch and numpy agree; extremes stay finite.

Statistical tests: one-sample Kolmogorov-Smirnov at p > 1e-6, so each fails one exact tree in 1e6 (seeds are fixed by names).
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special, stats

from reference_impls.heads.lognormal_mixture import LogNormalMixture, sample_types
from reference_impls.heads.network import MixtureHead
from reference_impls.heads.types import OneType, TypesGivenGap, TypesIndependent, TypesTempered
from reference_impls.stress import StressDraft
from reference_impls.toys import toy_draft, toy_target
from tppsd_bench.protocols import Conditional
from tppsd_bench.streams import StreamKey

COMPONENTS, TYPES, HIDDEN = 4, 3, 5


def rng_of(name: str) -> np.random.Generator:
    return StreamKey(cell=name).generator()


def type_law(kind: str, n: int, rng: np.random.Generator):
    if kind == "one":
        return OneType(n)
    if kind == "independent":
        return TypesIndependent(rng.normal(size=(n, TYPES)))
    if kind == "tempered":
        return TypesTempered(TypesIndependent(rng.normal(size=(n, TYPES))), 2.0, np.array([0.5, -0.5, 0.0]))
    shapes = ((n, HIDDEN), (3, HIDDEN), (HIDDEN, TYPES), TYPES)
    return TypesGivenGap(*(rng.normal(size=shape) for shape in shapes))


KINDS = ("one", "independent", "tempered", "given gap")


def make_law(n: int, kind: str = "one", name: str = "law") -> LogNormalMixture:
    rng = rng_of(f"{name} {kind}")
    return LogNormalMixture(
        rng.normal(size=(n, COMPONENTS)), 0.4 * rng.normal(size=(n, COMPONENTS)) - 0.5, rng.normal(size=(n, COMPONENTS)),
        type_law(kind, n, rng), log_scale_gap=1.4, log_shift_gap=-2.0,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


# -- the gap ---------------------------------------------------------------------------------------------------------------
def test_a_law_is_a_conditional():
    assert isinstance(make_law(2), Conditional)


def test_density_integrates_to_one_and_is_the_derivative_of_the_cdf():
    law = make_law(3)
    for row in range(3):
        one = law.take(slice(row, row + 1))

        def density(x, one=one):
            return float(np.exp(one.log_prob(np.array([np.exp(x)])) + x)[0])

        assert abs(integrate.quad(density, -25, 20, limit=400, epsabs=1e-12)[0] - 1.0) < 1e-9
    gap = np.exp(np.linspace(-8, 3, 41))[None, :].repeat(3, axis=0)
    step = 1e-5 * gap
    slope = (law.cdf(gap + step) - law.cdf(gap - step)) / (2 * step)
    np.testing.assert_allclose(slope, np.exp(law.log_prob(gap)), rtol=1e-6, atol=1e-9)


@given(st.floats(1e-300, 1.0, exclude_max=True))
def test_quantile_inverts_the_cdf_in_both_tails(u):
    law = make_law(3)
    gap = law.quantile(np.full(3, u))
    np.testing.assert_allclose(law.cdf(gap), u, rtol=1e-9)
    np.testing.assert_allclose(law.sf(gap), 1.0 - u, rtol=1e-9)


def test_cdf_and_survival_sum_to_one_and_keep_their_tails():
    law = make_law(3)
    gap = np.exp(np.linspace(-60, 60, 241))[None, :].repeat(3, axis=0)
    cdf, sf = law.cdf(gap), law.sf(gap)
    np.testing.assert_allclose(cdf + sf, 1.0, atol=4e-16)
    assert (np.diff(cdf) >= 0).all()
    assert (np.diff(sf) <= 0).all()
    assert (sf[:, -40:] < 1e-100).all(), "the upper tail is read off 1 - F"
    assert (sf[:, 160] > 0).all()


def test_draws_follow_the_cdf():
    law, rng = make_law(1), rng_of("draws follow the cdf")
    gap = law.sample_gap(rng.random((1, 20_000, 2)))[0]
    u = law.cdf(gap[None, :])[0]
    assert stats.kstest(u, "uniform").pvalue > 1e-6
    other = replace(law, log_shift_gap=law.log_shift_gap + 0.1)
    assert stats.kstest(other.cdf(gap[None, :])[0], "uniform").pvalue < 1e-9, "the test sees a law shifted by a tenth"


def test_one_row_draws_are_the_general_draws_bit_for_bit():
    law, u = make_law(200, name="one row"), rng_of("one row").random((200, 2))
    together = law.sample_gap(u)
    apart = np.concatenate([law.take(slice(i, i + 1)).sample_gap(u[i : i + 1]) for i in range(200)])
    blocks = np.concatenate([law.take(slice(i, i + 7)).sample_gap(u[i : i + 7]) for i in range(0, 200, 7)])
    wide = law.sample_gap(u[:, None, :])[:, 0]
    np.testing.assert_array_equal(apart, together)
    np.testing.assert_array_equal(blocks, together)
    np.testing.assert_array_equal(wide, together)


@pytest.mark.parametrize("shift", [-800.0, -700.0, 0.0, 700.0, 709.75, 800.0])
def test_clipped_draws_agree_too_and_stay_positive_and_finite(shift):
    law = replace(make_law(5), log_shift_gap=shift)
    u = rng_of("clipped").random((5, 2))
    together = law.sample_gap(u)
    apart = np.concatenate([law.take(slice(i, i + 1)).sample_gap(u[i : i + 1]) for i in range(5)])
    np.testing.assert_array_equal(apart, together)
    assert (np.isfinite(together) & (together > 0)).all()


def test_rows_are_their_own():
    """take and concat move rows about without touching them."""
    for kind in KINDS:
        law = make_law(6, kind)
        rows = np.array([4, 0, 4])
        joined = LogNormalMixture.concat([law.take(rows), law.take(slice(1, 3))])
        gap = np.exp(rng_of("rows").normal(size=5))
        at = np.array([4, 0, 4, 1, 2])
        assert (len(joined), joined.n_types) == (5, law.n_types)
        wide = np.zeros(6)
        for i, row in enumerate(at):
            wide[:] = gap[i]
            assert joined.log_prob(gap)[i] == law.log_prob(wide)[row]
            np.testing.assert_allclose(joined.type_log_probs(gap)[i], law.type_log_probs(wide)[row], rtol=1e-13)


# -- extremes --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("gap", [5e-324, 1e-300, 1e-12, 1e9, 1e300])
def test_extreme_gaps_give_numbers(gap):
    for kind in KINDS:
        law = make_law(3, kind)
        g = np.full(3, gap)
        assert np.isfinite(law.log_prob(g)).all()
        assert ((law.cdf(g) >= 0) & (law.cdf(g) <= 1) & (law.sf(g) >= 0) & (law.sf(g) <= 1)).all()
        np.testing.assert_allclose(np.exp(law.type_log_probs(g)).sum(axis=-1), 1.0, rtol=1e-12)


def test_gaps_outside_the_support_have_no_density():
    law = make_law(2, "given gap")
    for gap, cdf in ((0.0, 0.0), (np.inf, 1.0)):
        g = np.full(2, gap)
        assert (law.log_prob(g) == -np.inf).all()
        assert (law.cdf(g) == cdf).all()
        assert (law.sf(g) == 1.0 - cdf).all()
        assert np.isfinite(law.type_log_probs(g)).all()


def test_weights_and_type_probabilities_of_1e_300_count():
    far = 300 * np.log(10.0)
    types = TypesIndependent(np.array([[0.0, -far]]))
    law = LogNormalMixture(np.array([[0.0, 50.0]]), np.zeros((1, 2)), np.array([[0.0, -far]]), types)
    at_second = np.exp(np.array([50.0]))
    want = np.logaddexp(stats.norm.logpdf(50.0), stats.norm.logpdf(0.0) - far) - 50.0
    np.testing.assert_allclose(law.log_prob(at_second), want, rtol=1e-12)
    np.testing.assert_allclose(law.type_log_probs(at_second), [[0.0, -far]], rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(law.sf(np.exp(np.array([45.0]))), 1e-300, rtol=1e-5)


def test_a_weight_that_underflows_hides_no_other_component():
    """Component 1 has weight e^-800, below any float64; at its centre component 0 still has density e^-300."""
    law = LogNormalMixture(np.array([[0.0, 24.5]]), np.zeros((1, 2)), np.array([[0.0, -800.0]]), OneType(1))
    np.testing.assert_allclose(law.log_prob(np.exp(np.array([24.5]))), stats.norm.logpdf(24.5) - 24.5, rtol=1e-12)
    law = LogNormalMixture(np.array([[0.0, 50.0]]), np.zeros((1, 2)), np.array([[0.0, -800.0]]), OneType(1))
    np.testing.assert_allclose(law.log_prob(np.exp(np.array([50.0]))), stats.norm.logpdf(0.0) - 800.0 - 50.0, rtol=1e-12)


def test_densities_near_and_beyond_underflow_are_the_log_sum():
    """Positions, some of them far outside every component, in one call: each is its own log-sum-exp, to the last digits."""
    law = make_law(3)
    gap = np.exp(1.4 * np.linspace(-60.0, 60.0, 41) - 2.0)[None].repeat(3, axis=0)
    z = (np.log(gap) + 2.0) / 1.4
    each = special.log_softmax(law.logit, axis=1)[:, None] + stats.norm.logpdf(
        z[..., None], law.loc[:, None], law.scale[:, None]
    )
    want = special.logsumexp(each, axis=-1) - np.log(1.4) - np.log(gap)
    assert want.min() < -1000.0
    np.testing.assert_allclose(law.log_prob(gap), want, rtol=1e-12)
    for j in (0, 13, 20):
        np.testing.assert_array_equal(law.log_prob(gap[:, j]), law.log_prob(gap)[:, j])


# -- the type --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS)
def test_type_laws_normalise_for_every_shape_of_gaps(kind):
    law = make_law(4, kind)
    for gap in (np.exp(np.linspace(-3, 2, 4)), np.exp(rng_of("types").normal(size=(4, 7)))):
        log_p = law.type_log_probs(gap)
        assert log_p.shape == (*gap.shape, law.n_types)
        np.testing.assert_allclose(np.exp(log_p).sum(axis=-1), 1.0, rtol=1e-13)
    column = law.type_log_probs(gap[:, 2])
    np.testing.assert_allclose(column, log_p[:, 2], rtol=1e-13, atol=1e-15)
    depends = not np.allclose(log_p[:, :1], log_p)
    assert depends == (kind == "given gap")


def test_types_by_inverse_cdf():
    log_p = np.log(np.array([0.2, 0.5, 0.3]))
    u = (np.arange(1000) + 0.5) / 1000
    picks = sample_types(np.broadcast_to(log_p, (1000, 3)), u)
    np.testing.assert_array_equal(np.bincount(picks), [200, 500, 300])
    never = np.array([[-np.inf, 0.0, -np.inf]])
    for v in (2.0**-54, 0.5, 1 - 2.0**-53):
        assert sample_types(never, np.array([v])) == 1, "a type of probability 0 is never drawn"


def test_tempering_and_tilting_are_what_they_say():
    base = TypesIndependent(np.array([[0.3, -0.2, 1.0]]))
    z = np.zeros(1)
    np.testing.assert_allclose(TypesTempered(base, 1.0, np.zeros(3)).log_probs(z), base.log_probs(z), rtol=1e-14)
    flat = TypesTempered(base, 1e12, np.zeros(3)).log_probs(z)
    np.testing.assert_allclose(flat, -np.log(3.0), rtol=1e-9)


# -- the network's head ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("n_types", "given_gap"), [(1, False), (3, False), (3, True)])
def test_torch_likelihood_is_the_float64_law(n_types, given_gap):
    torch.manual_seed(3)
    head = MixtureHead(8, n_types, n_components=6, types_given_gap=given_gap, hidden=HIDDEN)
    head.log_mean.fill_(-1.3)
    head.log_std.fill_(1.7)
    head.eval()
    rng = rng_of("torch likelihood")
    gaps = np.exp(-1.3 + 1.7 * rng.normal(size=(1, 400)))
    types = rng.integers(0, n_types, (1, 400))
    with torch.inference_mode():
        raw = head(torch.from_numpy(rng.normal(size=(1, 400, 8)).astype(np.float32)))
        got = head.log_likelihood(raw, torch.from_numpy(gaps), torch.from_numpy(types)).numpy()[0]
    law = head.law(raw[0].numpy())
    picked = law.type_log_probs(gaps[0])[np.arange(400), types[0]]
    np.testing.assert_allclose(got, law.log_prob(gaps[0]) + picked, rtol=1e-5, atol=1e-5)
    waits = np.exp(-1.3 + 1.7 * rng.normal(size=(1, 400)))
    survival = head.log_survival(raw, torch.from_numpy(waits)).detach().numpy()[0]
    np.testing.assert_allclose(survival, np.log(law.sf(waits[0])), rtol=1e-5, atol=1e-5)


def test_head_extremes_are_numbers():
    torch.manual_seed(4)
    head = MixtureHead(8, 3, n_components=6, types_given_gap=True, hidden=HIDDEN).eval()
    raw = torch.full((2, head.raw.out_features), 40.0)
    raw[1] *= -1.0
    gaps, types = torch.tensor([1e-12, 1e9], dtype=torch.float64), torch.tensor([0, 2])
    assert torch.isfinite(head.log_likelihood(raw, gaps, types)).all()
    law = head.law(raw.numpy())
    assert np.isfinite(law.log_prob(gaps.numpy())).all()
    assert np.isfinite(law.type_log_probs(gaps.numpy())).all()


# -- the stress draft ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("given_gap", [False, True])
def test_the_stress_draft_is_poor_and_its_density_known(given_gap):
    target = toy_target(types_given_gap=given_gap)
    stress, n = StressDraft(toy_draft(target)), 4
    law, p = stress.initial(n), target.initial(n)
    u = (np.arange(4000) + 0.5) / 4000
    grid = p.quantile(np.broadcast_to(u, (n, len(u))))
    overlap = np.minimum(np.exp(law.log_prob(grid) - p.log_prob(grid)), 1.0).mean(axis=1)
    assert ((1 - overlap > 0.1) & (1 - overlap < 0.5)).all(), "TV in the gap should be .2 to .4"
    x = np.linspace(-15, 15, 20_001)
    mass = integrate.trapezoid(np.exp(law.take(slice(0, 1)).log_prob(np.exp(x)[None]) + x), x)
    np.testing.assert_allclose(mass, 1.0, rtol=1e-9)
    picked = np.exp(law.type_log_probs(grid[:, ::400])) - np.exp(p.type_log_probs(grid[:, ::400]))
    assert (0.5 * np.abs(picked).sum(axis=-1)).mean() > 0.1
