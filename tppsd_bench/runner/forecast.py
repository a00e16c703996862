"""What is fixed about an arm before its data, from a short pilot on seeds of its own: strata and their sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.protocols import Stop, Trace

if TYPE_CHECKING:
    from tppsd_bench.stats.base import Stratum

Expected = dict[str, dict[str, float]]
LEAST_SHARE = 0.05
"""A value of K that this share of the pilot's rounds uses is a stratum; rarer ones could not be filled."""


@dataclass(frozen=True)
class Forecast:
    """What is fixed about an arm before its data: strata, their sizes, the stream's length, the families' sizes."""

    strata: tuple[Stratum, ...]
    expected: Expected
    m: int | None
    law_tests: int
    mechanism_tests: int


def policy_k(trace: Trace, stop: Stop) -> tuple[int, tuple[int, ...]]:
    """(largest K, the values of K that the sampler uses as a policy), from the rounds that no stop could shorten."""
    full = _free_rounds(trace, stop)
    max_k = int(trace.event_k.max(initial=0))
    values, counts = np.unique(trace.round_drafted[full], return_counts=True)
    used = tuple(int(v) for v, c in zip(values, counts, strict=True) if c >= LEAST_SHARE * counts.sum())
    return max_k, used


def expected_strata(trace: Trace, stop: Stop, n_events: int) -> Expected:
    """Events by position in round to count on in a run of ``n_events``, from the pilot's rounds that no stop could shorten.

    With N events a full round, position j holds n_events P(N > j) / E[N], less two standard errors of what the pilot saw: the
    cut rounds at the ends of sequences are left to the tenth that every stratum keeps back.
    """
    k = int(trace.round_drafted.max(initial=0))
    full = _free_rounds(trace, stop) & (trace.round_drafted == k)
    sizes = trace.round_committed[full] + trace.round_discarded[full]
    if not len(sizes) or sizes.sum() == 0:
        return {}
    rounds = n_events / sizes.mean()
    labels = [*(str(j) for j in range(k)), "bonus"]
    out = {}
    for j, label in enumerate(labels):
        share = float((sizes > j).mean())
        out[label] = rounds * max(0.0, share - 2.0 * math.sqrt(share * (1.0 - share) / len(sizes)))
    return {"position": out}


def _free_rounds(trace: Trace, stop: Stop) -> NDArray[np.bool_]:
    """(R,) rounds that started with more events to go than the largest K; all of them where there is none (or a horizon)."""
    if stop.n_events is None:
        return np.ones(len(trace.round_index), dtype=np.bool_)
    order = np.lexsort((trace.round_index, trace.round_sequence))
    before = np.cumsum(trace.round_committed[order]) - trace.round_committed[order]
    first = np.flatnonzero(np.diff(trace.round_sequence[order], prepend=-1))
    start = np.empty(len(order), dtype=np.int64)
    start[order] = before - np.repeat(before[first], np.diff(np.append(first, len(order))))
    free: NDArray[np.bool_] = start + int(trace.round_drafted.max(initial=0)) + 1 <= stop.n_events
    return free if free.any() else np.ones(len(order), dtype=np.bool_)
