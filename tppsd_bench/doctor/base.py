"""A step of the diagnosis: what it read, what that is held to, what came of it, and what to change. The registry of all steps.

A step is a pure function of ``Measurements``. It is a *cause* only where there is something to explain: acceptance is low or
speculation does not pay. Else a number beyond its threshold asks for *attention*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tppsd_bench.doctor.measurements import Measurements


class Finding(StrEnum):
    OK = "ok"
    ATTENTION = "attention"
    CAUSE = "cause"
    UNANSWERED = "not answered"
    """What was measured does not say."""
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True)
class Estimate:
    """A number with its interval; both ends are the number itself where it is exact."""

    value: float
    low: float
    high: float

    @classmethod
    def exact(cls, value: float) -> Estimate:
        return cls(value, value, value)

    def shown(self, scale: float = 1.0, digits: int = 3) -> str:
        value, low, high = (f"{round(scale * x, 9) or 0.0:.{digits}g}" for x in (self.value, self.low, self.high))
        return value if low == high else f"{value} ({low} to {high})"


@dataclass(frozen=True)
class Reading:
    """One measured number of a step."""

    what: str
    value: Estimate | None
    """None where it could not be measured; ``unit`` may then say why."""
    unit: str = ""
    """``%`` and ``points`` are shown times 100."""
    threshold: str = ""
    """What it is held to, in words, with the claim it comes from; empty: shown only."""

    def shown(self) -> str:
        if self.value is None:
            return self.unit or "not measured"
        if self.unit in ("%", "points"):
            return f"{self.value.shown(100.0)} {self.unit}"
        return f"{self.value.shown()} {self.unit}".rstrip()


@dataclass(frozen=True)
class Step:
    """One step, looked at. ``readings`` come first the one that decides."""

    number: int
    name: str
    outcome: Finding
    readings: tuple[Reading, ...]
    sentence: str
    """What was found."""
    advice: str = ""
    """What to change; empty where nothing is to."""
    contradicts: tuple[str, ...] = ()
    """Published advice that these numbers speak against, a sentence each."""


@dataclass(frozen=True)
class Look:
    """What the function of a step returns; number and name are the registry's."""

    outcome: Finding
    readings: tuple[Reading, ...]
    sentence: str
    advice: str = ""
    contradicts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Member:
    number: int
    name: str
    look: Callable[[Measurements], Look]

    def at(self, m: Measurements) -> Step:
        found = self.look(m)
        advice = found.advice
        if found.outcome is Finding.UNANSWERED and m.from_run:
            advice = f"Answered by: {m.command}"
        return Step(self.number, self.name, found.outcome, found.readings, found.sentence, advice, found.contradicts)


REGISTRY: dict[int, Member] = {}


def step(number: int, name: str) -> Callable[[Callable[[Measurements], Look]], Callable[[Measurements], Look]]:
    """Register the function of a step; numbers give the order and are unique."""

    def enter(look: Callable[[Measurements], Look]) -> Callable[[Measurements], Look]:
        if number in REGISTRY:
            raise ValueError(f"Step {number} is already {REGISTRY[number].name!r}; {name!r} needs a number of its own.")
        REGISTRY[number] = Member(number, name, look)
        return look

    return enter


def unanswered(why: str, *readings: Reading) -> Look:
    """A step that these measurements do not answer."""
    return Look(Finding.UNANSWERED, readings, why)


def graded(ill: bool, beyond: bool) -> Finding:
    """``beyond`` its threshold a number is the cause of an illness there is, and else deserves attention."""
    return Finding.OK if not beyond else Finding.CAUSE if ill else Finding.ATTENTION
