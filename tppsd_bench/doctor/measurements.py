"""What the diagnosis rests on: frozen numbers, measured once, and what the throughput law says of them. Parts that are unknown are None.

Costs are in target steps: c a draft step, v(K) a pass over K + 1 positions, r the rest of a round (``measure.throughput``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from tppsd_bench.doctor import thresholds
from tppsd_bench.doctor.base import Estimate
from tppsd_bench.measure.throughput import Prediction, StepCosts, best_k, predict

SHIPPED = "shipped"
"""The draft that is taken where none is named."""


@dataclass(frozen=True)
class Accuracy:
    """The draft's next-event predictions beside the target's, on sequences of the target's own."""

    type_target: Estimate | None
    """Share of events whose most likely type is theirs; None where there is one type."""
    type_draft: Estimate | None
    type_difference: Estimate | None
    """Draft less target, paired."""
    gap_target: Estimate
    """Mean |log(gap / median predicted)|."""
    gap_draft: Estimate
    gap_difference: Estimate
    nll_target: Estimate | None = None
    nll_draft: Estimate | None = None
    nll_difference: Estimate | None = None
    """Draft less target, nats an event: an estimate of KL(target || draft). None where it was only measured on held-out data."""


@dataclass(frozen=True)
class Acceptance:
    """Exact acceptance of the draft by quadrature of both laws, over histories of the target's own."""

    event: Estimate
    """By the rule in use; alpha of the law."""
    gap: Estimate | None = None
    type: Estimate | None = None
    """Of a type whose gap was accepted; None where there is one type, or tokens are verified whole."""
    early: Estimate | None = None
    """``event`` early in a sequence ..."""
    late: Estimate | None = None
    """... and late."""
    fade: Estimate | None = None
    """Early less late, over the same sequences."""
    by_position: tuple[float, ...] = ()
    """alpha_j, measured on calibration seeds, where enough was verified; the last one stands for all beyond."""
    verified: tuple[int, ...] = ()
    accepted_per_round: Estimate | None = None
    """Mean accepted in a full round of the K in use, over sequences."""
    measured: Estimate | None = None
    """Share of verified events that were accepted in runs, beside the exact one."""
    spans: tuple[str, str] = ("first third", "last third")
    """Of a sequence: what ``early`` and ``late`` are about."""
    largest_log_ratio: float | None = None
    """Largest |log p - log q| that verification met."""
    n_contexts: int = 0

    @property
    def alpha(self) -> float | tuple[float, ...]:
        return self.by_position or self.event.value


@dataclass(frozen=True)
class Buckets:
    """Time buckets of a token pair, on histories of the target's own."""

    number: int
    strategy: str
    open_mass: Estimate
    fullest: Estimate
    edge_share: Estimate
    joint: Estimate
    """1 - TV of the laws over tokens ..."""
    continuous: Estimate | None
    """... and of the continuous laws that they were made from; None where there are none."""


@dataclass(frozen=True)
class Cut:
    """What a pair in continuous time would gain or lose, were its time cut into buckets."""

    number: int
    strategy: str
    accepted: Estimate | None
    """By the same rule, over tokens."""
    over_continuous: Estimate | None = None
    """Speed over that in continuous time, at one K."""

    @property
    def name(self) -> str:
        return f"{self.number} {self.strategy.replace('_', '-')} buckets"


@dataclass(frozen=True)
class Costs:
    """Step costs; intervals are the range over calibrations."""

    step_ms: Estimate
    draft: Estimate
    """c."""
    rest: Estimate
    """r."""
    law: StepCosts
    """Medians over calibrations, v(K) among them."""
    spread: Estimate | None = None
    """Speed that each single calibration predicts at the K in use, over what their medians predict; None from one calibration."""
    target_parameters: int | None = None
    draft_parameters: int | None = None
    history: int | None = None
    """Events before the passes that gave v(K)."""
    apart: bool = True
    """False where v(K) and r are only known together and stand in v."""

    @property
    def parameter_ratio(self) -> float | None:
        if not self.target_parameters or self.draft_parameters is None:
            return None
        return self.draft_parameters / self.target_parameters

    def shares(self, k: int) -> tuple[float, float, float]:
        """(drafting, verifying, rest) of a round with K drafts."""
        whole = self.law.round(k)
        return self.law.draft * k / whole, self.law.verify[k] / whole, self.law.rest / whole


@dataclass(frozen=True)
class Speed:
    """Speed over cached target-only sampling, by paired CPU times."""

    by_k: Mapping[int, Estimate]
    self_ratio: Estimate | None
    """A/A: the sampler against itself."""
    committed: Mapping[int, float] = field(default_factory=dict)
    """Events a round, counted in the same runs."""
    note: str = ""
    clock: str = "CPU"

    @property
    def steady(self) -> bool:
        limit = 1 + thresholds.SELF_DIFFERENCE
        return self.self_ratio is None or 1 / limit <= self.self_ratio.value <= limit


def decided(speed: Estimate | None) -> bool | None:
    """Whether a speed lies above 1 with its whole interval; None where it is undecided or unknown."""
    if speed is None:
        return None
    return True if speed.low > 1 else False if speed.high < 1 else None


@dataclass(frozen=True)
class HistoryPoint:
    """Step costs after so many events."""

    n_events: int
    target_ms: float
    draft_ms: float | None
    law: StepCosts | None
    """In target steps of this history; None where only the target's step is known."""


@dataclass(frozen=True)
class Cache:
    """What the target's cache is worth."""

    gain: Estimate | None
    """Cached over recomputing target-only sampling, CPU time, ``gain_events`` events."""
    gain_events: int = 0
    positions_per_pass: float | None = None
    """Target positions encoded by a row of a pass, in runs of the K in use."""
    hit_share: float | None = None
    """Of the positions that a pass without a cache would encode, those it did not."""


@dataclass(frozen=True)
class Measurements:
    pair: str
    draft: str
    k: int
    """In use: what is diagnosed."""
    n_events: int
    """Of a sequence."""
    n_types: int
    source: str
    joint: bool = False
    """Whether events are verified whole."""
    accuracy: Accuracy | None = None
    acceptance: Acceptance | None = None
    buckets: Buckets | None = None
    continuous: bool | None = True
    """False for token pairs; None where that is not known."""
    costs: Costs | None = None
    speed: Speed | None = None
    history: tuple[HistoryPoint, ...] = ()
    cache: Cache | None = None
    batch: Mapping[int, Estimate] = field(default_factory=dict)
    """Batch size -> events a CPU second over those of single sequences."""
    held_out: Estimate | None = None
    """Draft less target on held-out data of the pair's card, nats an event."""
    cuts: tuple[Cut, ...] = ()
    """Of a pair in continuous time, where a run has cut it into buckets."""
    others: tuple[str, ...] = ()
    """Other drafts of the pair, the most promising first."""
    from_run: bool = False
    length_given: bool = False
    """Whether ``n_events`` was asked for, so that the next command asks for it too."""
    notes: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """Measures this pair and draft."""
        return f"doctor --pair {self.pair}" + (f" --draft {self.draft}" if self.draft != SHIPPED else "")

    # -- what there is to explain -----------------------------------------------------------------------------------------
    @property
    def pays(self) -> bool | None:
        """Whether the K in use is faster than cached target-only sampling; None where that is not decided."""
        return decided(self.timed(self.k))

    @property
    def accepts_little(self) -> bool | None:
        if self.acceptance is None:
            return None
        e = self.acceptance.event
        return True if e.high < thresholds.ACCEPTANCE_WEAK else False if e.low >= thresholds.ACCEPTANCE_WEAK else None

    @property
    def ill(self) -> bool:
        return self.pays is False or self.accepts_little is True

    def timed(self, k: int) -> Estimate | None:
        """Measured speed at K, from a steady machine."""
        return None if self.speed is None or not self.speed.steady else self.speed.by_k.get(k)

    def gain(self, k: int) -> tuple[float, str]:
        """(speed at K over speed at the K in use, less 1; *timed* where both were, else *by the law*)."""
        there, here = self.timed(k), self.timed(self.k)
        if there is not None and here is not None:
            return there.value / here.value - 1, "timed"
        return self.predict(k).speedup / self.predict(self.k).speedup - 1, "by the law"

    # -- what the law says ------------------------------------------------------------------------------------------------
    @property
    def predicts(self) -> bool:
        """Whether there is all that a prediction at the K in use needs."""
        return self.acceptance is not None and self.costs is not None and self.k <= self.costs.law.k_max

    @cached_property
    def predictions(self) -> tuple[Prediction, ...]:
        """Speed at K = 1, 2, ..., for runs of ``n_events``."""
        alpha, law = self._law()
        return tuple(predict(alpha, k, law, n_events=self.n_events) for k in range(1, law.k_max + 1))

    def predict(self, k: int) -> Prediction:
        """Speed at K."""
        return self.predictions[k - 1]

    def best(self) -> Prediction:
        """The fastest K."""
        return max(self.predictions, key=lambda p: p.speedup)

    def best_with_acceptance(self, alpha: float) -> Prediction:
        """The fastest K if every event were accepted with this probability."""
        return best_k(alpha, self._law()[1], n_events=self.n_events)

    def mended(self, *, draft: float | None = None, rest: float | None = None) -> Prediction:
        """The fastest K if a draft step, or the rest of a round, cost this much instead."""
        alpha, law = self._law()
        cheaper = replace(law, draft=law.draft if draft is None else draft, rest=law.rest if rest is None else rest)
        return best_k(alpha, cheaper, n_events=self.n_events)

    @cached_property
    def break_even_draft(self) -> float:
        """c at which the best K is as fast as target-only sampling; negative where even a free draft is not.

        The cost of a run is A_K + c B_K, B_K the drafts of a run, so the K's own break-even is (n_events - A_K) / B_K.
        """
        alpha, law = self._law()
        found = []
        for k in range(1, law.k_max + 1):
            free, one = (
                self.n_events / predict(alpha, k, replace(law, draft=c), n_events=self.n_events).speedup for c in (0, 1)
            )
            found.append((self.n_events - free) / (one - free))
        return max(found)

    def _law(self) -> tuple[float | tuple[float, ...], StepCosts]:
        if self.acceptance is None or self.costs is None:
            raise ValueError("The law needs acceptance and step costs.")
        return self.acceptance.alpha, self.costs.law
