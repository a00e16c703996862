"""Simultaneous bands for the empirical CDF of values that are independent uniforms under the null (PITs).

Säilynoja, Bürkner and Vehtari 2022 (Statistics and Computing 32:32, arXiv 2103.10522): pointwise binomial intervals of level
1 - gamma, with gamma set so that all of them hold at once with the wanted probability. gamma is solved by simulated multinomial
cumulative sums at any n. Not for pooled events of two runs: those are dependent (see ``blackbox``).
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from scipy.stats import binom

from tppsd_bench.events import FloatArray, IntArray

N_GRID = 100
N_SIMULATIONS = 4_000


def ecdf_difference_band(
    n: int, level: float, rng: Generator, *, n_grid: int = N_GRID, n_simulations: int = N_SIMULATIONS
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Band for F_n(z) - z: ``(grid, lower, upper)``, each (n_grid - 1,), at z = 1/n_grid, ..., 1 - 1/n_grid.

    ``n`` is the number of values, ``level`` the simultaneous coverage (0.95, not 0.05). Raises ValueError otherwise.
    """
    grid, lower, upper = ecdf_band(n, level, rng, n_grid=n_grid, n_simulations=n_simulations)
    return grid, lower - grid, upper - grid


def ecdf_band(
    n: int, level: float, rng: Generator, *, n_grid: int = N_GRID, n_simulations: int = N_SIMULATIONS
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Band for the empirical CDF F_n(z) of n independent uniforms: ``(grid, lower, upper)``, values in [0, 1]."""
    if n < 1 or n_grid < 2:
        raise ValueError(f"Found n = {n} values and n_grid = {n_grid}; a band needs at least one value and two cells.")
    if not 0.5 <= level < 1:
        raise ValueError(f"The band's level is {level}; expected the simultaneous coverage, in [0.5, 1), such as 0.95.")
    grid = np.arange(1, n_grid) / n_grid
    gamma = pointwise_gamma(n, level, rng, n_grid=n_grid, n_simulations=n_simulations)
    lower: FloatArray = np.asarray(binom.ppf(gamma / 2, n, grid)) / n
    upper: FloatArray = np.asarray(binom.isf(gamma / 2, n, grid)) / n
    return grid, lower, upper


def pointwise_gamma(n: int, level: float, rng: Generator, *, n_grid: int, n_simulations: int) -> float:
    """gamma such that the pointwise 1 - gamma intervals hold together with probability ``level``.

    The (1 - level) quantile over simulated ECDFs of min_z 2 min(P(X <= x_z), P(X >= x_z)), X ~ Binomial(n, z).
    """
    hits = rng.multinomial(n, np.full(n_grid, 1 / n_grid), size=n_simulations)
    below = np.cumsum(hits[:, :-1], axis=1)
    smallest = np.ones(n_simulations)
    for j, z in enumerate(np.arange(1, n_grid) / n_grid):
        smallest = np.minimum(smallest, 2 * _smaller_tail(below[:, j], n, float(z)))
    return float(np.quantile(smallest, 1 - level, method="lower"))


def _smaller_tail(x: IntArray, n: int, z: float) -> FloatArray:
    """min(P(X <= x), P(X >= x)) for X ~ Binomial(n, z), by one table over the range of x."""
    low = int(x.min())
    values = np.arange(low, int(x.max()) + 1)
    table = np.minimum(binom.cdf(values, n, z), binom.sf(values - 1, n, z))
    out: FloatArray = table[x - low]
    return out
