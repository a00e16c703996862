"""Against a revision: whose code each side runs, the processes that run it, and (slow) a changed working tree that is found out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import gate_candidates
import pytest
from conftest import HERE

from tppsd_bench.errors import InputError, RunBroken
from tppsd_bench.gate.keys import counts_key
from tppsd_bench.gate.process import SideProcess
from tppsd_bench.gate.side import count
from tppsd_bench.gate.worktree import check_provenance, path_in

ROOT = HERE.parents[1]
SAMPLER = {"draft": "", "k": None, "rule": "other", "batch_size": None}
ORDER = {"loader": "tppsd_bench.gate.subject:load_subject", "source": "gate_candidates:make", "sampler": SAMPLER}
KEY = {"seed": 4, "suite": "", "cell": "side", "stage": "counts", "arm": "", "purpose": "sampler", "seed_epoch": 0}


def test_folders_of_the_repository_are_those_of_the_revision_and_others_stay(tmp_path: Path) -> None:
    here, tree = tmp_path / "repo", tmp_path / "tree"
    path = [str(here), str(here / "src"), str(here / ".venv/lib/python3.11/site-packages"), str(tmp_path / "other"), str(here)]
    assert path_in(tree, here, path) == [str(tree), str(tree / "src"), path[2], path[3]]
    assert path_in(here, here, path) == list(dict.fromkeys(path))


def test_a_gate_of_a_tree_against_itself_is_refused(tmp_path: Path) -> None:
    here, tree = tmp_path / "repo", tmp_path / "tree"
    now = {"mine": str(here / "mine.py"), "tppsd_bench": "/installed/tppsd_bench/__init__.py"}
    check_provenance({"mine": str(tree / "mine.py"), "tppsd_bench": "elsewhere"}, now, tree, here)
    with pytest.raises(InputError, match="installed copy came first"):
        check_provenance({"mine": "/installed/mine.py"}, now, tree, here)
    with pytest.raises(InputError, match="do not differ in what is measured"):
        check_provenance({}, {"mine": "/installed/mine.py"}, tree, here)


@pytest.fixture(scope="module")
def side() -> Iterator[SideProcess]:
    with SideProcess("candidate", [str(ROOT), str(HERE)], 120.0) as process:
        yield process


def test_another_process_counts_the_same(side: SideProcess) -> None:
    files = side.ask("load", **ORDER, watch=["tppsd_bench", "gate_candidates"])
    assert Path(files["gate_candidates"]) == HERE / "gate_candidates.py"
    assert Path(files["tppsd_bench"]).parents[1] == ROOT
    sampler, *_ = gate_candidates.make()
    mine = count(sampler.sample, counts_key("", "side", 4), 5, 20)
    assert side.ask("count", key=KEY, n_sequences=5, length=20) == mine
    cpu, wall, events = side.ask("block", seeds=[1, 2], length=20)
    assert events == 40
    assert 0 < cpu < 60
    assert wall > 0


def test_what_breaks_over_there_is_told_here(side: SideProcess) -> None:
    with pytest.raises(RunBroken, match="candidate broke when asked to load: ModuleNotFoundError"):
        side.ask("load", **{**ORDER, "loader": "no_such_module:load"}, watch=[])


def test_a_process_that_ends_is_told_with_its_last_words(tmp_path: Path) -> None:
    (tmp_path / "ending.py").write_text("import sys\n\ndef load(source, device):\n    sys.exit('gone')\n", encoding="utf-8")
    with (
        SideProcess("baseline", [str(ROOT), str(tmp_path)], 120.0) as process,
        pytest.raises(RunBroken, match=r"baseline ended \(exit code 1\): gone"),
    ):
        process.ask("load", loader="ending:load", source="", sampler={}, watch=[])


SUITE = """
seed = 5
[study.gate]
samplers = ["my_sampler:make"]
measure = {measure}
n_events = 8192
timed_pairs = {pairs}
min_seconds = {seconds}
"""


class Repository:
    """A user's repository with a sampler in it, committed unchanged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "--quiet")
        self.write("")
        self.git("add", ".")
        self.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "unchanged")

    def git(self, *words: str) -> None:
        subprocess.run(["git", *words], cwd=self.folder, check=True, capture_output=True)

    def write(self, change: str) -> None:
        """The sampler as in the working tree: with this change built in."""
        text = (HERE / "gate_candidates.py").read_text(encoding="utf-8")
        (self.folder / "my_sampler.py").write_text(
            text.replace('get("GATE_CHANGE", "")', f'get("GATE_CHANGE", "{change}")'), encoding="utf-8"
        )

    def command(self, *words: str) -> tuple[int, str]:
        path = os.pathsep.join([str(self.folder), str(ROOT)])
        done = subprocess.run(
            [sys.executable, "-m", "tppsd_bench", *words], cwd=self.folder, env={**os.environ, "PYTHONPATH": path},
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def gate(self, measure: list[str], name: str, pairs: int = 30, seconds: float = 0.01) -> tuple[int, dict[str, str], str]:
        """(exit code, level -> outcome, everything said) of a run of the working tree against HEAD."""
        suite = SUITE.format(measure=json.dumps(measure), pairs=pairs, seconds=seconds)
        (self.folder / "mine.toml").write_text(suite, encoding="utf-8")
        code, said = self.command("run", "--suite", "mine.toml", "--out", f"runs/{name}", "--jobs", "1", "--quiet")
        assert code == 0, said
        code, said = self.command("gate", f"runs/{name}", "--baseline", "HEAD", "--json")
        checks = json.loads(said)["gate"]["checks"] if said.startswith("{") else []
        return code, {c["level"]: c["outcome"] for c in checks}, said


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


@pytest.mark.slow
def test_a_working_tree_is_gated_against_its_last_commit(repository: Repository) -> None:
    """Unchanged it passes, with the sequences bit for bit; with wasted forwards it fails the counts and nothing else."""
    code, levels, said = repository.gate(["counts", "law"], "unchanged")
    assert (code, set(levels.values())) == (0, {"pass"}), said
    assert "The effects of the PITs are the baseline's" in said
    repository.write("wasteful")
    code, levels, said = repository.gate(["counts", "law"], "wasteful")
    assert code == 1, said
    assert levels == {"L0 counts": "fail", "L1 verdicts": "pass", "L1 drift": "pass"}
    done = subprocess.run(["git", "worktree", "list"], cwd=repository.folder, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.slow
def test_a_fifth_more_cpu_time_is_found_by_interleaving_both_trees(repository: Repository) -> None:
    """Both looks' intervals must lie below .9. At 30 pairs the half width is about the spread of a pair's log ratio, and beside another
    test .05 to .1 in blocks of 10 ms, which is what .9 leaves to .83: so more pairs, of longer blocks, as the gate's own sentence says.
    """
    repository.write("busy")
    code, levels, said = repository.gate(["counts", "time"], "busy", pairs=60, seconds=0.02)
    assert (code, levels) == (1, {"L0 counts": "pass", "L2 time": "fail"}), said
    assert "again in a fresh process" in said
