"""What is fixed about an arm before its data, from a short pilot on seeds of its own: strata and their sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.protocols import Trace

if TYPE_CHECKING:
    from tppsd_bench.stats.base import Stratum

Expected = dict[str, dict[str, float]]
LEAST_SHARE = 0.05
"""A value of K that holds this share of the pilot's events is a stratum; rarer ones are rounds cut short at the stop."""


@dataclass(frozen=True)
class Forecast:
    """What is fixed about an arm before its data: strata, their sizes, the stream's length, the families' sizes."""

    strata: tuple[Stratum, ...]
    expected: Expected
    m: int | None
    law_tests: int
    mechanism_tests: int


def frequent(k: NDArray[np.int64]) -> tuple[int, ...]:
    """The values of K that a sampler uses as a policy, not those it is left with at the stop."""
    values, counts = np.unique(k, return_counts=True)
    return tuple(int(v) for v, c in zip(values, counts, strict=True) if c >= LEAST_SHARE * len(k))


def expected_strata(trace: Trace, n_events: int) -> Expected:
    """Expected events by position in round, for a run of ``n_events``, from a pilot's full rounds.

    With N events a full round (those that drafted the most, before anything was cut at the stop), position j holds
    n_events P(N > j) / E[N]: the cut rounds at the ends of sequences are left to the tenth that every stratum keeps back.
    """
    k = int(trace.round_drafted.max(initial=0))
    full = trace.round_drafted == k
    sizes = trace.round_committed[full] + trace.round_discarded[full]
    if not len(sizes) or sizes.sum() == 0:
        return {}
    rounds = n_events / sizes.mean()
    labels = [*(str(j) for j in range(k)), "bonus"]
    return {"position": {label: float(rounds * (sizes > j).mean()) for j, label in enumerate(labels)}}
