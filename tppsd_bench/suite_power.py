"""Tables of a suite that proves the suite itself: known faults must be caught, exact samplers must not be."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[int, Field(ge=1)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
DEFAULT_ZOO = "reference_impls.mutants"
Some = Literal["all"] | list[Name]
Level = Annotated[float, Field(gt=0.0, lt=1.0)]
AtLeast0 = Annotated[int, Field(ge=0)]


class Zoo(BaseModel):
    """What all of them share: frozen, no unknown key, no silent conversion, as every table of a suite."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    zoo: Annotated[str, Field(pattern=r"^[\w.]+$")] = DEFAULT_ZOO
    """Module that names the faults and controls: ``names()``, ``controls()``, ``mutant(name)``."""
    pilot_sequences: Annotated[int, Field(ge=20)] = 64
    """Short sequences that fix the sizes of strata before each examination."""


class Power(Zoo):
    """Power cells: one a fault or control, each examined on its witness under ``seeds`` seeds."""

    mutants: Some = "all"
    controls: Some = "all"
    seeds: Positive = 12
    seeds_of: dict[Name, Positive] = {}
    """Of single faults or controls instead: fewer where an examination takes long."""
    control_seeds: Positive | None = None
    """Of the controls; left out: as many as the faults get."""
    n_events: Positive = 20_000
    """Events of the first round: the default of ``certify``."""
    required: Level = 0.99
    """Power that every fault must be caught with."""
    blackbox_seeds: AtLeast0 = 1
    """Seeds that are also compared with the target-only arm that the fault's users had, by permutations."""
    n_permutations: Annotated[int, Field(ge=99)] = 9_999
    etd_seeds: AtLeast0 = 5
    """Sequential runs of a fault on the reference pair: events to detection (on the witness every seed is one)."""
    etd_budget: Positive = 20_000
    etd_pair: str = "toy-marked"
    etd_draft: Name = "shipped"


class Transformer(Zoo):
    """The same examination on shipped networks, for some of the faults: the toys are not special."""

    mutants: Annotated[list[Name], Field(min_length=1)]
    pairs: Annotated[list[str], Field(min_length=1)]
    draft: Name = "stress"
    seeds: Positive = 2
    n_events: Positive = 20_000
    required: Level = 0.99
    length: Annotated[int, Field(ge=2)] = 50


class Dose(Zoo):
    """Dose cells: one a fault that has doses; power at every dose."""

    mutants: Some = "all"
    doses: dict[Name, Annotated[list[float], Field(min_length=1)]] = {}
    """Doses instead of a fault's own, from harmless to severe."""
    seeds: Positive = 4
    n_events: Positive = 20_000
    resolved: Level = 0.95
    """Power from which a dose counts as caught."""


class Null(Zoo):
    """Null cells: one an exact sampler, examined ``runs`` times; how often does it fail, and are its p-values uniform?"""

    pair: str = "toy-marked"
    samplers: Annotated[list[Name], Field(min_length=1)]
    """``target_only``; ``speculative``, with dots and draft, K, ``joint``, ``horizon`` (speculative.shipped.k3); or controls."""
    runs: Annotated[int, Field(ge=20)] = 200
    """Of each sampler."""
    n_events: Positive = 2_000
    length: Annotated[int, Field(ge=2)] = 20
    horizon: Annotated[float, Field(gt=0)] | None = None
    """Of samplers named with ``horizon``."""
    batch_size: Positive = 256
    levels: Annotated[list[Level], Field(min_length=1)] = [0.05, 0.01]
    """Run levels at which the rule is measured beside its own."""
