"""What checks add up to, and how they are told: exit codes, JUnit XML, Markdown."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from tppsd_bench.errors import Exit
from tppsd_bench.gate.base import COUNTS, DRIFT, TIME, VERDICTS, Check, GateResult
from tppsd_bench.gate.junit import junit_xml
from tppsd_bench.gate.words import as_markdown, as_text
from tppsd_bench.results import Outcome

PASSED = Check(COUNTS, "gate.counts.x", Outcome.PASS, "the same.")
VERDICT = Check(VERDICTS, "gate.law.x", Outcome.PASS, "No verdict fails.")
FAILED = Check(DRIFT, "gate.law.x", Outcome.FAIL, "drifted | by <a lot>\x00.")
OPEN = Check(TIME, "gate-time.x", Outcome.INCONCLUSIVE, "too unsteady.")
MISSING = Check(COUNTS, "gate.counts.y", Outcome.INVALID, "not there.")
TOLD = replace(FAILED, level=TIME, advisory=True)


@pytest.mark.parametrize(
    ("checks", "code"),
    [
        ((PASSED, VERDICT), Exit.PASS),
        ((PASSED, FAILED, OPEN, MISSING), Exit.FAIL),
        ((PASSED, OPEN, MISSING), Exit.BROKEN),
        ((PASSED, OPEN), Exit.INCONCLUSIVE),
        ((PASSED, TOLD), Exit.PASS),
        ((VERDICT,), Exit.BROKEN),
        ((MISSING, VERDICT), Exit.BROKEN),
        ((replace(VERDICT, outcome=Outcome.FAIL),), Exit.FAIL),
        ((), Exit.BROKEN),
    ],
)
def test_exit_codes(checks: tuple[Check, ...], code: Exit) -> None:
    """Nothing measured is never a pass: the run's own verdicts are no comparison."""
    result = GateResult("run", "file", checks)
    assert result.exit_code is code
    assert result.sentence.startswith({Exit.PASS: "PASS", Exit.FAIL: "FAIL", Exit.BROKEN: "BROKEN"}.get(code, "INCONCLUSIVE"))


def test_junit_counts_every_outcome_and_survives_any_character() -> None:
    root = ElementTree.fromstring(junit_xml(GateResult("run", "file", (PASSED, VERDICT, FAILED, OPEN, MISSING, TOLD))))
    assert {k: root.get(k) for k in ("tests", "failures", "errors", "skipped")} == {
        "tests": "6", "failures": "1", "errors": "1", "skipped": "2",
    }  # fmt: skip
    assert [s.get("name") for s in root] == [COUNTS, VERDICTS, DRIFT, TIME]
    failure = root.find(".//failure")
    assert failure is not None
    assert failure.get("message") == "drifted | by <a lot>?."


def test_junit_of_nothing_is_an_error_not_an_empty_success() -> None:
    root = ElementTree.fromstring(junit_xml(GateResult("run", "file", ())))
    assert (root.get("tests"), root.get("errors")) == ("1", "1")


def test_markdown_escapes_what_would_break_the_table() -> None:
    text = as_markdown(GateResult("run", "file", (PASSED, FAILED, TOLD), ("another machine",)))
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert all(line.replace("\\|", "").count("|") == 5 for line in rows)
    assert "&lt;a lot>" in text
    assert "> another machine" in text
    assert "(advisory)" in text


def test_the_terminal_has_a_line_a_check_and_the_answer_last() -> None:
    lines = as_text(GateResult("run", "file", (PASSED, OPEN))).splitlines()
    assert lines[-1].startswith("INCONCLUSIVE at L2 time")
    assert sum("gate" in line for line in lines[1:-2]) == 2
