"""EventBatch: ragged event sequences, validated once at the border.

Gaps are primary (a gap of 1e-12 at t = 1e5 is below one ulp of the time); times are derived. Storage is flat: sequence after
sequence, with ``lengths`` saying how many events each has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tppsd_bench.errors import InputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class EventBatch:
    """``n`` sequences of (gap, type) events; every sequence starts at time 0.

    ``horizon`` (n,) is the end of observation of each sequence, or None where sequences end with their last event.
    """

    gaps: FloatArray
    types: IntArray
    lengths: IntArray
    n_types: int
    horizon: FloatArray | None = None

    # -- construction -------------------------------------------------------------------------------------------------
    @classmethod
    def from_gaps(
        cls,
        gaps: Sequence[ArrayLike],
        types: Sequence[ArrayLike] | None = None,
        *,
        n_types: int | None = None,
        horizon: ArrayLike | None = None,
        source: str = "",
    ) -> EventBatch:
        """One array of gaps (and of types) per sequence; checked."""
        rows = [np.asarray(g, dtype=np.float64).reshape(-1) for g in gaps]
        if types is None:
            type_rows = [np.zeros(len(r), dtype=np.int64) for r in rows]
        else:
            type_rows = [np.asarray(k).reshape(-1) for k in types]
        where = f"{source}: " if source else ""
        if len(type_rows) != len(rows):
            raise InputError(
                f"{where}found {len(rows)} gap sequences but {len(type_rows)} type sequences; give one of each per sequence."
            )
        for i, (r, k) in enumerate(zip(rows, type_rows, strict=True)):
            if len(r) != len(k):
                raise InputError(f"{where}sequence {i} has {len(r)} gaps but {len(k)} types; every event needs one of each.")
        lengths = np.array([len(r) for r in rows], dtype=np.int64)
        flat = np.concatenate(rows) if rows else np.empty(0)
        flat_types_any = np.concatenate(type_rows) if rows else np.empty(0, dtype=np.int64)
        if flat_types_any.dtype.kind == "f" and (flat_types_any != np.floor(flat_types_any)).any():
            at = int(np.flatnonzero(flat_types_any != np.floor(flat_types_any))[0])
            raise InputError(f"{where}event {at} (flat index) has type {flat_types_any[at]}; types are integers 0..M-1.")
        flat_types = flat_types_any.astype(np.int64)
        m = n_types if n_types is not None else int(flat_types.max(initial=0)) + 1
        h = None if horizon is None else np.broadcast_to(np.asarray(horizon, dtype=np.float64), lengths.shape).copy()
        batch = cls(flat, flat_types, lengths, m, h)
        batch.validate(source)
        return batch

    @classmethod
    def from_times(
        cls,
        times: Sequence[ArrayLike],
        types: Sequence[ArrayLike] | None = None,
        *,
        n_types: int | None = None,
        horizon: ArrayLike | None = None,
        source: str = "",
    ) -> EventBatch:
        """One array of increasing times (since the start of observation) per sequence; checked."""
        rows = [np.diff(np.asarray(t, dtype=np.float64).reshape(-1), prepend=0.0) for t in times]
        return cls.from_gaps(rows, types, n_types=n_types, horizon=horizon, source=source)

    @classmethod
    def from_padded(
        cls, gaps: FloatArray, types: IntArray, lengths: IntArray, n_types: int, horizon: FloatArray | None = None
    ) -> EventBatch:
        """From arrays (n, L); trusted (the caller validates)."""
        keep = np.arange(gaps.shape[1]) < lengths[:, None]
        return cls(gaps[keep], types[keep], np.asarray(lengths, dtype=np.int64), n_types, horizon)

    @classmethod
    def concat(cls, batches: Sequence[EventBatch]) -> EventBatch:
        first = batches[0]
        with_horizon = [b.horizon for b in batches if b.horizon is not None]
        if with_horizon and len(with_horizon) != len(batches):
            raise InputError("Some batches have a horizon and some have none; join like with like.")
        return cls(
            np.concatenate([b.gaps for b in batches]),
            np.concatenate([b.types for b in batches]),
            np.concatenate([b.lengths for b in batches]),
            max([first.n_types, *(b.n_types for b in batches)]),
            np.concatenate(with_horizon) if with_horizon else None,
        )

    # -- checks -------------------------------------------------------------------------------------------------------
    def validate(self, source: str = "") -> None:
        """Raise InputError with one sentence that names sequence and index, or return."""
        where = f"{source}: " if source else ""
        bad = np.flatnonzero(~(np.isfinite(self.gaps) & (self.gaps > 0)))
        if len(bad):
            i, j = self.locate(int(bad[0]))
            gap = self.gaps[bad[0]]
            if not np.isfinite(gap):
                raise InputError(f"{where}sequence {i}, event {j}: the gap is {gap}; expected a finite positive number.")
            if gap == 0:
                raise InputError(
                    f"{where}sequence {i}, event {j}: "
                    + ("the first event is at exactly time 0" if j == 0 else "two events at the same time (gap 0)")
                    + f", one of {len(bad)} such events; a continuous law has no ties. "
                    "Remove duplicates, or record times more finely."
                )
            padded = j > 0 and abs(float(self.times[bad[0]])) < 1e-12
            raise InputError(
                f"{where}sequence {i}, event {j}: the time goes back by {-gap:g}; expected increasing times. "
                + (
                    "This looks like padding handed over as events: cut each row at its length."
                    if padded
                    else "Sort the events."
                )
            )
        off = np.flatnonzero((self.types < 0) | (self.types >= self.n_types))
        if len(off):
            i, j = self.locate(int(off[0]))
            k, m = int(self.types[off[0]]), self.n_types
            if k < 0:
                mend = "A negative id is usually padding: cut each row at its length."
            elif k == m and self.types.min() >= 1:
                mend = "The ids run from 1: subtract 1."
            else:
                mend = f"Give n_types = {int(self.types.max()) + 1} or map the ids to 0..{m - 1}."
            raise InputError(f"{where}sequence {i}, event {j}: type {k} is outside 0..{m - 1}. {mend}")
        if self.horizon is not None:
            bad_h = np.flatnonzero(~(np.isfinite(self.horizon) & (self.horizon > 0)))
            if len(bad_h):
                raise InputError(
                    f"{where}sequence {int(bad_h[0])}: the horizon is {self.horizon[bad_h[0]]}; expected a positive time."
                )
            last = self.end_times
            late = np.flatnonzero(last >= self.horizon)
            if len(late):
                i = int(late[0])
                raise InputError(
                    f"{where}sequence {i}: an event at {last[i]:g} is not before the horizon {self.horizon[i]:g}; "
                    "drop events at or beyond it, or give the true end of observation."
                )

    # -- views --------------------------------------------------------------------------------------------------------
    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def n_events(self) -> int:
        return len(self.gaps)

    @cached_property
    def offsets(self) -> IntArray:
        """(n + 1,) sequence i is ``[offsets[i]:offsets[i+1]]``."""
        return np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int64)

    @cached_property
    def sequence_index(self) -> IntArray:
        """(N,) which sequence each event belongs to."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @cached_property
    def event_index(self) -> IntArray:
        """(N,) 0-based index of each event within its sequence."""
        return np.arange(self.n_events) - np.repeat(self.offsets[:-1], self.lengths)

    @cached_property
    def times(self) -> FloatArray:
        """(N,) event times, by summing each sequence's gaps in order."""
        gaps, _ = self.padded()
        out: FloatArray = np.cumsum(gaps, axis=1)[np.arange(gaps.shape[1]) < self.lengths[:, None]]
        return out

    @cached_property
    def end_times(self) -> FloatArray:
        """(n,) time of the last event, 0 for an empty sequence."""
        if not self.n_events:
            return np.zeros(len(self))
        out: FloatArray = np.where(self.lengths > 0, self.times[np.maximum(self.offsets[1:] - 1, 0)], 0.0)
        return out

    @cached_property
    def mask(self) -> NDArray[np.bool_]:
        """(n, longest) where ``padded`` holds events: ``padded_array[batch.mask]`` is flat again."""
        return np.asarray(np.arange(int(self.lengths.max(initial=0))) < self.lengths[:, None])

    def padded(self, fill_gap: float = 0.0, fill_type: int = 0) -> tuple[FloatArray, IntArray]:
        """Gaps and types as (n, longest)."""
        gaps = np.full(self.mask.shape, fill_gap)
        types = np.full(self.mask.shape, fill_type, dtype=np.int64)
        gaps[self.mask], types[self.mask] = self.gaps, self.types
        return gaps, types

    def locate(self, flat: int) -> tuple[int, int]:
        """(sequence, index) of a flat event index."""
        i = int(np.searchsorted(self.offsets, flat, side="right")) - 1
        return i, flat - int(self.offsets[i])

    def select(self, sequences: IntArray | slice) -> EventBatch:
        """The named sequences, in the named order."""
        rows = np.arange(len(self))[sequences]
        lengths = self.lengths[rows]
        flat = np.repeat(self.offsets[:-1][rows] - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
        at = flat + np.arange(int(lengths.sum()))
        horizon = None if self.horizon is None else self.horizon[rows]
        return EventBatch(self.gaps[at], self.types[at], lengths, self.n_types, horizon)

    def prefix(self, n_events: int) -> EventBatch:
        """Every sequence cut after its first ``n_events`` events; the horizon is dropped."""
        keep = self.event_index < n_events
        return EventBatch(self.gaps[keep], self.types[keep], np.minimum(self.lengths, n_events), self.n_types, None)
