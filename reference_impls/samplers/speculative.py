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

import numpy as np
from numpy.typing import NDArray

from reference_impls.base import Cache, Law, Model
from reference_impls.heads.lognormal_mixture import sample_types
from reference_impls.samplers.batching import run_in_batches
from reference_impls.samplers.history import COMPACT, Histories, assemble, prompts_of
from reference_impls.samplers.policy import FixedK, KPolicy
from reference_impls.samplers.recorder import Recorder, RoundRecord
from reference_impls.samplers.residual import ExactResidual, ResidualRule, residual_types
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

_DRAFT_U, _ACCEPT_U, _FINAL_U = 3, 2, 3
"""Uniforms per drafted event (component, normal, type), per verified position (gap, type), and for the last event of a round."""


@dataclass
class Draft:
    """What one round proposed: (n, K) events and the laws they were drawn from, position after position (row j * n + i)."""

    gaps: FloatArray
    types: IntArray
    laws: list[Law]
    k: IntArray
    """(n,) how many of the K columns count."""


@dataclass
class Work:
    """The state of a batch in flight."""

    histories: Histories
    target_cache: Cache
    draft_cache: Cache
    streams: UniformStreams
    ids: IntArray
    policy_state: FloatArray
    round_index: int = 0
    counts: Counts = field(default_factory=Counts)


@dataclass(frozen=True)
class Speculative:
    """The reference sampler. ``rule``, ``residual`` and ``policy`` are the decisions a faulty sampler gets wrong."""

    target: Model
    draft: Model
    policy: KPolicy = field(default_factory=FixedK)
    rule: VerificationRule = field(default_factory=TwoStep)
    residual: ResidualRule = field(default_factory=ExactResidual)
    batch_size: int | None = None

    @property
    def declares(self) -> Declaration:
        return Declaration(
            self.rule.rule, batch_independent=True, reproducible=True, name=f"speculative, K = {self.policy.k_max}"
        )

    def sample(self, request: SampleRequest) -> SampleRun:
        return run_in_batches(self._batch, request, self.batch_size)

    # -- one batch ------------------------------------------------------------------------------------------------------
    def _batch(self, request: SampleRequest) -> SampleRun:
        n = request.n_sequences
        recorder = Recorder(self.rule.joint, self.target.n_types) if request.want_trace else None
        if not n:
            return SampleRun(assemble({}, 0, self.target.n_types, request.stop.horizon))
        work = self._start(request)
        done: dict[int, tuple[FloatArray, IntArray]] = {}
        while len(work.ids):
            record = self._round(work)
            if recorder is not None:
                recorder.add(record)
            active = ~work.histories.finished
            if active.mean() < COMPACT or not active.any():
                for row in np.flatnonzero(~active):
                    done[int(work.ids[row])] = work.histories.output(int(row))
                self._keep(work, np.flatnonzero(active))
        events = assemble(done, n, self.target.n_types, request.stop.horizon)
        return SampleRun(events, work.counts, None if recorder is None else recorder.trace(events))

    def _start(self, request: SampleRequest) -> Work:
        n, k_max = request.n_sequences, self.policy.k_max
        histories = Histories(request, self.target.n_types, prompts_of(request), slack=k_max + 2)
        capacity = histories.gaps.shape[1]
        return Work(
            histories, self.target.start(n, capacity), self.draft.start(n, capacity),
            UniformStreams(request.key, n, request.first_sequence), np.arange(n), self.policy.start(n),
        )  # fmt: skip

    def _keep(self, work: Work, rows: IntArray) -> None:
        work.ids, work.policy_state = work.ids[rows], work.policy_state[rows]
        work.histories.keep(rows)
        if len(rows):
            work.target_cache.keep(rows)
            work.draft_cache.keep(rows)

    # -- one round ------------------------------------------------------------------------------------------------------
    def _round(self, work: Work) -> RoundRecord:
        histories = work.histories
        active = ~histories.finished
        k = self._k(work, active)
        k_max = self.policy.k_max
        u = work.streams.take(work.ids, (_DRAFT_U + _ACCEPT_U) * k_max + _FINAL_U)
        base = histories.lengths.copy()
        draft = self._propose(work, k, u[:, : _DRAFT_U * k_max].reshape(len(k), k_max, _DRAFT_U))
        p, position_rows = self._target_pass(work, draft, active)
        u_accept = u[:, _DRAFT_U * k_max : -_FINAL_U].reshape(len(k), k_max, _ACCEPT_U)[:, : int(k.max(initial=0))]
        verified = self._verify(draft, p, position_rows, u_accept)
        final = self._finish(work, draft, p, position_rows, verified, u[:, -_FINAL_U:], active)
        n_accepted, gap, type_, gap_role, type_role = final
        gaps = np.concatenate([draft.gaps, np.zeros((len(k), 1))], axis=1)
        types = np.concatenate([draft.types, np.zeros((len(k), 1), dtype=np.int64)], axis=1)
        at = np.arange(len(k))
        gaps[at, n_accepted], types[at, n_accepted] = gap, type_
        offered = np.where(active, n_accepted + 1, 0)
        kept = histories.commit(gaps, types, offered)
        # both caches hold drafts; only committed ones, less the round's last event, which was never fed, may stay
        work.target_cache.rollback(np.where(active, base + n_accepted, work.target_cache.lengths))
        work.draft_cache.rollback(np.minimum(work.draft_cache.lengths, base + n_accepted))
        work.policy_state = self.policy.observe(work.policy_state, k, n_accepted)
        record = RoundRecord(
            work.ids.copy(), active, work.round_index, base - histories.prompt_lengths, k, n_accepted, draft.gaps, draft.types,
            verified, gap_role, type_role, kept, offered,
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

    def _propose(self, work: Work, k: IntArray, u: FloatArray) -> Draft:
        """K events in sequence from the draft; ``u`` (n, k_max, 3)."""
        n, k_max = len(k), int(k.max(initial=0))
        gaps, types = np.ones((n, k_max)), np.zeros((n, k_max), dtype=np.int64)
        laws: list[Law] = []
        for j in range(k_max):
            law = self._draft_law(work, k, gaps, types, j)
            gaps[:, j] = law.sample_gap(u[:, j, :2])
            if self.draft.n_types > 1:
                types[:, j] = sample_types(law.type_log_probs(gaps[:, j]), u[:, j, 2])
            laws.append(law)
        work.counts.drafted += int(k.sum())
        return Draft(gaps, types, laws, k)

    def _draft_law(self, work: Work, k: IntArray, gaps: FloatArray, types: IntArray, j: int) -> Law:
        counts, n, cache = work.counts, len(k), work.draft_cache
        if j == 0:
            if not work.histories.lengths.any():
                return self.draft.initial(n)
            new_gaps, new_types, new = work.histories.pending(cache.lengths, k > 0)
        else:
            new_gaps, new_types, new = gaps[:, j - 1 : j], types[:, j - 1 : j], (k > j).astype(np.int64)
        counts.draft_calls += 1
        counts.draft_row_forwards += int((new > 0).sum())
        counts.draft_positions += int(new.sum())
        law = self.draft.extend(cache, new_gaps, new_types, new)
        m = new_gaps.shape[1]
        return law if m == 1 else law.take(np.arange(n) * m + np.maximum(new - 1, 0))

    def _target_pass(self, work: Work, draft: Draft, active: BoolArray) -> tuple[Law, IntArray]:
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
            gaps, types = _left_align(gaps, types, pending, m)
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

    def _verify(self, draft: Draft, p: Law, position_rows: IntArray, u: FloatArray) -> Verification:
        n, k_max = draft.gaps.shape
        if k_max == 0:
            empty, none = np.empty((n, 0)), np.empty((n, 0), dtype=bool)
            return Verification(empty, empty, empty, empty, none, none)
        q = type(draft.laws[0]).concat(draft.laws)
        if n > 1:
            q = q.take((np.arange(k_max) * n + np.arange(n)[:, None]).ravel())
        at = position_rows[:, :k_max].ravel()
        return self.rule.verify(p.take(at), q, draft.gaps, draft.types, u[..., 0], u[..., 1])

    def _finish(
        self,
        work: Work,
        draft: Draft,
        p: Law,
        position_rows: IntArray,
        verified: Verification,
        u: FloatArray,
        active: BoolArray,
    ) -> tuple[IntArray, FloatArray, IntArray, NDArray[np.int8], NDArray[np.int8]]:
        """The last event of the round: (accepted before it (n,), gap, type, gap role, type role)."""
        n, k_max = draft.gaps.shape
        counted = np.arange(k_max) < draft.k[:, None]
        gap, type_ = np.ones(n), np.zeros(n, dtype=np.int64)
        gap_role, type_role = np.full(n, ROLE_TARGET, dtype=np.int8), np.full(n, ROLE_TARGET, dtype=np.int8)
        todo = active.copy()
        n_accepted = np.zeros(n, dtype=np.int64)
        while todo.any():  # a second time only for proposals kept because p = q there to within rounding
            refused = counted & ~(verified.gap_accepted & verified.type_accepted)
            first = np.where(refused.any(axis=1), refused.argmax(axis=1), draft.k) if k_max else draft.k
            n_accepted = np.where(todo, first, n_accepted)
            full = todo & (first == draft.k)
            gap_refused = todo & ~full
            type_refused = np.zeros(n, dtype=bool)
            if gap_refused.any():
                at = np.flatnonzero(gap_refused)
                type_refused[at] = verified.gap_accepted[at, first[at]] & ~self.rule.joint
                gap_refused &= ~type_refused
            todo = np.zeros(n, dtype=bool)
            for rows, handle in ((full, self._bonus), (gap_refused, self._replace_event), (type_refused, self._replace_type)):
                if rows.any():
                    at = np.flatnonzero(rows)
                    law = p.take(position_rows[at, first[at]])
                    again = handle(work, draft, law, at, first[at], u[at], gap, type_, gap_role, type_role)
                    for row in again:
                        verified.gap_accepted[row, first[row]] = True
                        verified.type_accepted[row, first[row]] |= rows is type_refused or self.rule.joint
                        todo[row] = True
                    work.counts.residual_kept += len(again)
        return n_accepted, gap, type_, gap_role, type_role

    def _bonus(
        self, work: Work, draft: Draft, p: Law, at: IntArray, position: IntArray, u: FloatArray, gap: FloatArray,
        type_: IntArray, gap_role: NDArray[np.int8], type_role: NDArray[np.int8],
    ) -> IntArray:  # fmt: skip
        gap[at], gap_role[at], type_role[at] = p.sample_gap(u[:, :2]), ROLE_TARGET, ROLE_TARGET
        if p.n_types > 1:
            type_[at] = sample_types(p.type_log_probs(gap[at]), u[:, 2])
        return at[:0]

    def _replace_event(
        self, work: Work, draft: Draft, p: Law, at: IntArray, position: IntArray, u: FloatArray, gap: FloatArray,
        type_: IntArray, gap_role: NDArray[np.int8], type_role: NDArray[np.int8],
    ) -> IntArray:  # fmt: skip
        q = self._q(draft, at, position)
        drawn = self.residual.draw(p, q, work.ids[at], work.streams.take, self.rule.joint)
        work.counts.residual_draws += int((~drawn.kept).sum())
        work.counts.residual_switches += int(drawn.switched.sum())
        work.counts.residual_give_ups += int(drawn.gave_up.sum())
        gap[at], gap_role[at], type_role[at] = drawn.gap, ROLE_RESIDUAL, ROLE_TARGET
        if self.rule.joint:
            type_[at], type_role[at] = drawn.type, ROLE_RESIDUAL
        elif p.n_types > 1:
            type_[at] = sample_types(p.type_log_probs(gap[at]), u[:, 2])
        return at[drawn.kept]

    def _replace_type(
        self, work: Work, draft: Draft, p: Law, at: IntArray, position: IntArray, u: FloatArray, gap: FloatArray,
        type_: IntArray, gap_role: NDArray[np.int8], type_role: NDArray[np.int8],
    ) -> IntArray:  # fmt: skip
        q = self._q(draft, at, position)
        gap[at] = draft.gaps[at, position]
        types, kept = residual_types(p.type_log_probs(gap[at]), q.type_log_probs(gap[at]), u[:, 2])
        type_[at] = types
        gap_role[at], type_role[at] = ROLE_ACCEPTED, ROLE_RESIDUAL
        work.counts.residual_draws += int((~kept).sum())
        return at[kept]

    @staticmethod
    def _q(draft: Draft, at: IntArray, position: IntArray) -> Law:
        """The draft's laws at one position of each named row."""
        if len(at) == 1:
            return draft.laws[int(position[0])].take(at)
        joined: Law = type(draft.laws[0]).concat(draft.laws)
        picked: Law = joined.take(position * len(draft.k) + at)
        return picked


def _left_align(gaps: FloatArray, types: IntArray, pending: IntArray, m: int) -> tuple[FloatArray, IntArray]:
    """Move each row's drafts (columns m and on) up to its own ``pending`` count."""
    width = gaps.shape[1]
    columns = np.arange(width)
    source = np.where(columns < pending[:, None], columns, np.minimum(columns + (m - pending[:, None]), width - 1))
    return np.take_along_axis(gaps, source, 1), np.take_along_axis(types, source, 1)
