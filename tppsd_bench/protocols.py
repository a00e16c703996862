"""The page to read first: what a target, a sampler under test and a sampling run are.

Everything here is numpy only. A *target* is the law; a *sampler under test* claims to draw from it; a *trace* is what the
sampler says it did. Shapes: ``n`` sequences, ``N`` events in all (flat, sequence after sequence), ``M`` types.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.events import EventBatch
from tppsd_bench.streams import StreamKey

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

Rule = Literal["leviathan_two_step", "leviathan_joint", "exact_match", "target_only", "other"]

# Components of a verification record and roles of an emitted event, as stored in the arrays of a Trace.
COMPONENT_GAP, COMPONENT_TYPE, COMPONENT_EVENT = 0, 1, 2
ROLE_ACCEPTED, ROLE_RESIDUAL, ROLE_TARGET = 0, 1, 2
ALLOWED_ROLES = frozenset(
    {
        (ROLE_ACCEPTED, ROLE_ACCEPTED),
        (ROLE_ACCEPTED, ROLE_RESIDUAL),
        (ROLE_RESIDUAL, ROLE_TARGET),
        (ROLE_RESIDUAL, ROLE_RESIDUAL),  # joint verification: the whole event comes from the joint residual
        (ROLE_TARGET, ROLE_TARGET),
    }
)


@runtime_checkable
class Conditional(Protocol):
    """The law of the next (gap, type) given a history, for ``n`` histories at once (rows), in float64.

    ``gap`` arguments have shape ``(n,)`` or ``(n, g)``; results have the same shape (types: one more axis of length M).
    """

    @property
    def n_types(self) -> int: ...
    def __len__(self) -> int: ...
    def take(self, rows: IntArray | slice) -> Conditional:
        """The same laws for a selection of rows."""
        ...

    def log_prob(self, gap: FloatArray) -> FloatArray:
        """log f(gap | H), the density per unit of time."""
        ...

    def cdf(self, gap: FloatArray) -> FloatArray: ...
    def sf(self, gap: FloatArray) -> FloatArray:
        """Survival 1 - F, accurate in the upper tail."""
        ...

    def quantile(self, u: FloatArray) -> FloatArray: ...
    def sample_gap(self, u: FloatArray) -> FloatArray:
        """Gaps from uniforms ``(n, 2)`` (or ``(n, g, 2)`` -> ``(n, g)``), exact in law."""
        ...

    def type_log_probs(self, gap: FloatArray) -> FloatArray:
        """log p(type | H, gap): shape ``gap.shape + (M,)``. Laws whose types ignore the gap ignore it."""
        ...


@runtime_checkable
class BucketedConditional(Conditional, Protocol):
    """A law over time buckets: inside one, the gap's law is the same whatever the history. Optional; makes integrals sums."""

    @property
    def gap_breaks(self) -> FloatArray:
        """Inner edges of the buckets, increasing: the density jumps there."""
        ...

    def shares_buckets(self, other: Conditional) -> bool:
        """Whether ``other`` has the same buckets and the same laws inside them."""
        ...


@dataclass(frozen=True, slots=True)
class Scores:
    """A target's teacher-forced view of finished sequences, aligned with ``EventBatch`` (flat)."""

    log_density: FloatArray
    """(N,) log f(gap_i | H_i) of the gap alone."""
    cdf: FloatArray
    """(N,) F(gap_i | H_i)."""
    survival: FloatArray
    """(N,) 1 - F, accurate in the upper tail."""
    type_probs: FloatArray
    """(N, M) p(k | H_i [, gap_i])."""
    crossing_cdf: FloatArray | None = None
    """(n,) F(T - t_N | H_{N+1}): probability that the next event came before the horizon. Horizon batches only."""

    @classmethod
    def from_intensity(cls, intensity: FloatArray, compensator: FloatArray, crossing: FloatArray | None = None) -> Scores:
        """Scores of a model that states intensities: f = lambda exp(-L), F = 1 - exp(-L), p(k) = lambda_k / lambda.

        Args:
            intensity: (N, M) lambda_k at each event, given the events before it. compensator: (N,) L, the total intensity's
                integral over the gap. crossing: (n,) the same from the last event to the horizon, for horizon batches.
        """
        total = intensity.sum(axis=1)
        return cls(
            log_density=np.log(total) - compensator, cdf=-np.expm1(-compensator), survival=np.exp(-compensator),
            type_probs=intensity / total[:, None], crossing_cdf=None if crossing is None else -np.expm1(-crossing),
        )  # fmt: skip


@runtime_checkable
class Target(Protocol):
    """The law under which sequences are scored. ``score`` is all the grey-box battery needs."""

    @property
    def n_types(self) -> int: ...
    def score(self, batch: EventBatch) -> Scores: ...


@runtime_checkable
class ConditionalTarget(Target, Protocol):
    """A target (or draft) that can hand out the conditional law itself: role laws, support and draft direction need it."""

    def conditionals(self, batch: EventBatch) -> Conditional:
        """One row per event of the batch (flat order): the law of event i given H_i."""
        ...


@dataclass(frozen=True, slots=True)
class Stop:
    """When a sequence ends: after ``n_events`` generated events, or at time ``horizon`` (events beyond it are not kept)."""

    n_events: int | None = None
    horizon: float | None = None

    def __post_init__(self) -> None:
        if (self.n_events is None) == (self.horizon is None):
            raise ValueError("A stop rule needs exactly one of n_events and horizon.")
        if self.n_events is not None and self.n_events < 1:
            raise ValueError(f"n_events is {self.n_events}; expected at least 1.")
        if self.horizon is not None and not self.horizon > 0:
            raise ValueError(f"horizon is {self.horizon}; expected a positive time.")

    def reached(self, n_events: Any, time: Any) -> Any:
        """Whether sequences with this many events, the last at this ``time``, have come to their end; elementwise."""
        return time >= self.horizon if self.n_events is None else n_events >= self.n_events


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """What a sampler is asked for."""

    n_sequences: int
    stop: Stop
    key: StreamKey
    """Names the random streams: sequence i uses ``key.sequence(first_sequence + i)`` and nothing else."""
    first_sequence: int = 0
    prompt: EventBatch | None = None
    """Histories to continue (one per sequence, or one for all); they are not part of the output."""
    device: str = "cpu"
    want_trace: bool = True


@dataclass(slots=True)
class Counts:
    """Exact counts of work, by which speed is predicted. All are totals over the run."""

    target_calls: int = 0
    target_row_forwards: int = 0
    """Sequences advanced by a target pass: the headline unit."""
    target_positions: int = 0
    target_padded_positions: int = 0
    draft_calls: int = 0
    draft_row_forwards: int = 0
    draft_positions: int = 0
    rounds: int = 0
    drafted: int = 0
    verified: int = 0
    accepted: int = 0
    committed: int = 0
    discarded: int = 0
    residual_draws: int = 0
    residual_switches: int = 0
    """Residual draws that left rejection sampling for the inverse CDF by quadrature (still exact)."""
    residual_kept: int = 0
    """Rejections whose residual mass was below numerical resolution: proposal kept, counted as accepted."""
    residual_give_ups: int = 0
    """Residual draws abandoned for something else. Anything but 0 is a fault."""

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, f) + getattr(other, f) for f in self.__slots__))


@dataclass(frozen=True, slots=True)
class Trace:
    """What happened, one record per verification, per event and per round (struct of arrays).

    Verifications come in order; each verified proposal's context is a prefix of the final sequence, so ``event`` names
    its history H_event exactly. A proposal at ``event == length`` of a horizon-stopped sequence is the one that crossed.
    """

    # per verification
    sequence: IntArray
    event: IntArray
    round: IntArray
    position: IntArray
    """0-based position within the round's draft."""
    k_round: IntArray
    component: NDArray[np.int8]
    gap: FloatArray
    """The proposed gap (component gap/event), or the gap the proposed type goes with (component type)."""
    type: IntArray
    """The proposed type, -1 for component gap."""
    log_p: FloatArray
    log_q: FloatArray
    accepted: BoolArray
    # per emitted event, flat as in the run's EventBatch
    gap_role: NDArray[np.int8]
    type_role: NDArray[np.int8]
    event_round: IntArray
    event_position: IntArray
    """Position in round; equal to ``event_k`` for the bonus event."""
    event_k: IntArray
    # per round
    round_sequence: IntArray
    round_index: IntArray
    round_drafted: IntArray
    round_verified: IntArray
    round_accepted: IntArray
    round_committed: IntArray
    round_discarded: IntArray
    # horizon-stopped runs: where the draw that crossed the horizon stood, per sequence; None for event-count runs
    crossing_position: IntArray | None = None
    crossing_k: IntArray | None = None


@dataclass(frozen=True, slots=True)
class SampleRun:
    events: EventBatch
    counts: Counts = field(default_factory=Counts)
    trace: Trace | None = None


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a sampler promises about itself; only what is promised is tested as mechanism."""

    rule: Rule = "other"
    batch_independent: bool = False
    reproducible: bool = False
    name: str = ""


@runtime_checkable
class SamplerUnderTest(Protocol):
    """Anything that draws sequences on request."""

    @property
    def declares(self) -> Declaration: ...
    def sample(self, request: SampleRequest) -> SampleRun: ...
