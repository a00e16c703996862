"""Hawkes process with exponential kernels, univariate or multivariate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from tppsd_bench.errors import InputError
from tppsd_bench.events import FloatArray, IntArray
from tppsd_bench.simulate.base import EventLaw, Process, State, parameter


@dataclass(frozen=True, eq=False)
class ExponentialHawkes(Process):
    """λ_m(t) = μ_m + Σ_{t_j < t} α_{m,k_j} exp(−β_{m,k_j} (t − t_j)): events of type k excite type m.

    ``mu`` (M,) events per unit of time; ``alpha`` (M, M) jump heights, row = excited type, column = exciting type; ``beta``
    decay rates (M,) by excited type, or (M, M) by pair. A branching ratio (spectral radius of α/β) of 1 or more is refused.
    Gaps are exact: the next event is the first of independent competing clocks, one per background and per decaying
    excitation, each inverted in closed form (Dassios & Zhao 2013). The state holds the excitations (n, M, D), where D = 1 for
    ``beta`` (M,) and D = M for ``beta`` (M, M).
    """

    kind: ClassVar[str] = "hawkes"
    mu: FloatArray
    alpha: FloatArray
    beta: FloatArray

    def __post_init__(self) -> None:
        mu = parameter("mu", self.mu, low=0.0)
        m = len(mu)
        alpha = parameter("alpha", self.alpha, ndim=2, low=0.0)
        beta = parameter("beta", self.beta, ndim=2 if np.ndim(self.beta) == 2 else 1, low=np.finfo(np.float64).tiny)
        if alpha.shape != (m, m) or beta.shape not in ((m,), (m, m)):
            raise InputError(
                f"mu has {m} types, alpha shape {alpha.shape} and beta shape {beta.shape}; "
                f"expected alpha ({m}, {m}) and beta ({m},) or ({m}, {m})."
            )
        if not mu.sum() > 0:
            raise InputError("mu is 0 for every type, so no event ever comes; give at least one type a background rate.")
        for name, value in (("mu", mu), ("alpha", alpha), ("beta", beta)):
            object.__setattr__(self, name, value)
        if self.branching_ratio >= 1:
            raise InputError(
                f"The branching ratio (spectral radius of alpha/beta) is {self.branching_ratio:.4g}; at 1 or more the process "
                "explodes or has no stationary law. Lower alpha or raise beta until it is below 1."
            )

    @cached_property
    def branching_matrix(self) -> FloatArray:
        """(M, M) mean number of direct children of type row per event of type column."""
        matrix: FloatArray = self.alpha / (self.beta[:, None] if self.beta.ndim == 1 else self.beta)
        return matrix

    @cached_property
    def branching_ratio(self) -> float:
        return float(np.abs(np.linalg.eigvals(self.branching_matrix)).max())

    @cached_property
    def stationary_rate(self) -> FloatArray:
        """(M,) (I − α/β)⁻¹ μ, events per unit of time."""
        rate: FloatArray = np.linalg.solve(np.eye(self.n_types) - self.branching_matrix, self.mu).astype(np.float64)
        return rate

    @cached_property
    def _decay(self) -> FloatArray:
        """(M, D)"""
        return self.beta[:, None] if self.beta.ndim == 1 else self.beta

    @cached_property
    def _jumps(self) -> FloatArray:
        """(M, M, D): what an event of type k (first axis) adds to the excitations."""
        if self.beta.ndim == 1:
            return np.ascontiguousarray(self.alpha.T[:, :, None])
        jumps: FloatArray = self.alpha[None] * np.eye(self.n_types)[:, None, :]
        return jumps

    @property
    def n_types(self) -> int:
        return len(self.mu)

    @property
    def uniforms_per_event(self) -> int:
        return self.n_types + self._decay.size

    def initial_state(self, n: int) -> State:
        return np.zeros((n, *self._decay.shape))

    def advance(self, state: State, gaps: FloatArray, types: IntArray) -> State:
        after: FloatArray = state * np.exp(-self._decay * gaps[:, None, None]) + self._jumps[types]
        return after

    def draw(self, state: State, uniforms: FloatArray) -> tuple[FloatArray, IntArray]:
        m, exponential = self.n_types, -np.log(uniforms)
        with np.errstate(divide="ignore", over="ignore"):  # a clock of rate 0 never rings
            background = exponential[:, :m] / self.mu
            used = exponential[:, m:].reshape(state.shape) * self._decay / state
            excited = -np.log1p(-np.minimum(used, 1.0)) / self._decay
        clocks = np.concatenate([background, excited.reshape(len(state), -1)], axis=1)
        first = clocks.argmin(axis=1)
        types = np.where(first < m, first, (first - m) // self._decay.shape[1])
        return clocks[np.arange(len(state)), first], types.astype(np.int64)

    def law(self, state: State, gaps: FloatArray) -> EventLaw:
        exponent = -self._decay * gaps[:, None, None]
        intensity = self.mu + (state * np.exp(exponent)).sum(axis=2)
        total = intensity.sum(axis=1)
        compensator = self.mu.sum() * gaps - (state / self._decay * np.expm1(exponent)).sum(axis=(1, 2))
        return EventLaw(np.log(total) - compensator, compensator, intensity / total[:, None])
