"""What the white-box statistics share: the trace, lined up with teacher-forced laws of target and draft.

Each verified proposal's context is a prefix of the final sequence, so one teacher-forced pass over the finished sequences
gives p(.|H) and q(.|H) of every verification. A proposal that crossed the horizon stands one past the end: its sequence is
scored with that proposal appended (a prefix does not see what follows it).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import (
    COMPONENT_GAP,
    COMPONENT_TYPE,
    BoolArray,
    Conditional,
    ConditionalTarget,
    FloatArray,
    IntArray,
    Rule,
    SampleRun,
    Target,
    Trace,
)


@dataclass(frozen=True)
class Contexts:
    """One run, ready for the white-box statistics. ``V`` verification records, ``N`` events, flat."""

    events: EventBatch
    trace: Trace
    rule: Rule
    p: Conditional | None
    q: Conditional | None
    record_row: IntArray
    """(V,) row of ``p`` and ``q`` that is the record's context; -1 where its event lies beyond the appended end."""
    event_row: IntArray
    """(N,) row of ``p`` and ``q`` that is the event's context."""
    time_left: FloatArray
    """(N,) horizon minus the time of the previous event; infinite without a horizon."""
    log_p: FloatArray
    """(V,) teacher-forced log p of each proposal, NaN where it could not be had."""
    log_q: FloatArray
    """(V,) teacher-forced log q, likewise."""

    @property
    def n_types(self) -> int:
        return self.events.n_types

    def best_log_p(self) -> FloatArray:
        """(V,) teacher-forced where known, else as reported."""
        return np.where(self.record_row >= 0, np.where(np.isnan(self.log_p), self.trace.log_p, self.log_p), self.trace.log_p)

    def best_log_q(self) -> FloatArray:
        return np.where(self.record_row >= 0, np.where(np.isnan(self.log_q), self.trace.log_q, self.log_q), self.trace.log_q)

    def record_said(self, record: int) -> str:
        t = self.trace
        return f"sequence {t.sequence[record]}, event {t.event[record]}, position {t.position[record]}"

    def event_said(self, flat: int) -> str:
        i, j = self.events.locate(flat)
        return f"sequence {i}, event {j}, position {self.trace.event_position[flat]}"


def line_up(
    run: SampleRun, target: Target, draft: ConditionalTarget | None, rule: Rule, *, laws: Conditional | None = None
) -> Contexts:
    """Teacher-forced laws for every record and event of ``run``; raises InputError where the trace cannot be lined up.

    ``laws``: the target's, for exactly ``run.events``, where they are known; used unless a proposal stands past the end.
    """
    trace, events = run.trace, run.events
    if trace is None:
        raise InputError("The run has no trace; ask the sampler for one (SampleRequest.want_trace) or skip the white box.")
    check_shapes(trace, events)
    extended = _with_crossings(trace, events)
    reach = extended.lengths[trace.sequence]
    row = np.where(trace.event < reach, extended.offsets[trace.sequence] + trace.event, -1)
    if laws is not None and len(laws) == extended.n_events:
        p: Conditional | None = laws
    else:
        p = target.conditionals(extended) if isinstance(target, ConditionalTarget) else None
    q = draft.conditionals(extended) if draft is not None else None
    event_row = extended.offsets[events.sequence_index] + events.event_index
    if p is not None:
        log_p = log_prob_of_records(p, trace, row)
    else:
        log_p = _log_p_from_scores(target, trace, events)
    log_q = log_prob_of_records(q, trace, row) if q is not None else np.full(len(row), np.nan)
    return Contexts(events, trace, rule, p, q, row, event_row, _time_left(events), log_p, log_q)


def log_prob_of_records(law: Conditional, trace: Trace, row: IntArray) -> FloatArray:
    """(V,) log density of each record's proposal: gap, type given its gap, or both (component event)."""
    out = np.full(len(row), np.nan)
    known = row >= 0
    with_gap = np.flatnonzero(known & (trace.component != COMPONENT_TYPE))
    with_type = np.flatnonzero(known & (trace.component != COMPONENT_GAP))
    if len(with_gap):
        out[with_gap] = law.take(row[with_gap]).log_prob(trace.gap[with_gap])
    if len(with_type):
        log_probs = law.take(row[with_type]).type_log_probs(trace.gap[with_type])
        of_type = log_probs[np.arange(len(with_type)), trace.type[with_type]]
        out[with_type] = np.where(trace.component[with_type] == COMPONENT_TYPE, of_type, out[with_type] + of_type)
    return out


def _log_p_from_scores(target: Target, trace: Trace, events: EventBatch) -> FloatArray:
    """Without conditionals: proposals whose gap is the final gap (every accepted gap, every type, accepted events)."""
    scores = target.score(events)
    out = np.full(len(trace.event), np.nan)
    inside = trace.event < events.lengths[trace.sequence]
    flat = np.where(inside, events.offsets[trace.sequence] + trace.event, 0)
    known = inside & (trace.gap == events.gaps[flat])
    at = np.flatnonzero(known & (trace.component != COMPONENT_TYPE))
    out[at] = scores.log_density[flat[at]]
    at = np.flatnonzero(known & (trace.component != COMPONENT_GAP))
    with np.errstate(divide="ignore"):
        of_type = np.log(scores.type_probs[flat[at], trace.type[at]])
    out[at] = np.where(trace.component[at] == COMPONENT_TYPE, of_type, out[at] + of_type)
    return out


def _with_crossings(trace: Trace, events: EventBatch) -> EventBatch:
    """The batch with one event appended to each sequence that has a record just past its end; the horizon is dropped."""
    beyond = np.flatnonzero(trace.event == events.lengths[trace.sequence])
    extra = np.zeros(len(events), dtype=np.int64)
    extra[trace.sequence[beyond]] = 1
    lengths = events.lengths + extra
    start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    gaps = np.ones(int(start[-1]))
    types = np.zeros(len(gaps), dtype=np.int64)
    place = start[events.sequence_index] + events.event_index
    gaps[place], types[place] = events.gaps, events.types
    usable = beyond[np.isfinite(trace.gap[beyond]) & (trace.gap[beyond] > 0)]
    gaps[start[1:][trace.sequence[usable]] - 1] = trace.gap[usable]
    return EventBatch(gaps, types, lengths, events.n_types)


def _time_left(events: EventBatch) -> FloatArray:
    if events.horizon is None:
        return np.full(events.n_events, np.inf)
    left: FloatArray = events.horizon[events.sequence_index] - (events.times - events.gaps)
    return left


def check_shapes(trace: Trace, events: EventBatch) -> None:
    """InputError where columns of the trace have another length than what they stand for, or name what the run has not."""
    v, n = len(trace.event), events.n_events
    per_record = (
        "sequence", "round", "position", "k_round", "component", "gap", "type", "log_p", "log_q", "accepted",
    )  # fmt: skip
    for names, size, what in (
        (per_record, v, "verifications"),
        (("gap_role", "type_role", "event_round", "event_position", "event_k"), n, "events"),
        (
            ("round_index", "round_drafted", "round_verified", "round_accepted", "round_committed", "round_discarded"),
            len(trace.round_sequence),
            "rounds",
        ),
    ):
        for name in names:
            found = len(getattr(trace, name))
            if found != size:
                raise InputError(f"The trace's {name} has {found} entries; expected {size}, one for each of the {what}.")
    _check_values(trace, events)


def _check_values(trace: Trace, events: EventBatch) -> None:
    def first(bad: BoolArray) -> int:
        return int(np.flatnonzero(bad)[0])

    bad = (trace.sequence < 0) | (trace.sequence >= len(events)) | (trace.event < 0)
    if bad.any():
        at = first(bad)
        raise InputError(
            f"Verification {at} names sequence {trace.sequence[at]}, event {trace.event[at]}; the run has sequences "
            f"0..{len(events) - 1} and events count from 0."
        )
    bad = (trace.component != COMPONENT_GAP) & ((trace.type < 0) | (trace.type >= events.n_types))
    if bad.any():
        at = first(bad)
        raise InputError(
            f"Verification {at} (sequence {trace.sequence[at]}, event {trace.event[at]}) proposes type {trace.type[at]}; "
            f"expected 0..{events.n_types - 1}, or component gap."
        )
