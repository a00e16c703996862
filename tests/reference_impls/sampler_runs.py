"""What every run of a sampler must satisfy, whatever was asked: stop rule, counts, trace, and densities against teacher forcing."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from reference_impls.samplers.policy import FloatArray, IntArray
from reference_impls.samplers.speculative import Speculative
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import (
    ALLOWED_ROLES,
    COMPONENT_EVENT,
    COMPONENT_GAP,
    COMPONENT_TYPE,
    ROLE_ACCEPTED,
    ROLE_RESIDUAL,
    ROLE_TARGET,
    Counts,
    SampleRequest,
    SampleRun,
    Trace,
)

DEPENDS_ON_BATCHING = {"target_calls", "draft_calls", "target_padded_positions"}


@dataclass(frozen=True)
class PastK:
    """K swings with the round and falls to 0 after a round in which nothing was accepted: a function of the past alone."""

    k_max: int = 4

    def start(self, n: int) -> FloatArray:
        return np.zeros((n, 1))

    def choose(self, state: FloatArray, round_index: IntArray) -> IntArray:
        return np.where(state[:, 0] > 0, 0, 1 + round_index % self.k_max).astype(np.int64)

    def observe(self, state: FloatArray, drafted: IntArray, accepted: IntArray) -> FloatArray:
        return ((drafted > 0) & (accepted == 0)).astype(np.float64)[:, None]


def same_events(a: EventBatch, b: EventBatch) -> bool:
    return all(np.array_equal(getattr(a, f), getattr(b, f)) for f in ("gaps", "types", "lengths"))


def same_trace(a: Trace, b: Trace) -> bool:
    return all(np.array_equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(Trace))


def same_work(a: Counts, b: Counts) -> bool:
    """Equal counts, but for those that depend on how sequences were batched."""
    return all(getattr(a, f) == getattr(b, f) for f in Counts.__slots__ if f not in DEPENDS_ON_BATCHING)


def prompt_rows(request: SampleRequest, n_types: int) -> EventBatch:
    """One prompt per sequence, empty ones where none was given."""
    n, prompt = request.n_sequences, request.prompt
    if prompt is None or prompt.n_events == 0:
        return EventBatch(np.empty(0), np.empty(0, dtype=np.int64), np.zeros(n, dtype=np.int64), n_types)
    return prompt.select(np.zeros(n, dtype=np.int64)) if len(prompt) == 1 else prompt


def check_run(run: SampleRun, sampler: Speculative, request: SampleRequest, tol: float) -> None:
    """All identities; ``tol`` is for log densities against a teacher-forced pass over prompt, events and crossing proposal."""
    run.events.validate()
    assert len(run.events) == request.n_sequences
    assert run.events.n_types == sampler.target.n_types
    if request.stop.n_events is not None:
        assert (run.events.lengths == request.stop.n_events).all()
        assert run.counts.discarded == 0
    prompts = prompt_rows(request, run.events.n_types)
    check_counts(run, sampler, request, prompts)
    check_rounds(run, request)
    check_records(run, sampler.rule.joint)
    check_densities(run, sampler, prompts, tol)


def check_counts(run: SampleRun, sampler: Speculative, request: SampleRequest, prompts: EventBatch) -> None:
    c, t, n = run.counts, run.trace, request.n_sequences
    assert t is not None
    for name in ("drafted", "verified", "accepted", "committed", "discarded"):
        assert getattr(c, name) == getattr(t, f"round_{name}").sum(), name
    assert c.rounds == len(t.round_index)
    assert c.drafted >= c.verified >= c.accepted
    assert c.committed == run.events.n_events
    assert c.residual_give_ups == 0
    generated = t.round_committed + t.round_discarded
    replaced = int((t.gap_role == ROLE_RESIDUAL).sum() + ((t.gap_role == ROLE_ACCEPTED) & (t.type_role == ROLE_RESIDUAL)).sum())
    if request.stop.n_events is not None:
        np.testing.assert_array_equal(generated, t.round_accepted + 1)
        assert c.residual_draws == replaced
    else:
        assert (generated >= t.round_accepted + (t.round_discarded == 0)).all()
        assert c.residual_draws >= replaced
    from_nothing = (t.round_index == 0) & (prompts.lengths[t.round_sequence] == 0)
    free = int((from_nothing & (t.round_drafted == 0)).sum())
    assert c.target_row_forwards == c.rounds - free, "a pass a round, but for an event drawn from the initial law"
    assert c.target_row_forwards + free >= np.ceil(run.events.lengths / (sampler.policy.k_max + 1)).sum()
    assert c.target_calls <= c.target_row_forwards
    assert c.target_positions == c.drafted + prompts.n_events + c.rounds - n
    assert c.draft_row_forwards == c.drafted - int((from_nothing & (t.round_drafted > 0)).sum())


def check_rounds(run: SampleRun, request: SampleRequest) -> None:
    t, e = run.trace, run.events
    assert t is not None
    pairs = set(zip(t.gap_role.tolist(), t.type_role.tolist(), strict=True))
    assert pairs <= ALLOWED_ROLES
    whole = (t.gap_role == ROLE_ACCEPTED) & (t.type_role == ROLE_ACCEPTED)
    bonus = t.gap_role == ROLE_TARGET
    np.testing.assert_array_equal(t.event_position[bonus], t.event_k[bonus])
    assert (t.event_position[~bonus] < t.event_k[~bonus]).all()
    follows = (np.diff(e.sequence_index) == 0) & (np.diff(t.event_round) == 0)
    assert whole[:-1][follows].all(), "an event was kept after a rejection"
    np.testing.assert_array_equal(np.diff(t.event_position)[follows], 1)
    first = np.flatnonzero(np.concatenate([[True], ~follows]))[: len(t.event_position)]
    assert (t.event_position[first] == 0).all()
    order = np.lexsort((t.round_index, t.round_sequence))
    np.testing.assert_array_equal(order, np.arange(len(order)))
    if request.stop.horizon is None:
        assert t.crossing_position is None
        return
    assert t.crossing_position is not None
    assert t.crossing_k is not None
    assert (t.crossing_position <= t.crossing_k).all()
    last = np.append(np.flatnonzero(np.diff(t.round_sequence)), len(t.round_sequence) - 1)
    np.testing.assert_array_equal(np.flatnonzero(t.round_discarded), last), "only a sequence's last round crosses the horizon"
    np.testing.assert_array_equal(t.crossing_position, t.round_committed[last])
    np.testing.assert_array_equal(t.crossing_k, t.round_drafted[last])


def check_records(run: SampleRun, joint: bool) -> None:
    """Every emitted drafted component has its record, accepted records are the emitted events, refused ones are not."""
    t, e = run.trace, run.events
    assert t is not None
    inside = t.event < e.lengths[t.sequence]
    assert (t.event <= e.lengths[t.sequence]).all()
    flat = e.offsets[t.sequence] + np.minimum(t.event, e.lengths[t.sequence] - 1)
    for component, role in ((COMPONENT_EVENT if joint else COMPONENT_GAP, t.gap_role), (COMPONENT_TYPE, t.type_role)):
        of = inside & (t.component == component)
        if component == COMPONENT_TYPE and (joint or e.n_types == 1):
            assert not of.any()
            continue
        decided = np.zeros(e.n_events, dtype=np.int64)
        np.add.at(decided, flat[of], 1)
        drafted = t.gap_role != ROLE_TARGET if component != COMPONENT_TYPE else t.gap_role == ROLE_ACCEPTED
        np.testing.assert_array_equal(decided, drafted.astype(np.int64))
        np.testing.assert_array_equal(t.accepted[of], role[flat[of]] == ROLE_ACCEPTED)
        kept = of & t.accepted
        if component != COMPONENT_TYPE:
            np.testing.assert_array_equal(t.gap[kept], e.gaps[flat[kept]])
            assert not (t.gap[of & ~t.accepted] == e.gaps[flat[of & ~t.accepted]]).any()
        if component != COMPONENT_GAP:
            np.testing.assert_array_equal(t.type[kept], e.types[flat[kept]])
        np.testing.assert_array_equal(t.round[of], t.event_round[flat[of]])
        np.testing.assert_array_equal(t.position[of], t.event_position[flat[of]])
        np.testing.assert_array_equal(t.k_round[of], t.event_k[flat[of]])


def check_densities(run: SampleRun, sampler: Speculative, prompts: EventBatch, tol: float) -> None:
    t, e = run.trace, run.events
    assert t is not None
    gaps, types, start = [], [], np.zeros(len(e) + 1, dtype=np.int64)
    for i in range(len(e)):
        mine, before = e.select(slice(i, i + 1)), prompts.select(slice(i, i + 1))
        crossing = np.flatnonzero((t.sequence == i) & (t.event == e.lengths[i]))[:1]
        gaps.append(np.concatenate([before.gaps, mine.gaps, t.gap[crossing]]))
        types.append(np.concatenate([before.types, mine.types, np.zeros(len(crossing), dtype=np.int64)]))
        start[i + 1] = start[i] + len(gaps[-1])
    whole = EventBatch.from_gaps(gaps, types, n_types=e.n_types)
    row = start[t.sequence] + prompts.lengths[t.sequence] + t.event
    for model, reported in ((sampler.target, t.log_p), (sampler.draft, t.log_q)):
        law = model.conditionals(whole).take(row)
        gap = law.log_prob(t.gap)
        kind = law.type_log_probs(t.gap)[np.arange(len(row)), np.maximum(t.type, 0)]
        want = np.where(t.component == COMPONENT_GAP, gap, np.where(t.component == COMPONENT_TYPE, kind, gap + kind))
        np.testing.assert_allclose(reported, want, atol=tol, rtol=tol)
