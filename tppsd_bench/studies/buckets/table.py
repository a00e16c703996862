"""The tables of the study: ``[study.buckets]``, its time grid, and the numbers to which published advice is held."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tppsd_bench.protocols import Rule
from tppsd_bench.studies.base import StudyTable

Positive = Annotated[int, Field(ge=1)]
Number = Annotated[int, Field(ge=2, le=10_000)]
Share = Annotated[float, Field(gt=0, lt=1)]
Strategy = Literal["quantile", "equal_width", "log_width"]
Within = Literal["uniform", "log_uniform", "empirical"]


class Hypotheses(StudyTable):
    """What published advice is held to; stated before anything is measured."""

    extreme_ratio: Annotated[float, Field(gt=1)] = 1000.0
    """A density ratio beyond this, or below its inverse, is called extreme."""
    unstable_share: Share = 0.001
    """Ratios are unstable where more than this share of the draft's proposals has an extreme one."""
    start: Number = 100
    """The number of quantile buckets advised to start with."""
    small_error: Share = 0.01
    """Nats an event, and Kolmogorov distance, below which buckets are called fine enough."""
    lower_acceptance: Share = 0.01
    """More buckets cost acceptance that matters where they cost more than this."""
    tied_within: Positive = 1000
    """Events that many buckets ought to keep apart, if crowding were a matter of few buckets."""
    broken: Share = 0.001
    """Total variation beyond which a law is called broken."""


class Timed(StudyTable):
    """Cells that measure time, alone on the machine: each over cached target-only sampling of the same tokens."""

    pairs: Annotated[list[str], Field(min_length=1)]
    strategies: Annotated[list[Strategy], Field(min_length=1)] = ["quantile"]
    buckets: Annotated[list[Number], Field(min_length=1)] = [100]
    more: list[str] = []
    """Further points, ``strategy:buckets``, off the grid."""
    k: Annotated[list[Annotated[int, Field(ge=1, le=64)]], Field(min_length=1)] = [4, 8, 16]
    continuous: bool = True
    """Also time the pair without buckets."""
    length: Annotated[int, Field(ge=2)] = 64
    """Events of each timed call."""
    pairs_timed: Annotated[int, Field(ge=12)] = 20
    min_seconds: Annotated[float, Field(gt=0)] = 0.02
    seconds: Annotated[float, Field(gt=0)] = 6.0
    """Seconds a cell may take."""


class Buckets(StudyTable):
    """Pairs, buckets and sizes."""

    pairs: list[str] = []
    """Continuous pairs whose laws are discretised; no training."""
    ratios: list[str] = []
    """Continuous pairs whose density ratios are looked at."""
    apart: list[str] = []
    """Continuous pairs of several types that are asked what verification apart would put out."""
    token_pairs: list[str] = []
    """Pairs trained over tokens: which of their drafts is accepted more."""
    draft: str = "shipped"
    poor_draft: str = "stress"
    strategies: Annotated[list[Strategy], Field(min_length=1)] = ["quantile", "equal_width", "log_width"]
    buckets: Annotated[list[Number], Field(min_length=1)] = [10, 20, 50, 100, 200, 500]
    within: Annotated[list[Within], Field(min_length=1)] = ["uniform", "log_uniform", "empirical"]
    """Laws of the gap inside a bucket; the first one is the map's."""
    contexts: Annotated[int, Field(ge=32)] = 256
    """Histories, one of each sequence, so that they are independent."""
    fit_events: Annotated[int, Field(ge=2000)] = 20_000
    """Gaps, of other sequences, to which buckets are fitted."""
    proposals: Positive = 64
    """Of the draft, after each history, whose density ratios are looked at."""
    rule: Rule = "leviathan_two_step"
    """Of the timed samplers."""
    tokens: Annotated[str, Field(pattern=r"^[\w.]+:[\w.]+$")] = "reference_impls.tokens.lab:TokenLab"
    """What makes buckets and token laws (``studies.buckets.lab``)."""
    hypotheses: Hypotheses = Hypotheses()
    time: Timed | None = None


TABLE = Buckets
