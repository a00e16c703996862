"""Renewal process with log-normal (mixture) gaps and i.i.d. or Markov types."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtri

from tppsd_bench.errors import InputError
from tppsd_bench.events import FloatArray, IntArray
from tppsd_bench.simulate.base import EventLaw, Process, State, draw_index, parameter, probabilities


@dataclass(frozen=True, eq=False)
class LogNormalRenewal(Process):
    """Gaps i.i.d. with log gap ~ Σ_c weights_c N(locations_c, scales_c²); types apart from gaps.

    ``locations``, ``scales``, ``weights`` (C,), one component being the plain log-normal. ``type_probs``: (M,) for i.i.d.
    types, or (M, M) for a Markov chain (row = previous type) whose first type follows ``initial_type_probs`` (M,), by default
    the chain's stationary law. The state is the previous type (n,), −1 before the first event.
    """

    kind: ClassVar[str] = "renewal"
    locations: FloatArray
    scales: FloatArray
    weights: FloatArray = 1.0  # type: ignore[assignment]
    type_probs: FloatArray = 1.0  # type: ignore[assignment]
    initial_type_probs: FloatArray | None = None

    def __post_init__(self) -> None:
        locations = parameter("locations", self.locations)
        scales = parameter("scales", self.scales, low=np.finfo(np.float64).tiny)
        weights = probabilities("weights", self.weights)
        types = probabilities("type_probs", self.type_probs, ndim=2 if np.ndim(self.type_probs) == 2 else 1)
        if not len(locations) == len(scales) == len(weights):
            raise InputError(
                f"Found {len(locations)} locations, {len(scales)} scales and {len(weights)} weights; "
                "give one of each per component."
            )
        if types.ndim == 2 and types.shape[0] != types.shape[1]:
            raise InputError(f"type_probs has shape {types.shape}; expected (M,) or square (M, M), row = previous type.")
        if self.initial_type_probs is not None:
            initial = probabilities("initial_type_probs", self.initial_type_probs)
            if len(initial) != types.shape[-1]:
                raise InputError(f"initial_type_probs has {len(initial)} entries for {types.shape[-1]} types.")
            object.__setattr__(self, "initial_type_probs", initial)
        for name, value in (("locations", locations), ("scales", scales), ("weights", weights), ("type_probs", types)):
            object.__setattr__(self, name, value)

    @property
    def n_types(self) -> int:
        return int(self.type_probs.shape[-1])

    @property
    def uniforms_per_event(self) -> int:
        return 3

    @property
    def mean_gap(self) -> float:
        return float(self.weights @ np.exp(self.locations + 0.5 * self.scales**2))

    @cached_property
    def _type_table(self) -> FloatArray:
        """(M + 1, M): row k = law of the next type after type k; last row = law of the first type."""
        m = self.n_types
        if self.type_probs.ndim == 1:
            rows = np.broadcast_to(self.type_probs, (m, m))
        else:
            rows = self.type_probs
        first = _stationary(rows) if self.initial_type_probs is None else self.initial_type_probs
        return np.concatenate([rows, first[None]])

    def initial_state(self, n: int) -> State:
        return np.full(n, -1, dtype=np.int64)

    def advance(self, state: State, gaps: FloatArray, types: IntArray) -> State:
        return types

    def draw(self, state: State, uniforms: FloatArray) -> tuple[FloatArray, IntArray]:
        component = draw_index(self.weights, uniforms[:, 0])
        gaps = np.exp(self.locations[component] + self.scales[component] * ndtri(uniforms[:, 1]))
        return gaps, draw_index(self._type_table[state], uniforms[:, 2])

    def law(self, state: State, gaps: FloatArray) -> EventLaw:
        log_gap = np.log(gaps)[:, None]
        z = (log_gap - self.locations) / self.scales
        log_normal = -0.5 * z**2 - np.log(self.scales * np.sqrt(2 * np.pi)) - log_gap
        with np.errstate(divide="ignore"):
            log_weights = np.log(self.weights)
        log_density = logsumexp(log_weights + log_normal, axis=1)
        compensator = -logsumexp(log_weights + log_ndtr(-z), axis=1)
        return EventLaw(log_density, compensator, self._type_table[state])


def _stationary(transitions: FloatArray) -> FloatArray:
    """(M,) π with π P = π, the one of least norm where it is not unique."""
    m = len(transitions)
    system = np.concatenate([transitions.T - np.eye(m), np.ones((1, m))])
    pi = np.maximum(np.linalg.lstsq(system, np.concatenate([np.zeros(m), [1.0]]), rcond=None)[0], 0.0)
    normalised: FloatArray = pi / pi.sum()
    return normalised
