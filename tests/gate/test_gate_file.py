"""A run against a file: written, read back and reviewed; what differs, is missing or unhealthy is said, never passed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import NAME

from tppsd_bench import store
from tppsd_bench.cli import main
from tppsd_bench.errors import Exit, InputError, RunBroken
from tppsd_bench.gate.base import COUNTS, DRIFT, TIME
from tppsd_bench.gate.baseline import read_baseline, write_baseline
from tppsd_bench.gate.counts import Counted
from tppsd_bench.gate.drift import Effects
from tppsd_bench.gate.judge import gate
from tppsd_bench.gate.measured import read_run, side_of_run
from tppsd_bench.results import Outcome

COUNTS_CELL, LAW_CELL, TIME_CELL = f"gate.counts.{NAME}", f"gate.law.{NAME}", f"gate-time.{NAME}"
Change = Callable[[dict[str, Any]], None]


@pytest.fixture
def baseline(plain: Path, tmp_path: Path) -> Path:
    write_baseline(plain, tmp_path / "baseline.json")
    return tmp_path / "baseline.json"


def rewritten(file: Path, change: Change) -> Path:
    data = json.loads(file.read_text(encoding="utf-8"))
    change(data)
    file.write_text(json.dumps(data), encoding="utf-8")
    return file


def judged(run: Path, baseline: Path) -> dict[str, Outcome]:
    """Level -> outcome of the comparisons (not of the run's own verdicts)."""
    return {c.level: c.outcome for c in gate(run, str(baseline)).checks if c.level in (COUNTS, DRIFT, TIME)}


def test_a_baseline_reads_back_what_the_run_measured(plain: Path, baseline: Path) -> None:
    side, again = side_of_run(plain, *read_run(plain)), read_baseline(baseline)
    assert list(again.cells) == list(side.cells)
    assert (again.fingerprint, again.seed, again.design) == (side.fingerprint, side.seed, side.design)
    for name, cell in side.cells.items():
        read = again.cells[name]
        if isinstance(cell, Counted):
            assert isinstance(read, Counted)
            np.testing.assert_array_equal(read.forwards, cell.forwards)
            np.testing.assert_array_equal(read.committed, cell.committed)
        elif isinstance(cell, Effects):
            assert isinstance(read, Effects)
            np.testing.assert_allclose(read.theta, cell.theta, rtol=1e-8)
            np.testing.assert_allclose(read.covariance, cell.covariance, rtol=1e-7, atol=1e-12)
        else:
            assert read.__dict__ == pytest.approx(cell.__dict__, rel=1e-8)


def test_a_baseline_is_small_and_has_a_line_a_cell(baseline: Path) -> None:
    text = baseline.read_text(encoding="utf-8")
    assert len(text) < 4_000
    assert sum(line.startswith('  "gate') for line in text.splitlines()) == 3


def test_the_review_shows_before_and_after(plain: Path, baseline: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        data["cells"][COUNTS_CELL]["forwards"] = [2 * f for f in data["cells"][COUNTS_CELL]["forwards"]]
        data["cells"]["gate.counts.old"] = data["cells"][COUNTS_CELL]
        data["fingerprint"] = "elsewhere"

    lines = write_baseline(plain, rewritten(baseline, change))
    (counts,) = [line for line in lines if line.startswith(COUNTS_CELL)]
    before, after = (float(part.split()[0]) for part in counts.split(": ")[1].split(" -> "))
    assert before == pytest.approx(2 * after, abs=2e-4)
    assert any(line.startswith("gate.counts.old") and line.endswith("gone") for line in lines)
    assert any("fingerprint: elsewhere" in line for line in lines)


def test_the_run_itself_keeps_counts_and_law(plain: Path, baseline: Path) -> None:
    found = {c.cell: c for c in gate(plain, str(baseline)).checks if c.level in (COUNTS, DRIFT)}
    assert found[COUNTS_CELL].outcome is Outcome.PASS
    assert "the same in each of 20 sequences" in found[COUNTS_CELL].sentence
    assert found[LAW_CELL].outcome is Outcome.PASS
    assert found[LAW_CELL].effect == pytest.approx(0, abs=1e-8)


def test_fewer_forwards_in_the_baseline_fail_the_counts_alone(plain: Path, baseline: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        cell = data["cells"][COUNTS_CELL]
        cell["forwards"] = [f - 1 for f in cell["forwards"]]

    result = gate(plain, str(rewritten(baseline, change)))
    assert {c.level for c in result.checks if c.outcome is Outcome.FAIL} == {COUNTS}
    assert result.exit_code is Exit.FAIL


def test_a_shifted_law_in_the_baseline_fails_the_drift_alone(plain: Path, baseline: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        data["cells"][LAW_CELL]["theta"][4] += 0.3

    result = gate(plain, str(rewritten(baseline, change)))
    (failed,) = [c for c in result.checks if c.outcome is Outcome.FAIL]
    assert failed.level == DRIFT
    assert "types, location" in failed.sentence


def test_on_another_machine_time_is_told_but_not_judged(plain: Path, baseline: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        data["fingerprint"] = "elsewhere"
        for name in ("log_ratio", "low", "high", "lower", "upper"):
            data["cells"][TIME_CELL][name] += 4.0

    result = gate(plain, str(rewritten(baseline, change)))
    (timed,) = [c for c in result.checks if c.level == TIME]
    assert (timed.outcome, timed.advisory) == (Outcome.FAIL, True)
    assert result.exit_code is Exit.PASS
    assert any("another machine" in note for note in result.notes)


def test_other_seeds_are_not_paired(plain: Path, baseline: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        data["seed"] += 1
        data["cells"][COUNTS_CELL]["forwards"].reverse()

    (counts,) = [c for c in gate(plain, str(rewritten(baseline, change))).checks if c.level == COUNTS]
    assert "two separate samples" in counts.sentence


def test_a_cell_that_the_run_lacks_is_not_measured_and_never_a_pass(plain: Path, baseline: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        data["cells"]["gate.counts.other"] = data["cells"][COUNTS_CELL]

    result = gate(plain, str(rewritten(baseline, change)))
    assert result.exit_code is Exit.BROKEN
    assert "gate.counts.other" in result.sentence


def test_a_new_cell_is_named(plain: Path, baseline: Path) -> None:
    result = gate(plain, str(rewritten(baseline, lambda data: data["cells"].pop(LAW_CELL))))
    assert any(LAW_CELL in note for note in result.notes)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data.update(format=0), "reads format 1"),
        (lambda data: data["cells"][COUNTS_CELL].pop("forwards"), "not a whole baseline"),
        (lambda data: data["cells"][COUNTS_CELL]["design"].update(length=99), "length 40 against 99"),
    ],
)
def test_what_cannot_be_compared_is_refused(plain: Path, baseline: Path, change: Change, said: str) -> None:
    with pytest.raises(InputError, match=said):
        gate(plain, str(rewritten(baseline, change)))


@pytest.fixture
def copy(plain: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(plain, tmp_path / "copy"))


def with_cell(run: Path, name: str, **changes: Any) -> None:
    file = run / "cells" / f"{name}.json"
    store.write_json(file, {**store.read_json(file), **changes})


def test_a_broken_cell_is_not_measured(copy: Path, baseline: Path) -> None:
    with_cell(copy, COUNTS_CELL, error="it broke")
    result = gate(copy, str(baseline))
    assert result.exit_code is Exit.BROKEN
    assert "it broke" in result.sentence


def test_a_failing_verdict_fails_and_makes_no_baseline(copy: Path, tmp_path: Path, baseline: Path) -> None:
    verdict = {"axis": "law", "outcome": "fail", "sentence": "It is off."}
    with_cell(copy, LAW_CELL, verdicts=[verdict])
    assert gate(copy, str(baseline)).exit_code is Exit.FAIL
    with pytest.raises(InputError, match="It is off"):
        write_baseline(copy, tmp_path / "new.json")
    assert not (tmp_path / "new.json").exists()


def test_an_unfinished_run_makes_no_baseline(copy: Path, tmp_path: Path) -> None:
    store.write_json(copy / "run.json", {**store.read_json(copy / "run.json"), "status": "incomplete"})
    with pytest.raises(InputError, match="incomplete"):
        write_baseline(copy, tmp_path / "new.json")


def test_an_unsteady_machine_makes_no_baseline(copy: Path, tmp_path: Path) -> None:
    file = copy / "cells" / f"{TIME_CELL}.npz"
    with np.load(file) as stored:
        arrays = {name: stored[name] for name in stored.files}
    np.savez(file, **{**arrays, "log_ratio_again": arrays["log_ratio_again"] + 1.0})
    with pytest.raises(InputError, match="quieter machine"):
        write_baseline(copy, tmp_path / "new.json")


def test_a_run_without_a_gate_s_cells_measured_nothing(copy: Path, baseline: Path) -> None:
    for file in (copy / "cells").glob("*"):
        file.unlink()
    with pytest.raises(RunBroken, match="nothing was measured"):
        gate(copy, str(baseline))


def command(*words: object, code: int) -> str:
    done = CliRunner().invoke(main, [str(w) for w in words])
    assert done.exit_code == code, done.output
    return done.output


def test_the_command_leaves_files_and_the_step_summary(
    plain: Path, baseline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(data: dict[str, Any]) -> None:
        data["fingerprint"] = "elsewhere"  # time is not the question

    rewritten(baseline, change)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    words = ("gate", plain, "--baseline", baseline, "--junit", tmp_path / "gate.xml", "--markdown", tmp_path / "gate.md")
    assert "PASS:" in command(*words, code=0)
    assert (tmp_path / "gate.xml").read_text(encoding="utf-8").startswith("<?xml")
    assert (tmp_path / "summary.md").read_text(encoding="utf-8") == (tmp_path / "gate.md").read_text(encoding="utf-8")
    answer = json.loads(command(*words, "--json", code=0))
    assert answer["exit_code"] == 0
    assert {c["level"] for c in answer["gate"]["checks"]} >= {COUNTS, DRIFT, TIME}


def test_a_broken_gate_still_leaves_its_xml(copy: Path, baseline: Path, tmp_path: Path) -> None:
    for file in (copy / "cells").glob("*"):
        file.unlink()
    assert "nothing was measured" in command("gate", copy, "--baseline", baseline, "--junit", tmp_path / "gate.xml", code=4)
    assert 'errors="1"' in (tmp_path / "gate.xml").read_text(encoding="utf-8")


def test_wrong_words_are_told(plain: Path, tmp_path: Path) -> None:
    assert "--write-baseline" in command("gate", plain, code=2)
    assert "neither a file nor a revision" in command("gate", plain, "--baseline", "no-such-thing", code=2)
    assert "not a run folder" in command("gate", tmp_path, "--baseline", "x", code=2)


def test_a_baseline_is_written_by_the_command_and_not_where_the_gate_fails(plain: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.json"
    assert "review it and commit it" in command("gate", plain, "--write-baseline", new, code=0)

    def change(data: dict[str, Any]) -> None:
        cell = data["cells"][COUNTS_CELL]
        cell["forwards"] = [f - 1 for f in cell["forwards"]]

    rewritten(new, change)
    before = new.read_text(encoding="utf-8")
    assert "was not written" in command("gate", plain, "--baseline", new, "--write-baseline", new, code=1)
    assert new.read_text(encoding="utf-8") == before
