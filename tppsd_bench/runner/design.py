"""What an examination is fixed by before the data, and what one arm of it holds afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tppsd_bench import budget
from tppsd_bench.protocols import ConditionalTarget, SampleRun, SamplerUnderTest, Scores, Stop
from tppsd_bench.results import Evidence
from tppsd_bench.streams import StreamKey

Access = Literal["black", "grey", "white"]
REFERENCE = "reference"
"""Label of the target-only arm."""


@dataclass(frozen=True)
class Subject:
    """A sampler under test and, for the deepest checks, the draft's conditional law."""

    sampler: SamplerUnderTest
    draft: ConditionalTarget | None = None


@dataclass(frozen=True)
class Design:
    """Sizes and keys of an examination, all fixed before the data."""

    stop: Stop
    n_sequences: int
    key: StreamKey
    access: Access = "white"
    pilot_sequences: int = 200
    pilot_length: int = 24
    n_permutations: int = budget.PERMUTATIONS
    growth: int = budget.CONFIRMATION_GROWTH
    max_rounds: int = budget.CONFIRMATION_ROUNDS
    round_seconds: float | None = None
    """Seconds a confirmation round may take; later rounds grow less where it is short."""
    batch_size: int | None = None
    refuse_repeats: bool = False
    """Whether copies of sequences and a coarse clock are misuse, which ends the examination, or one more fault to be found."""
    call_seconds: float | None = None
    """A call of a sampler that takes longer counts as hanging; None: as long as it takes."""
    device: str = "cpu"
    watch_level: float | None = None
    """Sequential: the main round of a sampler under test ends once its e-process reaches 1 / this level. None: it does not end early."""

    @property
    def pilot_stop(self) -> Stop:
        if self.stop.n_events is None:
            return self.stop
        return Stop(n_events=min(self.pilot_length, self.stop.n_events))


@dataclass(frozen=True)
class Arm:
    """One arm in one round: what was drawn, its scores, and the tests that need no other arm."""

    run: SampleRun
    scores: Scores | None
    evidence: tuple[Evidence, ...]
    not_possible: tuple[str, ...]
    seconds: float
