"""What has probability 0 under exactness: seen once, no finite wealth says enough. The e-process is infinite from there on."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tppsd_bench.protocols import ROLE_ACCEPTED, ROLE_RESIDUAL, BoolArray, FloatArray, IntArray
from tppsd_bench.results import Axis
from tppsd_bench.stats.eprocess.base import Design
from tppsd_bench.stats.eprocess.chunk import Chunk
from tppsd_bench.stats.eprocess.verification import VERIFYING, log_acceptance_ratio, record_rows
from tppsd_bench.stats.whitebox.contexts import log_prob_of_records

LOG_NEVER = -45.0
"""Acceptance probability 3e-20."""
TELLING_GAPS = 4
"""First gaps that two sequences of a continuous law never share; of shorter sequences two suffice."""
Proof = tuple[int, Axis, str]
"""(sequence within the chunk, what it is proof against, what happened)."""


@dataclass
class Proofs:
    """Finds such events; remembers how sequences began, so that a copy is known as one."""

    tol: float
    """Rounding of log densities between the sampler's pass and a teacher-forced one."""
    _seen: set[bytes] = field(default_factory=set)

    def find(self, chunk: Chunk, design: Design) -> list[Proof]:
        """The first proof of each kind in the chunk."""
        found = [self._copies(chunk), _zero_density(chunk), _zero_type(chunk, design)]
        if design.trace and design.rule in VERIFYING:
            found += [_decision(chunk, design, self.tol), _residual(chunk, design, self.tol), *_densities(chunk, self.tol)]
            found += [_after_the_end(chunk)]
        return [proof for proof in found if proof is not None]

    def _copies(self, chunk: Chunk) -> Proof | None:
        batch = chunk.batch
        first = None
        for i, (start, length) in enumerate(zip(batch.offsets[:-1].tolist(), batch.lengths.tolist(), strict=True)):
            if length < 2:
                continue
            beginning = batch.gaps[start : start + min(length, TELLING_GAPS)].tobytes()
            if beginning in self._seen and first is None:
                first = (i, Axis.LAW, "a sequence repeats an earlier one")
            self._seen.add(beginning)
        return first


def _first(at: BoolArray, sequence: IntArray, axis: Axis, what: str) -> Proof | None:
    return (int(sequence[at].min()), axis, what) if at.any() else None


def _zero_density(chunk: Chunk) -> Proof | None:
    at = np.isneginf(chunk.scores.log_density)
    return _first(at, chunk.batch.sequence_index, Axis.LAW, "a gap where the target's density is 0")


def _zero_type(chunk: Chunk, design: Design) -> Proof | None:
    batch = chunk.batch
    at = chunk.scores.type_probs[np.arange(batch.n_events), batch.types] <= 0
    return _first(at, batch.sequence_index, Axis.LAW, "a type that the target gives probability 0")


def _decision(chunk: Chunk, design: Design, tol: float) -> Proof | None:
    t, ratio = chunk.trace, log_acceptance_ratio(chunk, design)
    never, always = np.isnan(ratio) | (ratio < LOG_NEVER), ratio > tol
    at = np.where(t.accepted, never, always)
    return _first(at, t.sequence, Axis.MECHANISM, "a verification against a certain one")


def _residual(chunk: Chunk, design: Design, tol: float) -> Proof | None:
    """A replacement drawn where the draft is denser than the target, which (p - q)+ never does (not under exact match)."""
    if chunk.target_laws is None or chunk.draft_laws is None or design.rule == "exact_match":
        return None
    t, batch = chunk.trace, chunk.batch
    joint = design.rule == "leviathan_joint"
    of_gap = np.flatnonzero(t.gap_role == ROLE_RESIDUAL)
    of_type = np.flatnonzero((t.gap_role == ROLE_ACCEPTED) & (t.type_role == ROLE_RESIDUAL) & design.marked)
    ratio = np.concatenate([_log_ratio(chunk, of_gap, True, joint), _log_ratio(chunk, of_type, False, True)])
    sequence = batch.sequence_index[np.concatenate([of_gap, of_type])]
    return _first(ratio < -tol, sequence, Axis.MECHANISM, "a replacement that the residual law never draws")


def _after_the_end(chunk: Chunk) -> Proof | None:
    t, batch = chunk.trace, chunk.batch
    same_round = (np.diff(batch.sequence_index) == 0) & (np.diff(t.event_round) == 0)
    ended = (t.gap_role != ROLE_ACCEPTED) | (t.type_role != ROLE_ACCEPTED)
    return _first(same_round & ended[:-1], batch.sequence_index[1:], Axis.MECHANISM, "an event kept after its round had ended")


def _densities(chunk: Chunk, tol: float) -> list[Proof | None]:
    """A reported log density that is not the law's own, by a teacher-forced pass: wrong rows, leaks, stale or shifted histories."""
    t, found = chunk.trace, []
    for law, reported, crossing, whose in (
        (chunk.target_laws, t.log_p, False, "target"),
        (chunk.draft_laws, t.log_q, chunk.censored, "draft"),
    ):
        if law is None:
            continue
        row = record_rows(chunk, crossing=crossing)
        own = log_prob_of_records(law, t, row)
        with np.errstate(invalid="ignore"):
            agrees = (np.abs(reported - own) <= tol) | (reported == own)
        what = f"a reported log density that is not the {whose}'s"
        found.append(_first(~agrees & (row >= 0), t.sequence, Axis.MECHANISM, what))
    return found


def _log_ratio(chunk: Chunk, at: IntArray, gap: bool, type_: bool) -> FloatArray:
    """(len(at),) log p - log q of emitted events; 0 where it is not a number."""
    batch, p, q = chunk.batch, chunk.target_laws, chunk.draft_laws
    assert p is not None
    assert q is not None
    if not len(at):
        return np.empty(0)
    x, k = batch.gaps[at], batch.types[at]
    of_q = q.take(at + batch.sequence_index[at] if chunk.censored else at)
    of_p, every = p.take(at), np.arange(len(at))
    ratio = np.zeros(len(at))
    with np.errstate(invalid="ignore"):
        if gap:
            ratio = ratio + of_p.log_prob(x) - of_q.log_prob(x)
        if type_:
            ratio = ratio + of_p.type_log_probs(x)[every, k] - of_q.type_log_probs(x)[every, k]
    return np.nan_to_num(ratio, nan=0.0)
