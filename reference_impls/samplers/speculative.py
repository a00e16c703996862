"""Speculative sampling of a temporal point process: K drafted events, one target pass, the target's law exactly.

One round, for every sequence at its own pace. (1) The draft proposes K events in sequence, (tau_j, k_j) ~ q(. | H, drafts before j).
(2) One target pass over the drafts gives p(. | H, drafts before j) at K + 1 positions. (3) Positions are verified in order by the
rule; the first rejection is replaced by a residual draw and ends the round. (4) If all K survive, one bonus event is drawn from
p at position K. (5) Both caches are rolled back to the committed events.

Why it is exact. Condition on the history at position j, reached only if all drafts before j were committed; p_j and q_j are then laws
given the *committed* history. Two-step rule: the gap is accepted with probability min(1, p/q), so accepted gaps have sub-density
min(p, q), rejected mass is TV(p, q), and its replacement has density (p - q)+ / TV: the sum is p. Given an accepted gap, the
type goes through the same argument with p(k | H, tau) and q(k | H, tau); given a replaced gap the type is drawn from
p(k | H, tau') itself, for the draft proposed none with that gap. Hence (tau, k) ~ p(tau) p(k | tau) whatever happened. Joint rule: the
argument once, on pairs. The bonus is p by definition. So each committed event has the target's conditional law given the committed
history, and by induction the sequence has the target's law. K may depend on the past (a policy), since the argument conditions
on it; a stop rule that looks at committed events only cuts a sequence that has the right law.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from reference_impls.base import Law, Model
from reference_impls.heads.lognormal_mixture import sample_types
from reference_impls.samplers.batching import run_in_batches
from reference_impls.samplers.history import COMPACT, Histories, Outputs, assemble, first_capacity, longest_prompt, prompts_of
from reference_impls.samplers.memory import Room
from reference_impls.samplers.policy import FixedK, KPolicy
from reference_impls.samplers.recorder import Recorder, RoundRecord
from reference_impls.samplers.residual import ExactResidual, ResidualRule, residual_types
from reference_impls.samplers.round import Draft, LastEvent, Uniforms, Work, left_align
from reference_impls.samplers.verification import TwoStep, Verification, VerificationRule
from tppsd_bench.protocols import (
    ROLE_ACCEPTED,
    ROLE_RESIDUAL,
    ROLE_TARGET,
    BoolArray,
    Counts,
    Declaration,
    FloatArray,
    IntArray,
    SampleRequest,
    SampleRun,
)
from tppsd_bench.streams import UniformStreams


@dataclass(frozen=True)
class Speculative:
    """The reference sampler. ``rule``, ``residual`` and ``policy`` are decisions, and so is every public method below ``sample``:
    a faulty sampler is this one with one of them changed (``reference_impls.mutants``)."""

    target: Model
    draft: Model
    policy: KPolicy = field(default_factory=FixedK)
    rule: VerificationRule = field(default_factory=TwoStep)
    residual: ResidualRule = field(default_factory=ExactResidual)
    batch_size: int | None = None
    memory_limit: int | None = None
    """Bytes that the work in flight may take; rows that do not fit wait (``memory``). The law is the same, toys' bits too."""

    @property
    def declares(self) -> Declaration:
        return Declaration(
            self.rule.rule, batch_independent=True, reproducible=True, name=f"speculative, K = {self.policy.k_max}"
        )

    def sample(self, request: SampleRequest) -> SampleRun:
        rows = self._room.rows(first_capacity(request, self._slack), longest_prompt(request) + self._slack)
        return run_in_batches(self._batch, request, self.batch_size, rows)

    @property
    def _room(self) -> Room:
        return Room(self.memory_limit, (self.target, self.draft))

    @property
    def _slack(self) -> int:
        """Events beyond its committed ones that a sequence needs room for in a round."""
        return self.policy.k_max + 2

    # -- one batch ------------------------------------------------------------------------------------------------------
    def _batch(self, request: SampleRequest) -> SampleRun:
        n = request.n_sequences
        recorder = Recorder(self.rule.joint, self.target.n_types) if request.want_trace else None
        if not n:
            return SampleRun(assemble({}, 0, self.target.n_types, request.stop.horizon))
        done: Outputs = {}
        counts, waiting = Counts(), [partial(self.start, request)]
        while waiting:
            later, more = self._advance(waiting.pop()(), done, recorder)
            waiting, counts = waiting + later, counts + more
        events = assemble(done, n, self.target.n_types, request.stop.horizon)
        return SampleRun(events, counts, None if recorder is None else recorder.trace(events))

    def start(self, request: SampleRequest) -> Work:
        """Empty caches, the prompts as histories, one stream a sequence."""
        n = request.n_sequences
        histories = Histories(request, self.target.n_types, prompts_of(request), self._slack)
        streams = UniformStreams(request.key, n, request.first_sequence)
        return self._work(histories, streams, np.arange(n), self.policy.start(n), histories.gaps.shape[1])

    def _work(
        self, histories: Histories, streams: UniformStreams, ids: IntArray, state: FloatArray, capacity: int, round_index: int = 0
    ) -> Work:  # fmt: skip
        n = len(ids)
        return Work(
            histories, self.target.start(n, capacity), self.draft.start(n, capacity), streams, ids, state, capacity, round_index
        )

    def _advance(self, work: Work, done: Outputs, recorder: Recorder | None) -> tuple[list[partial[Work]], Counts]:
        """Rounds until all rows are finished, or their caches no longer fit memory; gives those to go on with, and the work done."""
        while len(work.ids):
            if self.memory_limit is not None and work.outgrown(self._slack) and not self._may_grow(work):
                work.keep(work.histories.retire(work.ids, done))
                return self._set_aside(work), work.counts
            record = self._round(work)
            if recorder is not None:
                recorder.add(record)
            active = ~work.histories.finished
            if active.mean() < COMPACT or not active.any():
                work.keep(work.histories.retire(work.ids, done))
        return [], work.counts

    def _may_grow(self, work: Work) -> bool:
        return self._room.may_grow(len(work.ids), work.capacity, self._slack)

    def _set_aside(self, work: Work) -> list[partial[Work]]:
        """The rows in groups that fit; their caches go, and are made again by one pass over the history when it is their turn."""
        size = self._room.rows(work.capacity, int(work.histories.lengths.max()) + self._slack) or 1
        groups = [np.arange(i, min(i + size, len(work.ids))) for i in range(0, len(work.ids), size)]
        return [
            partial(self._work, work.histories.part(rows), work.streams, work.ids[rows], work.policy_state[rows], work.capacity,
                    work.round_index)
            for rows in groups
        ]  # fmt: skip

    # -- one round ------------------------------------------------------------------------------------------------------
    def _round(self, work: Work) -> RoundRecord:
        histories = work.histories
        active = ~histories.finished
        k = self._k(work, active)
        u = self.uniforms(work)
        base = histories.lengths.copy()
        draft = self.propose(work, k, u.draft)
        p, position_rows = self.target_pass(work, draft, active)
        verified = self.verify(draft, p, position_rows, u.accept[:, : draft.gaps.shape[1]])
        last = self._last_event(work, draft, p, position_rows, verified, u.last, active)
        gaps, types, offered = self.compose(draft, last)
        offered = np.where(active, offered, 0)
        kept = self.commit(work, gaps, types, offered)
        self.roll_back(work, base, last.n_accepted, active)
        work.policy_state = self.policy.observe(work.policy_state, k, last.n_accepted)
        record = RoundRecord(
            work.ids.copy(), active, work.round_index, base - histories.prompt_lengths, k, last.n_accepted, draft.gaps, draft.types,
            verified, last.gap_role, last.type_role, kept, offered,
        )  # fmt: skip
        record.add_to(work.counts)
        work.round_index += 1
        return record

    def _k(self, work: Work, active: BoolArray) -> IntArray:
        k = self.policy.choose(work.policy_state, np.full(len(active), work.round_index))
        remaining = work.histories.remaining
        if remaining is not None:
            k = np.minimum(k, remaining - 1)  # the round's last event is drawn from p anyway
        return np.where(active, np.maximum(k, 0), 0)

    def uniforms(self, work: Work) -> Uniforms:
        """A round's random numbers; the block's size does not depend on K, so that K may vary without moving the streams."""
        n, k_max = len(work.ids), self.policy.k_max
        u = work.streams.take(work.ids, 5 * k_max + 3)
        return Uniforms(u[:, : 3 * k_max].reshape(n, k_max, 3), u[:, 3 * k_max : -3].reshape(n, k_max, 2), u[:, -3:])

    def propose(self, work: Work, k: IntArray, u: FloatArray) -> Draft:
        """K events in sequence from the draft; ``u`` (n, k_max, 3)."""
        n, k_max = len(k), int(k.max(initial=0))
        gaps, types = np.ones((n, k_max)), np.zeros((n, k_max), dtype=np.int64)
        laws: list[Law] = []
        for j in range(k_max):
            law = self.draft_law(work, k, gaps, types, j)
            gaps[:, j], types[:, j] = self.draw_proposal(law, u[:, j])
            laws.append(law)
        work.counts.drafted += int(k.sum())
        return Draft(gaps, types, laws, k)

    def draw_proposal(self, law: Law, u: FloatArray) -> tuple[FloatArray, IntArray]:
        """One (gap, type) from each row of the draft's law; ``u`` (n, 3)."""
        gaps = law.sample_gap(u[:, :2])
        if law.n_types == 1:
            return gaps, np.zeros(len(gaps), dtype=np.int64)
        return gaps, sample_types(law.type_log_probs(gaps), u[:, 2])

    def draft_law(self, work: Work, k: IntArray, gaps: FloatArray, types: IntArray, j: int) -> Law:
        """q(. | history, proposals before j): the draft is fed what it has not seen yet."""
        counts, n, cache = work.counts, len(k), work.draft_cache
        if j == 0:
            if not work.histories.lengths.any():
                return self.draft.initial(n)
            new_gaps, new_types, new = work.histories.pending(cache.lengths, k > 0)
        else:
            new_gaps, new_types, new = gaps[:, j - 1 : j], types[:, j - 1 : j], (k > j).astype(np.int64)
        counts.draft_calls += 1
        positions = int(new.sum())
        counts.draft_row_forwards += positions if j else int((new > 0).sum())
        counts.draft_positions += positions
        law = self.draft.extend(cache, new_gaps, new_types, new)
        m = new_gaps.shape[1]
        return law if m == 1 else law.take(np.arange(n) * m + np.maximum(new - 1, 0))

    def target_pass(self, work: Work, draft: Draft, active: BoolArray) -> tuple[Law, IntArray]:
        """p at positions 0..K of every sequence: the laws, and the row of each (n, K + 1) position among them."""
        counts, n, k_max = work.counts, len(draft.k), draft.gaps.shape[1]
        gaps, types, pending = work.histories.pending(work.target_cache.lengths, active)
        m = gaps.shape[1]
        from_nothing = m == 0
        if from_nothing and k_max == 0:
            return self.target.initial(n), np.arange(n)[:, None]
        gaps, types = np.concatenate([gaps, draft.gaps], axis=1), np.concatenate([types, draft.types], axis=1)
        new = pending + draft.k
        if m > 1:  # prompts of unequal lengths: left-align what each row has
            gaps, types = left_align(gaps, types, pending, m)
        counts.target_calls += 1
        counts.target_row_forwards += int((new > 0).sum())
        counts.target_positions += int(new.sum())
        counts.target_padded_positions += gaps.size - int(new.sum())
        law = self.target.extend(work.target_cache, gaps, types, new)
        width = gaps.shape[1]
        begin = np.arange(n)[:, None] * width
        if from_nothing:
            rows = np.concatenate([n * width + np.arange(n)[:, None], begin + np.arange(k_max)], axis=1)
            return type(law).concat([law, self.target.initial(n)]), rows
        first = np.maximum(pending - 1, 0)[:, None]
        return law, begin + np.minimum(first + np.arange(k_max + 1), width - 1)

    def verify(self, draft: Draft, p: Law, position_rows: IntArray, u: FloatArray) -> Verification:
        """Put every proposal to the rule: the target's law and the draft's at the same (n, K) positions; ``u`` (n, K, 2)."""
        n, k_max = draft.gaps.shape
        if k_max == 0:
            empty, none = np.empty((n, 0)), np.empty((n, 0), dtype=bool)
            return Verification(empty, empty, empty, empty, none, none)
        q = type(draft.laws[0]).concat(draft.laws)
        if n > 1:
            q = q.take((np.arange(k_max) * n + np.arange(n)[:, None]).ravel())
        at = position_rows[:, :k_max].ravel()
        return self.rule.verify(p.take(at), q, draft.gaps, draft.types, u[..., 0], u[..., 1])

    def _last_event(
        self,
        work: Work,
        draft: Draft,
        p: Law,
        position_rows: IntArray,
        verified: Verification,
        u: FloatArray,
        active: BoolArray,
    ) -> LastEvent:
        """Where each row's round ends, and the event drawn there."""
        n, k_max = draft.gaps.shape
        counted = np.arange(k_max) < draft.k[:, None]
        last, todo = LastEvent.blank(n), active.copy()
        while todo.any():  # a second time only for proposals kept because p = q there to within rounding
            refused = counted & ~(verified.gap_accepted & verified.type_accepted)
            first = np.where(refused.any(axis=1), refused.argmax(axis=1), draft.k) if k_max else draft.k
            last.n_accepted = np.where(todo, first, last.n_accepted)
            full = todo & (first == draft.k)
            gap_refused = todo & ~full
            type_refused = np.zeros(n, dtype=bool)
            if gap_refused.any():
                at = np.flatnonzero(gap_refused)
                type_refused[at] = verified.gap_accepted[at, first[at]] & ~self.rule.joint
                gap_refused &= ~type_refused
            todo = np.zeros(n, dtype=bool)
            for rows, draw in ((full, self.bonus), (gap_refused, self.replace_event), (type_refused, self.replace_type)):
                if rows.any():
                    at = np.flatnonzero(rows)
                    again = draw(work, draft, p.take(position_rows[at, first[at]]), at, u[at], last)
                    for row in again:
                        verified.gap_accepted[row, first[row]] = True
                        verified.type_accepted[row, first[row]] |= rows is type_refused or self.rule.joint
                        todo[row] = True
                    work.counts.residual_kept += len(again)
        return last

    def bonus(self, work: Work, draft: Draft, p: Law, at: IntArray, u: FloatArray, last: LastEvent) -> IntArray:
        """All proposals of the rows ``at`` were kept: one more event from the target's law there. None has to be seen again."""
        last.gap[at], last.gap_role[at], last.type_role[at] = p.sample_gap(u[:, :2]), ROLE_TARGET, ROLE_TARGET
        if p.n_types > 1:
            last.type[at] = sample_types(p.type_log_probs(last.gap[at]), u[:, 2])
        return at[:0]

    def replace_event(self, work: Work, draft: Draft, p: Law, at: IntArray, u: FloatArray, last: LastEvent) -> IntArray:
        """The gap was refused: one from its residual, and a type from the target's law of types given that gap.

        Gives the rows whose residual is below resolution: their proposal stays, and the round goes on.
        """
        drawn = self.residual.draw(p, draft.laws_at(at, last.n_accepted[at]), work.ids[at], work.streams.take, self.rule.joint)
        work.counts.residual_draws += int((~drawn.kept).sum())
        work.counts.residual_switches += int(drawn.switched.sum())
        work.counts.residual_give_ups += int(drawn.gave_up.sum())
        last.gap[at], last.gap_role[at], last.type_role[at] = drawn.gap, ROLE_RESIDUAL, ROLE_TARGET
        if self.rule.joint:
            last.type[at], last.type_role[at] = drawn.type, ROLE_RESIDUAL
        elif p.n_types > 1:
            last.type[at] = sample_types(p.type_log_probs(drawn.gap), u[:, 2])
        return at[drawn.kept]

    def replace_type(self, work: Work, draft: Draft, p: Law, at: IntArray, u: FloatArray, last: LastEvent) -> IntArray:
        """The gap was kept and its type refused: a type from the residual of types given that gap."""
        position = last.n_accepted[at]
        q, gap = draft.laws_at(at, position), draft.gaps[at, position]
        types, kept = residual_types(p.type_log_probs(gap), q.type_log_probs(gap), u[:, 2])
        last.gap[at], last.type[at] = gap, types
        last.gap_role[at], last.type_role[at] = ROLE_ACCEPTED, ROLE_RESIDUAL
        work.counts.residual_draws += int((~kept).sum())
        return at[kept]

    def compose(self, draft: Draft, last: LastEvent) -> tuple[FloatArray, IntArray, IntArray]:
        """What the round offers: gaps and types (n, K + 1), and how many of them count (n,)."""
        n = len(draft.k)
        gaps = np.concatenate([draft.gaps, np.zeros((n, 1))], axis=1)
        types = np.concatenate([draft.types, np.zeros((n, 1), dtype=np.int64)], axis=1)
        at = np.arange(n)
        gaps[at, last.n_accepted], types[at, last.n_accepted] = last.gap, last.type
        return gaps, types, last.n_accepted + 1

    def commit(self, work: Work, gaps: FloatArray, types: IntArray, offered: IntArray) -> IntArray:
        """Append what is offered, up to the stop; gives how many were kept (n,)."""
        return work.histories.commit(gaps, types, offered)

    def roll_back(self, work: Work, base: IntArray, n_accepted: IntArray, active: BoolArray) -> None:
        """Both caches hold drafts; only committed ones may stay, less the round's last event, which was never fed."""
        work.target_cache.rollback(np.where(active, base + n_accepted, work.target_cache.lengths))
        work.draft_cache.rollback(np.minimum(work.draft_cache.lengths, base + n_accepted))
