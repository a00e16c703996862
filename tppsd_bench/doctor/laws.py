"""Measured on the laws: acceptance by quadrature, next-event predictions, buckets, over sequences that the target itself drew.

Intervals are over sequences, never over the events of one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tppsd_bench.doctor.base import Estimate
from tppsd_bench.doctor.measurements import Acceptance, Accuracy, Buckets
from tppsd_bench.events import EventBatch
from tppsd_bench.measure.acceptance import ExactAcceptance, acceptance_by_position, exact_acceptance
from tppsd_bench.measure.promise import N_LEVELS
from tppsd_bench.protocols import BucketedConditional, Conditional, FloatArray, IntArray, SampleRun

Z95 = 1.959963984540054
CONTEXTS = 12
"""Histories of each sequence."""
FEWEST = 200
"""Verifications at a position from which its own rate is used; beyond it positions are pooled."""
TIED = 1e-9
"""Relative distance at which a gap counts as lying on an edge or a middle."""


def over_sequences(total: FloatArray, count: FloatArray | None = None) -> Estimate:
    """Ratio of sums over sequences (the mean, where ``count`` is left out), with a 95 % interval by the delta method."""
    n = np.ones(len(total)) if count is None else count
    ratio = float(total.sum() / n.sum())
    off = total - ratio * n
    half = Z95 * math.sqrt(float(off @ off) * len(total) / max(len(total) - 1, 1)) / float(n.sum())
    return Estimate(ratio, ratio - half, ratio + half)


@dataclass(frozen=True)
class Histories:
    """Sequences of one length, drawn by the target, and the events of each at which laws are compared."""

    events: EventBatch
    at: IntArray
    """(sequences, contexts) global indices: even distances, a shifted start, so that every position gets its weight."""

    @classmethod
    def of(cls, events: EventBatch, contexts: int = CONTEXTS) -> Histories:
        n, length = len(events), int(events.lengths[0])
        each = min(contexts, length)
        shift = (np.arange(n) + 0.5) / n
        inside = np.floor((np.arange(each) + shift[:, None]) * length / each).astype(np.int64)
        return cls(events, events.offsets[:-1, None] + inside)

    def laws(self, model: Any) -> Conditional:
        found: Conditional = model.conditionals(self.events).take(self.at.ravel())
        return found

    def mean(self, values: FloatArray, columns: slice = slice(None)) -> Estimate:
        """Mean over histories, or over some columns of them."""
        each = values.reshape(self.at.shape)[:, columns]
        return over_sequences(each.sum(axis=1), np.full(len(each), float(each.shape[1])))


def acceptance(h: Histories, target: Any, draft: Any, *, joint: bool) -> Acceptance:
    """Exact acceptance of the event by the rule, of gap and type, and along the sequence."""
    found = exact_acceptance(h.laws(target), h.laws(draft), n_levels=N_LEVELS)
    event = found.joint if joint else found.two_step
    third = max(1, h.at.shape[1] // 3)
    first, last = (event.reshape(h.at.shape)[:, s].mean(axis=1) for s in (slice(0, third), slice(-third, None)))
    return Acceptance(
        event=h.mean(event), gap=None if joint else h.mean(found.gap), type=None if joint else _type(found, h, target.n_types),
        early=over_sequences(first), late=over_sequences(last), fade=over_sequences(first - last), n_contexts=h.at.size,
    )  # fmt: skip


def _type(found: ExactAcceptance, h: Histories, n_types: int) -> Estimate | None:
    """A ratio of means: a gap that is refused asks no type."""
    if n_types == 1:
        return None
    event, gap = (v.reshape(h.at.shape).sum(axis=1) for v in (found.two_step, found.gap))
    return over_sequences(event, gap)


def accuracy(events: EventBatch, target: Any, draft: Any) -> Accuracy:
    """Most likely type, median gap and likelihood of every event, draft beside target."""
    n, length = len(events), int(events.lengths[0])
    per = {}
    for name, model in (("target", target), ("draft", draft)):
        law = model.conditionals(events)
        types = law.type_log_probs(events.gaps)
        median = law.quantile(np.full(len(law), 0.5))
        per[name] = np.stack([
            types.argmax(axis=1) == events.types,
            np.abs(np.log(events.gaps) - np.log(median)),
            -(law.log_prob(events.gaps) + types[np.arange(len(types)), events.types]),
        ]).reshape(3, n, length).mean(axis=2)  # fmt: skip
    columns = [per["target"], per["draft"], per["draft"] - per["target"]]
    right, gap, nll = ([over_sequences(c[i]) for c in columns] for i in range(3))
    kinds: Sequence[Estimate | None] = right if target.n_types > 1 else (None, None, None)
    return Accuracy(kinds[0], kinds[1], kinds[2], *gap, *nll)


def positions(run: SampleRun) -> tuple[tuple[float, ...], tuple[int, ...], float | None]:
    """(alpha_j, verified at j, largest |log p - log q|) of a traced run; the last alpha pools all positions that few rounds reach."""
    if run.trace is None:
        return (), (), None
    rates = acceptance_by_position(run.trace).event
    log_ratio = np.abs(run.trace.log_p - run.trace.log_q)
    largest = float(log_ratio.max()) if len(log_ratio) else None
    return *leading_rates(rates.verified, rates.accepted), largest


def leading_rates(verified: IntArray, accepted: IntArray) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """(alpha_j, verified at j): rates of the leading positions with ``FEWEST`` verifications or more, then one for all others.

    Too few for a rate at the first position: no alpha at all.
    """
    enough = int((verified >= FEWEST).cumprod().sum())
    alpha = [float(a) for a in accepted[:enough] / np.maximum(verified[:enough], 1)]
    if (seen := int(verified[enough:].sum())) >= FEWEST:
        alpha.append(float(accepted[enough:].sum()) / seen)
    return tuple(alpha), tuple(int(v) for v in verified)


def accepted_per_round(run: SampleRun, k: int) -> Estimate | None:
    """Mean accepted in the rounds that drafted all of K, over sequences."""
    if run.trace is None:
        return None
    full = run.trace.round_drafted == k
    if not full.any():
        return None
    of, n = run.trace.round_sequence[full], len(run.events)
    accepted = run.trace.round_accepted[full].astype(np.float64)
    each = [np.bincount(of, weight, n).astype(np.float64) for weight in (accepted, np.ones(len(of)))]
    return over_sequences(*each)


def cache_use(run: SampleRun) -> tuple[float | None, float | None]:
    """(positions a row of a target pass, share of positions found in the cache)."""
    c = run.counts
    if not c.target_row_forwards:
        return None, None
    each = c.target_positions / c.target_row_forwards
    if run.trace is None:
        return each, None
    t = run.trace
    before = np.cumsum(t.round_committed) - t.round_committed
    first = np.r_[True, np.diff(t.round_sequence) != 0]
    order = np.arange(len(before))
    start = before - before[np.maximum.accumulate(np.where(first, order, 0))]
    return each, float(start.sum() / max(start.sum() + c.target_positions, 1))


def buckets(h: Histories, target: Any, draft: Any) -> Buckets | None:
    """Where the events' mass lies among the buckets; None where the target's law has none."""
    law = h.laws(target)
    if not isinstance(law, BucketedConditional):
        return None
    breaks = np.asarray(law.gap_breaks)
    breaks = _outer(target, breaks)
    cdf = law.cdf(np.broadcast_to(breaks, (len(law), len(breaks))))
    open_mass = law.sf(np.full(len(law), breaks[-1]))
    mass = np.diff(np.concatenate([np.zeros((len(law), 1)), cdf], axis=1), axis=1)
    fullest = np.maximum(mass.max(axis=1), open_mass)
    on = _tied(h.events.gaps, breaks).reshape(len(h.events), -1)
    bases = [getattr(model, "base", None) for model in (target, draft)]
    continuous = None
    if all(hasattr(b, "conditionals") for b in bases):
        found = exact_acceptance(*(h.laws(b) for b in bases), n_levels=N_LEVELS)
        continuous = h.mean(found.joint)
    over_tokens = exact_acceptance(law, h.laws(draft), n_levels=N_LEVELS).joint
    own = getattr(target, "buckets", None)
    return Buckets(
        len(breaks) + 1, str(getattr(own, "strategy", "")), h.mean(open_mass), h.mean(fullest), over_sequences(on.mean(axis=1)),
        h.mean(over_tokens), continuous,
    )  # fmt: skip


def _outer(target: Any, breaks: FloatArray) -> FloatArray:
    """The inner edges of the buckets themselves where the target names them: breaks may also cut within laws."""
    edges = getattr(getattr(target, "buckets", None), "edges", None)
    return breaks if edges is None else np.asarray(edges)[1:-1]


def _tied(gaps: FloatArray, breaks: FloatArray) -> FloatArray:
    """1.0 where a gap lies on an edge or in the very middle of a bucket."""
    edges = np.concatenate([[0.0], breaks])
    places = np.sort(np.concatenate([breaks, 0.5 * (edges[1:] + edges[:-1])]))
    right = np.minimum(np.searchsorted(places, gaps), len(places) - 1)
    nearest = np.minimum(np.abs(places[right] - gaps), np.abs(places[np.maximum(right - 1, 0)] - gaps))
    out: FloatArray = (nearest <= TIED * gaps).astype(np.float64)
    return out
