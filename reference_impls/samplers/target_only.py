"""Target-only sampling: one event per target pass. The law by definition, and the baseline of every speedup.

Two forms: with a key/value cache (the honest baseline) and recomputing the history at every event (what published code does).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reference_impls.base import Cache, Law, Model
from reference_impls.heads.lognormal_mixture import sample_types
from reference_impls.samplers.batching import run_in_batches
from reference_impls.samplers.history import COMPACT, Histories, assemble, prompts_of
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import ROLE_TARGET, Counts, Declaration, SampleRequest, SampleRun, Trace
from tppsd_bench.streams import UniformStreams


@dataclass(frozen=True)
class TargetOnly:
    """Draws (gap, type) from p(. | history), appends, repeats. ``recompute`` encodes the whole history anew for every event."""

    target: Model
    recompute: bool = False
    batch_size: int | None = None

    @property
    def declares(self) -> Declaration:
        name = "target-only, recomputing" if self.recompute else "target-only, cached"
        return Declaration("target_only", batch_independent=True, reproducible=True, name=name)

    def sample(self, request: SampleRequest) -> SampleRun:
        return run_in_batches(self._batch, request, self.batch_size)

    def _batch(self, request: SampleRequest) -> SampleRun:
        n, prompts, counts = request.n_sequences, prompts_of(request), Counts()
        if not n:
            return SampleRun(assemble({}, 0, self.target.n_types, request.stop.horizon), counts)
        streams = UniformStreams(request.key, n, request.first_sequence)
        histories = Histories(request, self.target.n_types, prompts, slack=1)
        cache = None if self.recompute else self.target.start(n, histories.gaps.shape[1])
        ids, done = np.arange(n), {}
        while len(ids):
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
                for row in np.flatnonzero(~active):
                    done[int(ids[row])] = histories.output(int(row))
                rows = np.flatnonzero(active)
                ids = ids[rows]
                histories.keep(rows)
                if cache is not None and len(rows):
                    cache.keep(rows)
        events = assemble(done, n, self.target.n_types, request.stop.horizon)
        return SampleRun(events, counts, _target_trace(events) if request.want_trace else None)

    def _law(self, histories: Histories, cache: Cache | None, counts: Counts) -> Law:
        n, active = len(histories.lengths), ~histories.finished
        if not histories.lengths.any():
            return self.target.initial(n)
        counts.target_calls += 1
        counts.target_row_forwards += int(active.sum())
        if cache is None:
            width = int(histories.lengths.max())
            counts.target_positions += int(histories.lengths[active].sum())
            counts.target_padded_positions += n * width - int(histories.lengths[active].sum())
            gaps = histories.gaps[:, :width]
            return self.target.law_after(gaps, histories.types[:, :width], histories.lengths)
        gaps, types, new = histories.pending(cache.lengths, active)
        counts.target_positions += int(new.sum())
        counts.target_padded_positions += gaps.size - int(new.sum())
        law = self.target.extend(cache, gaps, types, new)
        m = gaps.shape[1]
        return law if m == 1 else law.take(np.arange(n) * m + np.maximum(new - 1, 0))


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
