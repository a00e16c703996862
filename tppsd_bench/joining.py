"""Runs over consecutive slices of one stream key, joined to one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import Counts, SampleRun, Trace

_SEQUENCE_FIELDS = frozenset({"sequence", "round_sequence"})


def join_runs(runs: Sequence[SampleRun]) -> SampleRun:
    """One run from consecutive slices; sequence numbers in the traces are shifted. Without every trace there is none."""
    counts = Counts()
    for run in runs:
        counts = counts + run.counts
    events = EventBatch.concat([run.events for run in runs])
    traces = [run.trace for run in runs if run.trace is not None]
    if len(traces) < len(runs):
        return SampleRun(events, counts)
    shifts = np.concatenate([[0], np.cumsum([len(run.events) for run in runs])[:-1]])
    joined: dict[str, Any] = {}
    for f in fields(Trace):
        parts = [getattr(trace, f.name) for trace in traces]
        if any(part is None for part in parts):
            joined[f.name] = None
            continue
        if f.name in _SEQUENCE_FIELDS:
            parts = [part + shift for part, shift in zip(parts, shifts, strict=True)]
        joined[f.name] = np.concatenate(parts)
    return SampleRun(events, counts, Trace(**joined))
