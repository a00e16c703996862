"""Bets on named alternatives: the draft's law left in the output, and the target's own law one event behind.

Both are mixtures (1 - lambda) p + lambda q with q known before the draw: the likelihood ratio 1 + lambda (q/p - 1) is never negative
and has mean 1 under p. Before a horizon the crossing draw's ratio is that of the survival functions.
"""

from __future__ import annotations

import numpy as np

from tppsd_bench.protocols import Conditional, FloatArray
from tppsd_bench.stats.eprocess.base import Design, Family, mixtures, phrases
from tppsd_bench.stats.eprocess.chunk import Chunk

WEIGHTS = (0.01, 0.03, 0.1, 0.3, 0.9)


class Draft(Family):
    """(1 - lambda) p + lambda q, q the draft: most faults leave some of it, pooled or at one place of the round."""

    name = "draft direction"

    def bets(self, design: Design) -> tuple[str, ...]:
        if not design.draft:
            return ()
        gaps = phrases(WEIGHTS, ("gaps towards the draft",), design.places)
        return gaps + (phrases(WEIGHTS, ("types towards the draft",), design.places) if design.marked else ())

    def growth(self, chunk: Chunk, design: Design) -> FloatArray:
        q = chunk.draft_laws
        assert q is not None
        events = slice(None) if not chunk.censored else np.flatnonzero(chunk.is_event)
        of_events = q if not chunk.censored else q.take(events)
        survival = None
        if chunk.censored:
            survival = _log_sf(q.take(np.flatnonzero(~chunk.is_event)), chunk.time_left) - chunk.log_survival
        return _two(chunk, design, of_events, survival)


class Behind(Family):
    """(1 - lambda) p + lambda p', p' the target's law of the event before: histories that are one event short."""

    name = "one event behind"

    def bets(self, design: Design) -> tuple[str, ...]:
        if not design.laws:
            return ()
        gaps = phrases(WEIGHTS, ("gaps towards the law one event behind",), design.places)
        types = phrases(WEIGHTS, ("types towards the law one event behind",), design.places) if design.marked else ()
        return gaps + types

    def growth(self, chunk: Chunk, design: Design) -> FloatArray:
        p, batch = chunk.target_laws, chunk.batch
        assert p is not None
        rows = np.maximum(np.arange(batch.n_events) - 1, 0)
        survival = None
        if chunk.censored:
            last = np.maximum(batch.offsets[1:] - 1, 0)
            some = batch.lengths > 0
            log_sf = _log_sf(p.take(last), chunk.time_left) if batch.n_events else np.zeros(len(batch))
            survival = np.where(some, log_sf - chunk.log_survival, 0.0)
        return _two(chunk, design, p.take(rows), survival, skip_first=True)


def _log_sf(law: Conditional, gap: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.log(law.sf(gap))


def _two(chunk: Chunk, design: Design, q: Conditional, survival: FloatArray | None, *, skip_first: bool = False) -> FloatArray:
    """Gaps, then types, against ``q`` (one row an event)."""
    batch = chunk.batch
    with np.errstate(invalid="ignore"):
        gaps = q.log_prob(batch.gaps) - chunk.scores.log_density
    if skip_first:
        gaps = np.where(batch.event_index == 0, 0.0, gaps)
    segments = chunk.by_place
    out = mixtures(segments, segments.sort(chunk.spread(gaps, survival)), WEIGHTS)
    if not design.marked:
        return out
    at = np.arange(batch.n_events)
    with np.errstate(invalid="ignore"):
        types = q.type_log_probs(batch.gaps)[at, batch.types] - chunk.log_type_probs[batch.types, at]
    if skip_first:
        types = np.where(batch.event_index == 0, 0.0, types)
    return np.concatenate([out, mixtures(segments, segments.sort(chunk.spread(types)), WEIGHTS)])
