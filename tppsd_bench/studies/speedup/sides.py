"""The timed sides of a site: whole runs of a sampler at one batch and length, each counted, several to a measurement where they are short."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.events import EventBatch
from tppsd_bench.measure.judging import TimedRounds
from tppsd_bench.measure.timing import Clock, PairedTiming
from tppsd_bench.protocols import Counts, SampleRequest, SamplerUnderTest, Stop
from tppsd_bench.streams import StreamKey

Unit = Literal["events", "rounds"]
Counted = tuple[NDArray[np.float64], NDArray[np.float64]]
"""(events, rounds) of each sequence of a run that was counted and not timed."""
MOST_RUNS = 64


def share_of_seconds(k: int) -> float:
    """How much longer K is timed than K = 0: events a round vary more the larger K is, so more rounds have to be counted."""
    return 1.0 + k / 8.0


@dataclass(frozen=True)
class TimedRuns:
    """A side of ``paired_timing``: ``runs`` runs of ``batch`` sequences from one seed; gives the events, or the rounds, of them all."""

    sampler: SamplerUnderTest
    batch: int
    stop: Stop
    device: str
    unit: Unit = "events"
    prompt: EventBatch | None = None
    runs: int = 1
    counted: dict[int, Counts] = field(default_factory=dict)
    """By seed, in the order in which they were used."""

    def __call__(self, seed: int) -> int:
        key, total = StreamKey(seed=seed, stage="timing"), Counts()
        for i in range(self.runs):
            request = SampleRequest(
                self.batch,
                self.stop,
                key,
                first_sequence=i * self.batch,
                prompt=self.prompt,
                device=self.device,
                want_trace=False,
            )
            total = total + self.sampler.sample(request).counts
        self.counted[seed] = total
        return total.committed if self.unit == "events" else total.rounds

    def filling(self, seconds: float, clock: Callable[[], float], seed: int) -> TimedRuns:
        """The same side with as many runs as take about ``seconds``; a second trial run, a warm one, where the first was not long."""
        once, took = replace(self, runs=1, counted={}), 0.0
        for _ in range(2):
            begun = clock()
            once(seed)
            took = clock() - begun
            if took > 4 * seconds:
                break
        return replace(self, runs=max(1, min(math.ceil(seconds / max(took, 1e-9)), MOST_RUNS)), counted={})

    @property
    def counts(self) -> Counts:
        """Of every run so far."""
        return sum(self.counted.values(), Counts())


def timed_rounds(
    sides: Sequence[TimedRuns], names: Sequence[str], timing: PairedTiming, clock: Clock, counted: Sequence[Counted]
) -> TimedRounds:
    """The measurements of sides that count events, pair by pair (the warm-up's runs come before them and are left out)."""
    calls, n = timing.calls, timing.n_pairs
    events, rounds = np.empty((n, len(sides))), np.empty((n, len(sides)))
    for j, side in enumerate(sides):
        last = list(side.counted.values())[-n * calls :]
        for i in range(n):
            row = last[i * calls : (i + 1) * calls]
            events[i, j], rounds[i, j] = sum(c.committed for c in row), sum(c.rounds for c in row)
    per_event = np.stack([timing.log_ratio(name, clock) for name in names], axis=1)
    return TimedRounds(np.log(events / rounds) - per_event, events, rounds, tuple(counted))


def filled(
    sides: Mapping[str, TimedRuns], seconds: Mapping[str, float], clock: Callable[[], float], rng: np.random.Generator
) -> dict[str, TimedRuns]:
    """Every side with enough runs to last its seconds; seeds of the trial runs come from ``rng``."""
    return {name: side.filling(seconds[name], clock, int(rng.integers(2**63))) for name, side in sides.items()}
