"""What the table means: sites, jobs, cells, sizes; and the sentences with which it refuses what cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from reference_impls.pairs import load_pair
from tppsd_bench.errors import InputError
from tppsd_bench.runner.plan import Plan, detectable, make_plan
from tppsd_bench.studies.base import module_of
from tppsd_bench.studies.speedup.jobs import sites_of
from tppsd_bench.studies.speedup.sites import sites, spread_over, with_draft
from tppsd_bench.suite import check_suite, load_suite

GRID = {"pairs": ["toy-marked"], "k": [1, 4]}


def plan(*grid: dict[str, Any], **table: Any) -> Plan:
    return make_plan(check_suite({"name": "s", "study": {"speedup": {"grid": list(grid), **table}}}, "s.toml"))


def test_a_site_of_two_grids_is_timed_once_at_all_its_ks() -> None:
    (job,) = plan(GRID, {**GRID, "k": [2, 4], "batch": [1, 8]}).jobs
    found = sites_of(job)
    assert [(s.batch, s.ks) for s in found] == [(1, (1, 2, 4)), (8, (2, 4))]
    assert [c.id for c in job.cells] == [
        "speedup-time.law.toy-marked.shipped.b1.n200", "speedup-time.toy-marked.shipped.b1.n200",
        "speedup-time.law.toy-marked.shipped.b8.n200", "speedup-time.toy-marked.shipped.b8.n200",
    ]  # fmt: skip
    assert job.alone


def test_a_job_is_a_pair_and_draft_and_knows_its_own_sites_only() -> None:
    made = plan(
        GRID, {**GRID, "pairs": ["toy-univariate"], "drafts": ["shipped", "toy-marked/shipped"]}, packing={"pairs": []}
    ).jobs
    assert [[s.name for s in sites_of(job)] for job in made] == [
        ["toy-marked.shipped.b1.n200"], ["toy-univariate.shipped.b1.n200"], ["toy-univariate.toy-marked-shipped.b1.n200"],
    ]  # fmt: skip


def test_finished_cells_are_left_out() -> None:
    (job,) = plan(GRID, {**GRID, "batch": [4]}).jobs
    done = {c.id for c in job.cells if ".b1." in c.id}
    assert [s.batch for s in sites_of(job.without(done))] == [4]


def test_side_questions_have_cells_of_their_own() -> None:
    made = plan(GRID, packing={"pairs": ["toy-marked"]}, history={"pairs": ["toy-marked"]})
    assert [c.id for c in made.cells][2:] == ["speedup-time.packing.toy-marked", "speedup-time.history.toy-marked"]
    said = detectable(made)
    assert "2 points" in said
    assert "1 site " in said
    assert module_of("speedup", "jobs").size(made.jobs[0]) == "K = 1, 4; batch 1, 200 events"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({**GRID, "k": [1, 64], "length": [50]}, "K = 64 drafts should fit into sequences of 50 events"),
        ({**GRID, "k": [4, 4]}, "each K once"),
        ({**GRID, "drafts": []}, "at least 1 item"),
        ({**GRID, "bach": [1]}, "did you mean 'batch'"),
    ],
)
def test_a_wrong_grid_is_refused_in_a_sentence(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        plan(wrong)


@pytest.mark.parametrize("profile", ["quick", "full"])
def test_the_shipped_suite_covers_what_it_says(profile: str) -> None:
    suite = load_suite("speedup", profile=profile)
    table: Any = suite.study["speedup"]
    found = sites(table)
    assert {s.batch for s in found} >= {1, 4, 16, 64}
    assert {s.length for s in found} >= ({50, 200, 1000, 4000} if profile == "full" else {50, 100, 500})
    assert {s.draft for s in found} >= {"shipped", "target", "toy-gap-types/shipped"}
    if profile == "full":
        assert {k for s in found for k in s.ks} == {1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 32}
        assert {s.batch for s in found} == {1, 4, 8, 16, 64}
    assert make_plan(suite).jobs


def test_calibrated_ks_are_spread_and_hold_both_ends() -> None:
    assert spread_over((1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 32), 4) == (1, 5, 10, 32)
    assert spread_over((2, 4), 4) == (2, 4)


def test_a_draft_may_be_the_target_or_another_pairs() -> None:
    pair = load_pair("toy-marked")
    assert with_draft(pair, "stress", load_pair) is pair
    assert with_draft(pair, "target", load_pair).drafts["target"] is pair.target
    other = with_draft(pair, "toy-gap-types/shipped", load_pair)
    assert other.drafts["toy-gap-types/shipped"].n_types == 3
    assert other.drafts["shipped"] is pair.drafts["shipped"]
    assert "target" not in pair.drafts


@pytest.mark.parametrize(
    ("draft", "said"),
    [
        ("shiped", "has no draft 'shiped'; its own are shipped"),
        ("toy-gap-types/best", "has no draft 'best'"),
        ("toy-univariate/shipped", "knows 1 types of events, the target of 'toy-marked' 3"),
    ],
)
def test_a_draft_that_cannot_be_is_refused_in_a_sentence(draft: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        with_draft(load_pair("toy-marked"), draft, load_pair)
