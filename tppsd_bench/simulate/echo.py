"""Echo renewal process: every gap and type repeats, with noise, the one a fixed number of events ago. Long memory by design."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.special import log_ndtr, ndtri, xlogy

from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch, FloatArray, IntArray
from tppsd_bench.simulate.base import EventLaw, Process, State, draw_index, parameter, probabilities

_NOTHING = -1.0
"""In place of the echoed type, while fewer than ``lag`` events have come."""


@dataclass(frozen=True, eq=False)
class EchoRenewal(Process):
    """log gap_i = location + echo (log gap_{i−lag} − location) + scale √(1 − echo²) ε_i; type_i = type_{i−lag} with
    probability ``type_echo``, else a fresh draw from ``type_probs``. The first ``lag`` events are drawn from the stationary law.

    ``scale`` > 0 is the stationary standard deviation of log gap, ``echo`` in (−1, 1) the correlation at distance ``lag`` ≥ 1,
    ``type_probs`` (M,), ``type_echo`` in [0, 1). So every gap is log-normal(location, scale²) by itself, gaps nearer than ``lag``
    events are independent of each other, and all there is to know lies exactly ``lag`` events back: ``information`` nats an
    event. The state is the queue of the last ``lag`` (log gap, type), oldest first, (n, lag, 2).
    """

    kind: ClassVar[str] = "echo"
    lag: int
    location: float
    scale: float
    echo: float
    type_probs: FloatArray = 1.0  # type: ignore[assignment]
    type_echo: float = 0.0

    def __post_init__(self) -> None:
        lag = parameter("lag", self.lag, low=1.0)
        if lag.size != 1 or lag[0] != round(lag[0]):
            raise InputError(f"Parameter lag is {self.lag!r}; expected a whole number of events, 1 or more.")
        object.__setattr__(self, "lag", int(lag[0]))
        tiny = float(np.finfo(np.float64).tiny)
        bounds = {"location": (-np.inf, np.inf), "scale": (tiny, np.inf), "echo": (-1.0, 1.0), "type_echo": (0.0, 1.0)}
        for name, (low, high) in bounds.items():
            value = parameter(name, getattr(self, name), low=low, high=high)
            if value.size != 1:
                raise InputError(f"Parameter {name} has {value.size} entries; expected one number.")
            object.__setattr__(self, name, float(value[0]))
        if abs(self.echo) == 1.0 or self.type_echo == 1.0:
            raise InputError(
                "An echo of 1 repeats the first events for ever, without a density; give echo and type_echo below 1."
            )
        object.__setattr__(self, "type_probs", probabilities("type_probs", self.type_probs))

    @property
    def n_types(self) -> int:
        return len(self.type_probs)

    @property
    def uniforms_per_event(self) -> int:
        return 2

    @property
    def mean_gap(self) -> float:
        """exp(location + scale² / 2): of every gap, the first ones too."""
        return float(np.exp(self.location + 0.5 * self.scale**2))

    @property
    def information(self) -> float:
        """Nats an event that history is worth once ``lag`` events have come: −½ log(1 − echo²) + I(type_i; type_{i−lag})."""
        joint = self.type_probs[:, None] * self._type_table[:-1]
        types = xlogy(joint, joint).sum() - 2.0 * xlogy(self.type_probs, self.type_probs).sum()
        return float(-0.5 * np.log1p(-(self.echo**2)) + types)

    @cached_property
    def _type_table(self) -> FloatArray:
        """(M + 1, M): row k = law of the type whose echoed type is k; last row = where there is nothing to echo."""
        m = self.n_types
        rows = self.type_echo * np.eye(m) + (1.0 - self.type_echo) * self.type_probs
        return np.concatenate([rows, self.type_probs[None]])

    def _given(self, state: State) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mean (n,) and standard deviation (n,) of log gap, and type probabilities (n, M), by the front of the queue."""
        past, type_ = state[:, 0, 0], state[:, 0, 1].astype(np.int64)
        known = type_ >= 0
        mean = np.where(known, self.location + self.echo * (past - self.location), self.location)
        std = np.where(known, self.scale * np.sqrt(1.0 - self.echo**2), self.scale)
        return mean, std, self._type_table[type_]

    def initial_state(self, n: int) -> State:
        return np.broadcast_to(np.array([self.location, _NOTHING]), (n, self.lag, 2)).copy()

    def advance(self, state: State, gaps: FloatArray, types: IntArray) -> State:
        last = np.stack([np.log(gaps), types.astype(np.float64)], axis=1)
        return np.concatenate([state[:, 1:], last[:, None]], axis=1)

    def draw(self, state: State, uniforms: FloatArray) -> tuple[FloatArray, IntArray]:
        mean, std, probs = self._given(state)
        return np.exp(mean + std * ndtri(uniforms[:, 0])), draw_index(probs, uniforms[:, 1])

    def law(self, state: State, gaps: FloatArray) -> EventLaw:
        mean, std, probs = self._given(state)
        log_gap = np.log(gaps)
        z = (log_gap - mean) / std
        return EventLaw(-0.5 * z**2 - np.log(std * np.sqrt(2 * np.pi)) - log_gap, -log_ndtr(-z), probs)

    def states(self, batch: EventBatch) -> tuple[State, State]:
        """As in ``Process``, but of each queue its front alone, (N, 1, 2) and (n, 1, 2): whole queues are ``lag`` times the data."""
        marks = np.stack([np.log(batch.gaps), batch.types.astype(np.float64)], axis=1)
        marks = np.concatenate([marks, [[self.location, _NOTHING]]])  # index N: nothing to echo

        def front(index: IntArray, begin: IntArray) -> State:
            return marks[np.where(index - self.lag >= begin, index - self.lag, batch.n_events)][:, None]

        return (
            front(np.arange(batch.n_events), batch.offsets[:-1][batch.sequence_index]),
            front(batch.offsets[1:], batch.offsets[:-1]),
        )
