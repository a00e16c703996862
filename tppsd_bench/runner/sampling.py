"""The command ``sample``: a pair's sampler, drawn into a folder of events, and one sentence about it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tppsd_bench import streaming
from tppsd_bench.errors import InputError
from tppsd_bench.measure.memory import peak_bytes
from tppsd_bench.protocols import SampleRequest, Stop
from tppsd_bench.runner.worker import one_thread, pin_torch, resolve
from tppsd_bench.streams import StreamKey


@dataclass(frozen=True)
class Order:
    """What is to be drawn: the options of the command."""

    pair: str
    sampler: str
    n_sequences: int
    length: int | None = None
    """Events of a sequence; without it and without ``horizon`` the training median of the pair's card."""
    horizon: float | None = None
    draft: str = "shipped"
    k: int = 5
    rule: str = "leviathan_two_step"
    seed: int = 0
    device: str = "cpu"
    chunk: int = streaming.CHUNK
    memory_limit: int | None = None


@dataclass(frozen=True)
class Drawn:
    """A finished folder of events."""

    folder: Path
    n_sequences: int
    n_events: int
    target_forwards: int
    seconds: float
    """Of this call: a resumed one counts from its own start."""
    peak_bytes: int
    """Largest resident memory of this process since it began."""

    @property
    def sentence(self) -> str:
        forwards = self.target_forwards / max(self.n_events, 1)
        return (
            f"{self.n_sequences:,} sequences, {self.n_events:,} events, {forwards:.3f} target forwards an event, "
            f"in {self.seconds:.1f} s; peak memory {self.peak_bytes / 1e9:.2f} GB.\n{self.folder}"
        )


def draw(order: Order, out: Path, *, resume: bool, say: streaming.Say) -> Drawn:
    """Draw the order into ``out``, on one thread. InputError for an unknown pair or draft, before anything is written."""
    from tppsd_bench.suite import DEFAULT_LOADER

    started = time.perf_counter()
    pair = resolve(DEFAULT_LOADER)(order.pair, device=order.device)
    pin_torch()
    sampler = pair.sampler(order.sampler, draft=order.draft, k=order.k, rule=order.rule, memory_limit=order.memory_limit)
    about = {"pair": order.pair, "sampler": order.sampler}
    if order.sampler == "speculative":
        about |= {"draft": order.draft, "k": str(order.k), "rule": order.rule}
    key = StreamKey(seed=order.seed, suite="sample", cell=order.pair, arm=".".join(about.values()))
    request = SampleRequest(order.n_sequences, _stop(order, pair.card), key, device=order.device)
    with one_thread():
        folder = streaming.stream_events(sampler, request, out, about=about, chunk=order.chunk, resume=resume, say=say)
    held = streaming.totals(folder)
    seconds = time.perf_counter() - started
    return Drawn(folder, held.n_sequences, held.n_events, held.counts.target_row_forwards, seconds, peak_bytes())


def _stop(order: Order, card: dict[str, Any]) -> Stop:
    if order.length is not None and order.horizon is not None:
        raise InputError("Give --length or --horizon, not both: sequences end in one way.")
    if order.horizon is not None:
        return Stop(horizon=order.horizon)
    length = order.length or card.get("train_median_events")
    if not length:
        raise InputError(f"The card of pair {order.pair!r} does not say how long sequences are; give --length or --horizon.")
    return Stop(n_events=int(length))
