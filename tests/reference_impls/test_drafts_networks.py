"""The draft zoo on random weights: every way of computing a context gives the same law; files hold what loading needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from test_encoders import TOLERANCE, events, extend, forced, parameters

from reference_impls.drafts.files import Drafts, about_draft, draft_names, load_draft, network_of, save_draft
from reference_impls.encoders.convolution import Convolution
from reference_impls.encoders.stepwise import StepCache
from reference_impls.network import NeuralModel
from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch

CASES: dict[str, tuple[str, int, dict[str, Any]]] = {
    "gru": ("gru", 3, {"d": 16}),
    "gru-two-layers-clock": ("gru", 1, {"d": 12, "n_layers": 2, "d_time": 6, "time_scale": 3.0}),
    "lstm": ("lstm", 1, {"d": 16, "log_gap": [0.3, 1.4]}),
    "lstm-two-layers-clock": ("lstm", 3, {"d": 12, "n_layers": 2, "d_time": 4}),
    "convolution": ("convolution", 3, {"d": 16, "n_layers": 2}),
    "convolution-clock": ("convolution", 1, {"d": 12, "n_layers": 3, "kernel": 2, "d_time": 4}),
    "renewal": ("renewal", 3, {}),
}


def build(encoder: str, n_types: int, args: dict[str, Any]) -> NeuralModel:
    torch.manual_seed(3)
    head = {"n_components": 4, "types_given_gap": n_types > 1, "hidden": 6}
    model = network_of({"name": encoder, "encoder": encoder, "n_types": n_types, "encoder_args": args, "head_args": head})
    with torch.no_grad():  # large enough that every event moves every later law
        model.head.raw.weight *= 5.0
        model.head.raw.bias[8:] += 0.3 * torch.randn(len(model.head.raw.bias) - 8)
    return model.eval()


@pytest.fixture(params=CASES)
def model(request) -> NeuralModel:
    return build(*CASES[request.param])


def target(encoder: str, dropout: float = 0.1) -> NeuralModel:
    torch.manual_seed(8)
    extra = {"d_time": 8} if encoder == "attnhp" else {}
    args = {"n_layers": 4, "n_heads": 2, "d": 16, "time_scale": 0.2, "dropout": dropout, **extra}
    return NeuralModel({"encoder": encoder, "n_types": 2, "encoder_args": args, "head_args": {"n_components": 4}}).eval()


# -- one law, however it is computed --------------------------------------------------------------------------------------
def test_one_sequence_in_steps_blocks_and_after_rollback_is_teacher_forced(model):
    batch = events(model.n_types, [14])
    want = forced(model, batch)[0]
    gaps, types = batch.padded()
    cache, got = model.start(1, 3), []  # too small: it must grow
    for begin, end in ((0, 1), (1, 2), (2, 7), (7, 8), (8, 14)):
        wrong = extend(model, cache, np.full((1, 4), 0.37), np.zeros((1, 4), dtype=np.int64), [4])
        assert np.isfinite(wrong).all()
        cache.rollback(np.array([begin]))
        got.append(extend(model, cache, gaps[:, begin:end], types[:, begin:end], [end - begin])[0])
        assert cache.lengths.tolist() == [end]
    np.testing.assert_allclose(np.concatenate(got), want, atol=TOLERANCE)


def test_a_ragged_batch_is_teacher_forced_through_growth_rollback_and_kept_rows(model):
    batch = events(model.n_types, [9, 5, 12, 1])
    want = forced(model, batch)
    gaps, types = batch.padded(fill_gap=1.0)
    cache = model.start(4, 2)
    at, ids = np.zeros(4, dtype=np.int64), np.arange(4)
    for step, counts in enumerate(([2, 0, 3, 1], [1, 2, 4, 0], [0, 3, 1, 0], [6, 0, 4, 0])):
        new = np.array(counts)[ids]
        m = max(int(new.max()), 1)
        columns = np.minimum(at[ids, None] + np.arange(m), gaps.shape[1] - 1)
        block = np.where(np.arange(m) < new[:, None], gaps[ids[:, None], columns], 5.0)
        extend(model, cache, np.full((len(ids), 3), 0.2), np.zeros((len(ids), 3), dtype=np.int64), [3] * len(ids))
        cache.rollback(at[ids])
        got = extend(model, cache, block, types[ids[:, None], columns], list(new))
        for row, i in enumerate(ids):
            np.testing.assert_allclose(got[row, : new[row]], want[i][at[i] : at[i] + new[row]], atol=TOLERANCE)
        at[ids] += new
        np.testing.assert_array_equal(cache.lengths, at[ids])
        if step == 2:
            ids = np.array([2, 0])
            cache.keep(ids)
    assert at[[0, 2]].tolist() == [9, 12]


def test_a_sequence_alone_and_in_a_batch_has_one_law(model):
    """Both numpy forms, vectors and rows: float32 to its last digits."""
    batch = events(model.n_types, [10, 10, 10])
    gaps, types = batch.padded()
    together = extend(model, model.start(3, 10), gaps, types, [10, 10, 10])
    for i in range(3):
        alone = extend(model, model.start(1, 10), gaps[i : i + 1], types[i : i + 1], [10])
        np.testing.assert_allclose(alone[0], together[i], atol=1e-6)
    cache = model.start(3, 10)
    extend(model, cache, gaps[:, :6], types[:, :6], [6, 6, 6])
    cache.keep(np.array([1]))
    np.testing.assert_allclose(extend(model, cache, gaps[1:2, 6:], types[1:2, 6:], [4])[0], together[1, 6:], atol=1e-6)


def test_law_after_initial_law_and_likelihood_agree_with_teacher_forcing(model):
    batch = events(model.n_types, [6, 4])
    want, rows = forced(model, batch), parameters(model.conditionals(batch))
    gaps, types = batch.padded(fill_gap=1.0)
    after = parameters(model.law_after(gaps, types, np.array([3, 4])))
    np.testing.assert_allclose(after, [want[0][2], want[1][3]], atol=TOLERANCE)
    np.testing.assert_allclose(parameters(model.initial(2)), rows[batch.offsets[:-1]], atol=TOLERANCE)
    law, at = model.conditionals(batch), np.arange(batch.n_events)
    assert law.loc.dtype == np.float64
    exact = law.log_prob(batch.gaps) + law.type_log_probs(batch.gaps)[at, batch.types]
    with torch.inference_mode():
        trained = model.log_likelihood(gaps, types).numpy()[np.arange(6) < batch.lengths[:, None]]
    np.testing.assert_allclose(trained, exact, atol=3e-5, rtol=1e-5)


def test_extreme_gaps_are_encoded_without_nan(model):
    batch = EventBatch.from_gaps([[1e-300, 1e300, 1e-12, 3.0]], [[0] * 4], n_types=model.n_types)
    want = forced(model, batch)[0]
    gaps, types = batch.padded()
    got = extend(model, model.start(1, 8), gaps, types, [4])[0]
    assert np.isfinite(want).all()
    if not getattr(model.encoder, "d_time", 0):  # a clock at 1e300 has no phase to speak of
        np.testing.assert_allclose(got, want, atol=TOLERANCE)


def test_new_weights_are_seen_by_the_step(model):
    batch = events(model.n_types, [6])
    gaps, types = batch.padded()
    extend(model, model.start(1, 8), gaps, types, [6])
    constants = ("head.log_mean", "head.log_std")
    moved = {
        k: v + (0.3 if k in constants else 0.1 * torch.sin(torch.arange(v.numel())).view(v.shape))
        for k, v in model.state_dict().items()
    }
    model.load_state_dict(moved)
    fresh = network_of(model.config)
    fresh.load_state_dict(moved)
    want = forced(fresh.eval(), batch)[0]
    np.testing.assert_allclose(extend(model, model.start(1, 8), gaps, types, [6])[0], want, atol=TOLERANCE)


# -- what a history is to each ----------------------------------------------------------------------------------------------
def test_no_context_sees_a_later_event_and_all_but_the_renewal_see_the_past(model):
    batch = events(model.n_types, [12, 7])
    before = model.raw_contexts(batch)[0]
    gaps, types = batch.gaps.copy(), batch.types.copy()
    gaps[4] *= 1.7
    types[4] = (types[4] + 1) % model.n_types
    after = model.raw_contexts(EventBatch(gaps, types, batch.lengths, batch.n_types))[0]
    moved = np.abs(after - before).max(axis=1)
    assert (moved[:5] == 0).all(), "an event's own law, or an earlier one, moved"
    assert (moved[12:] == 0).all(), "another sequence's law moved"
    assert (moved[5:9] > 1e-6).all() == (model.encoder.d > 0)


def test_a_convolution_sees_its_receptive_field_and_nothing_before():
    """A context is the same, whatever came more than kernel^layers - 1 events ago; and differs by the oldest event inside."""
    model = build("convolution", 1, {"d": 16, "n_layers": 2, "kernel": 3})
    assert isinstance(model.encoder, Convolution)
    field = model.encoder.receptive_field
    assert field == 9
    batch = events(1, [20])
    whole = model.raw_contexts(batch)[1]
    for oldest, same in ((20 - field - 1, True), (20 - field, False)):
        gaps = batch.gaps.copy()
        gaps[oldest] *= 3.0
        moved = np.abs(model.raw_contexts(EventBatch(gaps, batch.types, batch.lengths, 1))[1] - whole).max()
        assert (moved == 0) == same
    tail = EventBatch.from_gaps([batch.gaps[20 - field :]], [[0] * field], n_types=1)
    np.testing.assert_allclose(model.raw_contexts(tail)[1], whole, atol=1e-6)


def test_a_renewal_draft_has_one_law_and_keeps_nothing():
    model = build("renewal", 3, {})
    law = parameters(model.conditionals(events(3, [5, 4])))
    np.testing.assert_array_equal(law, np.broadcast_to(law[0], law.shape))
    cache = model.start(2, 100)
    assert isinstance(cache, StepCache)
    assert cache.store.size == 0
    assert model.n_parameters == 3 * 4 + 6 + model.head.gap_weight.numel() + 3 * 6 + 3, "biases and the type network alone"


# -- early exit -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("encoder", ["thp", "sahp", "attnhp"])
def test_an_early_exit_is_the_targets_truncated_network(encoder):
    """Behind two of four layers, with the target's own head put on: the target whose last two layers are taken out."""
    deep = target(encoder)
    draft = network_of({"name": "exit", "exit_after": 2, "head_args": {"n_components": 4}}, deep).eval()
    draft.head.load_state_dict(deep.head.state_dict())
    with torch.no_grad():
        draft.initial_context.copy_(deep.initial_context)
    cut = NeuralModel({**deep.config, "encoder_args": {**deep.config["encoder_args"], "n_layers": 2}})
    cut.load_state_dict({k: v for k, v in deep.state_dict().items() if k in cut.state_dict()})
    batch = events(2, [9, 4])
    np.testing.assert_array_equal(draft.raw_contexts(batch)[0], cut.eval().raw_contexts(batch)[0])
    assert np.abs(draft.raw_contexts(batch)[0] - deep.raw_contexts(batch)[0]).max() > 1e-3


def test_an_early_exit_learns_its_head_and_leaves_the_target_alone():
    deep = target("sahp")
    before = {k: v.clone() for k, v in deep.state_dict().items()}
    draft = network_of({"name": "exit", "exit_after": 1, "head_args": {"n_components": 4}}, deep).train()
    gaps, types = events(2, [6]).padded()
    optimiser = torch.optim.AdamW(draft.parameters(), lr=0.1)
    (-draft.log_likelihood(gaps, types).mean()).backward()
    optimiser.step()
    assert all(torch.equal(v, before[k]) for k, v in deep.state_dict().items())
    for name, weight in draft.state_dict().items():
        if name.startswith("encoder.") and not name.startswith("encoder.norm."):
            assert torch.equal(weight, before[name])
    learnt = {name for name, w in draft.named_parameters() if w.grad is not None}
    assert learnt >= {"head.raw.weight", "initial_context", "encoder.norm.weight"}
    assert all(draft.is_own(name) for name in learnt)


def test_an_early_exit_beyond_the_target_is_refused():
    with pytest.raises(InputError, match="exit after 5 layers of a target of 4"):
        network_of({"name": "exit", "exit_after": 5}, target("thp"))
    with pytest.raises(InputError, match="needs its target"):
        network_of({"name": "exit", "exit_after": 1})


# -- files ------------------------------------------------------------------------------------------------------------------
def test_a_draft_comes_back_from_its_file(model, tmp_path):
    path = tmp_path / "drafts" / "one.safetensors"
    save_draft(model, path, fit={"best_epoch": 3})
    assert draft_names(tmp_path) == ["one"]
    assert about_draft(path)["fit"] == {"best_epoch": 3}
    batch = events(model.n_types, [7])
    again = load_draft(path, target("thp"))
    np.testing.assert_array_equal(parameters(again.conditionals(batch)), parameters(model.conditionals(batch)))


@pytest.mark.parametrize("encoder", ["thp", "sahp", "attnhp"])
def test_an_early_exit_ships_without_the_targets_layers(encoder, tmp_path):
    deep = target(encoder)
    draft = network_of({"name": "exit", "exit_after": 1, "head_args": {"n_components": 4}}, deep).eval()
    save_draft(draft, tmp_path / "exit.safetensors")
    from safetensors import safe_open

    with safe_open(tmp_path / "exit.safetensors", framework="np") as f:
        assert all(draft.is_own(name) for name in f.keys())  # noqa: SIM118 - not a dict
    batch = events(2, [7])
    again = load_draft(tmp_path / "exit.safetensors", deep)
    np.testing.assert_array_equal(again.raw_contexts(batch)[0], draft.raw_contexts(batch)[0])


def test_drafts_are_made_when_first_asked_for_and_once():
    made: list[str] = []

    def make(name: str) -> str:
        made.append(name)
        return name.upper()

    drafts = Drafts({"shipped": 1}, {"a": lambda: make("a"), "b": lambda: make("b")})
    assert list(drafts) == ["shipped", "a", "b"]
    assert len(drafts) == 3
    assert "a" in drafts
    assert "c" not in drafts
    assert made == []
    assert (drafts["a"], drafts["a"], made) == ("A", "A", ["a"])
    drafts["shipped"] = 2
    del drafts["b"]
    assert dict(drafts) == {"shipped": 2, "a": "A"}
    with pytest.raises(KeyError):
        drafts["b"]
