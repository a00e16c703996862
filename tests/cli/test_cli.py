"""The command line as people meet it: a subprocess in an empty folder."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tppsd_bench.cli import main

ROOT = Path(__file__).resolve().parents[2]
FAKES = ROOT / "tests" / "runner"
HEAVY = ("torch", "scipy", "pandas", "statsmodels", "matplotlib")
FIT_ONLY = """loader = "fake_pair:load_pair"
pairs = [{pairs}]
cell_timeout = 60
law.enabled = false
speed.enabled = false
"""


def environment(**extra: str) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), str(FAKES)])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **extra}


def slowness() -> float:
    """How much slower than a core of 3.5 GHz this one is at the moment: from 1 to 2, so that no machine excuses everything."""
    begun = time.process_time()
    assert sum(i & 1 for i in range(3_000_000)) == 1_500_000
    return min(2.0, max(1.0, (time.process_time() - begun) / 0.15))


def tppsd(folder: Path, *words: str, **extra: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tppsd_bench", *words]
    return subprocess.run(
        command, cwd=folder, env=environment(**extra), capture_output=True, text=True, timeout=300, check=False
    )


def suite(folder: Path, *pairs: str, more: str = "") -> str:
    (folder / "mine.toml").write_text(FIT_ONLY.format(pairs=", ".join(f'"{p}"' for p in pairs)) + more)
    return "mine.toml"


@pytest.mark.parametrize(
    "words", [["--help"], ["list"], ["show", "smoke"], ["show", "toy-marked"], ["show", "power"], ["run", "--help"]]
)
def test_light_commands_import_nothing_heavy_and_start_at_once(words: list[str], tmp_path: Path) -> None:
    code = (
        "import sys, time; from tppsd_bench.cli import main\n"
        f"try: main({words!r})\nexcept SystemExit as end: assert not end.code, end.code\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], time.process_time(), file=sys.stderr)"
    )
    # the second start: then bytecode is there, as after an installation
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=environment(PYTHONDONTWRITEBYTECODE=""), capture_output=True, text=True,
            check=True,
        )  # fmt: skip
    loaded, _, seconds = done.stderr.strip().splitlines()[-1].rpartition(" ")
    assert loaded == "[]"
    assert float(seconds) < 0.5 * slowness()  # CPU time: what the command costs, whatever else the machine does
    assert done.stdout


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The command line in this process, in an empty folder: for what ends before any work."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(FAKES))
    return lambda *words: CliRunner().invoke(main, list(words))


def test_list_and_show(here: Callable[..., Result]) -> None:
    assert {"smoke", "calibration"} <= set(json.loads(here("list", "--json").stdout)["suites"])
    shown = here("show", "smoke").stdout
    assert "law.toy-marked.stress.k5" in shown
    assert "with power .95" in shown
    wrong = here("show", "smok")
    assert (wrong.exit_code, wrong.stderr) == (2, "error: There is no suite, pair or run 'smok'; did you mean 'smoke'?\n")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["run", "--suite", "smok"], "did you mean 'smoke'?"),
        (["run", "--suite", "smoke", "--set", "law.n_event=3"], "unknown key 'law.n_event'; did you mean 'n_events'?"),
        (["run", "--suite", "smoke", "--pair", "toy-market"], "did you mean 'toy-marked'?"),
        (["run", "--suite", "smoke", "--events", "9", "--time-budget", "2m"], "not both"),
        (["run", "--suite", "smoke", "--time-budget", "soon"], "is not a duration"),
        (["run", "--suite", "smoke", "--resume"], "No interrupted run"),
        (["run", "--no-such-option"], "No such option"),
        (["report", "nowhere"], "not a run folder"),
        (["certify", "--sampler", "fake_pair"], "is not MODULE:FACTORY"),
        (["certify", "--sampler", "no_such_module:make"], "No module named"),
        (["certify", "--sampler", "fake_pair:names"], "expected (sampler, target)"),
    ],
)
def test_bad_usage_is_one_sentence_and_exit_2(words: list[str], part: str, here: Callable[..., Result], tmp_path: Path) -> None:
    done = here(*words)
    assert done.exit_code == 2, done.stderr
    assert part in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_run_survives_kill_9(tmp_path: Path) -> None:
    name = suite(tmp_path, "load-ok", "load-ok-too", "load-slow")
    words = ["run", "--suite", name, "--out", "r", "--jobs", "1", "--quiet"]
    command = [sys.executable, "-m", "tppsd_bench", *words]
    running = subprocess.Popen(
        command, cwd=tmp_path, env=environment(FAKE_SLOW="600"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    cells = tmp_path / "r.partial" / "cells"
    deadline = time.monotonic() + 60
    while not (cells / "fit.load-ok-too.json").exists():
        assert time.monotonic() < deadline
        assert running.poll() is None
        time.sleep(0.05)
    running.send_signal(signal.SIGKILL)
    running.wait()
    before = {p.name: p.stat().st_mtime_ns for p in cells.glob("*.json")}
    assert set(before) == {"fit.load-ok.json", "fit.load-ok-too.json"}
    assert "add --resume" in tppsd(tmp_path, *words).stderr
    assert "another suite, seed, pairs or settings" in tppsd(tmp_path, *words, "--resume", "--seed", "5").stderr
    done = tppsd(tmp_path, "run", "--out", "r", "--resume", "--quiet", "--jobs", "1")  # no option need be repeated
    assert done.returncode == 0, done.stderr
    after = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "r" / "cells").glob("*.json")}
    assert {n: after[n] for n in before} == before
    assert "fit.load-slow.json" in after
    assert not (tmp_path / "r.partial").exists()
    assert (tmp_path / "r" / "report.html").is_file()
    assert len(json.loads((tmp_path / "r" / "run.json").read_text())["resumed"]) == 1


def hears_ctrl_c() -> None:
    """A shell that runs the tests in its background has them, and all they start, ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_ctrl_c_keeps_finished_cells_and_says_how_to_go_on(tmp_path: Path) -> None:
    name = suite(tmp_path, "load-ok", "load-slow")
    command = [sys.executable, "-m", "tppsd_bench", "run", "--suite", name, "--out", "r", "--jobs", "2", "--quiet"]
    running = subprocess.Popen(
        command, cwd=tmp_path, env=environment(FAKE_SLOW="600"), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        preexec_fn=hears_ctrl_c,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not (tmp_path / "r.partial" / "cells" / "fit.load-ok.json").exists():
        assert time.monotonic() < deadline
        assert running.poll() is None
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=30)
    assert running.returncode == 4
    assert f"error: Interrupted; finished cells are kept. Go on with: run --suite {name} --out r --resume" in said.splitlines()


def test_broken_cells_exit_4_and_json_is_all_of_stdout(tmp_path: Path) -> None:
    name = suite(tmp_path, "load-raises", "load-ok")
    done = tppsd(tmp_path, "run", "--suite", name, "--out", "r", "--jobs", "1", "--json")
    assert done.returncode == 4
    result = json.loads(done.stdout)
    assert result["exit_code"] == 4
    assert [p["broken"] for p in result["pairs"]] == [1, 0]
    assert "divides by zero" in result["cells"][0]["error"]
    again = tppsd(tmp_path, "show", "r")
    assert "1 of 1 cells broke" in again.stdout


def test_a_law_run_end_to_end(tmp_path: Path) -> None:
    """One exact pair and one that leaves types unverified: exit 1, one sentence a pair, a report, a table."""
    (tmp_path / "law.toml").write_text(
        'loader = "fake_pair:load_pair"\npairs = ["fake-exact", "fake-types-unverified"]\n'
        "fit.enabled = false\nspeed.enabled = false\n"
        "screen.n_sequences = 40\n[law]\nk = [4]\nn_permutations = 199\n"
    )
    done = tppsd(tmp_path, "run", "--suite", "law.toml", "--out", "r", "--events", "2000", "--jobs", "1", "--quiet")
    assert done.returncode == 1, done.stderr
    assert "2,000 events each: with power .95" in done.stderr  # quiet keeps it off standard output
    lines = [line for line in done.stdout.splitlines() if line]
    assert lines[0].startswith("fake-exact: exact with the shipped and stress draft at 2,000 events")
    assert lines[1].startswith("fake-types-unverified: NOT exact")
    assert lines[2].startswith("FAIL")
    assert lines[3] == "Report: r/report.html"
    assert "never changed" in tppsd(tmp_path, "run", "--suite", "law.toml", "--out", "r").stderr


def test_certify_needs_no_torch_for_a_numpy_sampler(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(  # holds in every process, the sampler's too
        "import sys\n"
        "class NoTorch:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'torch': raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, NoTorch())\n"
    )
    path = os.pathsep.join([str(tmp_path), str(ROOT), str(FAKES)])
    importing = [sys.executable, "-c", "import torch"]
    assert subprocess.run(importing, env=environment(PYTHONPATH=path), capture_output=True, check=False).returncode == 1
    words = ["certify", "--sampler", "fake_pair:make_exact", "--events", "2000", "--out", "c.json"]
    done = tppsd(tmp_path, *words, PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2,000 events: with power .95")
    assert ": exact at 2,000" in done.stdout
    assert json.loads((tmp_path / "c.json").read_text())["kind"] == "law"


@pytest.mark.slow
@pytest.mark.parametrize("access", ["auto", "grey"])
def test_certify_of_a_wrong_sampler_exits_1_and_names_the_place(access: str, tmp_path: Path) -> None:
    done = tppsd(tmp_path, "certify", "--sampler", "fake_pair:make_unverified", "--events", "4000", "--access", access)
    assert done.returncode == 1, done.stderr
    assert "NOT exact" in done.stdout
    assert "type" in done.stdout


@pytest.mark.slow
def test_smoke_finishes_in_time(tmp_path: Path) -> None:
    """Ten seconds on two idle cores; CPU time, because other tests run beside this one, and by the speed of the core it runs on."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = tppsd(tmp_path, "run", "--suite", "smoke", "--out", "r", PYTHONDONTWRITEBYTECODE="")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime) < 15 * slowness()
