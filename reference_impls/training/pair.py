"""Trains the target and the draft of a recipe and writes the pair's folder: two safetensors files and a card.

The card says what a reader of a result needs: recipe, data, seed, versions, held-out likelihoods beside the true process's and an i.i.d.
renewal fit's, the paired difference of target and draft with its interval, and each file's sha256.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from reference_impls.network import NeuralModel
from reference_impls.tokens.fitting import fit_buckets
from reference_impls.training.fit import EpochData, FitPlan, FitResult, Progress, fit, sequence_nll
from reference_impls.training.recipe import BucketRecipe, NetworkRecipe, Recipe
from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch
from tppsd_bench.measure.histories import ratio_over_sequences
from tppsd_bench.protocols import Stop
from tppsd_bench.results import to_json
from tppsd_bench.simulate import Process, make
from tppsd_bench.streams import StreamKey

VALIDATION_SEQUENCES, TEST_SEQUENCES = 256, 512
CLOCK = 0.1
"""Unit of the encoders' clock in mean gaps: below 1, so that the fastest sinusoids resolve events of one burst."""


@dataclass(frozen=True)
class PairData:
    """Training stream, validation and test sets, and the true process where there is one."""

    epoch: EpochData
    validation: EventBatch
    test: EventBatch
    process: Process | None
    median_events: int
    median_horizon: float | None = None
    notes: tuple[str, ...] = ()
    """What was chosen or changed while the data were read."""


def process_data(recipe: Recipe) -> PairData:
    """Fresh simulated sequences each epoch; validation and test on streams of their own."""
    spec = recipe.data
    process = make(str(spec.process), **spec.params)
    key = StreamKey(seed=recipe.seed, suite="training", cell=recipe.name)
    stop = Stop(n_events=spec.n_events)
    return PairData(
        epoch=lambda e: process.simulate(spec.sequences, stop, key.replace(stage="train", seed_epoch=e)),
        validation=process.simulate(VALIDATION_SEQUENCES, stop, key.replace(stage="validation")),
        test=process.simulate(TEST_SEQUENCES, stop, key.replace(stage="test")),
        process=process,
        median_events=spec.n_events,
    )


def build_network(
    spec: NetworkRecipe, name: str, data: PairData, seed: int, buckets: BucketRecipe | None = None
) -> NeuralModel:
    """A fresh network whose clock (mean gap), log-gap standardisation and time buckets come from the first training batch."""
    torch.manual_seed(seed)
    first = data.epoch(0)
    head_args = dict(spec.head_args)
    if buckets is not None:
        fitted = fit_buckets(first.gaps, buckets.n, buckets.strategy, buckets.within, buckets.tail)
        head_args["buckets"] = fitted.to_json()
    encoder_args = {"time_scale": CLOCK * float(np.mean(first.gaps)), **spec.encoder_args}
    config = {
        "name": name,
        "encoder": spec.encoder,
        "n_types": first.n_types,
        "encoder_args": encoder_args,
        "head": spec.head,
        "head_args": head_args,
    }
    try:
        model = NeuralModel(config)
    except TypeError as error:
        raise InputError(f"{name}: no {spec.encoder} network from its encoder_args and head_args: {error}.") from error
    logs = np.log(first.gaps)
    model.head.log_mean.fill_(float(logs.mean()))
    model.head.log_std.fill_(float(logs.std()))
    return model


def train_pair(
    recipe: Recipe,
    data: PairData,
    out: Path,
    *,
    roles: tuple[str, ...] = ("target", "draft"),
    resume: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Train what is missing in ``out`` and write the card; returns it. With ``resume`` an interrupted run goes on."""
    finished = _finished(recipe, out) if resume else None
    if finished is not None:
        return finished
    out.mkdir(parents=True, exist_ok=True)
    models: dict[str, NeuralModel] = {}
    fits: dict[str, FitResult] = {}
    plans = {role: FitPlan(**getattr(recipe, role).fit.sized(data.epoch(0).n_events)) for role in roles}
    shares = _shares(recipe, plans)
    for role in roles:
        spec: NetworkRecipe = getattr(recipe, role)
        models[role] = build_network(spec, f"{recipe.name}.{role}", data, recipe.seed + (role == "draft"), recipe.buckets)
        state = out / f"{role}.state.pt"
        if not resume:
            state.unlink(missing_ok=True)
        said = None if progress is None else _part_of(progress, f"{recipe.name} {role}", *shares[role])
        fits[role] = fit(
            models[role], data.epoch, data.validation, plans[role], seed=recipe.seed, state_path=state, progress=said
        )
        save_network(models[role], out / f"{role}.safetensors", fits[role])
    if {"target", "draft"} <= {p.name.split(".")[0] for p in out.glob("*.safetensors")}:
        card = write_card(recipe, data, out)
        for role in ("target", "draft"):
            (out / f"{role}.state.pt").unlink(missing_ok=True)
        return card
    return {}


def _finished(recipe: Recipe, out: Path) -> dict[str, Any] | None:
    """The card of a folder in which this very recipe has been trained to its end."""
    if not (out / "card.json").is_file():
        return None
    card: dict[str, Any] = json.loads((out / "card.json").read_text(encoding="utf-8"))
    return card if card.get("recipe") == to_json(_record(recipe)) else None


def _record(recipe: Recipe) -> dict[str, Any]:
    """The recipe as the card states it: a file by its name, for its path means nothing elsewhere."""
    out = recipe.model_dump()
    if recipe.data.file is not None:
        out["data"]["file"] = Path(recipe.data.file).name
    return out


def _shares(recipe: Recipe, plans: dict[str, FitPlan]) -> dict[str, tuple[float, float]]:
    """(begin, width) of each role in the whole training, by layers x epochs: what time it takes, roughly."""
    costs = {role: plan.epochs * (1 + getattr(recipe, role).encoder_args.get("n_layers", 1)) for role, plan in plans.items()}
    total, begin, out = sum(costs.values()), 0.0, {}
    for role, cost in costs.items():
        out[role] = (begin, cost / total)
        begin += cost / total
    return out


def _part_of(progress: Progress, name: str, begin: float, width: float) -> Progress:
    return lambda text, done: progress(f"{name}, {text}", begin + width * done)


def save_network(model: NeuralModel, path: Path, result: FitResult) -> None:
    """Weights plus, in the file's own metadata, the configuration and how training went."""
    metadata = {"config": json.dumps(model.config), "fit": json.dumps(to_json(result))}
    temporary = path.with_suffix(".part")
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, temporary, metadata)
    os.replace(temporary, path)


def load_network(path: Path, device: str = "cpu") -> NeuralModel:
    """A network from its safetensors file, in evaluation mode."""
    from safetensors import safe_open

    with safe_open(path, framework="pt") as f:
        metadata = f.metadata() or {}
        if "config" not in metadata:
            raise InputError(f"{path}: no network configuration in the file's metadata; expected one written by `train`.")
        model = NeuralModel(json.loads(metadata["config"]))
        model.load_state_dict({name: f.get_tensor(name) for name in f.keys()})  # noqa: SIM118 - not a dict
    return model.to(device).eval()


def fit_of(path: Path) -> dict[str, Any]:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as f:
        return dict(json.loads((f.metadata() or {})["fit"]))


def write_card(recipe: Recipe, data: PairData, out: Path) -> dict[str, Any]:
    """Held-out likelihoods and provenance; ``card.json``."""
    from tppsd_bench.simulate.baseline import renewal_baseline

    models = {role: load_network(out / f"{role}.safetensors") for role in ("target", "draft")}
    test = data.test
    sums = {role: sequence_nll(model, test) for role, model in models.items()}
    sums["renewal"] = -renewal_baseline(data.epoch(0), types="iid").log_likelihood(test)
    if data.process is not None:
        sums["true"] = -data.process.log_likelihood(test)
    figures: dict[str, Any] = {name: ratio_over_sequences(value, test.lengths) for name, value in sums.items()}
    figures["draft_minus_target"] = ratio_over_sequences(sums["draft"] - sums["target"], test.lengths)
    if "true" in sums:
        figures["target_minus_true"] = ratio_over_sequences(sums["target"] - sums["true"], test.lengths)
        lead = figures["renewal"]["value"] - figures["true"]["value"]
        figures["true_lead"] = lead
        figures["lead_share"] = (figures["renewal"]["value"] - figures["target"]["value"]) / lead if lead > 0.005 else None
    pointless = figures["draft_minus_target"]["low"] <= 0.0
    card = {
        "name": recipe.name,
        "title": recipe.title,
        "n_types": test.n_types,
        "recipe": _record(recipe),
        "data": {
            "name": recipe.data.name or recipe.data.process,
            "source": recipe.data.source,
            "licence": recipe.data.licence,
            "notes": list(data.notes),
        },
        "process": None if data.process is None else {"kind": data.process.kind, "params": data.process.params()},
        "train_median_events": data.median_events,
        "train_median_horizon": data.median_horizon,
        "test": {"sequences": len(test), "events": test.n_events},
        "nll": figures,
        "speculation_pointless": bool(pointless),
        "sentence": "speculation pointless: the draft is as good as the target on held-out data" if pointless else "",
        "parameters": {role: model.n_parameters for role, model in models.items()},
        "fit": {role: {k: v for k, v in fit_of(out / f"{role}.safetensors").items() if k != "history"} for role in models},
        "torch": torch.__version__.split("+")[0],
        "sha256": {f"{r}.safetensors": hashlib.sha256((out / f"{r}.safetensors").read_bytes()).hexdigest() for r in models},
    }
    temporary = out / "card.json.part"
    temporary.write_text(json.dumps(to_json(card), indent=1), encoding="utf-8")
    os.replace(temporary, out / "card.json")
    return card
