"""Training of a tiny pair: seeded, resumable, stopped at the best held-out likelihood; the card is complete, bad recipes are sentences."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import reference_impls.training.pair as pair_module
from reference_impls.pairs import load_pair
from reference_impls.training.fit import FitPlan, batches, fit, sequence_nll
from reference_impls.training.pair import build_network, process_data, train_pair
from reference_impls.training.recipe import Recipe, load_recipe, recipe_names
from tppsd_bench.errors import InputError, RunBroken
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import SampleRequest, Stop
from tppsd_bench.streams import StreamKey

RECIPE = """
name = "tiny"
title = "A tiny pair"
seed = 5
[data]
process = "hawkes"
params = { mu = [0.2], alpha = [[0.8]], beta = [[1.0]] }
n_events = 16
sequences = 24
[target]
encoder = "thp"
encoder_args = { n_layers = 2, n_heads = 2, d = 8, dropout = 0.1 }
head_args = { n_components = 3 }
fit = { epochs = 2, batch_sequences = 8, warmup_steps = 2 }
[draft]
encoder = "thp"
encoder_args = { n_layers = 1, n_heads = 1, d = 8 }
head_args = { n_components = 2 }
fit = { epochs = 2, batch_sequences = 8, warmup_steps = 2 }
"""


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(pair_module, "VALIDATION_SEQUENCES", 16)
    monkeypatch.setattr(pair_module, "TEST_SEQUENCES", 24)


@pytest.fixture
def recipe_file(tmp_path) -> str:
    path = tmp_path / "tiny.toml"
    path.write_text(RECIPE)
    return str(path)


def trained(recipe: Recipe, out: Path, **options) -> tuple[dict, dict[str, dict[str, torch.Tensor]]]:
    card = train_pair(recipe, process_data(recipe), out, **options)
    return card, {role: load_file(out / f"{role}.safetensors") for role in ("target", "draft")}


def equal_weights(a, b) -> bool:
    return all(torch.equal(a[role][k], b[role][k]) for role in a for k in a[role])


# -- determinism -----------------------------------------------------------------------------------------------------------
def test_a_seed_gives_the_same_weights_and_another_seed_others(recipe_file, tmp_path):
    first_card, first = trained(load_recipe(recipe_file), tmp_path / "a")
    card, again = trained(load_recipe(recipe_file), tmp_path / "b")
    assert equal_weights(first, again)
    assert card["nll"] == first_card["nll"]
    _, other = trained(load_recipe(recipe_file, {"seed": 6}), tmp_path / "c")
    assert not equal_weights(first, other)


@pytest.mark.parametrize("after", [1, 2, 3])
def test_an_interrupted_run_resumes_to_the_same_weights(recipe_file, tmp_path, after):
    """Killed after its n-th epoch (the third is the draft's first): the states on disk carry weights, optimiser and mean."""
    recipe = load_recipe(recipe_file)
    _, whole = trained(recipe, tmp_path / "whole")
    seen = []

    def killed(text, done):
        seen.append(text)
        if len(seen) == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_pair(recipe, process_data(recipe), tmp_path / "cut", progress=killed)
    assert not (tmp_path / "cut" / "card.json").exists()
    later = []
    _, resumed = trained(recipe, tmp_path / "cut", resume=True, progress=lambda text, done: later.append((text, done)))
    assert len(later) == 4 - after, "epochs that were finished are not run again"
    assert later[-1][1] == pytest.approx(1.0)
    assert equal_weights(whole, resumed)
    assert not list((tmp_path / "cut").glob("*.state.pt")), "states of a finished pair are left behind"


def test_batches_hold_every_sequence_once_and_skip_empty_ones():
    data = EventBatch.from_gaps([np.full(n, float(i + 1)) for i, n in enumerate([3, 0, 5, 1, 4])])
    for seed in range(5):
        parts = list(batches(data, 2, np.random.default_rng(seed)))
        assert sorted(g for part in parts for g in part.gaps) == sorted(data.gaps)
        assert max(len(part) for part in parts) <= 2
        assert all((part.lengths > 0).all() for part in parts)


# -- stopping --------------------------------------------------------------------------------------------------------------
def tiny_model(recipe_file: str):
    recipe = load_recipe(recipe_file, {"target.encoder_args.dropout": 0.0})
    data = process_data(recipe)
    return build_network(recipe.target, "tiny", data, 1), data


def test_early_stopping_keeps_the_best_weights(recipe_file):
    """Two training sequences far from the held-out ones: fitting them soon makes the held-out likelihood worse."""
    model, data = tiny_model(recipe_file)
    few = data.epoch(0).select(slice(0, 2))
    shrunk = EventBatch(few.gaps * 0.3, few.types, few.lengths, few.n_types)
    plan = FitPlan(epochs=60, batch_sequences=2, learning_rate=2e-2, warmup_steps=1, patience=4, average_from=2.0)
    result = fit(model, lambda _e: shrunk, data.validation, plan, seed=3)
    assert result.epochs_run == result.best_epoch + 4 < 60
    held_out = [nll for _, _, nll in result.history]
    assert result.best_validation_nll == min(held_out) == held_out[result.best_epoch - 1]
    assert held_out[-1] > min(held_out)
    got = sequence_nll(model, data.validation).sum() / data.validation.n_events
    assert got == pytest.approx(result.best_validation_nll, abs=1e-9), "the model does not hold its best weights"
    assert not model.training


def test_averaged_weights_are_kept_where_they_validate_better(recipe_file):
    model, data = tiny_model(recipe_file)
    plan = FitPlan(epochs=4, batch_sequences=4, learning_rate=5e-2, warmup_steps=1, average_from=0.25)
    result = fit(model, data.epoch, data.validation, plan, seed=3)
    plain_model, _ = tiny_model(recipe_file)
    plain = fit(plain_model, data.epoch, data.validation, FitPlan(**{**plan.__dict__, "average_from": 2.0}), seed=3)
    assert result.best_validation_nll <= plain.best_validation_nll
    got = sequence_nll(model, data.validation).sum() / data.validation.n_events
    assert got == pytest.approx(result.best_validation_nll, abs=1e-9)


def test_training_learns(recipe_file):
    model, data = tiny_model(recipe_file)
    before = sequence_nll(model.eval(), data.validation).sum() / data.validation.n_events
    result = fit(model, data.epoch, data.validation, FitPlan(epochs=6, learning_rate=1e-2, warmup_steps=1), seed=3)
    assert result.best_validation_nll < before - 0.05


def test_a_training_that_blows_up_is_one_sentence(recipe_file):
    model, data = tiny_model(recipe_file)
    with torch.no_grad():
        model.head.raw.bias.fill_(float("nan"))
    with pytest.raises(RunBroken, match="learning rate"):
        fit(model, data.epoch, data.validation, FitPlan(epochs=1), seed=3)


# -- the card and the pair -------------------------------------------------------------------------------------------------
def test_the_card_says_what_a_reader_needs_and_the_folder_is_a_pair(recipe_file, tmp_path):
    recipe, out = load_recipe(recipe_file), tmp_path / "pair"
    trained(recipe, out)
    card = json.loads((out / "card.json").read_text())
    for name in ("name", "title", "n_types", "recipe", "data", "process", "train_median_events", "test", "nll", "sentence",
                 "speculation_pointless", "parameters", "fit", "torch", "sha256"):  # fmt: skip
        assert name in card, name
    assert set(card["nll"]) >= {"target", "draft", "renewal", "true", "draft_minus_target", "target_minus_true"}
    assert card["test"] == {"sequences": 24, "events": 24 * 16}
    assert card["process"]["kind"] == "hawkes"
    assert card["recipe"]["seed"] == 5
    assert card["fit"]["target"]["epochs_run"] == 2
    for name, digest in card["sha256"].items():
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == digest
    pair = load_pair(str(out))
    test = process_data(recipe).test
    for role, model in (("target", pair.target), ("draft", pair.drafts["shipped"])):
        assert sequence_nll(model, test).sum() / test.n_events == pytest.approx(card["nll"][role]["value"], abs=1e-9)
        assert model.n_parameters == card["parameters"][role]
    assert pair.process is not None
    for kind in ("speculative", "target_only", "target_only_recompute", "draft_only"):
        for draft in ("shipped", "stress"):
            run = pair.sampler(kind, draft=draft, k=3).sample(SampleRequest(2, Stop(n_events=5), StreamKey()))
            assert run.events.lengths.tolist() == [5, 5]


# -- recipes ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", recipe_names())
def test_every_shipped_recipe_loads(name):
    overrides = {"data.file": "events.csv"} if load_needs_file(name) else None
    recipe = load_recipe(name, overrides)
    assert recipe.name == name
    assert recipe.target.fit.sized(10_000)["epochs"] >= 10


def load_needs_file(name: str) -> bool:
    try:
        load_recipe(name)
    except InputError as error:
        return "--data" in str(error)
    return False


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"target.fit.epoch": 3}, r"tiny\.toml: target\.fit\.epoch: "),
        ({"typo": 1}, r"tiny\.toml: typo: "),
        ({"target.encoder": "lstm"}, r"target\.encoder: .*'thp', 'sahp' or 'attnhp'.*lstm"),
        ({"target.fit.epochs": "many"}, r"target\.fit\.epochs: .*many"),
        ({"name.x": 3}, r"name\.x cannot be set: name is a value"),
    ],
)
def test_a_bad_recipe_is_one_sentence_that_names_the_key(recipe_file, overrides, said):
    with pytest.raises(InputError, match=said):
        load_recipe(recipe_file, overrides)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"target.encoder_args.n_layer": 3}, r"tiny\.target: .*n_layer"),
        ({"target.head_args.n_component": 3}, r"tiny\.target: .*n_component"),
        ({"target.encoder_args.n_heads": 3}, r"tiny\.target: d = 8 is not divisible by n_heads = 3"),
        ({"data.params.nu": 3}, r"hawkes.*nu"),
    ],
)
def test_a_network_or_process_that_cannot_be_made_is_one_sentence(recipe_file, tmp_path, overrides, said):
    recipe = load_recipe(recipe_file, overrides)
    with pytest.raises(InputError, match=said):
        train_pair(recipe, process_data(recipe), tmp_path / "out")


def test_recipes_that_are_not_there_or_not_toml(tmp_path):
    with pytest.raises(InputError, match=r"no recipe 'thp-hawks'.*thp-hawkes"):
        load_recipe("thp-hawks")
    (tmp_path / "bad.toml").write_text("name = ")
    with pytest.raises(InputError, match="not valid TOML"):
        load_recipe(str(tmp_path / "bad.toml"))
