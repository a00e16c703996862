"""Target-only sampling: one event per target pass. The law by definition, and the baseline of every speedup.

Two forms: with a key/value cache (the honest baseline) and recomputing the history at every event (what published code does).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reference_impls.base import Cache, Law, Model
from reference_impls.heads.lognormal_mixture import sample_types
from reference_impls.samplers.batching import run_in_batches
from reference_impls.samplers.history import COMPACT, Histories, Outputs, assemble, first_capacity, longest_prompt, prompts_of
from reference_impls.samplers.memory import Room
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import ROLE_TARGET, BoolArray, Counts, Declaration, IntArray, SampleRequest, SampleRun, Trace
from tppsd_bench.streams import UniformStreams


@dataclass(frozen=True)
class TargetOnly:
    """Draws (gap, type) from p(. | history), appends, repeats. ``recompute`` encodes the whole history anew for every event."""

    target: Model
    recompute: bool = False
    batch_size: int | None = None
    memory_limit: int | None = None
    """Bytes that the work in flight may take; rows that do not fit wait (``memory``)."""

    @property
    def declares(self) -> Declaration:
        name = "target-only, recomputing" if self.recompute else "target-only, cached"
        return Declaration("target_only", batch_independent=True, reproducible=True, name=name)

    def sample(self, request: SampleRequest) -> SampleRun:
        rows = self._room.rows(first_capacity(request, slack=1), longest_prompt(request) + 1)
        return run_in_batches(self._batch, request, self.batch_size, rows)

    @property
    def _room(self) -> Room:
        return Room(self.memory_limit, (self.target,), self.recompute)

    def _batch(self, request: SampleRequest) -> SampleRun:
        n, counts = request.n_sequences, Counts()
        if not n:
            return SampleRun(assemble({}, 0, self.target.n_types, request.stop.horizon), counts)
        streams, done = UniformStreams(request.key, n, request.first_sequence), Outputs()
        waiting = [(Histories(request, self.target.n_types, prompts_of(request), slack=1), np.arange(n))]
        while waiting:
            waiting += self._advance(*waiting.pop(), streams, done, counts)
        events = assemble(done, n, self.target.n_types, request.stop.horizon)
        return SampleRun(events, counts, _target_trace(events) if request.want_trace else None)

    def _advance(
        self, histories: Histories, ids: IntArray, streams: UniformStreams, done: Outputs, counts: Counts
    ) -> list[tuple[Histories, IntArray]]:
        """Events until all rows are finished, or their cache no longer fits memory; gives groups to go on with, cache made anew."""
        capacity = histories.gaps.shape[1]
        cache = None if self.recompute else self.target.start(len(ids), capacity)
        while len(ids):
            if self.memory_limit is not None and cache is not None and int(histories.lengths.max()) + 1 > capacity:
                capacity *= 2
                if not self._room.may_grow(len(ids), capacity, 1):
                    return self._set_aside(histories, histories.retire(ids, done), ids, capacity)
            law = self._law(histories, cache, counts)
            u = streams.take(ids, 3)
            gaps = law.sample_gap(u[:, :2])
            types = np.zeros(len(ids), dtype=np.int64)
            if self.target.n_types > 1:
                types = sample_types(law.type_log_probs(gaps), u[:, 2])
            kept = histories.commit(gaps[:, None], types[:, None], np.ones(len(ids), dtype=np.int64))
            counts.committed += int(kept.sum())
            active = ~histories.finished
            if active.mean() < COMPACT or not active.any():
                rows = histories.retire(ids, done)
                ids = ids[rows]
                histories.keep(rows)
                if cache is not None and len(rows):
                    cache.keep(rows)
        return []

    def _set_aside(
        self, histories: Histories, rows: IntArray, ids: IntArray, capacity: int
    ) -> list[tuple[Histories, IntArray]]:
        """``rows`` in groups that fit with room for ``capacity`` events."""
        size = self._room.rows(capacity, int(histories.lengths.max()) + 1) or 1
        histories.reserve(capacity)
        groups = [rows[i : i + size] for i in range(0, len(rows), size)]
        return [(histories.part(group), ids[group]) for group in groups]

    def _law(self, histories: Histories, cache: Cache | None, counts: Counts) -> Law:
        n, active = len(histories.lengths), ~histories.finished
        if not histories.lengths.any():
            return self.target.initial(n)
        counts.target_row_forwards += int(active.sum())
        if cache is None:
            return self._recomputed(histories, active, counts)
        counts.target_calls += 1
        gaps, types, new = histories.pending(cache.lengths, active)
        counts.target_positions += int(new.sum())
        counts.target_padded_positions += gaps.size - int(new.sum())
        law = self.target.extend(cache, gaps, types, new)
        m = gaps.shape[1]
        return law if m == 1 else law.take(np.arange(n) * m + np.maximum(new - 1, 0))

    def _recomputed(self, histories: Histories, active: BoolArray, counts: Counts) -> Law:
        """Every row's law from its whole history, in as many passes as memory asks for."""
        n, width = len(active), int(histories.lengths.max())
        counts.target_positions += int(histories.lengths[active].sum())
        counts.target_padded_positions += n * width - int(histories.lengths[active].sum())
        gaps, types, lengths = histories.gaps[:, :width], histories.types[:, :width], histories.lengths
        size = self._room.rows(width, 1) or n
        parts = [slice(i, i + size) for i in range(0, n, size)]
        counts.target_calls += len(parts)
        laws = [self.target.law_after(gaps[part], types[part], lengths[part]) for part in parts]
        return laws[0] if len(laws) == 1 else type(laws[0]).concat(laws)


def _target_trace(events: EventBatch) -> Trace:
    none = np.empty(0, dtype=np.int64)
    zeros = np.zeros(events.n_events, dtype=np.int64)
    role = np.full(events.n_events, ROLE_TARGET, dtype=np.int8)
    return Trace(
        sequence=none, event=none, round=none, position=none, k_round=none, component=none.astype(np.int8),
        gap=np.empty(0), type=none, log_p=np.empty(0), log_q=np.empty(0), accepted=np.empty(0, dtype=bool),
        gap_role=role, type_role=role, event_round=events.event_index, event_position=zeros, event_k=zeros,
        round_sequence=none, round_index=none, round_drafted=none, round_verified=none, round_accepted=none,
        round_committed=none, round_discarded=none,
    )  # fmt: skip
