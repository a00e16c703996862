"""Plans: the grid, its sizes and levels, and what a size lets a run see."""

from __future__ import annotations

from pathlib import Path

import pytest
from quick_suites import quick_suite

from tppsd_bench import budget
from tppsd_bench.errors import InputError
from tppsd_bench.runner import plan

LAW = {"law": {"n_events": 2000, "k": [2, 4]}}


def test_the_grid() -> None:
    made = plan.make_plan(quick_suite("fake-exact", "fake-raises", **LAW, speed={}))
    assert [c.id for c in made.cells][:6] == [
        "law.fake-exact.shipped.k2", "law.fake-exact.shipped.k4", "law.fake-exact.stress.k2", "law.fake-exact.stress.k4",
        "fit.fake-exact", "speed.fake-exact",
    ]  # fmt: skip
    assert [j.alone for j in made.jobs[:3]] == [False, False, True]
    assert plan.law_sizes(made.jobs[0]) == (50, 2000)  # the card's training median is 40


def test_the_whole_run_stays_within_its_level() -> None:
    made = plan.make_plan(quick_suite("fake-exact", "fake-raises", horizon={"enabled": True}, **LAW))
    judged = [j for j in made.jobs if j.kind in ("law", "horizon")]
    spent = sum(len(j.cells) * (j.levels.analytic + j.levels.mechanism) + j.levels.permutation for j in judged)
    assert spent <= budget.RUN_LEVEL


def test_the_digest_names_the_plan() -> None:
    digests = [
        plan.make_plan(quick_suite("load-ok")).digest,
        plan.make_plan(quick_suite("load-ok")).digest,
        plan.make_plan(quick_suite("load-ok"), seed=3).digest,
        plan.make_plan(quick_suite("load-ok", fit={"n_events": 100})).digest,
    ]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_pairs_by_name_and_folder(tmp_path: Path) -> None:
    folder = tmp_path / "load-ok"
    folder.mkdir()
    made = plan.make_plan(quick_suite("load-ok-too"), pairs=[str(folder)])
    assert [(j.pair, j.source) for j in made.jobs] == [("load-ok", str(folder))]
    with pytest.raises(InputError, match="did you mean 'load-ok'"):
        plan.make_plan(quick_suite("load-ok"), pairs=["load-okk"])
    with pytest.raises(InputError, match="distinct names"):
        plan.make_plan(quick_suite("load-ok"), pairs=["load-ok", str(folder)])


def test_more_events_see_more() -> None:
    effect = plan.min_detectable_theta
    assert effect(32_000, 1e-6) < effect(8_000, 1e-6) < effect(8_000, 1e-9)
    assert effect(8_000, 1e-6) == pytest.approx(2 * effect(32_000, 1e-6))
    said = plan.detectable(plan.make_plan(quick_suite("fake-exact", **LAW)))
    assert "4 law cells of 2,000 events each" in said
    assert "no law cells" in plan.detectable(plan.make_plan(quick_suite("load-ok")))


def test_sizes_follow_events_and_time() -> None:
    suite = quick_suite("fake-exact", "fake-raises", pair={"fake-raises": {"law": {"n_events": 500}}}, speed={}, **LAW)
    assert {plan.law_sizes(j)[1] for j in plan.make_plan(plan.scale_events(suite, 4000)).jobs if j.kind == "law"} == {4000}
    law, speed, report = suite.nominal.law, suite.nominal.speed, suite.nominal.report
    same = plan.scale_to_budget(suite, law + speed + report)
    assert (same.law.n_events, same.pair["fake-raises"].law["n_events"]) == (2000, 512)
    more = plan.scale_to_budget(suite, 2 * law + speed + report)
    assert more.law.n_events == 4000
    with pytest.raises(InputError, match="too small"):
        plan.scale_to_budget(suite, report)
