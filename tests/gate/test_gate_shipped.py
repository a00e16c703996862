"""What ships with the gate: the project's own baseline belongs to its suite; commands in pages and workflow exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click import Group

from tppsd_bench.cli import main
from tppsd_bench.gate.baseline import read_baseline
from tppsd_bench.runner.plan import make_plan
from tppsd_bench.suite import load_suite

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["docs/gate.md", "docs/suites/gate.md", "docs/examples/gate.yml", ".ci/run"]


def test_the_committed_baseline_is_of_the_suite_as_it_is_now() -> None:
    """After a change of the suite: run it, then gate RUN --write-baseline suites/baselines/gate.json."""
    suite = load_suite("gate")
    plan, baseline = make_plan(suite), read_baseline(ROOT / "suites/baselines/gate.json")
    lengths = {cell.id: job.length for job in plan.jobs for cell in job.cells}
    wanted = {cell.id: {"draft": cell.draft, "k": cell.k, "length": lengths[cell.id]} for cell in plan.cells}
    assert baseline.design == wanted
    assert baseline.seed == suite.seed


def commands(text: str) -> list[list[str]]:
    """The words of every command of the suite in a page."""
    found = re.findall(r"python -m tppsd_bench ([^\n#|]+)", text)
    return [shlex.split(line.split("||")[0].replace("`", "")) for line in found]


@pytest.mark.parametrize("page", PAGES)
def test_every_command_shown_exists_with_its_options(page: str) -> None:
    shown = commands((ROOT / page).read_text(encoding="utf-8"))
    assert shown
    assert isinstance(main, Group)
    for name, *words in shown:
        options = {o for p in main.commands[name].params for o in p.opts}
        assert {w.partition("=")[0] for w in words if w.startswith("--")} <= options, (name, words)
