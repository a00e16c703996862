"""The history's script: each commit is measured by its own code, what is missing is named, and the points on the pages are counted."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path("suites/asv/fill_history.py")
THETA, STARTUP = "law.MaxTheta.track_max_theta", "startup.Startup.time_command"
TWICE = """

_plain = grey_battery


def grey_battery(*args, **kwargs):
    return [replace(e, effect=2 * e.effect) if e.effect is not None else e for e in _plain(*args, **kwargs)]
"""


@pytest.fixture(scope="module")
def history() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("fill_history", ROOT / SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fill_history"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["fill_history"]


def pages(folder: Path, graphs: dict[str, list[list[Any]]]) -> Path:
    """What ``asv publish`` leaves behind, as far as points are concerned."""
    where = folder / "graphs" / "branch-main" / "machine-m"
    where.mkdir(parents=True)
    (folder / "index.json").write_text(
        json.dumps({"revision_to_hash": {"0": "aaa", "3": "bbb"}, "benchmarks": {name: {} for name in graphs}})
    )
    for name, points in graphs.items():
        (where / f"{name}.json").write_text(json.dumps(points))
    (where / "summary.json").write_text(json.dumps([["a.time_x", 1, 2.0]]))
    (folder / "graphs" / "summary").mkdir()
    (folder / "graphs" / "summary" / "a.time_x.json").write_text(json.dumps([[0, 1.0], [3, 2.0]]))
    return folder


def test_points_are_counted_by_benchmark_commit_and_parameters(history: ModuleType, tmp_path: Path) -> None:
    found = history.published_points(
        pages(tmp_path, {"a.time_x": [[0, 1.0]], "b.track_y": [[0, [1.0, None]], [3, [None, 2.0]]]})
    )
    assert found == {("a.time_x", "aaa", 0), ("b.track_y", "aaa", 0), ("b.track_y", "bbb", 1)}


def test_a_commit_is_complete_only_if_everything_has_a_value(history: ModuleType) -> None:
    said = {
        (0, 3, ()): "measured",
        (2, 3, ("law.x",)): "PARTLY",
        (0, 3, ("law.x",)): "PARTLY",
        (2, 0, ("law.x",)): "PARTLY",
        (0, 0, ()): "PARTLY",
        (1, 0, ()): "SKIPPED",
    }
    for (code, values, missing), word in said.items():
        commit = history.Measured("c" * 40, "subject", code, values, missing)
        assert commit.line().startswith(word)
        assert commit.complete == (word == "measured")
        assert all(name in commit.line() for name in missing)


class Repository:
    """A small repository with a copy of this checkout's code, untouched by anybody's settings and touching nobody's files."""

    def __init__(self, folder: Path) -> None:
        self.root, self.home = folder / "repository", folder / "home"
        self.home.mkdir(parents=True)
        self.root.mkdir()
        self.git("init", "-q", "-b", "main")
        for name in ("asv.conf.json", "suites/asv"):
            copy(name, self.root)
        (self.root / ".gitignore").write_text(
            "__pycache__/\n", encoding="utf-8"
        )  # whether Python keeps bytecode is the caller's choice
        self.first = self.commit("before the packages")

    def git(self, *words: str) -> str:
        who = ("-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")
        done = subprocess.run(
            ["git", *who, *words], cwd=self.root, env=self.environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    @property
    def environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "ASV_PYTHONPATH") and not k.startswith("GIT_")}
        return {**kept, "HOME": str(self.home), "PYTHONPATH": str(ROOT)}  # a copy that must not be measured

    def commit(self, message: str) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    def fill(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(SCRIPT), *words]
        return subprocess.run(
            command, cwd=self.root, env=self.environment, capture_output=True, text=True, timeout=300, check=False
        )


def copy(name: str, root: Path) -> None:
    left_out = shutil.ignore_patterns("__pycache__", "checkpoints")
    if (ROOT / name).is_dir():
        shutil.copytree(ROOT / name, root / name, ignore=left_out)
    else:
        shutil.copyfile(ROOT / name, root / name)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Repository, dict[str, str], subprocess.CompletedProcess[str]]:
    """Four commits: before the packages, whole, with every effect doubled, without its pairs. One parameter of two benchmarks."""
    repository = Repository(tmp_path_factory.mktemp("history"))
    for package in ("tppsd_bench", "reference_impls"):
        copy(package, repository.root)
    commits = {"before": repository.first, "whole": repository.commit("whole")}
    with (repository.root / "tppsd_bench/stats/grey.py").open("a") as grey:
        grey.write(TWICE)
    commits["twice"] = repository.commit("twice")
    (repository.root / "reference_impls/pairs.py").unlink()
    commits["no pairs"] = repository.commit("no pairs")
    done = repository.fill("--last", "4", "--quick", "--bench", "MaxTheta.*toy-marked", "--bench", "Startup.*import")
    return repository, commits, done


@pytest.mark.slow
def test_each_commit_is_measured_by_its_own_code_and_every_point_is_on_the_pages(history: ModuleType, filled: Any) -> None:
    repository, commits, done = filled
    conf = history.load_config(repository.root / "asv.conf.json")
    points = history.published_points(Path(conf.html_dir))
    whole = {(name, commits[c], 0) for name in (THETA, STARTUP) for c in ("whole", "twice")}
    assert points == {*whole, (STARTUP, commits["no pairs"], 0)}, done.stdout + done.stderr
    values = {point: value for point, value in history.measured_points(conf).items() if value is not None}
    assert points == set(values)
    assert values[THETA, commits["whole"], 0] > 0
    assert values[THETA, commits["twice"], 0] == 2 * values[THETA, commits["whole"], 0]
    assert repository.git("status", "--short") == "?? .asv/\n?? reports/", "nothing but results and pages"
    assert len(repository.git("worktree", "list").splitlines()) == 1


@pytest.mark.slow
def test_what_a_commit_cannot_run_is_named(filled: Any) -> None:
    _, commits, done = filled
    assert done.returncode == 1
    assert f"SKIPPED  {commits['before'][:8]} before the packages" in done.stdout
    assert f"measured {commits['whole'][:8]} whole: 2 values" in done.stdout
    assert f"PARTLY   {commits['no pairs'][:8]} no pairs: 1 value; no value of {THETA}" in done.stdout
    assert "No module named 'reference_impls.pairs'" in done.stdout + done.stderr
    assert "Every measured value is on the pages" in done.stdout


@pytest.mark.slow
def test_commits_that_left_the_branch_are_missed(
    history: ModuleType, filled: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a rebase: asv publishes and ends with 0, and the newest commit's points are gone."""
    repository, commits, _ = filled
    shutil.copytree(repository.root, tmp_path / "copy")
    for words in (("branch", "left", "main"), ("reset", "-q", "--hard", commits["twice"])):
        subprocess.run(["git", *words], cwd=tmp_path / "copy", env=repository.environment, check=True)
    monkeypatch.setenv("HOME", str(repository.home))
    config = tmp_path / "copy" / "asv.conf.json"
    conf = history.load_config(config)
    said = history.publish(config, conf)
    assert history.lost_points(conf) == [(STARTUP, commits["no pairs"], 0)]
    assert said.startswith("1 of the measured values are not on the pages")
    assert commits["no pairs"][:8] in said
    assert "'main'" in said
