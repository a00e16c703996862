"""Self-correcting (stress-release) process with types that may depend on the gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tppsd_bench.errors import InputError
from tppsd_bench.events import FloatArray, IntArray
from tppsd_bench.simulate.base import EventLaw, Process, State, draw_index, parameter


@dataclass(frozen=True, eq=False)
class SelfCorrecting(Process):
    """λ(t) = exp(μ t − Σ_{t_j < t} α_{k_j}): stress builds up at rate μ, an event of type k releases α_k of it.

    Types given the event: p(k | gap) ∝ exp(type_logits_k + type_slopes_k log(gap / mean gap)), mean gap = mean(α)/μ; slopes 0
    (the default) make types independent of the gap. ``mu`` > 0 per unit of time; ``alpha`` > 0, one or one per type;
    ``type_logits``, ``type_slopes`` (M,). With one α the long-run rate is μ/α. Gaps by closed-form inversion.
    The state is the log-intensity just after the last event (n,). Isham & Westcott (1979).
    """

    kind: ClassVar[str] = "self_correcting"
    mu: float
    alpha: FloatArray
    type_logits: FloatArray = 0.0  # type: ignore[assignment]
    type_slopes: FloatArray = 0.0  # type: ignore[assignment]

    def __post_init__(self) -> None:
        tiny = float(np.finfo(np.float64).tiny)
        object.__setattr__(self, "mu", float(parameter("mu", self.mu, low=tiny)[0]))
        given = {
            "alpha": parameter("alpha", self.alpha, low=tiny),
            "type_logits": parameter("type_logits", self.type_logits),
            "type_slopes": parameter("type_slopes", self.type_slopes),
        }
        m = max(len(v) for v in given.values())
        for name, value in given.items():
            if len(value) not in (1, m):
                raise InputError(f"Parameter {name} has {len(value)} entries for {m} types; give one, or one per type.")
            object.__setattr__(self, name, parameter(name, np.broadcast_to(value, (m,))))

    @property
    def n_types(self) -> int:
        return len(self.alpha)

    @property
    def uniforms_per_event(self) -> int:
        return 2

    def type_probs(self, gaps: FloatArray) -> FloatArray:
        """(n, M) p(k | gap)."""
        logits = self.type_logits + self.type_slopes * np.log(gaps * self.mu / self.alpha.mean())[:, None]
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        probs: FloatArray = weights / weights.sum(axis=1, keepdims=True)
        return probs

    def initial_state(self, n: int) -> State:
        return np.zeros(n)

    def advance(self, state: State, gaps: FloatArray, types: IntArray) -> State:
        after: FloatArray = state + self.mu * gaps - self.alpha[types]
        return after

    def draw(self, state: State, uniforms: FloatArray) -> tuple[FloatArray, IntArray]:
        gaps = np.log1p(-np.log(uniforms[:, 0]) * self.mu * np.exp(-state)) / self.mu
        return gaps, draw_index(self.type_probs(gaps), uniforms[:, 1])

    def law(self, state: State, gaps: FloatArray) -> EventLaw:
        compensator = np.exp(state) * np.expm1(self.mu * gaps) / self.mu
        return EventLaw(state + self.mu * gaps - compensator, compensator, self.type_probs(gaps))
