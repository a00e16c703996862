"""Requests larger than a batch, or than memory, are cut; prompts of length zero and others run apart.

Every sequence has its own stream, so none of this is visible in the output.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from reference_impls.samplers.history import check_number_of_prompts
from tppsd_bench.joining import join_runs
from tppsd_bench.protocols import SampleRequest, SampleRun


def run_in_batches(
    sample: Callable[[SampleRequest], SampleRun], request: SampleRequest, batch_size: int | None, rows: int | None = None
) -> SampleRun:
    """Run ``sample`` on consecutive slices of at most ``batch_size`` sequences, or ``rows`` that fit memory; join the results."""
    check_number_of_prompts(request)
    size = min(batch_size or request.n_sequences, rows or request.n_sequences)
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
