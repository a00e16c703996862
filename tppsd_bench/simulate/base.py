"""What every known process shares: exact simulation and scoring, both vectorised over sequences.

A process states four things about its *state* (everything its future depends on, one row per sequence): where it starts, how an
event moves it, how to draw the next event from it, and the law of the next event given it. The loops are here, once.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch, FloatArray, IntArray
from tppsd_bench.protocols import Scores, Stop
from tppsd_bench.streams import StreamKey, UniformStreams

State = NDArray[Any]
"""(n, ...) one row per sequence."""


class EventLaw(NamedTuple):
    """The law of the next event, evaluated at one gap per row."""

    log_density: FloatArray
    """(n,) log f(gap | H) = log λ(t) − ΔΛ."""
    compensator: FloatArray
    """(n,) ΔΛ = ∫ λ over the gap = −log(1 − F(gap | H))."""
    type_probs: FloatArray
    """(n, M) p(k | H, gap) = λ_k(t) / λ(t)."""


class Process(ABC):
    """A point process of known law, started at time 0 with an empty history. It is a ``Target``.

    Subclasses are frozen dataclasses whose fields are the parameters (numbers, or arrays made by ``parameter``).
    """

    kind: ClassVar[str]

    # -- what a process states ------------------------------------------------------------------------------------------
    @property
    @abstractmethod
    def n_types(self) -> int: ...

    @property
    @abstractmethod
    def uniforms_per_event(self) -> int:
        """How many uniforms one event takes; constant, so that a sequence's stream depends on nothing else."""

    @abstractmethod
    def initial_state(self, n: int) -> State: ...

    @abstractmethod
    def advance(self, state: State, gaps: FloatArray, types: IntArray) -> State:
        """The state just after an event that came ``gaps`` (n,) after the last one and has ``types`` (n,)."""

    @abstractmethod
    def draw(self, state: State, uniforms: FloatArray) -> tuple[FloatArray, IntArray]:
        """The next event's gap and type, exact in law, from ``uniforms`` (n, uniforms_per_event)."""

    @abstractmethod
    def law(self, state: State, gaps: FloatArray) -> EventLaw: ...

    # -- parameters -----------------------------------------------------------------------------------------------------
    def params(self) -> dict[str, Any]:
        """The parameters as plain JSON values; ``make(process.kind, **process.params())`` is an equal process."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}  # type: ignore[arg-type]
        return {name: v.tolist() if isinstance(v, np.ndarray) else v for name, v in fields.items()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Process) and self.kind == other.kind and self.params() == other.params()

    def __hash__(self) -> int:
        return hash((self.kind, repr(self.params())))

    # -- simulation -----------------------------------------------------------------------------------------------------
    def simulate(self, n_sequences: int, stop: Stop, key: StreamKey, *, first_sequence: int = 0) -> EventBatch:
        """Draw sequences ``first_sequence .. first_sequence + n_sequences − 1`` of the streams named by ``key``.

        Exact: no time step, no truncation. Sequence i depends on ``key`` and i alone. Under a horizon the events before it are
        kept and ``batch.horizon`` is set.
        """
        streams = UniformStreams(key, n_sequences, first_sequence, block=_block(n_sequences, self.uniforms_per_event))
        rows = np.arange(n_sequences)
        state, elapsed = self.initial_state(n_sequences), np.zeros(n_sequences)
        columns: list[tuple[FloatArray, IntArray]] = []
        lengths = np.zeros(n_sequences, dtype=np.int64)
        while len(rows) and (stop.n_events is None or len(columns) < stop.n_events):
            gaps, types = self.draw(state, streams.take(rows, self.uniforms_per_event))
            elapsed = elapsed + gaps
            if stop.horizon is not None:
                inside = elapsed < stop.horizon
                rows, elapsed, gaps, types, state = rows[inside], elapsed[inside], gaps[inside], types[inside], state[inside]
            column = np.zeros(n_sequences), np.zeros(n_sequences, dtype=np.int64)
            column[0][rows], column[1][rows] = gaps, types
            columns.append(column)
            lengths[rows] += 1
            state = self.advance(state, gaps, types)
        all_gaps = np.stack([c[0] for c in columns], axis=1) if columns else np.empty((n_sequences, 0))
        all_types = np.stack([c[1] for c in columns], axis=1) if columns else np.empty((n_sequences, 0), dtype=np.int64)
        horizon = None if stop.horizon is None else np.full(n_sequences, float(stop.horizon))
        return EventBatch.from_padded(all_gaps, all_types, lengths, self.n_types, horizon)

    # -- scoring --------------------------------------------------------------------------------------------------------
    def states(self, batch: EventBatch) -> tuple[State, State]:
        """The state before every event (N, ...) and after the last event of every sequence (n, ...), in O(N)."""
        state = self.initial_state(len(batch))
        before = np.empty((batch.n_events, *state.shape[1:]), dtype=state.dtype)
        for j in range(int(batch.lengths.max(initial=0))):
            rows = np.flatnonzero(batch.lengths > j)
            flat = batch.offsets[rows] + j
            before[flat] = state[rows]
            state[rows] = self.advance(state[rows], batch.gaps[flat], batch.types[flat])
        return before, state

    def score(self, batch: EventBatch) -> Scores:
        """Teacher-forced scores of every event, and F(T − t_N | H) where the batch has a horizon."""
        self._check_types(batch)
        before, after = self.states(batch)
        law = self.law(before, batch.gaps)
        crossing = None if batch.horizon is None else -np.expm1(-self._last_compensator(batch, after))
        return Scores(
            log_density=law.log_density,
            cdf=-np.expm1(-law.compensator),
            survival=np.exp(-law.compensator),
            type_probs=law.type_probs,
            crossing_cdf=crossing,
        )

    def compensator(self, batch: EventBatch) -> FloatArray:
        """(N,) ΔΛ_i = Λ(t_i) − Λ(t_{i−1}); iid Exp(1) where sequences stop by event count (Brown et al. 2002)."""
        self._check_types(batch)
        return self.law(self.states(batch)[0], batch.gaps).compensator

    def event_log_likelihood(self, batch: EventBatch) -> FloatArray:
        """(N,) log f(gap_i | H_i) + log p(type_i | H_i, gap_i): nats per event, the horizon's survival left out."""
        self._check_types(batch)
        return self._joint(self.law(self.states(batch)[0], batch.gaps), batch.types)

    def log_likelihood(self, batch: EventBatch) -> FloatArray:
        """(n,) Σ log λ_{k_i}(t_i) − Λ(end); the end is the horizon where there is one, else the last event."""
        self._check_types(batch)
        before, after = self.states(batch)
        per_event = self._joint(self.law(before, batch.gaps), batch.types)
        total = np.bincount(batch.sequence_index, weights=per_event, minlength=len(batch)).astype(np.float64)
        return total if batch.horizon is None else total - self._last_compensator(batch, after)

    @staticmethod
    def _joint(law: EventLaw, types: IntArray) -> FloatArray:
        with np.errstate(divide="ignore"):  # an impossible type has log-likelihood −inf
            joint: FloatArray = law.log_density + np.log(law.type_probs[np.arange(len(types)), types])
        return joint

    def _last_compensator(self, batch: EventBatch, after: State) -> FloatArray:
        assert batch.horizon is not None
        return self.law(after, batch.horizon - batch.end_times).compensator

    def _check_types(self, batch: EventBatch) -> None:
        off = np.flatnonzero(batch.types >= self.n_types)
        if len(off):
            i, j = batch.locate(int(off[0]))
            raise InputError(
                f"Sequence {i}, event {j} has type {int(batch.types[off[0]])}, but the {self.kind} process has "
                f"{self.n_types} types (0..{self.n_types - 1}); score it with the process that made the data."
            )


def _block(n_sequences: int, per_event: int) -> int:
    """Uniforms buffered per sequence: at most 64 MiB in all. The values drawn do not depend on it."""
    return max(per_event, min(1024, 2**23 // max(n_sequences, 1)))


# -- parameters and small exact pieces --------------------------------------------------------------------------------------
def parameter(name: str, value: ArrayLike, *, ndim: int = 1, low: float = -np.inf, high: float = np.inf) -> FloatArray:
    """A read-only float64 array with the asked number of axes and finite entries in [low, high], or InputError."""
    array = np.array(value, dtype=np.float64)
    while array.ndim < ndim and array.size == 1:
        array = array[None]
    if array.ndim != ndim or array.size == 0:
        raise InputError(f"Parameter {name} has shape {array.shape}; expected {ndim} axis (axes) with at least one entry.")
    bad = ~(np.isfinite(array) & (array >= low) & (array <= high))
    if bad.any():
        raise InputError(f"Parameter {name} has the entry {array[bad][0]:g}; expected finite values in [{low:g}, {high:g}].")
    array.setflags(write=False)
    return array


def probabilities(name: str, value: ArrayLike, *, ndim: int = 1) -> FloatArray:
    """A read-only array whose last axis sums to 1 (within 1e-9), or InputError."""
    array = parameter(name, value, ndim=ndim, low=0.0, high=1.0)
    sums = array.sum(axis=-1)
    if (np.abs(sums - 1.0) > 1e-9).any():
        worst = float(sums.flat[int(np.abs(sums - 1.0).argmax())])
        raise InputError(f"Parameter {name} has a row that sums to {worst:g}; probabilities must sum to 1: divide by the sum.")
    return array


def draw_index(probs: FloatArray, u: FloatArray) -> IntArray:
    """(n,) indices by inverse CDF from ``probs`` (n, M) or (M,) and uniforms (n,); never an index of probability 0."""
    cumulative = np.cumsum(probs, axis=-1)
    cumulative = cumulative / cumulative[..., -1:]
    index: IntArray = (u[:, None] > cumulative[..., :-1]).sum(axis=-1).astype(np.int64)
    return index


def invert_increasing(
    function: Callable[[FloatArray], FloatArray],
    derivative: Callable[[FloatArray], FloatArray],
    level: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
) -> FloatArray:
    """The x in [lower, upper] with function(x) = level up to rounding, elementwise: Newton safeguarded by bisection.

    Each element stops by itself, so that its value does not depend on what else is in the array.
    """
    x = np.clip(level / derivative(lower), lower, upper)
    step = upper - lower
    open_ = np.ones(x.shape, dtype=bool)
    for _ in range(200):
        excess, slope = function(x) - level, derivative(x)
        lower, upper = np.where(excess < 0, x, lower), np.where(excess > 0, x, upper)
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = x - excess / slope
        slow = ~((newton > lower) & (newton < upper) & (np.abs(2 * excess) <= np.abs(step * slope)))
        proposal = np.where(slow, 0.5 * (lower + upper), newton)
        open_ &= np.abs(excess) > 4e-15 * level
        step = proposal - x
        x = np.where(open_, proposal, x)
        open_ &= np.abs(step) > 1e-15 * np.abs(x)
        if not open_.any():
            return x
    raise ArithmeticError("A compensator could not be inverted in 200 steps; is its intensity finite and positive?")
