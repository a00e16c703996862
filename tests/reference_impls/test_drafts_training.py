"""Drafts from a recipe: seeded, resumable, with a card; found beside their target and loaded when asked for."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import reference_impls.training.draft_figures as figures
import reference_impls.training.pair as pair_module
from reference_impls.drafts.files import about_draft
from reference_impls.drafts.ngram import NGram
from reference_impls.pairs import CHECKPOINTS, load_pair
from reference_impls.tokens.point import token_acceptance
from reference_impls.training.cli import train
from reference_impls.training.draft_recipe import draft_recipe_names, is_draft_recipe, load_draft_recipe
from reference_impls.training.drafts import pair_data, train_drafts
from reference_impls.training.fit import fit
from reference_impls.training.pair import load_network, process_data, train_pair
from reference_impls.training.recipe import Recipe
from tppsd_bench.errors import InputError
from tppsd_bench.protocols import SampleRequest, Scores, Stop
from tppsd_bench.streams import StreamKey

HAWKES = {"mu": [0.2, 0.1], "alpha": [[0.5, 0.2], [0.2, 0.4]], "beta": [[1.0, 1.0], [1.0, 1.0]]}
FIT = {"epochs": 2, "batch_sequences": 8, "warmup_steps": 2}
NETWORK = {
    "encoder": "sahp",
    "encoder_args": {"n_layers": 2, "n_heads": 2, "d": 8},
    "head_args": {"n_components": 3},
    "fit": FIT,
}
RECIPE = """
pair = "{pair}"
seed = 7
data_epochs = 2
head_args = {{ n_components = 2 }}
fit = {{ epochs = 3, batch_sequences = 8, warmup_steps = 2, learning_rate = 1e-2, validate_every = 2 }}
[drafts.gru]
architecture = "gru"
args = {{ d = 4 }}
[drafts.gru-distilled]
like = "gru"
distill = {{ weight = 0.5, n_nodes = 32 }}
[drafts.early-exit]
architecture = "early_exit"
args = {{ exit_after = 1 }}
[drafts.renewal]
architecture = "renewal"
"""
OVER_TOKENS = """
[drafts.gru-joint]
like = "gru"
head = "token_joint"
[drafts.ngram]
architecture = "ngram"
args = { order = 2 }
"""
NAMES = ["early-exit", "gru", "gru-distilled", "renewal"]


@pytest.fixture(scope="module")
def small():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_module, "VALIDATION_SEQUENCES", 12)
        patch.setattr(pair_module, "TEST_SEQUENCES", 12)
        for name, value in (("SEQUENCES", 6), ("CONTEXTS", 3), ("STEPS", 20), ("WARM_UP", 2)):
            patch.setattr(figures, name, value)
        yield


@pytest.fixture(scope="module")
def pair(small, tmp_path_factory) -> Path:
    """A tiny pair of two-type Hawkes sequences."""
    folder = tmp_path_factory.mktemp("pairs") / "tiny"
    data = {"process": "hawkes", "params": HAWKES, "n_events": 12, "sequences": 24}
    recipe = Recipe.model_validate(
        {"name": "tiny", "title": "Tiny", "seed": 5, "data": data, "target": NETWORK, "draft": NETWORK}
    )
    train_pair(recipe, process_data(recipe), folder)
    return folder


@pytest.fixture(scope="module")
def recipe_file(pair, tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("recipes") / "drafts.toml"
    path.write_text(RECIPE.format(pair=pair))
    return str(path)


@pytest.fixture(scope="module")
def trained(recipe_file, tmp_path_factory) -> tuple[Path, list[str]]:
    """The drafts of the recipe, trained through the ``train`` verb, and what was said."""
    said: list[str] = []
    folder = train(recipe_file, out=str(tmp_path_factory.mktemp("out") / "pair"), quiet=True, tell=said.append)
    return folder, said


def weights(folder: Path) -> dict[str, dict[str, torch.Tensor]]:
    return {p.stem: load_file(p) for p in sorted((folder / "drafts").glob("*.safetensors"))}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


# -- what training leaves ---------------------------------------------------------------------------------------------------
def test_the_folder_is_a_pair_with_its_drafts(trained, pair):
    folder, said = trained
    assert sorted(p.name for p in folder.iterdir()) == ["card.json", "draft.safetensors", "drafts", "target.safetensors"]
    assert (folder / "target.safetensors").read_bytes() == (pair / "target.safetensors").read_bytes()
    assert sorted(p.name for p in (folder / "drafts").iterdir()) == sorted(["card.json", *(f"{n}.safetensors" for n in NAMES)])
    assert len(said) == 4
    assert "nats/event held out, events accepted" in said[0]


def test_drafts_are_listed_at_once_and_loaded_when_asked_for(trained, monkeypatch):
    import reference_impls.drafts.files as files

    loaded: list[str] = []
    load = files.load_draft
    monkeypatch.setattr(files, "load_draft", lambda path, *rest: loaded.append(path.stem) or load(path, *rest))
    pair = load_pair(str(trained[0]))
    assert list(pair.drafts) == ["shipped", "stress", *NAMES]
    assert loaded == []
    run = pair.sampler("speculative", draft="gru-distilled", k=3).sample(
        SampleRequest(2, Stop(n_events=9), StreamKey(cell="zoo"))
    )
    assert run.events.lengths.tolist() == [9, 9]
    assert loaded == ["gru-distilled"]


def test_the_card_says_what_each_draft_is_worth(trained):
    folder, _ = trained
    card = json.loads((folder / "drafts" / "card.json").read_text())
    assert sorted(card["drafts"]) == NAMES
    for name, entry in card["drafts"].items():
        path = folder / "drafts" / f"{name}.safetensors"
        assert entry["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
        parts = entry["acceptance"]
        assert 0 < parts["event"]["low"] <= parts["event"]["value"] <= parts["joint"]["value"] + 1e-9
        assert parts["joint"]["value"] <= parts["gap"]["value"] + 1e-9
        assert parts["event"]["value"] == pytest.approx(parts["gap"]["value"] * parts["type"]["value"], rel=1e-9)
        assert entry["step_us"] > 0
    gru, distilled = card["drafts"]["gru"], card["drafts"]["gru-distilled"]
    assert distilled["minus_like"]["event"]["value"] == pytest.approx(
        distilled["acceptance"]["event"]["value"] - gru["acceptance"]["event"]["value"], abs=1e-12
    )
    assert distilled["distill"]["weight"] == 0.5
    assert gru["distill"] is None
    exit_ = card["drafts"]["early-exit"]
    assert exit_["own_parameters"] < exit_["parameters"]


def test_acceptance_of_the_target_by_itself_is_one(trained):
    target = load_network(trained[0] / "target.safetensors")
    histories = figures.histories_of(target, 12, 1, 5, 4)
    assert len(histories.law) == 20
    mean = histories.mean(histories.acceptance(target).two_step)
    assert mean["value"] == pytest.approx(1.0, abs=1e-9)


def test_a_pair_over_tokens_gets_drafts_over_its_tokens(small, tmp_path):
    head = {"head": "token_factorised", "head_args": {"hidden": 4}}
    data = {"process": "hawkes", "params": HAWKES, "n_events": 12, "sequences": 24}
    parts = {"name": "tokens", "title": "Tokens", "data": data, "buckets": {"n": 6}}
    recipe = Recipe.model_validate({**parts, "target": {**NETWORK, **head}, "draft": {**NETWORK, **head}})
    train_pair(recipe, process_data(recipe), tmp_path / "tokens")
    path = tmp_path / "drafts.toml"
    path.write_text(RECIPE.format(pair=tmp_path / "tokens").replace("n_components = 2", "hidden = 4") + OVER_TOKENS)
    train(str(path), quiet=True)
    pair = load_pair(str(tmp_path / "tokens"))
    card = json.loads((tmp_path / "tokens" / "drafts" / "card.json").read_text())
    assert [pair.drafts[name].head.joint for name in ("gru", "gru-joint")] == [False, True]
    assert card["drafts"]["gru-joint"]["minus_like"]["joint"]["value"] == pytest.approx(
        card["drafts"]["gru-joint"]["acceptance"]["joint"]["value"] - card["drafts"]["gru"]["acceptance"]["joint"]["value"]
    )
    ngram, entry = pair.drafts["ngram"], card["drafts"]["ngram"]
    assert isinstance(ngram, NGram)
    assert ngram.order == 2
    events = 2 * 24 * 12  # both epochs of the recipe are counted
    assert sum(counts.sum() for context, (_, counts) in ngram.counts.items()) == events
    assert (entry["fit"], entry["parameters"], entry["distill"]) == ({"kappa": ngram.kappa}, ngram.n_parameters, None)
    scored = ngram.score(process_data(recipe).test)
    assert entry["nll"]["value"] == pytest.approx(-np.mean(scored.log_density + np.log(own_types(scored, recipe))), rel=1e-12)
    for name in [*NAMES, "gru-joint", "ngram"]:
        assert pair.drafts[name].buckets.same_as(pair.target.buckets)
        run = pair.sampler("speculative", draft=name, k=3).sample(SampleRequest(2, Stop(n_events=6), StreamKey(cell="tokens")))
        assert run.events.lengths.tolist() == [6, 6]


def own_types(scores: Scores, recipe: Recipe) -> np.ndarray:
    types = process_data(recipe).test.types
    return scores.type_probs[np.arange(len(types)), types]


def test_exact_acceptance_of_a_card_is_that_over_tokens(small, tmp_path):
    """Quadrature, which knows nothing of tokens, and the sum over tokens give one number."""
    head = {"head": "token_joint"}
    data = {"process": "hawkes", "params": HAWKES, "n_events": 12, "sequences": 24}
    parts = {"name": "tokens", "title": "Tokens", "data": data, "buckets": {"n": 30}}
    plain = {**NETWORK, "head_args": {}}
    recipe = Recipe.model_validate({**parts, "target": {**plain, **head}, "draft": {**plain, "head": "token_factorised"}})
    train_pair(recipe, process_data(recipe), tmp_path / "tokens")
    pair = load_pair(str(tmp_path / "tokens"))
    histories = figures.histories_of(pair.target, 12, 3, 4, 4)
    found = histories.acceptance(pair.drafts["shipped"])
    exact = token_acceptance(histories.law, pair.drafts["shipped"].conditionals(histories.events).take(histories.at))
    for part in ("gap", "joint", "two_step"):
        np.testing.assert_allclose(getattr(found, part), getattr(exact, part), atol=1e-9)


# -- determinism ------------------------------------------------------------------------------------------------------------
def test_the_same_recipe_gives_the_same_weights_and_likes_begin_alike(trained, recipe_file, tmp_path):
    again = train(recipe_file, out=str(tmp_path / "again"), quiet=True)
    one, two = weights(trained[0]), weights(again)
    assert all(same(one[name], two[name]) for name in NAMES)
    assert not same(one["gru"], one["gru-distilled"])
    recipe = load_draft_recipe(recipe_file)
    assert recipe.described("gru-distilled").model_copy(update={"distill": None}) == recipe.described("gru")
    other = train(recipe_file, out=str(tmp_path / "other"), quiet=True, seed=8, set=['only=["gru"]'])
    assert not same(weights(other)["gru"], one["gru"])


def test_an_interrupted_training_goes_on_where_it_was(trained, recipe_file, tmp_path, monkeypatch):
    """Stopped in the middle of the second draft; then the first is kept as it is, and all end as without the interruption."""
    recipe = load_draft_recipe(recipe_file)
    epochs: list[str] = []

    def stop(text: str, _done: float) -> None:
        epochs.append(text)
        if len(epochs) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_drafts(recipe, pair_data(recipe), tmp_path / "pair", progress=stop)
    first = tmp_path / "pair" / "drafts" / "gru.safetensors"
    assert first.is_file()
    when = first.stat().st_mtime_ns
    import reference_impls.training.drafts as module

    begun: list[str] = []
    monkeypatch.setattr(
        module, "fit", lambda model, *args, **kw: begun.append(model.name.split(".")[-1]) or fit(model, *args, **kw)
    )
    train_drafts(recipe, pair_data(recipe), tmp_path / "pair", resume=True)
    assert begun == ["gru-distilled", "early-exit", "renewal"]
    assert first.stat().st_mtime_ns == when
    one, two = weights(trained[0]), weights(tmp_path / "pair")
    for name in NAMES:
        for key, value in one[name].items():
            np.testing.assert_allclose(two[name][key], value, atol=1e-6)
    assert not list((tmp_path / "pair" / "drafts").glob("*.pt"))


# -- recipes ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", draft_recipe_names())
def test_shipped_recipes_name_a_pair_and_every_draft_that_ships(name):
    recipe = load_draft_recipe(name)
    assert is_draft_recipe(name)
    about: dict[str, Any] = json.loads((CHECKPOINTS / recipe.pair / "card.json").read_text())
    components = about["recipe"]["target"]["head_args"]
    assert recipe.head_args.get("types_given_gap", False) == components.get("types_given_gap", False)
    for draft in recipe.drafts:
        described = recipe.described(draft)
        assert (described.fit is None) == (described.architecture == "ngram")


SHIPPED = sorted(CHECKPOINTS.glob("*/drafts/card.json"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.parts[-3])
def test_a_shipped_card_belongs_to_its_files_and_its_recipe(path):
    card = json.loads(path.read_text())
    files = {p.stem: hashlib.sha256(p.read_bytes()).hexdigest() for p in path.parent.glob("*.safetensors")}
    assert files == {name: entry["sha256"] for name, entry in card["drafts"].items()}
    recipe = load_draft_recipe(f"drafts/{card['pair']}")
    for name in files:
        assert about_draft(path.parent / f"{name}.safetensors")["recipe"]["spec"] == recipe.described(name).model_dump(
            mode="json"
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pair = 'tiny'\n[drafts.a]\nlike = 'b'", "is no draft described in full"),
        ("pair = 'tiny'\n[drafts.a]\nargs = {}", "needs an architecture"),
        ("pair = 'tiny'\n[drafts.stress]\narchitecture = 'gru'", "that name is taken"),
        ("pair = 'tiny'\nonly = ['b']\n[drafts.a]\narchitecture = 'gru'", "the recipe's drafts are a"),
        ("pair = 'tiny'\n[drafts.a]\narchitecture = 'gru'\ndistill = { weight = 2.0 }", "less than or equal to 1"),
        ("pair = 'tiny'\n[drafts.a]\narchitecture = 'rnn'", "drafts.a.architecture"),
        ("pair = 'tiny'\n[drafts.a]\narchitecture = 'ngram'\nhead = 'token_joint'", "an n-gram is counted: it takes args"),
        ("pair = 'tiny'\n[drafts.a]\narchitecture = 'ngram'\n[drafts.b]\nlike = 'a'", "drafts.b.like: an n-gram is counted"),
    ],
)
def test_a_wrong_recipe_is_a_sentence(text, message, tmp_path):
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        load_draft_recipe(str(path))


def test_wrong_arguments_folders_and_missing_data_are_sentences(trained, recipe_file, tmp_path):
    recipe = load_draft_recipe(recipe_file, {"drafts.gru.args": {"width": 3}, "only": ["gru"]})
    with pytest.raises(InputError, match=r"no gru from its args and head_args: .*width"):
        train_drafts(recipe, pair_data(recipe), tmp_path / "one")
    for change, said in (
        ({"drafts.gru.head": "token_joint"}, r"gru: head = 'token_joint', but the target .* is in continuous time"),
        ({"drafts.gru": {"architecture": "ngram"}}, "gru: an n-gram needs a target over tokens"),
    ):
        recipe = load_draft_recipe(recipe_file, {**change, "drafts.gru-distilled": {"architecture": "gru"}, "only": ["gru"]})
        with pytest.raises(InputError, match=said):
            train_drafts(recipe, pair_data(recipe), tmp_path / "one")
    other = tmp_path / "other"
    other.mkdir()
    for name in ("target.safetensors", "draft.safetensors"):
        (other / name).write_bytes(b"")
    (other / "card.json").write_text('{"name": "else"}')
    with pytest.raises(InputError, match="holds another pair, 'else'"):
        train_drafts(recipe, pair_data(recipe), other)
    with pytest.raises(InputError, match=r"was trained on a file, .*earthquake"):
        pair_data(load_draft_recipe(recipe_file, {"pair": "sahp-earthquake"}))
    with pytest.raises(InputError, match="There is no recipe 'drafts/nothing'"):
        load_draft_recipe("drafts/nothing")
