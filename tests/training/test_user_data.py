"""The user's own job: any file of sequences to training data, a pair, and the answer whether speculation is exact and pays."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from reference_impls.network import NeuralModel
from reference_impls.training.cli import train
from reference_impls.training.files import file_data, windows
from reference_impls.training.fit import _loss, sequence_nll
from reference_impls.training.recipe import FitRecipe, Recipe, load_recipe
from tppsd_bench import EventBatch, Stop, StreamKey
from tppsd_bench.data import write_npz
from tppsd_bench.errors import InputError
from tppsd_bench.runner.present import in_options
from tppsd_bench.simulate import make

ROOT = Path(__file__).resolve().parents[2]
SHARED = (ROOT / ".." / "shared" / "data").resolve()
KEY = StreamKey(seed=8, cell="tests/training")
HAWKES = make("hawkes", mu=[0.2, 0.1], alpha=[[0.5, 0.2], [0.1, 0.4]], beta=[[1.0, 1.0], [1.0, 1.0]])
TINY = {"target.encoder_args.n_layers": 1, "target.encoder_args.n_heads": 1, "target.fit.epochs": 1, "draft.fit.epochs": 1}


def recipe(file: Path | str = "x", **overrides: Any) -> Recipe:
    return load_recipe("user", {"data.file": str(file), **{k.replace("__", "."): v for k, v in overrides.items()}})


def simulated(n: int, stop: Stop) -> EventBatch:
    return HAWKES.simulate(n, stop, KEY)


@pytest.fixture
def ragged(tmp_path: Path) -> Path:
    """Forty sequences of unequal length with an end of observation."""
    write_npz(simulated(40, Stop(horizon=30.0)), tmp_path / "mine.npz")
    return tmp_path / "mine.npz"


# -- windows and parts ----------------------------------------------------------------------------------------------------
def test_windows_keep_every_event_in_order_and_the_last_wait() -> None:
    batch = simulated(12, Stop(horizon=40.0))
    cut = windows(batch, 7, censored=True)
    np.testing.assert_array_equal(cut.gaps, batch.gaps)
    np.testing.assert_array_equal(cut.types, batch.types)
    assert cut.lengths.max() <= 7
    cut.validate()
    assert cut.horizon is not None
    assert batch.horizon is not None
    wait, last = cut.horizon - cut.end_times, np.cumsum(-(-batch.lengths // 7)) - 1
    some = batch.lengths > 0
    np.testing.assert_allclose(wait[last[some]], (batch.horizon - batch.end_times)[some])
    assert np.delete(wait, last[some]).max(initial=0.0) < 1e-6
    assert windows(batch, 7).horizon is None


def test_a_file_without_splits_is_shuffled_by_seed(ragged: Path) -> None:
    data, again, other = (file_data(recipe(ragged, seed=s), str(ragged)) for s in (1, 1, 2))
    parts = [data.epoch(0), data.validation, data.test]
    assert [len(p) for p in parts] == [28, 6, 6]
    assert sum(p.n_events for p in parts) == simulated(40, Stop(horizon=30.0)).n_events
    np.testing.assert_array_equal(data.test.gaps, again.test.gaps)
    assert not np.array_equal(data.test.gaps[:5], other.test.gaps[:5])
    assert data.median_horizon == 30.0
    assert data.median_events == int(np.median(data.epoch(0).lengths))


def test_an_end_of_observation_that_is_not_used_is_said(ragged: Path) -> None:
    assert not any("end of observation" in n for n in file_data(recipe(ragged), str(ragged)).notes)
    data = file_data(recipe(ragged, data__censored=False), str(ragged))
    assert data.epoch(0).horizon is None
    assert any("the end of observation is not used" in n for n in data.notes)
    assert not any(str(ragged.parent) in n for n in data.notes)


def easytpp(folder: Path, **splits: EventBatch) -> None:
    for name, batch in splits.items():
        rows = [
            [{"time_since_start": float(t), "time_since_last_event": float(g), "type_event": int(k)} for t, g, k in zip(
                np.cumsum(b.gaps), b.gaps, b.types, strict=True)]
            for b in (batch.select(np.array([i])) for i in range(len(batch)))
        ]  # fmt: skip
        (folder / f"{name}.pkl").write_bytes(pickle.dumps({"dim_process": 2, name: rows}))


def test_the_splits_of_a_folder_are_recognised(tmp_path: Path) -> None:
    sizes = {"train": 30, "dev": 8, "test": 9}
    easytpp(tmp_path, **{name: HAWKES.simulate(n, Stop(n_events=12), KEY.replace(stage=name)) for name, n in sizes.items()})
    data = file_data(recipe(tmp_path), str(tmp_path))
    assert (len(data.epoch(0)), len(data.validation), len(data.test)) == (30, 8, 9)
    assert any("its own splits are used (sequences: dev 8, test 9, train 30)" in n for n in data.notes)
    alone = file_data(recipe(tmp_path / "train.pkl"), str(tmp_path / "train.pkl"))
    assert (len(alone.epoch(0)), len(alone.validation), len(alone.test)) == (22, 4, 4)
    assert any("dev.pkl and test.pkl beside it are not used" in n for n in alone.notes)
    (tmp_path / "dev.pkl").unlink()
    data = file_data(recipe(tmp_path), str(tmp_path))
    assert (len(data.epoch(0)), len(data.validation), len(data.test)) == (26, 4, 9)


def test_one_long_sequence_is_cut_in_windows_and_held_out_by_time(tmp_path: Path) -> None:
    batch = simulated(1, Stop(n_events=800))
    write_npz(batch, tmp_path / "long.npz")
    data = file_data(recipe(tmp_path / "long.npz"), str(tmp_path / "long.npz"))
    parts = [data.epoch(0), data.validation, data.test]
    np.testing.assert_array_equal(np.concatenate([p.gaps for p in parts]), batch.gaps)
    assert [len(p) for p in parts] == [28, 6, 6]
    assert any("cut into 40 windows of at most 20 events" in n for n in data.notes)
    write_npz(simulated(1, Stop(n_events=90)), tmp_path / "short.npz")
    with pytest.raises(InputError, match="1 sequences with 90 events are too few"):
        file_data(recipe(tmp_path / "short.npz"), str(tmp_path / "short.npz"))


def test_options_of_the_reader_reach_it(tmp_path: Path) -> None:
    batch = simulated(40, Stop(n_events=10))
    times = np.round(np.concatenate([[0.0], batch.times]), 1)[1:].reshape(40, 10) + 0.1
    lines = [f"{i},{t:.1f},{k}" for i, row in enumerate(times) for t, k in zip(row, batch.types[10 * i :], strict=False)]
    file = tmp_path / "coarse.csv"
    file.write_text("\n".join(["sequence,time,type", *lines]))
    with pytest.raises(InputError, match=r"a continuous law has no ties|continuous density is the wrong model"):
        file_data(recipe(file), str(file))
    one, two = (file_data(recipe(file, data__read={"ties": "jitter"}), str(file)) for _ in range(2))
    np.testing.assert_array_equal(one.test.gaps, two.test.gaps)
    assert any("spread uniformly" in n for n in one.notes)
    with pytest.raises(InputError, match=r"data\.read\.tie is no option of the reader; expected one of format, time_column"):
        file_data(recipe(file, data__read={"tie": "drop"}), str(file))


def test_the_number_of_epochs_follows_the_data_unless_stated() -> None:
    assert FitRecipe(events=1_000_000).sized(50_000)["epochs"] == 20
    assert FitRecipe(events=1_000_000).sized(1_000)["epochs"] == 200
    assert FitRecipe(events=1_000_000).sized(10_000_000)["epochs"] == 10
    assert FitRecipe(events=1_000_000, epochs=2).sized(1_000)["epochs"] == 2
    assert FitRecipe().sized(1_000)["epochs"] == 40


# -- the likelihood of sequences that are cut ------------------------------------------------------------------------------
@pytest.mark.parametrize("given_gap", [False, True])
def test_the_censored_likelihood_is_that_of_the_law(given_gap: bool) -> None:
    torch.manual_seed(0)
    args = {"encoder": "thp", "n_types": 2, "encoder_args": {"n_layers": 1, "n_heads": 1, "time_scale": 0.3}}
    model = NeuralModel({**args, "head_args": {"n_components": 4, "types_given_gap": given_gap}}).eval()
    batch = simulated(9, Stop(horizon=12.0))
    batch = batch.select(np.flatnonzero(batch.lengths > 0))
    scores = model.score(batch)
    assert scores.crossing_cdf is not None
    types = np.log(scores.type_probs[np.arange(batch.n_events), batch.types])
    events = np.bincount(batch.sequence_index, scores.log_density + types, len(batch))
    expected = -(events + np.log1p(-scores.crossing_cdf))
    np.testing.assert_allclose(sequence_nll(model, batch), expected, rtol=1e-6)
    np.testing.assert_allclose(float(_loss(model, batch).detach()), expected.sum() / batch.n_events, rtol=1e-4)
    uncensored = EventBatch(batch.gaps, batch.types, batch.lengths, 2)
    np.testing.assert_allclose(float(_loss(model, uncensored).detach()), -events.sum() / batch.n_events, rtol=1e-4)


def test_the_gradient_of_a_wait_of_nothing_is_finite() -> None:
    torch.manual_seed(0)
    model = NeuralModel({"encoder": "thp", "n_types": 2, "encoder_args": {"n_layers": 1, "n_heads": 1, "time_scale": 0.3}})
    _loss(model, windows(simulated(3, Stop(horizon=12.0)), 2, censored=True)).backward()  # type: ignore[no-untyped-call]
    assert all(p.grad is None or bool(torch.isfinite(p.grad).all()) for p in model.parameters())


# -- the verb --------------------------------------------------------------------------------------------------------------
def test_train_makes_a_pair_says_what_it_did_and_is_never_overwritten(ragged: Path, tmp_path: Path) -> None:
    said: list[str] = []
    settings = [f"{key}={value}" for key, value in TINY.items()]
    folder = train(data=str(ragged), out=str(tmp_path / "pair"), set=settings, quiet=True, tell=said.append)
    card = json.loads((folder / "card.json").read_text())
    assert (card["name"], card["title"], card["n_types"]) == ("mine", "THP 4 × 4 on mine", 2)
    assert card["train_median_horizon"] == 30.0
    assert card["recipe"]["data"]["file"] == "mine.npz"
    assert said[-1].startswith("Held-out nats/event on 6 sequences: target ")
    assert {"target.safetensors", "draft.safetensors", "card.json"} == {p.name for p in folder.iterdir()}
    with pytest.raises(InputError, match="already holds a trained pair"):
        train(data=str(ragged), out=str(tmp_path / "pair"), set=settings, quiet=True)
    before = (folder / "target.safetensors").stat().st_mtime_ns
    train(data=str(ragged), out=str(tmp_path / "pair"), set=settings, quiet=True, resume=True)
    assert (folder / "target.safetensors").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("name", "label"), [("mine.csv.gz", "mine"), ("a b.npz", "a-b"), ("taxi/train.pkl", "taxi"), ("taxi", "taxi")]
)
def test_a_pair_is_named_after_its_file_or_folder(name: str, label: str) -> None:
    from reference_impls.training.cli import _spec

    spec, folder = _spec(None, f"data/{name}", None, None, {}, {"ties": "drop"})
    assert (spec.name, folder, spec.data.read) == (label, Path("pairs") / label, {"ties": "drop"})


@pytest.mark.parametrize(
    ("sentence", "options"),
    [
        ("pass ties='drop' or ties='jitter' with rng.", "pass --ties drop or --ties jitter."),
        ("pass first_type=1; or pass n_types=4.", "pass --first-type 1; or pass --n-types 4."),
        ("or pass sort=True.", "or pass --sort."),
        ("pass time_column='time_since_start' for the other.", "pass --time-column time_since_start for the other."),
        ("pass origin='start' (or a number)", "pass --origin start (or a number)"),
        ("give n_events=3", "give n_events=3"),
    ],
)
def test_sentences_of_the_reader_name_the_options_of_the_command_line(sentence: str, options: str) -> None:
    assert in_options(sentence) == options


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    line = [sys.executable, "-m", "tppsd_bench", *words]
    return subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False)


def set_words(settings: dict[str, Any]) -> list[str]:
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


@pytest.mark.slow
def test_from_a_file_to_the_answer(ragged: Path, tmp_path: Path) -> None:
    """data check, train, run: the whole way of a user, with a network too small to be good; exactness does not depend on it."""
    assert command(tmp_path, "data", "check", str(ragged)).returncode == 0
    trained = command(tmp_path, "train", "--data", str(ragged), *set_words(TINY))
    assert trained.returncode == 0, trained.stderr
    assert "run --suite calibration --pair pairs/mine" in trained.stdout
    done = command(
        tmp_path, "run", "--suite", "calibration", "--pair", "pairs/mine", "--events", "4000", "--quiet", "--jobs", "1"
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert "mine: exact with the shipped and stress draft at" in done.stdout
    assert "the speed of cached target-only sampling" in done.stdout
    assert "PASS" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared folder of real sets is not beside the repository")
@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("earthquake/train.pkl", ["--ties", "drop"]),
        ("taxi/train.pkl", []),
        ("ttpp_twitter/twitter.pkl", []),
        ("nymvc", ["--format", "easytpp"]),
    ],
)
def test_real_sets_go_all_the_way(path: str, words: list[str], tmp_path: Path) -> None:
    trained = command(tmp_path, "train", "--data", str(SHARED / path), "--out", "pair", *words, *set_words(TINY))
    assert trained.returncode == 0, trained.stderr
    done = command(tmp_path, "run", "--suite", "calibration", "--pair", "pair", "--events", "3000", "--quiet", "--jobs", "1")
    assert done.returncode in (0, 3), done.stderr + done.stdout
    assert "exact with the shipped and stress draft" in done.stdout


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared folder of real sets is not beside the repository")
def test_ties_are_refused_in_the_words_of_the_command_line(tmp_path: Path) -> None:
    done = command(tmp_path, "train", "--data", str(SHARED / "earthquake/train.pkl"))
    assert done.returncode == 2
    assert "or pass --ties drop or --ties jitter." in done.stderr
    assert list(tmp_path.iterdir()) == []
