"""CPU time of sampling, as a paired ratio and in seconds: batch 1, from an empty history, one thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .sampling import NETWORKS, draw, key

N_EVENTS, K = 100, 10


def one_sequence(sampler: Any) -> Callable[[int], int]:
    return lambda seed: draw(sampler, 1, N_EVENTS, seed=seed).events.n_events


class InverseSpeedup:
    """Speculative over cached target-only CPU time per event: median of paired ratios in one process. 1 gains nothing."""

    version = "1"
    unit = "times target-only CPU time"
    timeout = 60
    params = (NETWORKS,)
    param_names = ("pair",)

    def track_cpu_time(self, name: str) -> float:
        from reference_impls.pairs import load_pair
        from tppsd_bench.measure.timing import paired_timing

        pair = load_pair(name)
        sides = {
            "target-only": one_sequence(pair.sampler("target_only")),
            "speculative": one_sequence(pair.sampler("speculative", k=K)),
        }
        timing = paired_timing(
            sides,
            baseline="target-only",
            rng=key("timing").generator(),
            pairs=12,
            min_seconds=0.03,
            coverage=0.95,
            max_warmup=3,
        )
        return 1 / timing.ratio("speculative").median


class Run:
    """CPU seconds of one sequence of 100 events: 100 target steps, or 12 or so rounds at K = 10."""

    version = "1"
    unit = "seconds"
    timeout = 60
    timer = time.process_time
    repeat = (5, 10, 5.0)
    params = (NETWORKS,)
    param_names = ("pair",)

    def setup(self, name: str) -> None:
        from reference_impls.pairs import load_pair

        pair = load_pair(name)
        self.target_only, self.speculative = pair.sampler("target_only"), pair.sampler("speculative", k=K)

    def time_target_only(self, name: str) -> None:
        draw(self.target_only, 1, N_EVENTS)

    def time_speculative(self, name: str) -> None:
        draw(self.speculative, 1, N_EVENTS)
