"""After a rejection the target's cache keeps the refused proposal, so that what follows conditions on an event that never was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from reference_impls.base import Cache, Law
from reference_impls.mutants.around import Around
from reference_impls.mutants.base import Mutant
from tppsd_bench.protocols import FloatArray, IntArray


class StaleCache:
    """A cache that never forgets the first of the events it is told to forget. Implements ``base.Cache``.

    ``lengths`` counts events as its user does; ``stale`` (n,) more of them are in the inner cache.
    """

    def __init__(self, inner: Cache, n: int) -> None:
        self.inner, self.stale = inner, np.zeros(n, dtype=np.int64)

    @property
    def lengths(self) -> IntArray:
        return self.inner.lengths - self.stale

    def rollback(self, lengths: IntArray) -> None:
        self.stale = self.stale + (self.lengths > lengths)
        self.inner.rollback(lengths + self.stale)

    def keep(self, rows: IntArray) -> None:
        self.stale = self.stale[rows]
        self.inner.keep(rows)


class Stale(Around):
    """A model whose caches do not forget a refused proposal."""

    def start(self, n: int, capacity: int) -> StaleCache:
        return StaleCache(self.inner.start(n, capacity), n)

    def extend(self, cache: Any, gaps: FloatArray, types: IntArray, counts: IntArray) -> Law:
        return self.inner.extend(cache.inner, gaps, types, counts)


MUTANT = Mutant(
    name="stale_history",
    broken="After a rejection the target's cache is not rolled back over the refused proposal, and what follows conditions on it.",
    precedent="key/value caches of rejected tokens left in place: vLLM #9730, openvino.genai #4190",
    change=lambda sampler, _: replace(sampler, target=Stale(sampler.target)),
    killers=(
        "density_agreement.p",
        "pit_time",
        "pit_type",
        "pair",
        "strata",
        "draft_direction",
    ),
    blessed_by=(
        "counts in a window",
        "mean log-likelihood",
        "acceptance",
    ),
    gross=False,
)
