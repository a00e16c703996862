"""Inhomogeneous Poisson process with one sinusoidal rate per type."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from tppsd_bench.errors import InputError
from tppsd_bench.events import FloatArray, IntArray
from tppsd_bench.simulate.base import EventLaw, Process, State, invert_increasing, parameter


@dataclass(frozen=True, eq=False)
class InhomogeneousPoisson(Process):
    """λ_m(t) = rate_m (1 + amplitude_m sin(2π t / period_m + phase_m)), types independent; amplitude 0 is the homogeneous case.

    ``rate`` (M,) events per unit of time; ``amplitude`` (M,) in [0, .999]; ``period`` (M,) time; ``phase`` (M,) radians; a
    single number serves every type. The next event is the first of M clocks, each compensator inverted to a few ulp.
    The state is the time of the last event (n,).
    """

    kind: ClassVar[str] = "poisson"
    rate: FloatArray
    amplitude: FloatArray = 0.0  # type: ignore[assignment]
    period: FloatArray = 1.0  # type: ignore[assignment]
    phase: FloatArray = 0.0  # type: ignore[assignment]

    def __post_init__(self) -> None:
        tiny = float(np.finfo(np.float64).tiny)
        bounds = {"rate": (tiny, np.inf), "amplitude": (0.0, 0.999), "period": (tiny, np.inf), "phase": (-np.inf, np.inf)}
        m = len(np.atleast_1d(self.rate))
        for f in fields(self):
            low, high = bounds[f.name]
            value = parameter(f.name, getattr(self, f.name), low=low, high=high)
            if len(value) not in (1, m):
                raise InputError(f"rate has {m} types but {f.name} has {len(value)} entries; give one, or one per type.")
            object.__setattr__(self, f.name, parameter(f.name, np.broadcast_to(value, (m,))))

    @property
    def n_types(self) -> int:
        return len(self.rate)

    @property
    def uniforms_per_event(self) -> int:
        return self.n_types

    def _angle(self, time: FloatArray) -> FloatArray:
        # whole periods go first: the rounding of a late time must not grow with the gap added to it
        angle: FloatArray = 2 * np.pi * np.remainder(time / self.period, 1.0) + self.phase
        return angle

    def intensity(self, time: FloatArray) -> FloatArray:
        """(n, M) λ_m at ``time`` (n,) or (n, M)."""
        t = time[:, None] if time.ndim == 1 else time
        rate: FloatArray = self.rate * (1.0 + self.amplitude * np.sin(self._angle(t)))
        return rate

    def integral(self, start: FloatArray, gaps: FloatArray) -> FloatArray:
        """(n, M) ∫ λ_m from ``start`` (n,) over ``gaps`` (n,) or (n, M); no cancellation for short gaps."""
        s = gaps[:, None] if gaps.ndim == 1 else gaps
        half = np.pi * s / self.period
        middle = self._angle(start[:, None]) + half
        area: FloatArray = self.rate * (s + self.amplitude * self.period / np.pi * np.sin(middle) * np.sin(half))
        return area

    def initial_state(self, n: int) -> State:
        return np.zeros(n)

    def advance(self, state: State, gaps: FloatArray, types: IntArray) -> State:
        after: FloatArray = state + gaps
        return after

    def draw(self, state: State, uniforms: FloatArray) -> tuple[FloatArray, IntArray]:
        level = -np.log(uniforms)
        mean = level / self.rate
        clocks = invert_increasing(
            lambda s: self.integral(state, s),
            lambda s: self.intensity(state[:, None] + s),
            level,
            lower=mean / (1.0 + self.amplitude),
            upper=mean + self.amplitude * self.period / np.pi,
        )
        first = clocks.argmin(axis=1)
        return clocks[np.arange(len(state)), first], first.astype(np.int64)

    def law(self, state: State, gaps: FloatArray) -> EventLaw:
        intensity, compensator = self.intensity(state + gaps), self.integral(state, gaps).sum(axis=1)
        total = intensity.sum(axis=1)
        return EventLaw(np.log(total) - compensator, compensator, intensity / total[:, None])
