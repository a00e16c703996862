"""Where a pair is looked at: one event of each of the target's own sequences, so that contexts are independent; gaps for buckets."""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tppsd_bench.events import EventBatch
from tppsd_bench.measure.histories import ratio_over_sequences, spread_over
from tppsd_bench.protocols import Conditional, FloatArray, IntArray, SampleRequest, Stop
from tppsd_bench.runner.plan import Job
from tppsd_bench.streams import StreamKey
from tppsd_bench.studies.buckets.lab import TokenLab
from tppsd_bench.studies.buckets.table import Buckets

_BATCH = 128


def lab_of(table: Buckets) -> TokenLab:
    """The implementation of tokens that the suite names."""
    module, _, name = table.tokens.partition(":")
    made: TokenLab = getattr(importlib.import_module(module), name)()
    return made


def mean(values: FloatArray) -> dict[str, float]:
    """{value, low, high}: mean over contexts, 95 % by t; of numbers that cannot be negative the interval begins at 0."""
    found = ratio_over_sequences(np.asarray(values, dtype=np.float64), np.ones(len(values)))
    return found | {"low": max(found["low"], 0.0)} if (values >= 0).all() else found


@dataclass(frozen=True)
class Contexts:
    """A pair's histories, drawn when first asked for."""

    job: Job
    pair: Any

    @property
    def table(self) -> Buckets:
        assert isinstance(self.job.table, Buckets)
        return self.job.table

    @cached_property
    def lab(self) -> TokenLab:
        return lab_of(self.table)

    def key(self, arm: str, purpose: str = "sampler") -> StreamKey:
        """Streams by pair and use, whatever the cell: cells of a pair see the same histories."""
        cell = f"buckets.{self.job.pair}"
        return StreamKey(seed=self.job.seed, suite=self.job.suite, cell=cell, stage="histories", arm=arm, purpose=purpose)

    @cached_property
    def histories(self) -> EventBatch:
        return self._drawn(self.table.contexts, "contexts")

    @cached_property
    def gaps(self) -> FloatArray:
        """Gaps of other sequences, for fitting."""
        return self._drawn(math.ceil(self.table.fit_events / self.job.length), "fit").gaps

    def _drawn(self, n: int, arm: str) -> EventBatch:
        request = SampleRequest(n, Stop(n_events=self.job.length), self.key(arm), device=self.job.device, want_trace=False)
        events: EventBatch = self.pair.sampler("target_only", batch_size=_BATCH).sample(request).events
        return events

    @cached_property
    def rows(self) -> IntArray:
        """One event of each sequence, every position with its due weight."""
        lengths = self.histories.lengths
        return spread_over(lengths, np.zeros_like(lengths), lengths, 1)

    @cached_property
    def target(self) -> Conditional:
        """The target's laws there."""
        law: Conditional = self.pair.target.conditionals(self.histories).take(self.rows)
        return law

    def draft(self, name: str) -> Conditional:
        law: Conditional = self.pair.drafts[name].conditionals(self.histories).take(self.rows)
        return law

    def buckets(self, strategy: str, n: int, within: str = "") -> Any:
        """Fitted to ``gaps``; InputError where these allow no such buckets."""
        return self.lab.fit(self.gaps, n, strategy, within or self.table.within[0])
