"""``[study.drafts]``: which drafts of which pairs, at which K; times and long histories in tables of their own."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tppsd_bench.studies.base import StudyTable

Positive = Annotated[int, Field(ge=1)]
Several = Annotated[int, Field(ge=2)]
Seconds = Annotated[float, Field(gt=0)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
Ks = Annotated[list[Annotated[int, Field(ge=1, le=64)]], Field(min_length=1)]
Rule = Literal["leviathan_two_step", "leviathan_joint"]
COUNTED, TIMED = "drafts", "drafts-time"
HISTORY = "history"
"""Second part of the ids of cells over the length of history: ``drafts.history.PAIR``."""
DISTILLED = "-distilled"
"""End of the name of a draft that was distilled; without it, the name of its plain sibling."""
ALL = "all"
"""Among the names of drafts: every draft that a pair has."""


class Timing(StudyTable):
    """``[study.drafts.time]``: every draft and K of a pair against cached target-only sampling, in the same pairs."""

    drafts: list[Name] = [ALL]
    """Those timed, among ``drafts`` of the study; empty: none."""
    length: Several = 48
    """Events of each timed call."""
    lengths: dict[str, Several] = {}
    """The same for single pairs, e.g. those whose memory is longer than that."""
    pairs: Annotated[int, Field(ge=12)] = 12
    min_seconds: Seconds = 0.02
    budget_seconds: Seconds | None = None
    """Seconds of timing a pair may take, calibration left out."""


class History(StudyTable):
    """``[study.drafts.history.PAIR]``: acceptance as a function of how many events came before."""

    drafts: Annotated[list[Name], Field(min_length=1)] = ["lstm", "gru", "transformer-1", "convolution"]
    transformer: Name = "transformer-1"
    recurrent: Name = "lstm"
    """The two drafts whose difference is the answer."""
    length: Several = 1000
    """Events of the target's own sequences."""
    sequences: Several = 8
    edges: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)] = [0, 3, 10, 32, 100, 316, 1000, 3162]
    """Where a bin of history lengths begins; each ends where the next begins, the last at ``length``."""
    contexts: Positive = 12
    """Events of every sequence in each bin at which acceptance is computed."""
    run_lengths: list[Several] = []
    """Lengths of timed runs from an empty history."""
    k: Annotated[int, Field(ge=1, le=64)] = 6
    """Of the timed runs."""
    pairs: Annotated[int, Field(ge=12)] = 12
    budget_seconds: Seconds | None = None

    @model_validator(mode="after")
    def _whole(self) -> History:
        if self.edges != sorted(set(self.edges)) or self.edges[0] >= self.length:
            raise ValueError("it should have edges that increase, the first below length")
        if missing := {self.transformer, self.recurrent} - set(self.drafts):
            raise ValueError(f"it should have {' and '.join(sorted(missing))} among its drafts, or compare two that are")
        return self

    @property
    def bins(self) -> list[tuple[int, int]]:
        """(first, end) of the bins that ``length`` reaches."""
        begins = [e for e in self.edges if e < self.length]
        return list(zip(begins, [*begins[1:], self.length], strict=True))


class Drafts(StudyTable):
    pairs: list[str] = []
    drafts: Annotated[list[Name], Field(min_length=1)] = [ALL]
    """By name, of each pair those it has."""
    k: Ks = [2, 5, 9]
    rule: Rule = "leviathan_two_step"
    sequences: Several = 64
    """Of the target's own, on which acceptance is computed; likewise drawn by every sampler that is run."""
    contexts: Positive = 16
    """Events of each of them at which it is computed."""
    held_out: Several = 64
    """Fresh sequences of the true process, where it is known."""
    time: Timing = Timing()
    history: dict[str, History] = {}
    """By pair."""

    @model_validator(mode="after")
    def _asked(self) -> Drafts:
        if not (self.pairs or self.history):
            raise ValueError("it should have pairs, or a table [study.drafts.history.PAIR]")
        if len(set(self.k)) < len(self.k):
            raise ValueError("it should name every K once")
        return self


TABLE = Drafts
