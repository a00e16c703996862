"""The state of a batch in flight, and what one round of it proposes and ends with."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from reference_impls.base import Cache, Law
from reference_impls.samplers.history import Histories
from tppsd_bench.protocols import ROLE_TARGET, Counts, FloatArray, IntArray
from tppsd_bench.streams import UniformStreams


@dataclass
class Work:
    """The sequences of a batch that are not finished yet: one row each."""

    histories: Histories
    target_cache: Cache
    draft_cache: Cache
    streams: UniformStreams
    ids: IntArray
    """(n,) which sequence of the request each row is."""
    policy_state: FloatArray
    capacity: int
    """Events of a sequence that the caches have room for without growing."""
    round_index: int = 0
    counts: Counts = field(default_factory=Counts)

    def keep(self, rows: IntArray) -> None:
        """Go on with ``rows`` only."""
        self.ids, self.policy_state = self.ids[rows], self.policy_state[rows]
        self.histories.keep(rows)
        if len(rows):
            self.target_cache.keep(rows)
            self.draft_cache.keep(rows)

    def outgrown(self, new: int) -> bool:
        """Whether ``new`` more events make the caches grow; ``capacity`` is then what they grow to."""
        needed = int(self.histories.lengths.max()) + new
        if needed <= self.capacity:
            return False
        self.capacity = max(needed, 2 * self.capacity)
        return True


@dataclass
class Draft:
    """What one round proposed: (n, K) events and the laws they were drawn from, position after position (row j * n + i)."""

    gaps: FloatArray
    types: IntArray
    laws: list[Law]
    k: IntArray
    """(n,) how many of the K columns count."""

    def laws_at(self, rows: IntArray, position: IntArray) -> Law:
        """The draft's laws at one position of each named row."""
        if len(rows) == 1:
            return self.laws[int(position[0])].take(rows)
        joined: Law = type(self.laws[0]).concat(self.laws)
        picked: Law = joined.take(position * len(self.k) + rows)
        return picked


@dataclass
class LastEvent:
    """The event that ends each row's round: a replacement after a rejection, or the bonus. (n,) arrays, filled row by row."""

    n_accepted: IntArray
    """Drafted events kept before it."""
    gap: FloatArray
    type: IntArray
    gap_role: NDArray[np.int8]
    type_role: NDArray[np.int8]

    @classmethod
    def blank(cls, n: int) -> LastEvent:
        target = np.full(n, ROLE_TARGET, dtype=np.int8)
        return cls(np.zeros(n, dtype=np.int64), np.ones(n), np.zeros(n, dtype=np.int64), target, target.copy())


@dataclass(frozen=True, slots=True)
class Uniforms:
    """A round's random numbers, one block of each sequence's own stream."""

    draft: FloatArray
    """(n, K, 3): component, normal, type of each proposal."""
    accept: FloatArray
    """(n, K, 2): gap, type of each verification."""
    last: FloatArray
    """(n, 3): component, normal, type of the round's last event."""


def left_align(gaps: FloatArray, types: IntArray, pending: IntArray, m: int) -> tuple[FloatArray, IntArray]:
    """Move each row's drafts (columns m and on) up to its own ``pending`` count."""
    width = gaps.shape[1]
    columns = np.arange(width)
    source = np.where(columns < pending[:, None], columns, np.minimum(columns + (m - pending[:, None]), width - 1))
    return np.take_along_axis(gaps, source, 1), np.take_along_axis(types, source, 1)
