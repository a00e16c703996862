"""Drift: the exact identity for a linear tilt, lower bounds of total variation, paired errors, and the three outcomes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from tppsd_bench.gate.drift import SET_DIFFERENCES, Effects, drift, effects, judge_drift, summed
from tppsd_bench.results import Outcome
from tppsd_bench.stats.neyman import legendre
from tppsd_bench.streams import StreamKey
from tppsd_bench.studies.gate.table import Margins

TV = 0.02
N, LENGTH = 1024, 80


def rng(name: str) -> np.random.Generator:
    return StreamKey(seed=5, cell=f"gate drift {name}").generator()


def tilted(w: np.ndarray, e: float) -> np.ndarray:
    """Values of density 1 + e (2u - 1) from uniform ones; total variation e / 4."""
    return w if e == 0 else (np.sqrt((1 - e) ** 2 + 4 * e * w) - (1 - e)) / (2 * e)


def sampled(u: np.ndarray, v: np.ndarray | None = None) -> Effects:
    n = len(u) // LENGTH
    scores = np.concatenate([legendre(x) for x in (u, v) if x is not None])
    return effects(summed(scores, np.repeat(np.arange(n), LENGTH), n), np.full(n, LENGTH))


def exact(theta: list[float], error: float = 0.0) -> Effects:
    return Effects(np.array(theta), np.diag(np.full(len(theta), error**2)), 80_000)


def test_the_set_differences_are_the_integrals_they_stand_for() -> None:
    for k in range(4):
        for j in range(4):

            def integrand(u: float, k: int = k, j: int = j) -> float:
                phi = legendre(np.array([u]))[:, 0]
                return float(0.5 * np.sign(phi[k]) * phi[j])

            roots = np.polynomial.legendre.Legendre.basis(k + 1).roots()
            value = integrate.quad(integrand, 0, 1, points=(np.real(roots) + 1) / 2, limit=200)[0]
            assert SET_DIFFERENCES[k, j] == pytest.approx(value, abs=1e-9)


def test_a_linear_tilt_has_exactly_its_total_variation() -> None:
    """theta_1 = e / sqrt(3), D_1 = e / 4 = TV."""
    e = 4 * TV
    found = drift(exact([e / math.sqrt(3), 0, 0, 0]), exact([0.0] * 4), paired=False)
    assert found.value[0] == pytest.approx(TV, abs=1e-12)
    assert found.value[1] == pytest.approx(0, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-0.2, 0.2), min_size=4, max_size=4))
def test_every_direction_is_a_lower_bound_of_the_total_variation(theta: list[float]) -> None:
    grid = (np.arange(20_000) + 0.5) / 20_000
    total = 0.5 * np.abs(np.array(theta) @ legendre(grid)).mean()
    assert np.abs(SET_DIFFERENCES @ np.array(theta)).max() <= total + 1e-4


def test_types_have_directions_of_their_own() -> None:
    found = drift(exact([0, 0, 0, 0, 0.1, 0, 0, 0]), exact([0.0] * 8), paired=False)
    assert len(found.value) == 8
    assert found.value[4] == pytest.approx(0.1 * math.sqrt(3) / 4)
    assert not found.value[:4].any()


def test_paired_by_seed_a_tilt_is_seen_far_more_sharply() -> None:
    w = rng("paired").random(N * LENGTH)
    one, other = sampled(w), sampled(tilted(w, 4 * TV))
    paired, apart = (drift(other, one, paired=p) for p in (True, False))
    assert paired.paired
    assert not apart.paired
    assert paired.value == pytest.approx(apart.value)
    assert paired.error[0] < 0.1 * apart.error[0]


def test_sides_of_other_sizes_are_never_paired() -> None:
    w = rng("sizes").random(N * LENGTH)
    assert not drift(sampled(w), sampled(w[: LENGTH * 100]), paired=True).paired


@pytest.mark.parametrize(("tv", "outcome"), [(0.0, Outcome.PASS), (0.004, Outcome.PASS), (TV, Outcome.FAIL)])
def test_a_drift_of_the_size_to_be_found_fails_and_one_within_the_margin_does_not(tv: float, outcome: Outcome) -> None:
    """81,920 events on both sides, unpaired. False alarm of a case: below .01 (power .99 at TV .02; a PASS within 4 errors)."""
    base, mine = sampled(rng("base").random(N * LENGTH)), sampled(tilted(rng(f"mine {tv}").random(N * LENGTH), 4 * tv))
    found = judge_drift("c", mine, base, Margins(), paired=False, cells=2)
    assert found.outcome is outcome
    if outcome is Outcome.FAIL:
        assert "gaps, location" in found.sentence
        assert found.effect == pytest.approx(tv, abs=0.01)


def test_too_few_events_are_undecided_and_say_how_many_it_takes() -> None:
    base, mine = sampled(rng("few").random(40 * LENGTH)), sampled(rng("few too").random(40 * LENGTH))
    found = judge_drift("c", mine, base, Margins(), paired=False, cells=1)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "events are needed" in found.sentence


def test_errors_are_over_sequences() -> None:
    """Every value of a sequence repeated: the same effects, an error sqrt(2) larger than events would tell."""
    w = rng("clusters").random(N * LENGTH // 2)
    plain, doubled = sampled(w), sampled(np.repeat(w, 2))
    assert doubled.theta == pytest.approx(plain.theta)
    ratio = np.sqrt(np.diag(doubled.covariance) / np.diag(plain.covariance))
    assert ratio == pytest.approx(1.0, abs=0.15)


def test_the_bound_holds_at_its_level() -> None:
    """z of D_k at no drift is standard normal: KS over 400 pairs and 8 directions at level 1e-4."""
    generator, zs = rng("level"), []
    for _ in range(400):
        sides = [sampled(generator.random(60 * LENGTH), generator.random(60 * LENGTH)) for _ in range(2)]
        found = drift(sides[0], sides[1], paired=False)
        zs.append(found.value / found.error)
    z = np.array(zs)
    for k in range(8):
        assert stats.kstest(z[:, k], stats.t(59).cdf).pvalue > 1e-4 / 8
    assert stats.kstest(1.3 * z[:, 0], stats.t(59).cdf).pvalue < 1e-2  # errors a quarter too small would be seen
