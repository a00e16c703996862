"""``[study.gate]``: which samplers are gated, how large the looks are, and the margins of the gate."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tppsd_bench.protocols import Rule
from tppsd_bench.studies.base import StudyTable

Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(gt=0, lt=1)]
Part = Literal["counts", "law", "time"]


class Margins(StudyTable):
    """What a change may cost (its margin), and the change that a PASS excludes (``found``), for each level of the gate.

    A level fails where its interval lies wholly beyond the margin, and passes where a one-sided 95 % bound excludes ``found``.
    """

    forwards: Share = 0.01
    """Growth of the target's row forwards per committed event."""
    forwards_found: Share = 0.05
    tv: Share = 0.005
    """Total variation between the baseline's and the candidate's PIT, of gaps or of types."""
    tv_found: Share = 0.02
    speed: Share = 0.9
    """Speed over the baseline's: 0.9 is a tenth slower."""
    speed_found: Share = 0.8333
    """A fifth more CPU time an event."""
    same: Share = 0.05
    """A/A: by more than this one sampler may not differ from itself, or time is not judged."""

    @model_validator(mode="after")
    def _ordered(self) -> Margins:
        pairs = (("forwards", self.forwards, self.forwards_found), ("tv", self.tv, self.tv_found),
                 ("speed", self.speed_found, self.speed))  # fmt: skip
        for name, small, large in pairs:
            if not small < large:
                raise ValueError(f"it should have {name}_found beyond {name}; a PASS excludes more than the margin allows")
        return self


class Gate(StudyTable):
    pairs: list[str] = []
    """Reference pairs, gated at every ``k``."""
    samplers: list[str] = []
    """MODULE:FACTORY of samplers of your own, as for ``certify --sampler``; the factory's reference is the time's baseline."""
    measure: Annotated[list[Part], Field(min_length=1)] = ["counts", "law", "time"]
    k: Annotated[list[Annotated[int, Field(ge=1, le=64)]], Field(min_length=1)] = [5]
    """Events drafted in a round (pairs)."""
    rule: Rule = "leviathan_two_step"
    draft: str = "shipped"
    """Of counts and time (pairs)."""
    law_draft: str = "stress"
    """Of law cells (pairs): faults show as TV(p, q) squared, so the law is looked at with a poor draft."""
    batch_size: Positive = 256
    """Of law cells."""
    goldens: list[str] = []
    """Float64 toys: their sequences are compared bit for bit where fingerprints match, and a difference is told."""
    n_sequences: Annotated[int, Field(ge=20)] = 96
    """Whose forwards are counted, one by one."""
    length: Annotated[int, Field(ge=2)] = 80
    """Events of each sequence."""
    n_events: Annotated[int, Field(ge=2_000)] = 81_920
    """Of a law cell; a power of .99 for a drift of 0.02 takes about 80,000 on both sides."""
    n_events_of: dict[str, Annotated[int, Field(ge=2_000)]] = {}
    """The same for single pairs, where it shall be less or more."""
    timed_length: Annotated[int, Field(ge=2)] = 80
    """Events of a timed call."""
    timed_pairs: Annotated[int, Field(ge=12)] = 40
    min_seconds: Annotated[float, Field(gt=0)] = 0.03
    """Of the faster side of a timed pair."""
    margins: Margins = Margins()

    @model_validator(mode="after")
    def _something(self) -> Gate:
        if not self.pairs and not self.samplers:
            raise ValueError("it should have pairs, or samplers as MODULE:FACTORY")
        for name in self.samplers:
            if ":" not in name:
                raise ValueError(f"it should have samplers as MODULE:FACTORY, not {name!r}")
        return self

    def law_sequences(self, pair: str) -> int:
        """Sequences of a law cell of this pair."""
        return max(2, -(-self.n_events_of.get(pair, self.n_events) // self.length))


TABLE = Gate
