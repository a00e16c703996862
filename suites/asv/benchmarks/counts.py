"""Exact counts of one batch at fixed seeds: no noise, so a change of any size is a change of the code."""

from __future__ import annotations

from itertools import product

from .sampling import PAIRS, draw

Work = dict[tuple[str, int], tuple[float, float]]
"""(pair, K) to (target row forwards per event, padded share)."""
KS = (5, 10)


def setup_cache() -> Work:
    """32 sequences of 60 events in one batch for every pair and K; both benchmarks read from it."""
    from reference_impls.pairs import load_pair
    from tppsd_bench.measure.counts import target_forwards_per_event

    out: Work = {}
    for name, k in product(PAIRS, KS):
        counts = draw(load_pair(name).sampler("speculative", k=k), 32, 60).counts
        padded = counts.target_padded_positions
        out[name, k] = target_forwards_per_event(counts), padded / (counts.target_positions + padded)
    return out


class TargetRowForwards:
    """Sequences advanced by a target pass, per committed event: what speculation saves. Target-only sampling: .98."""

    version = "1"
    unit = "row forwards/event"
    timeout = 60
    params = (PAIRS, KS)
    param_names = ("pair", "K")

    def track_per_event(self, work: Work, pair: str, k: int) -> float:
        return work[pair, k][0]


class PaddedPositions:
    """Share of the target's positions that only fill up the rows of a ragged batch."""

    version = "1"
    unit = "share of positions"
    timeout = 60
    params = (PAIRS, KS)
    param_names = ("pair", "K")

    def track_share(self, work: Work, pair: str, k: int) -> float:
        return work[pair, k][1]
