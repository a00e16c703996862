"""The arithmetic of the proof: order statistics, resolution, second-level tests, verdicts. Identities first."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tppsd_bench.errors import Exit
from tppsd_bench.results import CellResult, Outcome
from tppsd_bench.runner import power_cell, power_null, power_summary
from tppsd_bench.runner.power_dose import resolved, variation
from tppsd_bench.runner.power_etd import etd
from tppsd_bench.runner.power_examination import median_interval, rate
from tppsd_bench.runner.summary import exit_code, summarise
from tppsd_bench.streams import StreamKey


def test_the_median_has_an_interval_by_order_statistics() -> None:
    x = np.arange(1.0, 10.0)
    assert median_interval(x) == (5.0, 2.0, 8.0)  # 1 - 2 (1 + 9) / 512 = .961; ranks 3 and 7 cover .82
    assert median_interval(x[:5]) == (3.0, 1.0, 5.0)  # .9375: no pair of ranks reaches .95, the extremes stand
    assert median_interval(np.array([1.0, 3.0])) == (2.0, 1.0, 3.0)
    assert median_interval(np.array([1.0, 2.0, np.inf, np.inf])) == (np.inf, 1.0, np.inf)


def test_the_interval_covers_the_median() -> None:
    """72 values: the ranks' exact coverage is at least .95; in 2,000 samples the share is at most 4.5 standard errors below."""
    rng = StreamKey(seed=1, cell="median interval").generator()
    hits = [low <= 0.5 <= high for _, low, high in (median_interval(rng.random(72)) for _ in range(2000))]
    assert np.mean(hits) > 0.95 - 4.5 * math.sqrt(0.05 * 0.95 / 2000)


def test_runs_without_detection_count_as_longer_than_any_other() -> None:
    found = etd([300.0, np.inf, 100.0, np.inf, np.inf], 1000)
    assert found == {"median": None, "low": 100.0, "high": None, "n": 5, "missed": 3, "budget": 1000}
    assert etd([float("nan")], 1000) is None
    assert etd([], 1000) is None


def test_a_level_is_spent_on_the_families_that_a_run_has() -> None:
    for verifies in (True, False):
        levels = power_null.spent(0.05, verifies)
        assert levels.analytic + levels.mechanism * verifies + levels.eprocess == pytest.approx(0.05)
        assert levels.analytic == 2 * levels.eprocess


def test_resolution_is_the_smallest_dose_from_which_all_are_caught() -> None:
    assert resolved([1.0, 2.0, 3.0], [0.5, 1.0, 1.0], 0.95) == 2.0
    assert resolved([1.0, 2.0, 3.0], [1.0, 0.5, 1.0], 0.95) == 3.0
    assert resolved([1.0, 2.0], [1.0, 1.0], 0.95) == 1.0
    assert resolved([1.0, 2.0], [1.0, 0.9], 0.95) is None


def test_variation_counts_cells_and_forgives_chance() -> None:
    assert variation([]) is None
    assert variation([np.full(64, 100.0)]) == 0.0
    noise = 32 * math.sqrt(2 * (1 / 64) * (63 / 64) / (math.pi * 6400))
    assert variation([np.eye(64)[0] * 3200, np.eye(64)[0] * 3200]) == pytest.approx(63 / 64 - noise)


def test_second_level_knows_too_small_from_too_large() -> None:
    """1,000 p-values each; a statistic that is right is rejected at 1e-6 with probability 1e-6, the wrong ones always."""
    u = StreamKey(seed=2, cell="second level").generator().random(1000)
    small, large = u**1.3, np.minimum(1.0, 1.5 * u)
    found = power_null.second_level({
        "pit_time.neyman": u, "pit_type.neyman": small, "pair.gap_gap": large,
        "tail.low_1e-2": u, "strata.tail[event=1]": small, "tail.atoms": large, "short": np.array([0.1, np.nan]),
    })  # fmt: skip
    rejected = {name for name, p in found.items() if p < 1e-6}
    assert rejected == {"pit_type.neyman", "pair.gap_gap", "strata.tail[event=1]"}
    assert "short" not in found


def null_run(p: float = 0.5, alarm: str = "", failed: bool = False) -> power_null.Run:
    return power_null.Run(alarm, (failed,), {"pit_time.neyman": p}, 1.0, 1.0)


def null_verdict(runs: list[power_null.Run]) -> Any:
    figures, arrays = power_null.tables(runs, [0.05])
    assert arrays["p"].shape == (len(runs), 1)
    return power_null.verdict("x", {**figures, "n_events": 100}, runs)


def test_a_null_cell_fails_by_an_alarm_a_rate_or_its_p_values() -> None:
    u = (np.arange(200) + 0.5) / 200
    good = [null_run(p) for p in u]
    assert null_verdict(good).outcome is Outcome.PASS
    alarmed = null_verdict([*good[1:], null_run(0.5, alarm="The sampler does not draw.")])
    assert alarmed.outcome is Outcome.FAIL
    assert "FALSE ALARM: 1 of 200" in alarmed.sentence
    often = null_verdict([null_run(p, failed=i % 5 == 0) for i, p in enumerate(u)])
    assert often.outcome is Outcome.FAIL
    assert "too often: 0.200 at level 0.05" in often.sentence
    crooked = null_verdict([null_run(p / 2) for p in u])
    assert crooked.outcome is Outcome.FAIL
    assert "pit_time.neyman are not uniform" in crooked.sentence


SIZES = power_cell.Sizes(12, 1000, 20, 0.99)


def power_verdict(hits: int, n: int, control: bool = False) -> Any:
    fault = SimpleNamespace(name="x", control=control)
    found: list[Any] = [SimpleNamespace(caught=i < hits, sentence="It fails.") for i in range(n)]
    return power_cell.verdict(fault, found, SIZES)


def test_the_verdict_of_a_power_cell_is_about_the_suite() -> None:
    assert power_verdict(12, 12).outcome is Outcome.PASS
    assert "power at least 0.78" in power_verdict(12, 12).sentence
    assert power_verdict(11, 12).outcome is Outcome.INCONCLUSIVE  # P(at most 11 | .99) = .11
    assert power_verdict(10, 12).outcome is Outcome.FAIL  # .0062
    assert power_verdict(0, 12, control=True).outcome is Outcome.PASS
    alarm = power_verdict(1, 12, control=True)
    assert alarm.outcome is Outcome.FAIL
    assert "1 of 12 examinations (It fails)" in alarm.sentence


def power_cell_result(name: str, hits: int, n: int = 12, **more: Any) -> CellResult:
    figures = {
        "mutant": name, "control": False, "caught": rate(hits, n), "seeds": n, "gross": True,
        "ranked": {"first": rate(hits, n), "top3": rate(hits, n)}, "etd_reference": {"median": 300.0, "budget": 20_000}, **more,
    }  # fmt: skip
    return CellResult(f"power.{name}", "power", "toy", "stress", name, verdicts=(power_verdict(hits, n),), figures=figures)


def null_cell_result() -> CellResult:
    figures = {
        "sampler": "target_only", "false_alarms": rate(0, 500), "rates": {"0.05": rate(15, 500, 0.99)}, "second_level_p": 0.4,
    }  # fmt: skip
    verdict = null_verdict([null_run((i + 0.5) / 200) for i in range(200)])
    return CellResult("null.target_only", "null", "toy", "", "", verdicts=(verdict,), figures=figures)


def test_a_proof_in_words_and_as_an_exit_code() -> None:
    subtle = power_cell_result("subtle", 12, gross=False, etd_reference={"median": None, "budget": 20_000})
    cells = [power_cell_result("one", 12), power_cell_result("two", 12), subtle, null_cell_result()]
    (said,) = summarise(cells)
    for part in (
        "3 of 3 faults caught by every seed", "power at least 0.78", "first three suspects for 3 of 3",
        "0 false alarms in 500 exact runs (failures 0.030 at 0.05", "300 (gross)", "beyond 20,000 (subtle)",
    ):  # fmt: skip
        assert part in said.sentence
    assert exit_code(cells) is Exit.PASS
    missed = [*cells, power_cell_result("three", 5)]
    assert "missed at times: three 5 of 12" in summarise(missed)[0].sentence
    assert exit_code(missed) is Exit.FAIL
    assert exit_code([*cells, power_cell_result("four", 11)]) is Exit.INCONCLUSIVE
    assert exit_code([*cells, replace(null_cell_result(), error="it died", verdicts=())]) is Exit.BROKEN
    assert {power_summary.closing_line(code).partition(":")[0] for code in Exit} == {
        "PASS", "FAIL", "INVALID", "INCONCLUSIVE", "BROKEN",
    }  # fmt: skip


@pytest.mark.parametrize("code", list(Exit))
def test_every_exit_code_has_its_line(code: Exit) -> None:
    assert power_summary.closing_line(code).endswith(".")
