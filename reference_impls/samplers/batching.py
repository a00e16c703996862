"""Requests larger than a batch are cut; prompts of length zero and others run apart. Streams make this invisible in the output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np

from reference_impls.samplers.history import check_number_of_prompts
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import Counts, SampleRequest, SampleRun, Trace

_SEQUENCE_FIELDS = frozenset({"sequence", "round_sequence"})


def run_in_batches(sample: Callable[[SampleRequest], SampleRun], request: SampleRequest, batch_size: int | None) -> SampleRun:
    """Run ``sample`` on consecutive slices of at most ``batch_size`` sequences and join the results."""
    check_number_of_prompts(request)
    size = batch_size or request.n_sequences
    prompt = request.prompt
    mixed = prompt is not None and len(prompt) > 1 and prompt.lengths.any() and not prompt.lengths.all()
    if mixed:
        size = 1
    if size >= request.n_sequences:
        return sample(request)
    runs = []
    for begin in range(0, request.n_sequences, size):
        n = min(size, request.n_sequences - begin)
        part = prompt if prompt is None or len(prompt) == 1 else prompt.select(np.arange(begin, begin + n))
        runs.append(sample(replace(request, n_sequences=n, first_sequence=request.first_sequence + begin, prompt=part)))
    return join_runs(runs)


def join_runs(runs: list[SampleRun]) -> SampleRun:
    """One run from consecutive slices; sequence numbers in the traces are shifted."""
    counts = Counts()
    for run in runs:
        counts = counts + run.counts
    events = EventBatch.concat([run.events for run in runs])
    if any(run.trace is None for run in runs):
        return SampleRun(events, counts)
    shifts = np.concatenate([[0], np.cumsum([len(run.events) for run in runs])[:-1]])
    joined: dict[str, Any] = {}
    for f in fields(Trace):
        parts = [getattr(run.trace, f.name) for run in runs]
        if any(part is None for part in parts):
            joined[f.name] = None
            continue
        if f.name in _SEQUENCE_FIELDS:
            parts = [part + shift for part, shift in zip(parts, shifts, strict=True)]
        joined[f.name] = np.concatenate(parts)
    return SampleRun(events, counts, Trace(**joined))
