"""Simultaneous ECDF bands: coverage against an exact computation, and against fresh simulation at large n."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from tppsd_bench.stats.bands import ecdf_band, ecdf_difference_band, pointwise_gamma
from tppsd_bench.streams import StreamKey


def rng(name: str) -> np.random.Generator:
    return StreamKey(seed=11, cell=name).generator()


def exact_coverage(n: int, grid: np.ndarray, low: np.ndarray, high: np.ndarray) -> float:
    """P(low_j <= n F_n(z_j) <= high_j for all j), by the Markov chain of binomial increments."""
    state = np.zeros(n + 1)
    state[0] = 1.0
    previous = 0.0
    counts = np.arange(n + 1)
    for z, a, b in zip(grid, low, high, strict=True):
        step = (z - previous) / (1 - previous)
        new = np.zeros(n + 1)
        for x in np.flatnonzero(state):
            new[x:] += state[x] * binom.pmf(counts[: n + 1 - x], n - x, step)
        state = np.where((counts >= a) & (counts <= b), new, 0.0)
        previous = z
    return float(state.sum())


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_coverage_is_exact_up_to_simulation_error(level: float) -> None:
    n = 80
    grid, lower, upper = ecdf_band(n, level, rng(f"exact {level}"), n_grid=16, n_simulations=20_000)
    coverage = exact_coverage(n, grid, np.rint(lower * n), np.rint(upper * n))
    # Simulation error of the quantile: sd = sqrt(level (1 - level) / 20000) <= .003; discreteness only widens the band.
    assert level - 0.015 < coverage < level + 0.04


def test_pointwise_intervals_would_not_cover() -> None:
    n, grid = 80, np.arange(1, 16) / 16
    assert exact_coverage(n, grid, binom.ppf(0.025, n, grid), binom.isf(0.025, n, grid)) < 0.8


def test_coverage_at_large_n_and_power_against_a_shift() -> None:
    n, level, runs = 20_000, 0.95, 600
    g = rng("large")
    grid, lower, upper = ecdf_difference_band(n, level, g)

    def inside(cells: np.ndarray) -> int:
        ecdf = np.cumsum(g.multinomial(n, cells, size=runs)[:, :-1], axis=1) / n - grid
        return int(((ecdf >= lower - 1e-12) & (ecdf <= upper + 1e-12)).all(axis=1).sum())

    uniform = np.full(len(grid) + 1, 1 / (len(grid) + 1))
    assert binom.ppf(5e-7, runs, level - 0.012) <= inside(uniform) <= binom.isf(5e-7, runs, level + 0.012)
    tilted = uniform * (1 + 0.08 * np.linspace(-1, 1, len(uniform)))
    assert inside(tilted) < 0.1 * runs


def test_band_contains_zero_is_narrow_at_the_ends_and_shrinks() -> None:
    grid, lower, upper = ecdf_difference_band(2_000, 0.95, rng("shape"))
    assert grid.shape == lower.shape == upper.shape == (99,)
    assert (lower <= 0).all()
    assert (upper >= 0).all()
    assert upper[0] - lower[0] < 0.5 * (upper[49] - lower[49])
    _, low_large, high_large = ecdf_difference_band(32_000, 0.95, rng("shape"))
    assert high_large[49] - low_large[49] == pytest.approx((upper[49] - lower[49]) / 4, rel=0.1)


def test_gamma_is_reproducible_and_below_its_pointwise_level() -> None:
    first, second = (pointwise_gamma(500, 0.95, rng("gamma"), n_grid=50, n_simulations=2_000) for _ in range(2))
    assert first == second
    assert 0.05 / 50 < first < 0.05


def test_bad_arguments_are_sentences() -> None:
    with pytest.raises(ValueError, match="simultaneous coverage"):
        ecdf_difference_band(100, 0.05, rng("bad"))
    with pytest.raises(ValueError, match="at least one value"):
        ecdf_band(0, 0.95, rng("bad"))
