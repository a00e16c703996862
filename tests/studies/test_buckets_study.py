"""The study of buckets from its table to its page: what it plans, what it refuses, one tiny run through the command line, its judgements."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from tppsd_bench.cli import main
from tppsd_bench.errors import InputError
from tppsd_bench.results import Axis, CellResult, Outcome
from tppsd_bench.runner.plan import make_plan
from tppsd_bench.runner.summary import exit_code
from tppsd_bench.store import read_cells
from tppsd_bench.studies.buckets import jobs, judged, maps, section, timed
from tppsd_bench.studies.buckets.reading import Results, point
from tppsd_bench.studies.buckets.token_drafts import twin_of
from tppsd_bench.suite import check_suite

SUITE = """
title = "Toys in buckets"
seed = 5
[study.buckets]
pairs = ["toy-gap-types"]
ratios = ["toy-gap-types", "toy-slow-clock"]
apart = ["toy-gap-types", "toy-marked"]
token_pairs = ["toy-tokens"]
buckets = [10, 100]
contexts = 32
fit_events = 2000
proposals = 8
[study.buckets.time]
pairs = ["toy-univariate"]
more = ["log_width:20"]
k = [1, 3]
length = 6
pairs_timed = 12
min_seconds = 0.0005
seconds = 0.2
"""


def planned(**table: Any) -> Any:
    return make_plan(check_suite({"name": "t", "study": {"buckets": table}}, "t"))


def test_a_pair_is_computed_in_one_job_and_timed_alone() -> None:
    plan = planned(pairs=["toy-marked"], apart=["toy-marked", "toy-gap-types"], token_pairs=["toy-tokens"],
                   time={"pairs": ["toy-marked"], "more": ["log_width:20", "quantile:100"], "length": 9})  # fmt: skip
    assert [(j.kind, j.alone, [c.id for c in j.cells]) for j in plan.jobs] == [
        ("buckets", False, ["buckets.map.toy-marked", "buckets.apart.toy-marked"]),
        ("buckets", False, ["buckets.apart.toy-gap-types"]),
        ("buckets", False, ["buckets.apart.toy-tokens", "buckets.drafts.toy-tokens"]),
        ("buckets-time", True, [f"buckets-time.toy-marked.{p}" for p in ("continuous", "quantile.100", "log_width.20")]),
    ]
    assert plan.jobs[-1].length == 9
    assert [timed.point_of(c.id) for c in plan.jobs[-1].cells] == [("continuous", 0), ("quantile", 100), ("log_width", 20)]
    assert jobs.size(plan.jobs[0]) == "256 histories"
    assert jobs.said(plan.jobs) == (
        "Buckets: 1 pairs at 3 strategies x 6 numbers of buckets, by exact sums; 3 points timed over K = 4, 8, 16."
    )


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (
            {"pairs": ["toy-tokens"], "token_pairs": ["toy-tokens"]},
            "'toy-tokens' is listed in token_pairs and among continuous",
        ),
        (
            {"time": {"pairs": ["toy-marked"], "more": ["quantil:10"]}},
            "'quantil:10' is no timed point; expected strategy:buckets",
        ),
        ({"strategies": ["quantil"]}, "did you mean 'quantile'"),
        ({"hypotheses": {"strat": 50}}, "unknown key 'study.buckets.hypotheses.strat'; did you mean 'start'"),
        ({"pairs": ["toy-mark"]}, "There is no pair or folder 'toy-mark'"),
    ],
)
def test_what_cannot_be_planned_is_said(table: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        planned(**table)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("buckets")
    suite = folder / "toys.toml"
    suite.write_text(SUITE, encoding="utf-8")
    done = CliRunner().invoke(main, ["run", "--suite", str(suite), "--out", str(folder / "run"), "--jobs", "1"])
    assert done.exit_code == 0, done.output
    assert "100 quantile buckets cost at most" in done.output
    return folder / "run"


@pytest.fixture(scope="module")
def cells(run: Path) -> list[CellResult]:
    return list(read_cells(run).values())


def test_the_map_has_every_point_with_intervals(cells: list[CellResult]) -> None:
    cell = Results.of(cells).maps["toy-gap-types"]
    assert len(cell.figures["points"]) == 6
    for p in cell.figures["points"]:
        for name in ("joint", "two_step", "ks", "wasserstein", "information", "largest_bucket", "last_bucket", "gain_joint"):
            assert p[name]["low"] <= p[name]["value"] <= p[name]["high"]
        assert p["two_step"]["value"] <= p["joint"]["value"] <= p["gap"]["value"]
        assert p["gain_joint"]["value"] > -1e-4
        assert set(p["inside"]) == {"uniform", "log_uniform", "empirical"}
        assert ("less_quantile" in p) == (p["strategy"] != "quantile")
    coarse, fine = (point(cell, "quantile", n) for n in (10, 100))
    assert coarse is not None
    assert fine is not None
    assert coarse["information"]["low"] > fine["information"]["high"]
    assert coarse["middles"]["tie"] < fine["middles"]["tie"] < 30
    found = cell.verdict(Axis.VALIDITY)
    assert found is not None
    assert found.outcome is Outcome.PASS
    assert exit_code(cells) == 0


def test_a_map_that_gains_nothing_by_buckets_is_invalid() -> None:
    """Acceptance over tokens below that of continuous time cannot be; were it computed so, the evidence would be called invalid."""
    from tppsd_bench.measure.acceptance import ExactAcceptance

    columns = {"gap": np.array([0.9, 0.8]), "joint": np.array([0.8, 0.7])}
    fair, unfair = (ExactAcceptance(np.array([0.9, 0.8]), np.array([0.8, x]), np.array([0.7, 0.6])) for x in (0.7002, 0.71))
    assert maps._valid({("quantile", 10): columns}, fair).outcome is Outcome.PASS
    assert maps._valid({("quantile", 10): columns}, unfair).outcome is Outcome.INVALID


def test_apart_is_exact_on_one_toy_and_broken_on_the_other(cells: list[CellResult]) -> None:
    found = Results.of(cells).apart
    assert set(found) == {"toy-gap-types", "toy-marked", "toy-tokens"}
    assert found["toy-marked"].figures["drafts"]["stress"]["apart"]["high"] < 1e-9
    assert found["toy-gap-types"].figures["drafts"]["shipped"]["apart"]["low"] > 0.05
    assert found["toy-marked"].figures["drafts"]["stress"]["redrawn"]["low"] > 0.05


def test_slow_clocks_break_plain_float32_alone(cells: list[CellResult]) -> None:
    slow = Results.of(cells).ratios["toy-slow-clock"].figures["drafts"]["shipped"]
    assert slow["float32"]["not_finite"]["value"] == 1.0
    assert slow["float32"]["off"] < 1e-3
    assert slow["continuous"]["beyond"]["value"] == 0.0


def test_timed_cells_quote_pairs_that_did_not_choose(cells: list[CellResult]) -> None:
    found = {c.id.split(".", 2)[2]: c for c in Results.of(cells).timed["toy-univariate"]}
    assert set(found) == {"continuous", "quantile.100", "log_width.20"}
    for name, cell in found.items():
        assert cell.k in (1, 3)
        assert [r["k"] for r in cell.figures["speedup_by_k"]] == [1, 3]
        assert ("over_continuous" in cell.figures) == (name != "continuous")
        assert cell.figures["speedup_cpu"]["low"] <= cell.figures["speedup_cpu"]["value"] <= cell.figures["speedup_cpu"]["high"]


def test_the_page_says_what_was_measured(run: Path, cells: list[CellResult]) -> None:
    page = (run / "report.html").read_text(encoding="utf-8")
    words = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", page)))
    found = Results.of(cells)
    accepted = point(found.maps["toy-gap-types"], "log_width", 100)
    assert accepted is not None
    for said in (
        "What became of the advice", "toy-gap-types", "How fast?", "Are density ratios stable?", "Bucket and type apart",
        "Drafts over tokens", f"{100 * accepted['joint']['value']:.2f} %", "It is exact on toy-marked", "Error against acceptance",
    ):  # fmt: skip
        assert said in words, said
    assert page.count("<svg class=") >= 3
    assert not re.search(r"\bnan\b", words)


def test_broken_cells_are_counted_and_nothing_measured_is_said(cells: list[CellResult]) -> None:
    broken = CellResult("buckets.map.a", "buckets", "a", "b", "", error="lost")
    assert section.sentence([broken]) == "1 of 1 cells broke."
    assert section.sentence([]) == "Nothing was measured."
    assert section.sentence([*cells, broken]).endswith(f"1 of {len(cells) + 1} cells broke.")


def span(value: float, half: float) -> dict[str, float]:
    return {"value": value, "low": value - half, "high": value + half}


@pytest.mark.parametrize(
    ("differences", "found"),
    [
        ([span(0.1, 0.01), span(0.2, 0.01)], "reproduced"),
        ([span(-0.1, 0.01), span(-0.2, 0.01)], "refuted"),
        ([span(0.1, 0.01), span(-0.2, 0.01)], "bounded"),
        ([span(0.1, 0.01), span(0.0, 0.01)], "bounded"),
    ],
)
def test_advice_is_judged_by_intervals(differences: list[dict[str, float]], found: str) -> None:
    """Quantile against equal width: reproduced where every interval of the difference lies above 0, refuted where every one lies below."""
    points = [
        {"strategy": "equal_width", "buckets": 10 * (i + 1), "less_quantile": {"information": d}}
        for i, d in enumerate(differences)
    ]
    cell = CellResult("buckets.map.a", "buckets", "a", "shipped", "", figures={"points": points, "hypotheses": {}})
    made = [j for j in judged.judged(Results.of([cell])) if j.said.startswith("Quantile")]
    assert [j.found for j in made] == [found]


def test_a_joint_draft_is_compared_with_the_one_of_its_architecture() -> None:
    names = ["shipped", "joint", "gru", "gru-joint", "lstm-joint"]
    assert [twin_of(name, names, "shipped") for name in names] == ["", "shipped", "", "gru", ""]


def test_a_joint_draft_that_is_accepted_more_refutes_the_advice() -> None:
    def cell(less: dict[str, float]) -> CellResult:
        shipped = {"head": "factorised", "roughness": span(0.1, 0.01)}
        other = {"head": "joint", "roughness": span(0.2, 0.01), "like": "shipped", "less": {"joint": less, "two_step": less}}
        figures = {"drafts": {"shipped": shipped, "joint": other}, "hypotheses": {}, "n_types": 2}
        return CellResult("buckets.drafts.a", "buckets", "a", "shipped", "", figures=figures)

    for less, found in ((span(0.01, 0.001), "refuted"), (span(-0.01, 0.001), "reproduced"), (span(0.0, 0.001), "bounded")):
        (made,) = judged.judged(Results.of([cell(less)]))
        assert made.found == found
