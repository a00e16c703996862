"""The asv suite as asv sees it: it imports, every benchmark states its version, unit and timeout, the configuration says what it means."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from asv.config import Config
from asv.runner import BENCHMARK_RUN_SCRIPT
from asv.util import load_json

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "asv.conf.json"
PREFIXES = ("track_", "time_", "peakmem_")
PAGE = ROOT / "docs" / "history.md"


def run(*words: str, tree: Path = ROOT) -> subprocess.CompletedProcess[str]:
    where = {"ASV_PYTHONPATH": str(ROOT), "PYTHONPATH": str(ROOT), "TPPSD_BENCH_TREE": str(tree)}
    return subprocess.run(
        [sys.executable, *words], env={**os.environ, **where}, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture(scope="module")
def benchmarks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    out = tmp_path_factory.mktemp("discovery") / "benchmarks.json"
    done = run(BENCHMARK_RUN_SCRIPT, "discover", str(ROOT / "suites/asv/benchmarks"), str(out))
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(out.read_text(encoding="utf-8"))
    return found


def test_asv_check_finds_no_fault() -> None:
    done = run("-m", "asv", "check", "--config", str(CONFIG))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No problems found" in done.stdout


def test_another_tree_than_the_one_to_measure_is_refused(tmp_path: Path) -> None:
    """An installed copy would otherwise be measured in every commit's place, and the history would be flat."""
    done = run("-m", "asv", "check", "--config", str(CONFIG), tree=tmp_path)
    assert done.returncode == 1
    assert f"'tppsd_bench' would come from {ROOT}" in done.stdout + done.stderr


def test_every_kind_of_benchmark_is_there_and_documented(benchmarks: list[dict[str, Any]]) -> None:
    names = [b["name"] for b in benchmarks]
    assert {p for p in PREFIXES for n in names if n.split(".")[-1].startswith(p)} == set(PREFIXES)
    assert not [n for n in names if n not in PAGE.read_text(encoding="utf-8")], "missing in docs/history.md"


def test_version_unit_and_timeout_are_stated(benchmarks: list[dict[str, Any]]) -> None:
    """asv's own version is a hash of the source, which a reworded docstring changes: every older point would vanish."""
    for b in benchmarks:
        assert re.fullmatch(r"\d+", b["version"]), b["name"]
        assert b["unit"] != "unit", b["name"]
        assert 0 < b["timeout"] <= 60, b["name"]


def test_parameters_are_few(benchmarks: list[dict[str, Any]]) -> None:
    for b in benchmarks:
        cases = 1
        for values in b["params"]:
            cases *= len(values)
        assert cases <= 4, b["name"]


def unknown_keys(conf: dict[str, Any]) -> set[str]:
    return set(conf) - {"version"} - set(vars(Config()))


def test_the_configuration_has_no_key_that_asv_would_pass_over() -> None:
    conf = load_json(str(CONFIG), js_comments=True)
    assert not unknown_keys(conf)
    assert unknown_keys({"version": 1, "regression_thresholds": {}}) == {"regression_thresholds"}


def test_every_benchmark_has_one_threshold(benchmarks: list[dict[str, Any]]) -> None:
    """Where several match asv takes the largest, where none does 5 %."""
    thresholds = load_json(str(CONFIG), js_comments=True)["regressions_thresholds"]
    for b in benchmarks:
        assert len([t for t in thresholds if re.match(t, b["name"])]) == 1, b["name"]
    for t in thresholds:
        assert [b for b in benchmarks if re.match(t, b["name"])], f"threshold {t} matches nothing"


def test_benchmarks_run_on_one_thread() -> None:
    """asv has loaded numpy before the benchmarks, too early for an environment variable; a second thread's waiting is CPU time."""
    code = (
        "import sys, numpy\n"
        f"sys.path.insert(0, {str(ROOT / 'suites/asv')!r})\n"
        "from threadpoolctl import threadpool_info\n"
        "print(max(pool['num_threads'] for pool in threadpool_info()))\n"
        "import benchmarks\n"
        "print(max(pool['num_threads'] for pool in threadpool_info()))\n"
    )
    free = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    done = subprocess.run([sys.executable, "-c", code], env=free, capture_output=True, text=True, timeout=60, check=True)
    before, after = map(int, done.stdout.split())
    assert after == 1
    assert before > 1 or len(os.sched_getaffinity(0)) == 1, "numpy had one thread anyhow: the test saw nothing"
