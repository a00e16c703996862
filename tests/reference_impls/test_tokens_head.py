"""Token heads: torch and numpy say the same, recipes build them, and a trained pair samples what it scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from reference_impls.network import NeuralModel
from reference_impls.pairs import load_pair
from reference_impls.samplers.residual_tokens import TokenResidual
from reference_impls.tokens import JointTokens
from reference_impls.tokens.head import TokenHead
from reference_impls.tokens.point import token_acceptance
from reference_impls.tokens.stress import TokenStress
from reference_impls.training.pair import process_data, train_pair
from reference_impls.training.recipe import Recipe, load_recipe
from tests.reference_impls.sampler_runs import check_run
from tests.reference_impls.token_laws import buckets
from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import SampleRequest, Stop
from tppsd_bench.streams import StreamKey

RECIPE = """
name = "tokens"
title = "tokens"
seed = 3
[data]
process = "hawkes"
params = { mu = [0.15, 0.1], alpha = [[0.6, 0.2], [0.15, 0.8]], beta = [[1.2, 1.2], [1.2, 1.2]] }
n_events = 24
sequences = 24
[target]
encoder = "sahp"
head = "token_joint"
encoder_args = { d = 16, n_layers = 2, n_heads = 2 }
fit = { epochs = 2 }
[draft]
encoder = "sahp"
head = "token_factorised"
encoder_args = { d = 16, n_layers = 1, n_heads = 1 }
head_args = { hidden = 8 }
fit = { epochs = 2 }
[buckets]
n = 20
within = "log_uniform"
"""


def head(joint: bool, n_types: int = 3, n: int = 25) -> TokenHead:
    torch.manual_seed(1)
    made = TokenHead(8, n_types, buckets(n).to_json(), joint, hidden=5)
    with torch.no_grad():
        made.raw.weight.normal_()
    return made.eval()


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("n_types", [1, 3])
def test_torch_and_numpy_give_one_law(joint: bool, n_types: int) -> None:
    made = head(joint, n_types)
    rng = np.random.default_rng(2)
    gaps, types = np.exp(rng.normal(size=50)), rng.integers(0, n_types, 50)
    raw = made(torch.randn(50, 8)).detach()
    law = made.law(raw.numpy())
    assert law.n_types == n_types
    mine = law.log_prob(gaps) + law.type_log_probs(gaps)[np.arange(50), types]
    found = made.log_likelihood(raw, torch.from_numpy(gaps), torch.from_numpy(types))
    np.testing.assert_allclose(found.detach().numpy(), mine, atol=2e-5)
    np.testing.assert_allclose(made.log_survival(raw, torch.from_numpy(gaps)).numpy(), np.log(law.sf(gaps)), atol=2e-5)
    np.testing.assert_allclose(np.exp(law.log_token_probs()).sum(axis=(1, 2)), 1.0, atol=1e-12)


def test_only_factorised_types_forget_their_weights_copies() -> None:
    made = head(False)
    raw = made(torch.randn(4, 8)).detach().numpy()
    gap = np.full(4, 0.7)
    before = made.law(raw).type_log_probs(gap)
    made.train()
    with torch.no_grad():
        made.out.bias += torch.arange(3.0)
    made.eval()
    assert np.abs(made.law(raw).type_log_probs(gap) - before).max() > 0.1


@pytest.mark.parametrize("name", ["token_joint", "token_factorised"])
def test_cached_and_teacher_forced_laws_agree(name: str) -> None:
    torch.manual_seed(0)
    args = {"buckets": buckets(30).to_json()}
    config = {
        "encoder": "thp",
        "n_types": 3,
        "head": name,
        "encoder_args": {"d": 16, "n_layers": 1, "n_heads": 2},
        "head_args": args,
    }
    model = NeuralModel(config).eval()
    assert model.buckets is not None
    rng = np.random.default_rng(1)
    batch = EventBatch(np.exp(rng.normal(size=20)), rng.integers(0, 3, 20), np.array([20]), 3)
    whole = model.conditionals(batch)
    cache = model.start(1, 20)
    for i in range(19):
        law = model.extend(cache, batch.gaps[None, i : i + 1], batch.types[None, i : i + 1], np.array([1]))
        np.testing.assert_allclose(law.log_token_probs()[0], whole.log_token_probs()[i + 1], atol=1e-4)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("tokens")
    (out / "recipe.toml").write_text(RECIPE)
    recipe = load_recipe(str(out / "recipe.toml"))
    train_pair(recipe, process_data(recipe), out)
    return out


def test_a_pair_over_tokens_is_trained_saved_and_sampled(folder: Path) -> None:
    pair = load_pair(str(folder))
    assert isinstance(pair.target.initial(1), JointTokens)
    assert isinstance(pair.drafts["stress"], TokenStress)
    assert pair.card["recipe"]["buckets"]["n"] == 20
    assert np.isfinite(pair.card["nll"]["target"]["value"])
    for rule in ("leviathan_two_step", "leviathan_joint"):
        for draft in pair.drafts:
            sampler = pair.sampler("speculative", draft=draft, rule=rule, k=3)
            assert isinstance(sampler.residual, TokenResidual)
            request = SampleRequest(4, Stop(n_events=12), StreamKey(seed=1, cell="trained"))
            check_run(sampler.sample(request), sampler, request, 2e-4)


def test_the_stress_draft_is_poor_but_no_stranger(folder: Path) -> None:
    pair = load_pair(str(folder))
    events = pair.sampler("target_only").sample(SampleRequest(10, Stop(n_events=20), StreamKey(seed=4))).events
    accepted = token_acceptance(*(m.conditionals(events) for m in (pair.target, pair.drafts["stress"]))).gap.mean()
    assert 0.55 < accepted < 0.85


def test_recipes_refuse_half_a_token_pair(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE.replace('head = "token_factorised"\n', ""))
    with pytest.raises(InputError, match="must both be over tokens, or neither"):
        load_recipe(str(path))
    path.write_text(RECIPE.split("[buckets]")[0])
    with pytest.raises(InputError, match=r"a \[buckets\] table goes with heads over tokens"):
        load_recipe(str(path))


def test_records_of_continuous_recipes_say_nothing_of_tokens() -> None:
    record = load_recipe("thp-hawkes").model_dump()
    assert "buckets" not in record
    assert "head" not in record["target"]
    assert Recipe.model_validate(record).model_dump() == record
