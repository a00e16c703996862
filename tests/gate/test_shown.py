"""The gate shown to work against a file: each change fails at its own level.

A drift of TV .02 is found with power .99 at the size of ``suites/gate.toml`` (81,920 events on both sides, unpaired); 5 % more forwards in
96 sequences lie seven standard errors above the margin of 1 %. That other levels pass meanwhile: ``test_revision``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import gate_run

from tppsd_bench.errors import Exit
from tppsd_bench.gate.base import COUNTS, DRIFT, TIME, VERDICTS, GateResult
from tppsd_bench.gate.baseline import write_baseline
from tppsd_bench.gate.judge import gate
from tppsd_bench.results import Outcome

pytestmark = pytest.mark.slow
SIZES = {
    "n_sequences": 96, "length": 80, "n_events": 81_920, "timed_length": 80, "timed_pairs": 80, "min_seconds": 0.03, "margins": {},
}  # fmt: skip
TELLING = 0.06
"""Half width of a log speed's interval: at a fifth more CPU time, log(1/1.2) + .06 is still below log(0.9)."""
Changed = Callable[..., GateResult]


@pytest.fixture
def changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Changed:
    """``changed(change, *parts)``: the gate of the changed sampler against a file of the unchanged one."""

    def judged(change: str, *parts: str) -> GateResult:
        sizes = {**SIZES, "measure": list(parts)}
        write_baseline(gate_run(tmp_path / "unchanged", **sizes), tmp_path / "baseline.json")
        monkeypatch.setenv("GATE_CHANGE", change)
        return gate(gate_run(tmp_path / change, **sizes), str(tmp_path / "baseline.json"))

    return judged


def failed(result: GateResult) -> set[str]:
    return {c.level for c in result.checks if c.outcome is Outcome.FAIL}


def test_five_percent_more_forwards_fail_the_counts(changed: Changed) -> None:
    result = changed("wasteful", "counts")
    assert result.exit_code is Exit.FAIL
    assert failed(result) == {COUNTS}


def test_a_tilt_of_total_variation_two_percent_fails_as_drift(changed: Changed) -> None:
    """The law's own verdict fails too, as the target is the unchanged one."""
    result = changed("tilted", "law")
    assert failed(result) == {DRIFT, VERDICTS}
    (drift,) = [c for c in result.checks if c.level == DRIFT]
    assert "gaps, location" in drift.sentence
    assert drift.effect == pytest.approx(0.02, abs=0.008)


def test_a_fifth_more_cpu_time_fails_the_time_or_is_told_to_be_undecidable_here(changed: Changed) -> None:
    """Speedups of two jobs: on a machine so busy that the interval cannot tell, INCONCLUSIVE is the right answer; PASS never is."""
    result = changed("busy", "time")
    (time,) = result.checks
    assert time.level == TIME
    assert time.interval is not None
    half = (time.interval[1] - time.interval[0]) / 2
    assert time.outcome is Outcome.FAIL or (time.outcome is Outcome.INCONCLUSIVE and half > TELLING), time.sentence
    assert time.effect == pytest.approx(math.log(1 / 1.2), abs=max(0.05, half))
    assert "again in a fresh process" in time.sentence
