"""Execution: what breaks is marked, the rest finishes, what is finished stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from quick_suites import quick_suite

from tppsd_bench.errors import Exit
from tppsd_bench.results import CellResult
from tppsd_bench.runner import plan
from tppsd_bench.runner.execute import execute
from tppsd_bench.runner.executors.base import Executor
from tppsd_bench.runner.executors.local import Local
from tppsd_bench.runner.summary import exit_code


def run(
    out: Path, *pairs: str, jobs: int = 1, resume: bool = False, timeout: float = 600.0, executor: Executor | None = None
) -> tuple[Path, list[CellResult]]:
    made = plan.make_plan(quick_suite(*pairs, cell_timeout=timeout))
    return execute(made, out, jobs=jobs, resume=resume, say=lambda _text, _done: None, report=False, executor=executor)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_cell_that_raises_breaks_alone(tmp_path: Path, jobs: int) -> None:
    folder, cells = run(tmp_path / "r", "load-raises", "load-ok", "load-ok-too", jobs=jobs)
    assert [bool(c.error) for c in cells] == [True, False, False]
    assert "ZeroDivisionError: the fake pair divides by zero (in fake_pair.py, line" in cells[0].error
    assert exit_code(cells) is Exit.BROKEN
    assert json.loads((folder / "run.json").read_text())["status"] == "incomplete"
    assert sorted(p.name for p in (folder / "cells").glob("*.json")) == [
        "fit.load-ok-too.json", "fit.load-ok.json", "fit.load-raises.json",
    ]  # fmt: skip


def test_a_cell_that_dies_breaks_alone(tmp_path: Path) -> None:
    _, cells = run(tmp_path / "r", "load-dies", "load-ok", "load-ok-too", jobs=2)
    assert [bool(c.error) for c in cells] == [True, False, False]
    assert "died" in cells[0].error


def test_a_cell_that_hangs_breaks_alone(tmp_path: Path) -> None:
    _, cells = run(tmp_path / "r", "load-hangs", "load-ok", timeout=1.0)
    assert [bool(c.error) for c in cells] == [True, False]
    assert "took longer than 1 s" in cells[0].error


@pytest.mark.slow
def test_a_worker_stuck_outside_python_is_killed(tmp_path: Path) -> None:
    _, cells = run(tmp_path / "r", "load-ok", "load-stuck", "load-ok-too", timeout=8.0, executor=Local(2, grace=1.0))
    assert [bool(c.error) for c in cells] == [False, True, False]
    assert "hung" in cells[1].error


def test_only_broken_cells_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fake_pair

    folder, _ = run(tmp_path / "r", "load-ok", "load-raises")
    kept = folder / "cells" / "fit.load-ok.json"
    before = kept.stat().st_mtime_ns
    monkeypatch.setattr(fake_pair, "misbehave", lambda what: None)
    folder, cells = run(tmp_path / "r", "load-ok", "load-raises", resume=True)
    assert not any(c.error for c in cells)
    assert exit_code(cells) is Exit.PASS
    assert kept.stat().st_mtime_ns == before
    assert json.loads((folder / "run.json").read_text())["status"] == "finished"


def test_an_interrupt_keeps_what_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fake_pair

    def interrupt(what: str) -> None:
        if what == "slow":
            raise KeyboardInterrupt

    monkeypatch.setattr(fake_pair, "misbehave", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "r", "load-ok", "load-slow")
    assert (tmp_path / "r.partial" / "cells" / "fit.load-ok.json").is_file()
    assert not (tmp_path / "r").exists()
    monkeypatch.setattr(fake_pair, "misbehave", lambda what: None)
    _, cells = run(tmp_path / "r", "load-ok", "load-slow", resume=True)
    assert not any(c.error for c in cells)
