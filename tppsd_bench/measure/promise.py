"""What acceptance allows: alpha by quadrature of the two laws on histories of other seeds, and the events a target forward it buys."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tppsd_bench.events import EventBatch
from tppsd_bench.measure.acceptance import exact_acceptance
from tppsd_bench.measure.throughput import finite_rounds
from tppsd_bench.protocols import ConditionalTarget, Rule

N_CONTEXTS = 256
N_LEVELS = 128
"""Cuts of each gap axis: an error of 2e-5 in alpha, far below what the choice of contexts does."""


@dataclass(frozen=True)
class Alpha:
    """P(event accepted, all components | reached), averaged over histories of the target."""

    value: float
    standard_error: float
    n_contexts: int

    @property
    def interval(self) -> tuple[float, float, float]:
        """(value, low, high) at 95 %, for the choice of contexts."""
        half = 1.959963984540054 * self.standard_error
        return self.value, max(0.0, self.value - half), min(1.0, self.value + half)

    def events_per_forward(self, n_events: int, k: int) -> float:
        """m / R(m): events that a target forward commits in runs of ``n_events`` events whose last rounds are shortened."""
        return n_events / finite_rounds(n_events, k, self.value)


def alpha_by_quadrature(
    target: ConditionalTarget,
    draft: ConditionalTarget,
    histories: EventBatch,
    rule: Rule,
    rng: np.random.Generator,
    *,
    n_contexts: int = N_CONTEXTS,
) -> Alpha:
    """Mean acceptance of ``draft`` under ``target`` over ``n_contexts`` events drawn from ``histories``.

    Joint rules accept 1 - TV of the (gap, type) laws, two-step rules the integral of min(p, q)(gap) sum_k min(p, q)(k | gap);
    for exact match the latter is a ceiling. ``histories`` should be the target's own, of the length that runs will have, and of
    seeds that no run to be predicted uses. The standard error takes contexts as independent.
    """
    chosen = np.sort(rng.permutation(histories.n_events)[:n_contexts])
    p, q = (model.conditionals(histories).take(chosen) for model in (target, draft))
    found = exact_acceptance(p, q, n_levels=N_LEVELS)
    values = found.joint if rule == "leviathan_joint" else found.two_step
    return Alpha(float(values.mean()), float(values.std()) / math.sqrt(len(values)), len(values))
