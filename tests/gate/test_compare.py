"""Two runs side by side: what sets them apart, matched cells, paired and separate differences."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from conftest import NAME, Run

from tppsd_bench.cli import main
from tppsd_bench.gate.compare import as_table, compare


@pytest.fixture
def other(run: Run) -> Path:
    return run("other", seed=8, measure=["counts", "law"])


def test_a_run_and_itself_differ_by_nothing(plain: Path) -> None:
    found = compare(plain, plain)
    assert found.apart == ()
    differences = [r for r in found.rows if r.difference is not None]
    assert {r.how for r in differences if r.what != "CPU speedup"} == {"paired"}
    assert all(r.difference == 0 for r in differences)
    assert {r.what for r in differences} >= {
        "forwards per event",
        "law of gaps, location",
        "law of types, scale",
        "CPU speedup",
    }
    assert "same suite, seed and machine" in as_table(found)


def test_runs_of_other_seeds_are_compared_apart_and_it_is_said(plain: Path, other: Path) -> None:
    found = compare(plain, other)
    assert "seed: 7 and 8" in found.apart
    assert "settings of the suite differ" in found.apart
    rows = {(r.cell, r.what): r for r in found.rows}
    law = rows[f"gate.law.{NAME}", "law of gaps, location"]
    assert law.how == "separate"
    assert law.interval is not None
    assert law.interval[0] < 0 < law.interval[1] or abs(law.difference or 0) < 0.1
    counts = rows[f"gate.counts.{NAME}", "forwards per event"]
    assert counts.interval is not None
    assert counts.interval[0] < (counts.difference or 0) < counts.interval[1]
    alone = rows[f"gate-time.{NAME}", "cell"]
    assert (alone.first, alone.second) == ("measured", None)
    assert rows[f"gate.law.{NAME}", "law"].first is not None


def test_the_command_gives_a_table_or_json(plain: Path) -> None:
    shown = CliRunner().invoke(main, ["compare", str(plain), str(plain)])
    assert shown.exit_code == 0
    assert f"gate.counts.{NAME}" in shown.output
    data = json.loads(CliRunner().invoke(main, ["compare", str(plain), str(plain), "--json"]).output)
    assert data["rows"][0]["cell"]
    missing = CliRunner().invoke(main, ["compare", str(plain), str(plain / "no")])
    assert missing.exit_code == 2
