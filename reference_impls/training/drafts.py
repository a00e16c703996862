"""Trains the drafts of a recipe for a pair's target, by likelihood or by distillation, and writes ``drafts/`` beside it.

Data, validation and test sequences are those of the pair's own recipe; drafts that are ``like`` one another share seed, initial
weights and the order of the data. The card holds what each is worth as a draft (``training.draft_figures``).
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from reference_impls.drafts.files import FOLDER, about_draft, load_draft, network_of, save_draft
from reference_impls.drafts.ngram import NGram, fit_ngram
from reference_impls.encoders import ENCODERS
from reference_impls.encoders.stepwise import StepEncoder
from reference_impls.network import NeuralModel
from reference_impls.pairs import CHECKPOINTS, card
from reference_impls.training.distill import Distillation, Grid
from reference_impls.training.draft_recipe import DraftSpec, DraftsRecipe
from reference_impls.training.files import file_data
from reference_impls.training.fit import FitPlan, Progress, fit
from reference_impls.training.pair import CLOCK, PairData, load_network, process_data
from reference_impls.training.recipe import Recipe
from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch
from tppsd_bench.results import to_json


def pair_folder(name: str) -> Path:
    return Path(name) if Path(name).is_dir() else CHECKPOINTS / name


def pair_data(recipe: DraftsRecipe) -> PairData:
    """The data of the pair's own recipe; of a known process, a few epochs of fresh sequences visited in turn."""
    own = Recipe.model_validate(card(recipe.pair)["recipe"])
    own = own.model_copy(update={"data": type(own.data).model_validate({**own.data.model_dump(), **recipe.data})})
    if own.data.process is None:
        if not recipe.data.get("file"):
            raise InputError(f"{recipe.pair} was trained on a file, {own.data.file!r}; give it (--data FILE).")
        return file_data(own, str(own.data.file))
    data = process_data(own)
    fresh = [data.epoch(i) for i in range(recipe.data_epochs)]
    return replace(data, epoch=lambda epoch: fresh[epoch % len(fresh)])


def build_draft(spec: DraftSpec, name: str, data: PairData, target: NeuralModel, seed: int) -> NeuralModel:
    """A fresh draft, standardised by the first epoch's gaps."""
    torch.manual_seed(seed)
    first = data.epoch(0)
    logs = np.log(first.gaps)
    head_args = dict(spec.head_args)
    if target.buckets is not None:  # the tokens of a pair are shared
        head_args["buckets"] = target.config["head_args"]["buckets"]
    elif spec.head is not None:
        raise InputError(f"{name}: head = {spec.head!r}, but the target {target.name} is in continuous time; leave `head` out.")
    config: dict[str, Any] = {
        "name": name, "n_types": first.n_types, "head": spec.head or target.config.get("head", "mixture"), "head_args": head_args,
    }  # fmt: skip
    if spec.architecture == "early_exit":
        config |= spec.args
    else:
        encoder = str(spec.architecture)
        clock: dict[str, Any] = {"time_scale": CLOCK * float(first.gaps.mean())}
        if issubclass(ENCODERS[encoder], StepEncoder):
            clock["log_gap"] = [float(logs.mean()), float(logs.std())]
        config |= {"encoder": encoder, "encoder_args": clock | spec.args}
    try:
        model = network_of(config, target)
    except (TypeError, KeyError) as error:
        raise InputError(f"{name}: no {spec.architecture} from its args and head_args: {error}.") from error
    model.head.log_mean.fill_(float(logs.mean()))
    model.head.log_std.fill_(float(logs.std()))
    return model


def count_draft(spec: DraftSpec, name: str, data: PairData, target: NeuralModel, epochs: int) -> NGram:
    """An n-gram over the target's tokens: counts of every epoch's sequences, kappa by the validation sequences."""
    if target.buckets is None:
        raise InputError(f"{name}: an n-gram needs a target over tokens; {target.name} is in continuous time.")
    few = epochs if data.process is not None else 1
    try:
        model = fit_ngram(
            EventBatch.concat([data.epoch(i) for i in range(few)]), target.buckets, validation=data.validation, **spec.args
        )
    except TypeError as error:
        raise InputError(f"{name}: no n-gram from its args: {error}.") from error
    return replace(model, name=name)


def train_drafts(
    recipe: DraftsRecipe, data: PairData, out: Path, *, resume: bool = False, progress: Progress | None = None
) -> dict[str, Any]:
    """Train the recipe's drafts into the pair folder ``out`` and write their card; returns it.

    With ``resume`` an interrupted draft goes on, and one that this very recipe has finished is left as it is.
    """
    from reference_impls.training.draft_figures import write_draft_card

    _complete(out, pair_folder(recipe.pair))
    target = load_network(out / "target.safetensors")
    names, kept = recipe.only or list(recipe.drafts), dict[int, torch.Tensor]()
    for i, name in enumerate(names):
        path, spec = out / FOLDER / f"{name}.safetensors", recipe.described(name)
        about = to_json({"spec": spec.model_dump(), "data": recipe.data_epochs})
        if resume and path.is_file() and about_draft(path).get("recipe") == about:
            continue
        if spec.architecture == "ngram":
            counted = count_draft(spec, f"{recipe.pair}.{name}", data, target, recipe.data_epochs)
            save_draft(counted, path, recipe=about, fit={"kappa": counted.kappa})
            continue
        model = build_draft(spec, f"{recipe.pair}.{name}", data, target, int(spec.seed or 0))
        path.parent.mkdir(parents=True, exist_ok=True)
        state = path.with_suffix(".state.pt")
        if not resume:
            state.unlink(missing_ok=True)
        assert spec.fit is not None
        result = fit(
            model, data.epoch, data.validation, FitPlan(**spec.fit.sized(data.epoch(0).n_events)), seed=int(spec.seed or 0),
            state_path=state, progress=progress and _part_of(progress, f"{recipe.pair} {name}", i, len(names)),
            objective=_objective(spec, recipe, data, target, kept),
        )  # fmt: skip
        save_draft(model, path, recipe=about, fit=to_json(result))
        state.unlink(missing_ok=True)
    drafts: dict[str, NeuralModel | NGram] = {"shipped": load_network(out / "draft.safetensors")}
    drafts |= {path.stem: load_draft(path, target) for path in sorted((out / FOLDER).glob("*.safetensors"))}
    return write_draft_card(recipe, data, target, drafts, out / FOLDER)


def _objective(
    spec: DraftSpec, recipe: DraftsRecipe, data: PairData, target: NeuralModel, kept: dict[int, torch.Tensor]
) -> Distillation | None:
    if spec.distill is None:
        return None
    how = spec.distill
    grid = Grid.over(data.epoch(0).gaps, how.n_nodes)
    few = recipe.data_epochs if data.process is not None else 1
    return Distillation(target, how.weight, how.direction, grid, data.epoch, lambda epoch: epoch % few, kept)


def _part_of(progress: Progress, name: str, i: int, n: int) -> Progress:
    return lambda text, done: progress(f"{name}, {text}", (i + done) / n)


def _complete(out: Path, source: Path) -> None:
    """Make ``out`` a pair folder: the pair's own files are copied where they are not there."""
    out.mkdir(parents=True, exist_ok=True)
    for name in ("target.safetensors", "draft.safetensors", "card.json"):
        if not (out / name).is_file():
            shutil.copyfile(source / name, out / name)
    if (out / "card.json").read_bytes() != (source / "card.json").read_bytes():
        mine = json.loads((out / "card.json").read_text(encoding="utf-8"))["name"]
        raise InputError(f"{out} holds another pair, {mine!r}; choose another --out for drafts of {source.name!r}.")
