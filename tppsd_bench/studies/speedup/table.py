"""``[study.speedup]``: grids of sites, how long each is timed, and the two side questions (packing, cost of history)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tppsd_bench.studies.base import StudyTable

Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]
K = Annotated[int, Field(ge=1, le=64)]


class Grid(StudyTable):
    """A full product of pairs, drafts, batches and lengths, each timed at every K."""

    pairs: Annotated[list[str], Field(min_length=1)]
    drafts: Annotated[list[str], Field(min_length=1)] = ["shipped"]
    """Names of the pair's drafts; ``target``: the target drafts for itself; ``PAIR/DRAFT``: a draft of another pair."""
    k: Annotated[list[K], Field(min_length=2)]
    batch: Annotated[list[Positive], Field(min_length=1)] = [1]
    length: Annotated[list[Annotated[int, Field(ge=8)]], Field(min_length=1)] = [200]
    """Events of each sequence, from an empty history."""

    @model_validator(mode="after")
    def _fits(self) -> Grid:
        if max(self.k) >= min(self.length):
            raise ValueError(f"K = {max(self.k)} drafts should fit into sequences of {min(self.length)} events")
        if len(set(self.k)) < len(self.k):
            raise ValueError(f"k should name each K once, found {self.k}")
        return self


class Packing(StudyTable):
    """Packed or padded, cached or recomputed: a batch that continues histories of very unequal lengths."""

    pairs: list[str] = []
    k: K = 5
    batch: Annotated[int, Field(ge=2)] = 8
    sequences: Annotated[int, Field(ge=2)] = 32
    shortest: Positive = 10
    longest: Positive = 400
    """Histories are spread evenly in the logarithm between these."""
    events: Annotated[int, Field(ge=8)] = 24
    """Drawn after each history."""
    pairs_timed: Annotated[int, Field(ge=6)] = 8


class History(StudyTable):
    """Cost of one step after histories of growing length."""

    pairs: list[str] = []
    lengths: Annotated[list[Positive], Field(min_length=2)] = [10, 30, 100, 300, 1000, 4000]
    k: K = 8
    """Of the verifying pass."""
    repeats: Annotated[int, Field(ge=3)] = 9
    seconds: Seconds = 3.0
    """A kind of step is not taken at a longer history once all its repeats there would take more than this."""


class Speedup(StudyTable):
    """The whole table."""

    grid: Annotated[list[Grid], Field(min_length=1)]
    rule: Literal["leviathan_two_step", "leviathan_joint"] = "leviathan_two_step"
    calibrated: Annotated[int, Field(ge=2)] = 4
    """K's of each site whose rounds are timed in calibration, the smallest and the largest among them."""
    calibration_pairs: Annotated[int, Field(ge=6)] = 7
    pairs: Annotated[int, Field(ge=8)] = 12
    """Timed pairs of a site."""
    seconds: Seconds = 0.1
    """Every side of a pair is timed for about this long, or for one run of it."""
    most_seconds: Seconds = 15.0
    """Of timing that a site, or its calibration, may take: pairs are cut, to six at least, where they would take longer."""
    acceptance_events: Annotated[int, Field(ge=100)] = 24_000
    """Of the target's own sequences, on calibration seeds, along which rounds are computed."""
    counted_events: Annotated[int, Field(ge=100)] = 12_000
    """Of held-out sequences whose rounds are counted and not timed, at the site's largest K; in proportion to K at the others."""
    packing: Packing = Packing()
    history: History = History()


TABLE = Speedup
