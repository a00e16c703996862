"""The study of drafts from its table to its page: what it plans, what it refuses, one tiny run through the command line."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tppsd_bench.cli import main
from tppsd_bench.errors import InputError
from tppsd_bench.results import CellResult
from tppsd_bench.runner.plan import make_plan
from tppsd_bench.runner.summary import exit_code
from tppsd_bench.store import read_cells
from tppsd_bench.studies.drafts import jobs, section
from tppsd_bench.studies.drafts.reading import Results
from tppsd_bench.suite import check_suite, load_suite

SUITE = """
title = "Toys"
seed = 5
[study.drafts]
pairs = ["toy-marked", "toy-univariate"]
drafts = ["shipped", "stress"]
k = [1, 3]
sequences = 6
contexts = 4
[study.drafts.time]
drafts = ["shipped"]
length = 6
min_seconds = 0.0005
budget_seconds = 0.2
[study.drafts.history.toy-marked]
drafts = ["shipped", "stress"]
transformer = "stress"
recurrent = "shipped"
length = 110
sequences = 3
contexts = 3
run_lengths = [4, 8]
k = 2
budget_seconds = 0.2
"""


def planned(**table: Any) -> Any:
    return make_plan(check_suite({"name": "t", "study": {"drafts": table}}, "t"))


def test_cells_are_counted_together_and_timed_alone() -> None:
    plan = planned(pairs=["toy-marked"], history={"toy-marked": {"length": 50, "drafts": ["close", "stress"],
                   "transformer": "stress", "recurrent": "close", "run_lengths": [5, 9]}})  # fmt: skip
    assert [(j.kind, j.alone, [c.id for c in j.cells]) for j in plan.jobs] == [
        ("drafts", False, [f"drafts.toy-marked.{d}" for d in ("shipped", "stress", "close")]),
        ("drafts-time", True, [f"drafts-time.toy-marked.{d}" for d in ("shipped", "stress", "close")]),
        ("drafts", False, ["drafts.history.toy-marked"]),
        ("drafts-time", True, ["drafts-time.history.toy-marked"]),
    ]
    assert plan.jobs[1].length == 48
    assert planned(pairs=["toy-marked"], time={"lengths": {"toy-marked": 7}}).jobs[1].length == 7
    assert jobs.size(plan.jobs[3]) == "runs of 5, 9 events, 12 pairs"
    assert jobs.said(plan.jobs) == "3 drafts of 1 pairs, 3 of them timed; acceptance over histories of up to 50 events."


def test_every_pair_gives_the_drafts_it_has() -> None:
    plan = planned(pairs=["thp-hawkes", "thp-poisson"], drafts=["shipped", "gru"], time={"drafts": ["gru"]})
    assert [c.id for c in plan.cells] == [
        "drafts.thp-hawkes.shipped", "drafts.thp-hawkes.gru", "drafts-time.thp-hawkes.gru", "drafts.thp-poisson.shipped"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"pairs": ["toy-marked"], "drafts": ["clsoe"]}, "no pair has a draft 'clsoe'; did you mean 'close'"),
        (
            {"history": {"toy-marked": {"drafts": ["stress", "lstm", "transformer-1"]}}},
            "history.toy-marked: .* no draft 'lstm'",
        ),
        ({}, "it should have pairs, or a table"),
        ({"pairs": ["toy-marked"], "k": [2, 2]}, "every K once"),
        ({"history": {"toy-marked": {"edges": [0, 5, 5]}}}, "edges that increase"),
        ({"history": {"toy-marked": {"drafts": ["gru"]}}}, "it should have lstm and transformer-1 among its drafts"),
    ],
)
def test_what_cannot_be_planned_is_said(table: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        planned(**table)


@pytest.mark.parametrize("profile", ["quick", "full"])
def test_the_shipped_suite_names_pairs_and_drafts_that_exist(profile: str) -> None:
    plan = make_plan(load_suite("drafts", profile=profile))
    assert len({c.id for c in plan.cells}) == len(plan.cells)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drafts")
    suite = folder / "toys.toml"
    suite.write_text(SUITE, encoding="utf-8")
    done = CliRunner().invoke(main, ["run", "--suite", str(suite), "--out", str(folder / "run"), "--jobs", "1"])
    assert done.exit_code == 0, done.output
    assert "the speed of cached target-only sampling" in done.output
    return folder / "run"


@pytest.fixture(scope="module")
def cells(run: Path) -> list[CellResult]:
    return list(read_cells(run).values())


def test_every_cell_holds_what_the_issue_asks_for(cells: list[CellResult]) -> None:
    found = Results.of(cells)
    assert set(found.counted) == {(p, d) for p in ("toy-marked", "toy-univariate") for d in ("shipped", "stress")}
    marked = found.counted["toy-marked", "stress"].figures
    assert {"type_accuracy_draft", "type_accuracy_target", "gap_error_draft", "acceptance_joint", "identity"} <= set(marked)
    assert "type_accuracy_draft" not in found.counted["toy-univariate", "stress"].figures
    assert [row["k"] for row in marked["by_k"]] == [1, 3]
    timed = found.timed["toy-marked", "shipped"].figures
    assert timed["best_k"] in (1, 3)
    assert 0 < timed["draft_share"] < 1
    assert [row["k"] for row in timed["speedup_by_k"]] == [1, 3]
    assert [row["n_events"] for row in found.long_runs["toy-marked"].figures["by_length"]] == [4, 8]
    assert list(found.history["toy-marked"].figures["scales"]) == ["tens", "hundreds"]
    assert exit_code(cells) == 0


def test_the_page_says_what_was_measured(run: Path, cells: list[CellResult]) -> None:
    page = (run / "report.html").read_text(encoding="utf-8")
    words = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", page)))
    found = Results.of(cells)
    accepted = found.counted["toy-marked", "shipped"].figures["acceptance_event"]["value"]
    for said in (
        "How often is a draft accepted?", "Is it faster?", "Short and long histories", "Every draft at every K",
        "Every draft: size, likelihood",
        f"{100 * accepted:.1f}", "Acceptance over history, toy-marked", "tens: as claimed on toy-marked",
        "histories of tens: shipped ahead of stress",
    ):  # fmt: skip
        assert said in words, said
    assert page.count("<svg class=") >= 1
    assert "Distilled or plain?" not in words  # no such draft here


def test_broken_cells_are_counted_and_nothing_measured_is_said(cells: list[CellResult]) -> None:
    broken = CellResult("drafts.a.b", "drafts", "a", "b", "", error="lost")
    assert section.sentence([broken]) == "1 of 1 cells broke."
    assert section.sentence([]) == "Nothing was measured."
    assert section.sentence([*cells, broken]).endswith(f"1 of {len(cells) + 1} cells broke.")
