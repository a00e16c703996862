"""Sampler and target-only baseline both condition on one event less than the likelihood: the context of event i - 1 serves event i + 1.

Both arms agree with each other, so that no comparison of the two can see it; the model's own likelihood does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from reference_impls.base import Cache, Law, scores_from_conditionals
from reference_impls.mutants.around import Around
from reference_impls.mutants.base import Mutant
from reference_impls.samplers.speculative import Speculative
from reference_impls.samplers.target_only import TargetOnly
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import FloatArray, IntArray, Scores


class OneBehind:
    """A cache whose model has not seen the last event yet; that event waits here. Implements ``base.Cache``."""

    def __init__(self, inner: Cache, n: int, capacity: int) -> None:
        self.inner, self.lengths = inner, np.zeros(n, dtype=np.int64)
        self.gaps, self.types = np.ones((n, capacity + 1)), np.zeros((n, capacity + 1), dtype=np.int64)

    def rollback(self, lengths: IntArray) -> None:
        self.lengths = np.asarray(lengths, dtype=np.int64).copy()
        self.inner.rollback(np.maximum(self.lengths - 1, 0))

    def keep(self, rows: IntArray) -> None:
        self.lengths, self.gaps, self.types = self.lengths[rows], self.gaps[rows], self.types[rows]
        self.inner.keep(rows)

    def push(self, gaps: FloatArray, types: IntArray, counts: IntArray) -> tuple[FloatArray, IntArray, IntArray]:
        """Take new events in; gives those that are now one behind, for the inner model: (n, m) gaps and types, (n,) counts."""
        n, m = gaps.shape
        extra = int(self.lengths.max()) + m - self.gaps.shape[1]
        if extra > 0:
            more = ((0, 0), (0, extra + m))
            self.gaps, self.types = np.pad(self.gaps, more), np.pad(self.types, more)
        rows, first = np.arange(n)[:, None], self.lengths[:, None]
        self.gaps[rows, first + np.arange(m)], self.types[rows, first + np.arange(m)] = gaps, types
        fed = np.maximum(first - 1, 0) + np.arange(m)
        out = np.maximum(self.gaps[rows, fed], np.finfo(float).tiny), self.types[rows, fed]
        new = np.maximum(self.lengths + counts - 1, 0) - np.maximum(self.lengths - 1, 0)
        self.lengths = self.lengths + counts
        return *out, new


class OneLess(Around):
    """Laws after i events are the inner model's after i - 1."""

    def start(self, n: int, capacity: int) -> OneBehind:
        return OneBehind(self.inner.start(n, capacity), n, capacity)

    def extend(self, cache: Any, gaps: FloatArray, types: IntArray, counts: IntArray) -> Law:
        n, m = gaps.shape
        empty = cache.lengths == 0
        old_gaps, old_types, new = cache.push(gaps, types, counts)
        if not new.any():
            return self.initial(n * m)
        law = self.inner.extend(cache.inner, old_gaps, old_types, new)
        if not empty.any():
            return law
        rows = np.arange(n * m).reshape(n, m)
        rows[empty] = np.concatenate([[n * m], np.arange(m - 1)]) + np.where(
            np.arange(m), m * np.flatnonzero(empty)[:, None], 0
        )
        shifted: Law = type(law).concat([law, self.initial(1)]).take(rows.ravel())
        return shifted

    def law_after(self, gaps: FloatArray, types: IntArray, lengths: IntArray) -> Law:
        n = len(lengths)
        law = self.inner.law_after(gaps, types, np.maximum(lengths - 1, 1))
        shifted: Law = type(law).concat([law, self.initial(1)]).take(np.where(lengths > 1, np.arange(n), n))
        return shifted

    def conditionals(self, batch: EventBatch) -> Law:
        return self.inner.conditionals(batch).take(np.arange(batch.n_events) - (batch.event_index > 0))

    def score(self, batch: EventBatch) -> Scores:
        whole = EventBatch(batch.gaps, batch.types, batch.lengths, batch.n_types)
        laws = self.inner.conditionals(whole)
        last = type(laws).concat([laws, self.initial(1)])
        after = last.take(np.where(batch.lengths > 0, batch.offsets[1:] - 1, len(laws)))
        return scores_from_conditionals(batch, self.conditionals(whole), after)


def one_less(sampler: Speculative, _: float = 1.0) -> Speculative:
    return replace(sampler, target=OneLess(sampler.target), draft=OneLess(sampler.draft))


def one_less_target_only(sampler: Any) -> TargetOnly:
    baseline: TargetOnly = replace(sampler, target=OneLess(sampler.target))
    return baseline


MUTANT = Mutant(
    name="offby1_shared",
    broken="Sampler and target-only baseline both condition on one event less than the likelihood does.",
    precedent="published code of speculative sampling for point processes; reports of shifted contexts in EasyTPP (#48), THP (#10)",
    change=one_less,
    killers=(
        "density_agreement",
        "pit_time",
        "pair",
        "score",
        "strata",
    ),
    blessed_by=(
        "two-sample tests of gaps, types and counts against target-only",
        "mean log-likelihood against target-only",
        "acceptance",
    ),
    shared=one_less_target_only,
)
