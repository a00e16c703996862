"""Recipes: a TOML file says everything a pair of checkpoints is rebuilt from."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from tppsd_bench.errors import InputError


class Strict(BaseModel):
    """Keys that are not known are refused."""

    model_config = ConfigDict(extra="forbid")


class DataRecipe(Strict):
    """A known process (fresh sequences every epoch), or a file of sequences given by ``--data`` (or ``file``)."""

    process: str | None = None
    params: dict[str, Any] = Field(default_factory=dict)
    n_events: int = 128
    """Events per simulated sequence."""
    sequences: int = 512
    """Simulated sequences per epoch."""
    file: str | None = None
    read: dict[str, Any] = Field(default_factory=dict)
    """Arguments of ``tppsd_bench.data.read_events``; ``splits`` names the file's own splits if it has them."""
    name: str = ""
    source: str = ""
    licence: str = ""
    max_events: int = 256
    """Longer sequences of a file are cut into windows of this many events for training."""
    censored: bool = False
    """Where the file states an end of observation, the likelihood includes the wait after the last event up to it."""

    @model_validator(mode="after")
    def _one_source(self) -> DataRecipe:
        if self.process is None and not self.file:
            raise ValueError("needs `process`, or `file` (--data FILE)")
        return self


class FitRecipe(Strict):
    epochs: int = 40
    events: int | None = None
    """Instead of ``epochs``: as many as pass this many events in all, between 10 and 200. A stated ``epochs`` goes before."""
    batch_sequences: int = 16
    learning_rate: float = 1e-3
    warmup_steps: int = 100
    weight_decay: float = 1e-4
    patience: int = 10

    def sized(self, events_per_epoch: int) -> dict[str, Any]:
        """The plan's numbers for data of this many events."""
        plan = self.model_dump(exclude={"events"})
        if self.events is not None and "epochs" not in self.model_fields_set:
            plan["epochs"] = min(200, max(10, round(self.events / events_per_epoch)))
            plan["patience"] = max(self.patience, plan["epochs"] // 5)
        return plan


class NetworkRecipe(Strict):
    encoder: Literal["thp", "sahp", "attnhp"]
    encoder_args: dict[str, Any]
    head: Literal["mixture", "token_joint", "token_factorised"] = "mixture"
    head_args: dict[str, Any] = Field(default_factory=dict)
    fit: FitRecipe = Field(default_factory=FitRecipe)

    @model_serializer(mode="wrap")
    def _record(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Cards of continuous pairs say nothing of heads."""
        out: dict[str, Any] = plain(self)
        if self.head == "mixture":
            del out["head"]
        return out


class BucketRecipe(Strict):
    """Time buckets of a pair over tokens, fitted to the first epoch's gaps; target and draft share them."""

    n: int = Field(100, ge=2)
    strategy: Literal["quantile", "equal_width", "log_width"] = "quantile"
    within: Literal["uniform", "log_uniform", "empirical"] = "uniform"
    tail: Literal["pareto", "exponential"] = "pareto"


class StressRecipe(Strict):
    """The stress draft: the shipped draft's law, locations shifted and scales widened (standardised log gap), types tempered."""

    shift: float = 0.5
    widen: float = 1.3
    temperature: float = 2.0
    tilt: float = 0.8


class Recipe(Strict):
    name: str
    title: str
    seed: int = 1
    data: DataRecipe
    target: NetworkRecipe
    draft: NetworkRecipe
    stress: StressRecipe = Field(default_factory=StressRecipe)
    buckets: BucketRecipe | None = None
    suite: dict[str, Any] = Field(default_factory=dict)
    """Hints for suites: ``k`` and ``horizon``."""

    @model_validator(mode="after")
    def _tokens_on_both_sides(self) -> Recipe:
        of = {role: getattr(self, role).head != "mixture" for role in ("target", "draft")}
        if of["target"] != of["draft"]:
            raise ValueError("the heads of target and draft must both be over tokens, or neither: one cannot verify the other")
        if of["target"] != (self.buckets is not None):
            raise ValueError("a [buckets] table goes with heads over tokens (head = 'token_joint' or 'token_factorised')")
        return self

    @model_serializer(mode="wrap")
    def _record(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        out: dict[str, Any] = plain(self)
        if self.buckets is None:
            del out["buckets"]
        return out


RECIPES = Path(__file__).parent / "recipes"


def recipe_names() -> list[str]:
    return sorted(p.stem for p in RECIPES.glob("*.toml"))


def load_recipe(name_or_path: str, overrides: dict[str, Any] | None = None) -> Recipe:
    """A shipped recipe by name, or a file; ``overrides`` are dotted keys (``target.fit.epochs = 3``)."""
    path = Path(name_or_path)
    if not path.suffix:
        path = RECIPES / f"{name_or_path}.toml"
    if not path.is_file():
        raise InputError(f"There is no recipe {name_or_path!r}; give a file, or one of {', '.join(recipe_names())}.")
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not valid TOML: {error}.") from error
    override(raw, overrides or {}, str(path))
    try:
        return Recipe.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(
            f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']} (found {first.get('input')!r})."
        ) from error


def override(raw: dict[str, Any], overrides: dict[str, Any], where: str) -> None:
    """Set dotted keys of a recipe as read, in place."""
    for dotted, value in overrides.items():
        node = raw
        *parents, last = dotted.split(".")
        for part in parents:
            node = node.setdefault(part, {})
            if not isinstance(node, dict):
                raise InputError(f"{where}: {dotted} cannot be set: {part} is a value, {node!r}, and holds no further keys.")
        node[last] = value
