"""The growing output of a sampler: committed events of a batch of sequences, when each is finished, and what it must still encode."""

from __future__ import annotations

from copy import copy

import numpy as np

from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import BoolArray, FloatArray, IntArray, SampleRequest

FIRST_GUESS = 256
"""Events that a sequence is given room for where only its horizon is known."""
Outputs = dict[int, tuple[FloatArray, IntArray]]
"""Gaps and types of each finished sequence, by its number in the request."""
COMPACT = 0.75
"""Finished rows are dropped once fewer than this share of the rows is still in work."""


class Histories:
    """Prompt plus generated events of the sequences still in work (rows), and the finished output of all.

    Under a horizon, time counts from the end of the prompt, so that the output's gaps and horizon belong together.
    """

    def __init__(self, request: SampleRequest, n_types: int, prompts: EventBatch | None, slack: int) -> None:
        n = request.n_sequences
        self.n_types = n_types
        self.stop = request.stop
        self.prompt_lengths = np.zeros(n, dtype=np.int64) if prompts is None else prompts.lengths
        width = first_capacity(request, slack)
        self.gaps, self.types = np.zeros((n, width)), np.zeros((n, width), dtype=np.int64)
        if prompts is not None and prompts.n_events:
            _check_types(prompts, n_types)
            g, k = prompts.padded()
            self.gaps[:, : g.shape[1]], self.types[:, : g.shape[1]] = g, k
        self.lengths = self.prompt_lengths.copy()
        self.elapsed = np.zeros(n)
        self.finished = np.zeros(n, dtype=bool)

    @property
    def generated(self) -> IntArray:
        return self.lengths - self.prompt_lengths

    @property
    def remaining(self) -> IntArray | None:
        """Events still to be generated (n,), or None under a horizon."""
        return None if self.stop.n_events is None else self.stop.n_events - self.generated

    def pending(self, encoded: IntArray, active: BoolArray) -> tuple[FloatArray, IntArray, IntArray]:
        """Events beyond ``encoded`` (n,), left-aligned and padded: gaps, types (n, m), counts (n,). Padding gaps are 1."""
        counts = np.where(active, self.lengths - encoded, 0)
        m = int(counts.max(initial=0))
        if len(counts) == 1:
            begin = int(encoded[0])
            return self.gaps[:, begin : begin + m], self.types[:, begin : begin + m], counts
        columns = np.arange(m)
        at = np.minimum(encoded[:, None] + columns, self.gaps.shape[1] - 1)
        rows = np.arange(len(counts))[:, None]
        keep = columns < counts[:, None]
        return np.where(keep, self.gaps[rows, at], 1.0), np.where(keep, self.types[rows, at], 0), counts

    def commit(self, gaps: FloatArray, types: IntArray, counts: IntArray) -> IntArray:
        """Append ``counts[i]`` events to each row, up to its horizon; returns how many were kept (n,). Rows that end are marked."""
        n, m = gaps.shape
        self.reserve(int((self.lengths + counts).max()) + 1)
        kept = np.where(self.finished, 0, counts)
        offered = np.arange(m) < kept[:, None]
        if self.stop.horizon is not None:
            # onto the elapsed time one by one, as EventBatch sums: which event is the last must not depend on the rounds
            ends = np.cumsum(np.hstack([self.elapsed[:, None], np.where(offered, gaps, 0.0)]), axis=1)[:, 1:]
            inside = offered & (ends < self.stop.horizon)
            crossed = kept > inside.sum(axis=1)
            kept = inside.sum(axis=1)
            self.elapsed = np.where(kept > 0, ends[np.arange(n), np.maximum(kept - 1, 0)], self.elapsed)
            self.finished |= crossed
            offered = inside
        rows, columns = np.nonzero(offered)
        self.gaps[rows, self.lengths[rows] + columns] = gaps[rows, columns]
        self.types[rows, self.lengths[rows] + columns] = types[rows, columns]
        self.lengths = self.lengths + kept
        if self.stop.n_events is not None:
            self.finished |= self.generated >= self.stop.n_events
        return kept

    def reserve(self, events: int) -> None:
        """Room for ``events`` events a sequence; at least twofold growth, so that appending stays linear."""
        if events > self.gaps.shape[1]:
            extra = max(events, 2 * self.gaps.shape[1]) - self.gaps.shape[1]
            self.gaps, self.types = np.pad(self.gaps, ((0, 0), (0, extra))), np.pad(self.types, ((0, 0), (0, extra)))

    def keep(self, rows: IntArray) -> None:
        """Go on with ``rows`` only."""
        for name in ("gaps", "types", "lengths", "prompt_lengths", "elapsed", "finished"):
            setattr(self, name, getattr(self, name)[rows])

    def part(self, rows: IntArray) -> Histories:
        """A copy that holds ``rows`` only."""
        out = copy(self)
        out.keep(rows)
        return out

    def retire(self, ids: IntArray, done: Outputs) -> IntArray:
        """Hand the finished rows over to ``done``, by their number in the request (``ids``); gives the rows to go on with."""
        for row in np.flatnonzero(self.finished):
            done[int(ids[row])] = self.output(int(row))
        return np.flatnonzero(~self.finished)

    def output(self, row: int) -> tuple[FloatArray, IntArray]:
        """The generated events of one row."""
        begin, end = int(self.prompt_lengths[row]), int(self.lengths[row])
        return self.gaps[row, begin:end].copy(), self.types[row, begin:end].copy()


def longest_prompt(request: SampleRequest) -> int:
    """Events of the longest prompt, 0 without one."""
    return 0 if request.prompt is None else int(request.prompt.lengths.max(initial=0))


def first_capacity(request: SampleRequest, slack: int) -> int:
    """Events that a sequence is given room for at the start."""
    return longest_prompt(request) + (request.stop.n_events or FIRST_GUESS) + slack


def prompts_of(request: SampleRequest) -> EventBatch | None:
    """The request's prompt, one per sequence; None where there is nothing in it."""
    prompt = request.prompt
    if prompt is None or prompt.n_events == 0:
        return None
    if len(prompt) == 1:
        return prompt.select(np.zeros(request.n_sequences, dtype=np.int64))
    return prompt


def check_number_of_prompts(request: SampleRequest) -> None:
    """InputError unless there is no prompt, one for all, or one per sequence."""
    if request.prompt is not None and len(request.prompt) not in (1, request.n_sequences):
        raise InputError(
            f"The request has {len(request.prompt)} prompts for {request.n_sequences} sequences; give one for all, or one each."
        )


def _check_types(prompts: EventBatch, n_types: int) -> None:
    wrong = np.flatnonzero((prompts.types < 0) | (prompts.types >= n_types))
    if len(wrong):
        i, j = prompts.locate(int(wrong[0]))
        raise InputError(
            f"Prompt of sequence {i}, event {j}: type {prompts.types[wrong[0]]} is none of the model's, 0..{n_types - 1}; "
            "give histories with the types that the model was trained on."
        )


def assemble(rows: Outputs, n: int, n_types: int, horizon: float | None) -> EventBatch:
    """The batch of all sequences from each one's output."""
    lengths = np.array([len(rows[i][0]) for i in range(n)], dtype=np.int64)
    gaps = np.concatenate([rows[i][0] for i in range(n)]) if n else np.empty(0)
    types = np.concatenate([rows[i][1] for i in range(n)]) if n else np.empty(0, dtype=np.int64)
    return EventBatch(gaps, types, lengths, n_types, None if horizon is None else np.full(n, float(horizon)))
