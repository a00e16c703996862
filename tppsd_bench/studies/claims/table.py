"""``[study.claims]``: each claim with its hypothesis and the numbers that decide it, all fixed before anything is measured."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from tppsd_bench.studies.base import StudyTable

Name = Annotated[str, Field(pattern=r"^[a-z_]+$")]
State = Literal["measured", "pending", "not testable here"]


class Criterion(StudyTable):
    """Where the claim says a quantity lies. Judged by intervals: inside, outside, or open."""

    quantity: Name
    at_least: float | None = None
    at_most: float | None = None

    @model_validator(mode="after")
    def _bounded(self) -> Criterion:
        if self.at_least is None and self.at_most is None:
            raise ValueError("it should have at_least, at_most or both")
        return self


class Claim(StudyTable):
    """One published claim."""

    source: Annotated[str, Field(min_length=1)]
    """Letters of the sources, as the suite's page explains them."""
    text: Annotated[str, Field(min_length=1)]
    """What is claimed, in our words."""
    hypothesis: str = ""
    """What has to hold for the claim to count as reproduced, in words; ``criteria`` says it in numbers."""
    state: State = "measured"
    reason: str = ""
    """Why it is not measured here, or not yet."""
    measure: Name | None = None
    """Module of ``tppsd_bench.studies.claims.measures``."""
    pairs: list[str] = []
    """One cell each; the claim is judged on all of them together."""
    timed: bool = False
    """Whether times are measured: its cells then run alone on the machine."""
    settings: dict[str, Any] = {}
    """Of the measure, checked by it."""
    criteria: list[Criterion] = []

    @model_validator(mode="after")
    def _whole(self) -> Claim:
        if self.state == "measured" and not (self.measure and self.pairs and self.criteria and self.hypothesis):
            raise ValueError("it should have hypothesis, measure, pairs and criteria, or another state with a reason")
        if self.state != "measured" and not self.reason:
            raise ValueError("it should have a reason, as it is not measured")
        return self


class Claims(StudyTable):
    claim: Annotated[dict[str, Claim], Field(min_length=1)]
    """By number."""
    only: list[str] = []
    """Numbers; empty: all."""


TABLE = Claims
