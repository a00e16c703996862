"""The runs that the benchmarks share. Seeds are fixed: what moves a count or a theta is the code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tppsd_bench.protocols import SampleRun
    from tppsd_bench.streams import StreamKey

PAIRS = ("toy-marked", "thp-hawkes")
"""A closed form in float64, whose counts are the same on every machine, and a network."""
NETWORKS = ("thp-hawkes",)
"""Pairs whose CPU time is worth following: a toy's is all bookkeeping."""
SEED = 20_000


def key(purpose: str) -> StreamKey:
    from tppsd_bench.streams import StreamKey

    return StreamKey(seed=SEED, suite="asv", purpose=purpose)


def draw(sampler: Any, n: int, n_events: int, *, trace: bool = False, seed: int = SEED) -> SampleRun:
    """``n`` sequences of ``n_events`` events each, from empty histories."""
    from tppsd_bench.protocols import SampleRequest, Stop

    request = SampleRequest(n, Stop(n_events=n_events), key("sampler").replace(seed=seed), want_trace=trace)
    run: SampleRun = sampler.sample(request)
    return run
