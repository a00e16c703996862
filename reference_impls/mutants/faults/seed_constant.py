"""Every sequence is drawn from the same stream: each one is right by itself, and all are the same."""

from __future__ import annotations

from reference_impls.mutants.base import Mutant, remade
from reference_impls.samplers.round import Work
from reference_impls.samplers.speculative import Speculative
from tppsd_bench.protocols import SampleRequest
from tppsd_bench.streams import StreamKey, UniformStreams


class OneStream(UniformStreams):
    """A generator for each row, all of one seed."""

    def __init__(self, key: StreamKey, n: int) -> None:
        super().__init__(key, n)
        self._generators = [key.generator() for _ in range(n)]


class SeedConstant(Speculative):
    def start(self, request: SampleRequest) -> Work:
        work = super().start(request)
        work.streams = OneStream(request.key, request.n_sequences)
        return work


MUTANT = Mutant(
    name="seed_constant",
    broken="Every sequence is drawn from the same random stream.",
    precedent="one seed for all requests of a batch (vLLM #10863), generators seeded alike (numpy #14729)",
    change=lambda sampler, _: remade(SeedConstant, sampler),
    killers=("cross_sequence.duplicates", "validity.duplicates"),
)
