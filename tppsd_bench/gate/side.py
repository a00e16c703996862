"""One side of a gate: a sampler counted, drawn from and timed.

A study's cell calls these functions; ``gate --baseline REV`` runs this file as a process of its own, with an older tree on its path. So it
imports nothing but what the trees have had from the first.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tppsd_bench.protocols import SampleRequest, SampleRun, Stop
from tppsd_bench.streams import StreamKey

Ask = Callable[[SampleRequest], SampleRun]


def count(ask: Ask, key: StreamKey, n_sequences: int, length: int) -> dict[str, Any]:
    """Sequences drawn one by one, so that each has counts of its own: ``committed``, ``forwards`` and ``rounds`` (n,), ``digest``.

    The digest is of all gaps and types, bit for bit.
    """
    committed, forwards, rounds, digest = [], [], [], hashlib.blake2b(digest_size=12)
    for i in range(n_sequences):
        run = ask(SampleRequest(1, Stop(n_events=length), key, first_sequence=i, want_trace=False))
        committed.append(int(run.events.n_events))
        forwards.append(int(run.counts.target_row_forwards))
        rounds.append(int(run.counts.rounds))
        digest.update(run.events.gaps.tobytes() + run.events.types.tobytes())
    return {"committed": committed, "forwards": forwards, "rounds": rounds, "digest": digest.hexdigest()}


def block(ask: Ask, seeds: Sequence[int], length: int) -> tuple[float, float, int]:
    """(CPU seconds, wall seconds, events) of single sequences at these seeds, the garbage collector off."""
    gc.collect()
    gc.disable()
    try:
        wall, cpu = time.perf_counter(), time.process_time()
        events = sum(call(ask, seed, length) for seed in seeds)
        return time.process_time() - cpu, time.perf_counter() - wall, events
    finally:
        gc.enable()


def call(ask: Ask, seed: int, length: int) -> int:
    """The events of one timed call."""
    request = SampleRequest(1, Stop(n_events=length), StreamKey(seed=seed, stage="timing"), want_trace=False)
    return int(ask(request).events.n_events)


class _Served:
    """The orders of the other process; each gives a plain answer."""

    def __init__(self) -> None:
        self._ask: Ask | None = None

    def load(self, loader: str, source: str, sampler: dict[str, Any], watch: list[str]) -> dict[str, str]:
        """Make the sampler; gives the files that the ``watch`` modules were imported from."""
        module, _, name = loader.partition(":")
        pair = getattr(importlib.import_module(module), name)(source, device="cpu")
        self._ask = pair.sampler("speculative", **sampler).sample
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(1)
        gc.collect()
        gc.freeze()  # modules and models: the collection ahead of each block need not look at them again
        return {m: str(getattr(importlib.import_module(m), "__file__", None) or "") for m in watch}

    def count(self, key: dict[str, Any], n_sequences: int, length: int) -> dict[str, Any]:
        return count(self._sampler, StreamKey(**key), n_sequences, length)

    def draw(self, key: dict[str, Any], n_sequences: int, length: int, file: str) -> int:
        """Draw a batch into a file of arrays; gives its number of events."""
        events = self._sampler(SampleRequest(n_sequences, Stop(n_events=length), StreamKey(**key))).events
        np.savez(file, gaps=events.gaps, types=events.types, lengths=events.lengths, n_types=np.array(events.n_types))
        return int(events.n_events)

    def block(self, seeds: list[int], length: int) -> tuple[float, float, int]:
        return block(self._sampler, seeds, length)

    @property
    def _sampler(self) -> Ask:
        assert self._ask is not None, "load comes first"
        return self._ask


def serve() -> None:
    """Orders as lines of JSON on standard input, ``[name, arguments]``; answers ``[true, result]`` or ``[false, sentence]``."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a sampler prints is no answer
    served = _Served()
    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            answer: list[Any] = [True, getattr(served, name)(**arguments)]
        except Exception as problem:
            answer = [False, f"{type(problem).__name__}: {problem}"]
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    serve()
