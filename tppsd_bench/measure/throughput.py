"""The throughput law of speculative sampling: what acceptance and step costs promise, before anything is timed.

Costs are in units of one target step (one position with its head, sampling and arithmetic): c = draft step, v(K) = verifying
K + 1 positions, r = the rest of a round. alpha_i = P(event at position i fully accepted, gap *and* type | position reached).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class StepCosts:
    """Costs of a round's parts, in target steps."""

    draft: float
    """c: one draft step."""
    verify: tuple[float, ...]
    """v(0), v(1), ..., v(K_max): a target pass over K + 1 positions."""
    rest: float = 0.0
    """r: what a round costs besides drafting and verifying."""

    def __post_init__(self) -> None:
        if len(self.verify) < 2:
            raise ValueError(f"verify has {len(self.verify)} entries; expected v(0) .. v(K_max) with K_max at least 1.")
        if min(self.draft, self.rest, *self.verify) < 0 or min(self.verify) == 0:
            raise ValueError("Step costs cannot be negative, and a verifying pass cannot cost nothing.")

    @property
    def k_max(self) -> int:
        return len(self.verify) - 1

    def round(self, k: int) -> float:
        """c K + v(K) + r, the cost of a round with K drafts."""
        if not 0 <= k <= self.k_max:
            raise ValueError(f"K = {k} has no measured verifying cost; v is known for K = 0..{self.k_max}.")
        return self.draft * k + self.verify[k] + self.rest


def by_position(alpha: ArrayLike, k: int) -> FloatArray:
    """(k,) acceptance of positions 1..k from a constant or from measured positions (the last one is carried on)."""
    a = np.atleast_1d(np.asarray(alpha, dtype=np.float64))
    if a.ndim != 1 or not len(a) or not ((a >= 0) & (a <= 1)).all():
        raise ValueError(f"Acceptance is {alpha!r}; expected one number or one per position, each between 0 and 1.")
    return a[np.minimum(np.arange(k), len(a) - 1)]


def expected_committed(alpha: ArrayLike, k: int) -> float:
    """E[N] = sum_{j=0..K} prod_{i<=j} alpha_i, events committed by a full round; (1 - a^{K+1}) / (1 - a) if constant."""
    return float(1 + np.cumprod(by_position(alpha, k)).sum())


def speedup(alpha: ArrayLike, k: int, costs: StepCosts) -> float:
    """S(K) = E[N] / (c K + v(K) + r): long-run speed relative to target-only sampling."""
    return expected_committed(alpha, k) / costs.round(k)


def raising_k_pays(alpha: ArrayLike, k: int, costs: StepCosts) -> bool:
    """S(K + 1) > S(K): prod_{i<=K+1} alpha_i / E[N_K] > (c + v(K + 1) - v(K)) / (c K + v(K) + r)."""
    gain = float(np.prod(by_position(alpha, k + 1))) / expected_committed(alpha, k)
    return gain > (costs.round(k + 1) - costs.round(k)) / costs.round(k)


def k_one_pays(alpha: float, costs: StepCosts) -> bool:
    """K = 1 is faster than target-only sampling iff 1 + alpha > c + v(1) + r."""
    return 1 + alpha > costs.round(1)


def outcome_probabilities(alpha: ArrayLike, k: int) -> FloatArray:
    """(k + 1,) P_k(j): probability that a round of k drafts accepts exactly j of them."""
    a = by_position(alpha, k)
    reached = np.concatenate([[1.0], np.cumprod(a)])
    out: FloatArray = reached * np.concatenate([1 - a, [1.0]])
    return out


def finite_run_totals(n_events: int, k: int, alpha: ArrayLike, round_costs: ArrayLike | None = None) -> FloatArray:
    """(n_events + 1,) R(m) for m = 0..n_events: expected total cost of a run that stops after m events.

    R(0) = 0, R(m) = w(k') + sum_{j=0..k'} P_{k'}(j) R(max(0, m - j - 1)), k' = min(K, m - 1): the last rounds draft less.
    ``round_costs`` w has entries for k' = 0..K; left out, every round costs 1 and R(m) is the number of rounds.
    """
    w = np.ones(k + 1) if round_costs is None else np.asarray(round_costs, dtype=np.float64)
    if len(w) < k + 1:
        raise ValueError(f"round_costs has {len(w)} entries; expected one for each K = 0..{k}.")
    outcomes = [outcome_probabilities(alpha, j) for j in range(k + 1)]
    totals = np.zeros(n_events + 1)
    for m in range(1, n_events + 1):
        drafted = min(k, m - 1)
        # j accepted leave m - j - 1 events: R(m-1), R(m-2), ..., R(m-1-drafted)
        totals[m] = w[drafted] + outcomes[drafted] @ totals[m - 1 - drafted : m][::-1]
    return totals


def finite_rounds(n_events: int, k: int, alpha: ArrayLike) -> float:
    """R(m): expected number of rounds of a run that stops after ``n_events`` events."""
    return float(finite_run_totals(n_events, k, alpha)[n_events])


def finite_speedup(n_events: int, k: int, alpha: ArrayLike, costs: StepCosts) -> float:
    """m target steps over the expected cost of a run of m events whose last rounds are shortened."""
    totals = finite_run_totals(n_events, k, alpha, [costs.round(j) for j in range(k + 1)])
    return n_events / float(totals[n_events])


@dataclass(frozen=True)
class Prediction:
    """What the law promises at one K."""

    k: int
    expected_committed: float
    """Events a round: long-run, or n_events / R(n_events) for a run of a given length."""
    speedup: float
    n_events: int | None = None

    @property
    def pays(self) -> bool:
        return self.speedup > 1

    def sentence(self) -> str:
        length = "long runs" if self.n_events is None else f"runs of {self.n_events} events"
        verdict = "pays" if self.pays else "does not pay"
        return f"Speculation {verdict}: K = {self.k} gives {self.speedup:.3g} times target-only speed on {length}."


def predict(alpha: ArrayLike, k: int, costs: StepCosts, *, n_events: int | None = None) -> Prediction:
    """Speedup at K from measured c, v(K), r and acceptance; for runs of ``n_events`` events where given."""
    if n_events is None:
        return Prediction(k, expected_committed(alpha, k), speedup(alpha, k, costs))
    return Prediction(k, n_events / finite_rounds(n_events, k, alpha), finite_speedup(n_events, k, alpha, costs), n_events)


def best_k(alpha: ArrayLike, costs: StepCosts, *, n_events: int | None = None) -> Prediction:
    """The prediction at the fastest K in 1..K_max; its ``pays`` is False where even that is no faster than target-only."""
    return max((predict(alpha, k, costs, n_events=n_events) for k in range(1, costs.k_max + 1)), key=lambda p: p.speedup)


@dataclass(frozen=True)
class Residual:
    """log(measured speedup / predicted speedup), split into its two causes (their sum)."""

    acceptance: float
    """log(measured / predicted events a round): negative = acceptance got worse."""
    overhead: float
    """log(predicted / measured cost of a round): negative = overhead grew."""

    @property
    def total(self) -> float:
        return self.acceptance + self.overhead


def explain(prediction: Prediction, measured_speedup: float, measured_committed: float) -> Residual:
    """Split a missed prediction: speedup = events a round / cost of a round, and events a round are counted exactly."""
    acceptance = math.log(measured_committed / prediction.expected_committed)
    return Residual(acceptance, math.log(measured_speedup / prediction.speedup) - acceptance)
