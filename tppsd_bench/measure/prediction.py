"""The throughput law of runs of m events, from what a calibration knows: rounds along sequences, and what a round costs.

Costs are in target steps: cached target-only sampling, per event, of the same batch and length. A round that drafts D events costs

    w = c D + v(D) + r(K),

c a draft step, v(D) a target pass over D + 1 positions (timed apart, at the run's mean history, linear between the K's timed), r what
else a round takes. Whole rounds are timed at a few K's; r is what is left of them there, and linear in K in between. So draft
steps that cost more, or passes that cost less, inside a round than by themselves are in r, which may be negative. Speed is

    S = m / (R w),  R expected rounds of a run, D expected drafts of a round (``rounds.expected_rounds``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tppsd_bench.measure.rounds import ExpectedRounds


@dataclass(frozen=True)
class CostModel:
    """What a round costs, in target steps. Frozen: made from calibration runs, then only read."""

    draft: float
    """c"""
    verify_k: tuple[float, ...]
    verify: tuple[float, ...]
    """v at these K's, increasing from 0."""
    rest_k: tuple[float, ...]
    rest: tuple[float, ...]
    """r at the K's whose rounds were timed."""

    def __post_init__(self) -> None:
        for name, at, values in (("verify", self.verify_k, self.verify), ("rest", self.rest_k, self.rest)):
            if len(at) != len(values) or not at or list(at) != sorted(set(at)):
                raise ValueError(
                    f"{name} is known at K = {at} with {len(values)} values; expected one value a K, K increasing."
                )
        if self.draft < 0 or min(self.verify) <= 0:
            raise ValueError("A draft step cannot cost less than nothing, and a verifying pass cannot cost nothing.")

    def parts(self, drafted: float, k: int) -> tuple[float, float, float]:
        """(drafting, verifying, rest) of a round at K = ``k`` that drafts ``drafted`` events on average."""
        verify = float(np.interp(drafted, self.verify_k, self.verify))
        return self.draft * drafted, verify, float(np.interp(k, self.rest_k, self.rest))


def cost_model(draft: float, verify: Mapping[int, float], rounds: Mapping[int, tuple[float, float]]) -> CostModel:
    """The model from c, v by K, and whole rounds by K: (drafted per round, cost of a round) of calibration runs."""
    ks = tuple(sorted(verify))
    bare = CostModel(draft, tuple(map(float, ks)), tuple(verify[k] for k in ks), (0.0,), (0.0,))
    at = sorted(rounds)
    rest = tuple(rounds[k][1] - sum(bare.parts(rounds[k][0], k)) for k in at)
    return CostModel(bare.draft, bare.verify_k, bare.verify, tuple(map(float, at)), rest)


@dataclass(frozen=True)
class RunPrediction:
    """What the law promises a run of m events at one K."""

    k: int
    n_events: int
    rounds: float
    committed_per_round: float
    drafted_per_round: float
    draft_cost: float
    verify_cost: float
    rest_cost: float
    """Of a round, in target steps."""
    verify_growth: float
    """v(D) - v(0): what the pass costs more than one over a single position."""

    @property
    def round_cost(self) -> float:
        return self.draft_cost + self.verify_cost + self.rest_cost

    @property
    def speedup(self) -> float:
        return self.committed_per_round / self.round_cost

    @property
    def pays(self) -> bool:
        return self.speedup > 1


def predict_run(expected: ExpectedRounds, costs: CostModel) -> RunPrediction:
    """S and its parts at one K. ValueError where the costs leave nothing of a round (r extrapolated below everything else)."""
    drafting, verifying, rest = costs.parts(expected.drafted_per_round, expected.k)
    if drafting + verifying + rest <= 0:
        raise ValueError(
            f"A round at K = {expected.k} would cost {drafting + verifying + rest:.3g} target steps; time one there."
        )
    return RunPrediction(
        expected.k, expected.n_events, expected.rounds, expected.committed_per_round, expected.drafted_per_round,
        drafting, verifying, rest, verifying - costs.verify[0],
    )  # fmt: skip


def fastest(predictions: Sequence[RunPrediction]) -> RunPrediction:
    """The prediction with the largest speedup; the smaller K of equals."""
    return max(predictions, key=lambda p: (p.speedup, -p.k))


@dataclass(frozen=True)
class Loss:
    """log((K + 1) / S), the distance from a free draft that is always right, by cause; the four add up to it."""

    acceptance: float
    """log((K + 1) / events a round)."""
    draft: float
    verification: float
    """Growth of the target pass with the positions it verifies."""
    overhead: float
    """Everything else that a round takes beyond one target step."""

    @property
    def total(self) -> float:
        return self.acceptance + self.draft + self.verification + self.overhead

    @property
    def largest(self) -> str:
        """The name of the cause that costs most."""
        causes = {"acceptance": self.acceptance, "draft cost": self.draft, "verification": self.verification}
        causes["overhead"] = self.overhead
        return max(causes, key=lambda name: causes[name])


def loss(k: int, committed_per_round: float, draft_cost: float, verify_growth: float, round_cost: float) -> Loss:
    """Where the speed goes: acceptance takes events from a round, the rest adds target steps to the one that a round must take.

    log(cost of a round) is shared among draft steps, growth of the pass and overhead in proportion to what each adds.
    """
    added = round_cost - 1.0
    share = math.log(round_cost) / added if abs(added) > 1e-12 else 1.0
    overhead = added - draft_cost - verify_growth
    return Loss(math.log((k + 1) / committed_per_round), share * draft_cost, share * verify_growth, share * overhead)
