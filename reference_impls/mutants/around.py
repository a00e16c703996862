"""A model around another: everything passes through, until a fault overrides the step that it breaks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reference_impls.base import Law, Model
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import FloatArray, IntArray, Scores


@dataclass(frozen=True)
class Around:
    """The inner model, unchanged. Implements ``base.Model``."""

    inner: Model

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def n_types(self) -> int:
        return self.inner.n_types

    def start(self, n: int, capacity: int) -> Any:
        return self.inner.start(n, capacity)

    def initial(self, n: int) -> Law:
        return self.inner.initial(n)

    def extend(self, cache: Any, gaps: FloatArray, types: IntArray, counts: IntArray) -> Law:
        return self.inner.extend(cache, gaps, types, counts)

    def law_after(self, gaps: FloatArray, types: IntArray, lengths: IntArray) -> Law:
        return self.inner.law_after(gaps, types, lengths)

    def score(self, batch: EventBatch) -> Scores:
        return self.inner.score(batch)

    def conditionals(self, batch: EventBatch) -> Law:
        return self.inner.conditionals(batch)
