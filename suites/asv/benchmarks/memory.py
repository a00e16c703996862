"""Peak memory of a process that samples one batch, its imports included."""

from __future__ import annotations

from .sampling import PAIRS, draw


class Batch:
    """32 sequences of 100 events in one speculative batch, K = 10, with a trace. The toy needs no torch."""

    version = "1"
    unit = "bytes"
    timeout = 60
    params = (PAIRS,)
    param_names = ("pair",)

    def peakmem_speculative(self, name: str) -> None:
        from reference_impls.pairs import load_pair

        draw(load_pair(name).sampler("speculative", k=10), 32, 100, trace=True)
