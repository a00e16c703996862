"""Recipes of drafts: whose target they are for, how each is built and fitted. ``training/recipes/drafts/*.toml``."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, ValidationError, model_serializer, model_validator

from reference_impls.training.recipe import RECIPES, FitRecipe, Strict, override
from tppsd_bench.errors import InputError

PREFIX = "drafts"


class DistillRecipe(Strict):
    """L = weight D + (1 - weight) NLL (``training.distill``)."""

    weight: float = Field(0.5, ge=0.0, le=1.0)
    direction: Literal["target_draft", "draft_target", "acceptance"] = "target_draft"
    n_nodes: int = Field(96, ge=16)


class DraftFitRecipe(FitRecipe):
    validate_every: int = 1


class DraftSpec(Strict):
    """One draft. ``like`` another: what is not said here is as there, the seed with it, so that the two differ in nothing else."""

    like: str | None = None
    architecture: Literal["thp", "sahp", "attnhp", "lstm", "gru", "convolution", "renewal", "early_exit", "ngram"] | None = None
    args: dict[str, Any] = Field(default_factory=dict)
    """Of the encoder; of an early exit, ``exit_after``; of an n-gram, which is counted and not fitted, ``order`` and ``kappas``."""
    head: Literal["token_joint", "token_factorised"] | None = None
    """Of a draft over tokens, where it is not to have its target's."""
    head_args: dict[str, Any] = Field(default_factory=dict)
    fit: DraftFitRecipe | None = None
    seed: int | None = None
    distill: DistillRecipe | None = None

    @model_validator(mode="after")
    def _counted_or_fitted(self) -> DraftSpec:
        if self.architecture == "ngram" and (self.head, self.fit, self.distill, self.head_args) != (None, None, None, {}):
            raise ValueError("an n-gram is counted: it takes args (order, kappas), but no head, head_args, fit or distill")
        return self

    @model_serializer(mode="wrap")
    def _record(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Files of drafts with their target's head say nothing of heads."""
        out: dict[str, Any] = plain(self)
        if self.head is None:
            del out["head"]
        return out


class DraftsRecipe(Strict):
    pair: str
    """A shipped pair, or a folder written by ``train``."""
    seed: int = 1
    data: dict[str, Any] = Field(default_factory=dict)
    """Changes to the data of the pair's own recipe, e.g. ``sequences``; a pair trained on a file needs ``file`` (``--data``)."""
    data_epochs: int = Field(4, ge=1)
    """Of a known process: epochs' worth of fresh sequences, visited in turn."""
    head_args: dict[str, Any] = Field(default_factory=dict)
    fit: DraftFitRecipe = Field(default_factory=DraftFitRecipe)
    drafts: dict[str, DraftSpec]
    only: list[str] = Field(default_factory=list)
    """Train these alone."""

    @model_validator(mode="after")
    def _known(self) -> DraftsRecipe:
        for name, spec in self.drafts.items():
            if spec.like is not None and (spec.like not in self.drafts or self.drafts[spec.like].like is not None):
                raise ValueError(f"drafts.{name}.like = {spec.like!r} is no draft described in full here")
            if spec.like is not None and "ngram" in (spec.architecture, self.drafts[spec.like].architecture):
                raise ValueError(f"drafts.{name}.like: an n-gram is counted, not fitted; it is described in full, by itself")
            if spec.like is None and spec.architecture is None:
                raise ValueError(f"drafts.{name} needs an architecture, or to be like another")
            if name in ("shipped", "stress", "card"):
                raise ValueError(f"drafts.{name}: that name is taken")
        if unknown := set(self.only) - set(self.drafts):
            raise ValueError(f"only = {sorted(unknown)}: the recipe's drafts are {', '.join(self.drafts)}")
        return self

    def described(self, name: str) -> DraftSpec:
        """The draft with everything filled in that it takes from another, or from the recipe."""
        spec = self.drafts[name]
        like = self.drafts[spec.like] if spec.like else spec
        if spec.architecture == "ngram":
            return spec.model_copy(update={"seed": None})
        return DraftSpec(
            architecture=spec.architecture or like.architecture,
            args={**like.args, **spec.args},
            head=spec.head or like.head,
            head_args={**self.head_args, **like.head_args, **spec.head_args},
            fit=spec.fit or like.fit or self.fit,
            seed=next(seed for seed in (spec.seed, like.seed, self.seed) if seed is not None),
            distill=spec.distill,
        )


def is_draft_recipe(name_or_path: str) -> bool:
    """Whether the recipe is one of drafts: it names a pair. False where there is no such file, too."""
    path = _path(name_or_path)
    if not path.is_file():
        return False
    try:
        return "pair" in tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError:
        return False


def draft_recipe_names() -> list[str]:
    return sorted(f"{PREFIX}/{p.stem}" for p in (RECIPES / PREFIX).glob("*.toml"))


def load_draft_recipe(name_or_path: str, overrides: dict[str, Any] | None = None) -> DraftsRecipe:
    """A shipped recipe (``drafts/PAIR``) or a file; ``overrides`` are dotted keys."""
    path = _path(name_or_path)
    if not path.is_file():
        raise InputError(f"There is no recipe {name_or_path!r}; give a file, or one of {', '.join(draft_recipe_names())}.")
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
        override(raw, overrides or {}, str(path))
        return DraftsRecipe.model_validate(raw)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not valid TOML: {error}.") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}.") from error


def _path(name_or_path: str) -> Path:
    path = Path(name_or_path)
    return path if path.suffix else RECIPES / f"{name_or_path}.toml"
