"""Rounds of speculative sampling along given sequences: how many, and what each position accepts, without running the sampler.

An exact sampler's sequences have the target's law, and given the sequence each verified event was accepted, whatever happened
before, with probability a_i = min(p, q) / p at the event itself (gap and type each, where both are verified). So the position in
its round is a Markov chain along the sequence: from position j < K to j + 1 with a_i, to 0 (a new round) with 1 - a_i, from the bonus
position K to 0. The expected rounds, drafts and acceptances of a run follow at every K by one forward pass over a sample of the
target's own sequences. Acceptance that clusters, and rounds that begin where the draft fails, are in it; a constant alpha has neither.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import ConditionalTarget, Rule

FloatArray = NDArray[np.float64]


def acceptance_along(target: ConditionalTarget, draft: ConditionalTarget, histories: EventBatch, rule: Rule) -> FloatArray:
    """(N,) P(event i was accepted | it was verified, the sequence), in the flat order of ``histories``, drawn from the target.

    Two-step rules: min(1, q/p)(gap) x min(1, q/p)(type | gap); joint rules: min(1, q/p)(gap, type). ValueError for other rules.
    """
    if rule not in ("leviathan_two_step", "leviathan_joint"):
        raise ValueError(
            f"The rule {rule!r} has no acceptance that is known from the two laws; use leviathan_two_step or _joint."
        )
    p, q = target.conditionals(histories), draft.conditionals(histories)
    gaps, rows = histories.gaps, np.arange(histories.n_events)
    gap = q.log_prob(gaps) - p.log_prob(gaps)
    kind = (q.type_log_probs(gaps) - p.type_log_probs(gaps))[rows, histories.types] if p.n_types > 1 else np.zeros(len(gap))
    joint = rule == "leviathan_joint"
    out: FloatArray = np.exp(np.minimum(gap + kind, 0.0) if joint else np.minimum(gap, 0.0) + np.minimum(kind, 0.0))
    return out


@dataclass(frozen=True)
class ExpectedRounds:
    """What a run of m events is expected to take at one K, a sequence; last rounds draft less."""

    k: int
    n_events: int
    """m."""
    n_sequences: int
    """Of the sample that it was computed from."""
    rounds: float
    rounds_error: float
    """Standard error of ``rounds``, over sequences."""
    drafted: float
    verified: FloatArray
    """(K,) by position in the round."""
    accepted: FloatArray

    @property
    def committed_per_round(self) -> float:
        return self.n_events / self.rounds

    @property
    def drafted_per_round(self) -> float:
        return self.drafted / self.rounds

    @property
    def alpha(self) -> FloatArray:
        """(K,) accepted / verified; NaN at positions that no round reaches."""
        out: FloatArray = np.divide(self.accepted, self.verified, out=np.full(self.k, np.nan), where=self.verified > 0)
        return out


def expected_rounds(acceptance: FloatArray, k: int) -> ExpectedRounds:
    """Expected counts of runs of m events at K = ``k`` from the (n, m) acceptance of n sequences of the target.

    K is cut to the events that are left less one, as the round's last event is the target's: k' = min(K, m - 1 - start).
    """
    n, m = acceptance.shape
    at = np.zeros((n, k + 1))  # P(this event stands at position j of its round)
    at[:, 0] = 1.0
    rounds, drafted, verified, accepted = np.zeros(n), 0.0, np.zeros(k), np.zeros(k)
    for i in range(m):
        rounds += at[:, 0]
        drafted += min(k, m - 1 - i) * float(at[:, 0].sum())
        if i == m - 1:
            break
        kept = at[:, :k] * acceptance[:, i, None]
        verified += at[:, :k].sum(axis=0)
        accepted += kept.sum(axis=0)
        ended = at.sum(axis=1) - kept.sum(axis=1)
        at[:, 1:], at[:, 0] = kept, ended
    error = float(rounds.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return ExpectedRounds(k, m, n, float(rounds.mean()), error, drafted / n, verified / n, accepted / n)
