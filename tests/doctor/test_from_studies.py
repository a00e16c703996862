"""Runs of studies, read by the doctor: tiny real runs, whose numbers must come through, and made-up cells for what is rare."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from tppsd_bench import store
from tppsd_bench.cli import main
from tppsd_bench.doctor.base import Estimate, Finding, Step
from tppsd_bench.doctor.diagnosis import diagnose
from tppsd_bench.doctor.from_run import Silent, read_run
from tppsd_bench.doctor.measurements import Measurements, Speed
from tppsd_bench.errors import Exit, InputError
from tppsd_bench.measure.throughput import StepCosts, predict
from tppsd_bench.results import CellResult

SUITE = """
title = "Toys of three studies"
seed = 5
[study.speedup]
pairs = 8
calibration_pairs = 6
seconds = 0.002
acceptance_events = 400
counted_events = 200
calibrated = 2
[[study.speedup.grid]]
pairs = ["toy-marked"]
k = [1, 3]
length = [12, 20]
batch = [1, 2]
[study.drafts]
pairs = ["toy-many-types"]
drafts = ["shipped", "stress"]
k = [1, 3]
sequences = 6
contexts = 4
rule = "leviathan_joint"
time = { drafts = ["shipped"], length = 6, min_seconds = 0.0005, budget_seconds = 0.2 }
[study.buckets]
pairs = ["toy-univariate"]
ratios = ["toy-univariate"]
apart = ["toy-gap-types"]
token_pairs = ["toy-tokens"]
buckets = [10, 100]
contexts = 32
fit_events = 2000
proposals = 8
time = { pairs = ["toy-univariate"], buckets = [10], k = [1, 3], length = 6, pairs_timed = 12, min_seconds = 0.0005, seconds = 0.2 }
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("studies")
    (folder / "toys.toml").write_text(SUITE, encoding="utf-8")
    done = CliRunner().invoke(main, ["run", "--suite", str(folder / "toys.toml"), "--out", str(folder / "run"), "--quiet"])
    assert done.exit_code in (0, 3), done.output
    return folder / "run"


def one(run: Path, pair: str, **options: Any) -> tuple[Measurements, dict[int, Step]]:
    (m,) = read_run(run, pair=pair, **options)
    assert isinstance(m, Measurements)
    return m, {s.number: s for s in diagnose(m).steps}


def interval(figure: dict[str, float]) -> Estimate:
    return Estimate(figure["value"], figure["low"], figure["high"])


def test_speedup_the_promise_and_its_timing_are_what_is_diagnosed(run: Path) -> None:
    m, steps = one(run, "toy-marked")
    cells = store.read_cells(run)
    promise, site = (cells[f"speedup-time.{law}toy-marked.shipped.b1.n20"].figures for law in ("law.", ""))
    assert (m.k, m.n_events) == (promise["promised_best_k"], 20), "single sequences, the length nearest 100"
    assert m.speed is not None
    assert m.speed.by_k == {row["k"]: interval(row["cpu"]) for row in site["by_k"]}
    assert m.speed.committed[3] == site["by_k"][1]["committed_per_round"]
    for row in promise["by_k"]:
        assert m.predict(row["k"]).speedup == pytest.approx(row["speedup"], rel=0.2), "the law from the same constants"
    assert m.acceptance is not None
    with np.load(run / "cells" / "speedup-time.law.toy-marked.shipped.b1.n20.npz") as arrays:
        assert m.acceptance.by_position == tuple(arrays["alpha"])
    assert m.costs is not None
    assert m.costs.draft.value == promise["draft_step"]
    slow = interval(site["baselines"]["target-only, recomputing"]["speed"])
    assert m.cache is not None
    assert m.cache.gain == Estimate(1 / slow.value, 1 / slow.high, 1 / slow.low)
    assert all(steps[n].outcome is not Finding.UNANSWERED for n in (1, 2, 5, 7, 8))
    assert any("3 other sites" in note for note in m.notes)


def test_drafts_acceptance_by_the_rule_and_step_costs(run: Path) -> None:
    m, steps = one(run, "toy-many-types")
    cells = store.read_cells(run)
    counted, timed = (cells[f"{kind}.toy-many-types.shipped"].figures for kind in ("drafts", "drafts-time"))
    assert m.draft == "shipped"
    assert m.others == (), "a draft that is poor on purpose is not advised"
    assert m.acceptance is not None
    assert m.joint
    assert m.acceptance.event == interval(counted["acceptance_joint"])
    assert m.acceptance.gap is None, "events are verified whole"
    at_k = {row["k"]: row for row in counted["by_k"]}
    assert m.acceptance.measured == interval(at_k[3]["accepted_per_verified"])
    assert m.accuracy is not None
    assert m.accuracy.type_difference == interval(counted["type_accuracy_minus_target"])
    assert m.speed is not None
    assert m.speed.by_k == {row["k"]: interval(row) for row in timed["speedup_by_k"]}
    for row in timed["speedup_by_k"]:
        assert m.predict(row["k"]).speedup == pytest.approx(row["predicted"], rel=0.1)
    assert all(steps[n].outcome is not Finding.UNANSWERED for n in (1, 2, 4, 5, 8))
    poor, said = one(run, "toy-many-types", draft="stress")
    assert poor.costs is None
    assert said[5].advice == "Answered by: doctor --pair toy-many-types --draft stress"


def test_buckets_continuous_time_beside_its_cuts_and_token_pairs(run: Path) -> None:
    m, steps = one(run, "toy-univariate")
    cells = store.read_cells(run)
    chart, plain = cells["buckets.map.toy-univariate"].figures, cells["buckets-time.toy-univariate.continuous"].figures
    assert m.acceptance is not None
    assert m.acceptance.event == interval(chart["continuous"]["two_step"])
    spread = cells["buckets.ratio.toy-univariate"].figures["drafts"]["shipped"]["continuous"]
    assert m.acceptance.largest_log_ratio == max(-spread["least"], spread["largest"])
    assert m.speed is not None
    assert m.speed.by_k[plain["best_k"]] == interval(plain["speedup_cpu"]), "from pairs that did not choose it"
    points = {(p["strategy"], p["buckets"]): p for p in chart["points"]}
    assert [(c.name, c.accepted) for c in m.cuts] == [
        (f"{n} quantile buckets", interval(points["quantile", n]["two_step"])) for n in (100, 10)
    ]
    over = cells["buckets-time.toy-univariate.quantile.10"].figures["over_continuous"]
    assert m.cuts[1].over_continuous == Estimate(over["value"], over["low"], over["high"])
    assert steps[3].outcome is Finding.NOT_APPLICABLE
    assert "Of 1 ways to cut it, 10 quantile buckets come nearest" in steps[3].sentence
    tokens, said = one(run, "toy-tokens")
    whole = cells["buckets.drafts.toy-tokens"].figures["drafts"]["shipped"]
    assert tokens.acceptance is not None
    assert tokens.acceptance.event == interval(whole["two_step"])
    assert said[3].sentence == "The pair's buckets are not known."


def test_a_pair_without_evidence_is_said_to_be_and_how_to_measure_it(run: Path) -> None:
    found = read_run(run)
    (silent,) = (one for one in found if isinstance(one, Silent))
    assert (silent.pair, silent.exit_code) == ("toy-gap-types", Exit.INCONCLUSIVE)
    assert silent.sentence.endswith("Measure it: python -m tppsd_bench doctor --pair toy-gap-types.")
    text = CliRunner().invoke(main, ["doctor", str(run)])
    assert silent.sentence in text.stdout
    assert "5 pairs (first column: exit code of each)" in text.stdout
    told = json.loads(CliRunner().invoke(main, ["doctor", str(run), "--json"]).stdout)
    assert [s["pair"] for s in told["silent"]] == ["toy-gap-types"]
    assert len(told["diagnoses"]) == 4
    codes = {d["exit_code"] for d in told["diagnoses"]} | {3}
    assert text.exit_code == told["exit_code"] == (1 if 1 in codes else 3)


# -- made-up cells --------------------------------------------------------------------------------------------------------
def law(pair: str, draft: str, alpha: float, **changes: Any) -> CellResult:
    figures = {"alpha_quadrature": {"value": alpha, "low": alpha - 0.01, "high": alpha + 0.01}, "design": {"n_types": 1}}
    return replace(
        CellResult(f"law.{pair}.{draft}", "law", pair, draft, "", k=5, stop={"n_events": 40.0}, figures=figures), **changes
    )


def folder_of(where: Path, *cells: CellResult, arrays: dict[str, Any] | None = None, **run: Any) -> Path:
    for cell in cells:
        store.write_cell(where, cell, arrays or {})
    store.write_json(where / "run.json", {"status": "finished", **run})
    return where


def test_without_a_name_the_shipped_draft_else_the_first_and_it_is_said(tmp_path: Path) -> None:
    folder = folder_of(
        tmp_path, law("a", "gru", 0.9), law("a", "shipped", 0.8), law("b", "stress", 0.4), law("b", "ngram", 0.7), law("b", "lstm", 0.8),
        pairs={"b": {"source": "tokens:b"}},
    )  # fmt: skip
    a, b = read_run(folder)
    assert isinstance(a, Measurements)
    assert isinstance(b, Measurements)
    assert (a.draft, b.pair, b.draft) == ("shipped", "tokens:b", "lstm"), (
        "the poor one comes last; the pair as its loader knows it"
    )
    assert b.notes[0] == "Draft lstm; this run did not measure the shipped one. Also measured (--draft NAME): ngram, stress."
    assert b.others == ("ngram",)
    assert [m.pair for m in read_run(folder, draft="gru")] == ["a"], "pairs without the draft that was named are left out"
    assert read_run(folder, pair="tokens:b") == read_run(folder, pair="b") == [b]
    with pytest.raises(InputError, match="with draft 'grue' that a step could read; did you mean 'gru'"):
        read_run(folder, draft="grue")


def test_a_broken_pair_leaves_the_others_their_diagnosis_and_is_the_worst(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, law("a", "shipped", 0.3), law("b", "shipped", 0.9, error="it fell over"))
    done = CliRunner().invoke(main, ["doctor", str(folder)])
    assert done.exit_code == Exit.BROKEN
    assert "Acceptance is low" in done.stdout
    assert "it fell over" in done.stdout


def test_acceptance_that_fades_over_the_history_is_seen_and_shown(tmp_path: Path) -> None:
    bins = [{"first": 0, "end": 10}, {"first": 10, "end": 100}, {"first": 100, "end": 400}]
    each = np.array([[0.9, 0.98, 0.4], [0.94, 0.97, 0.42], [0.92, 0.99, 0.41]])
    figures = {"bins": bins, "acceptance": {"lstm": [], "gru": []}, "step_ms": {"target": [1.0, 1.1, 1.2], "lstm": [0.1] * 3}}
    cell = CellResult("drafts.history.a", "drafts", "a", "", "", stop={"n_events": 400.0}, figures=figures)
    speeds = {"speedup": {"lstm": {"value": 0.7, "low": 0.6, "high": 0.8}}, "aa_ratio": {"value": 1.0, "low": 0.9, "high": 1.1}}
    rows = [{"n_events": 400, **speeds}, {"n_events": 48, "speedup": {"lstm": {"value": 2.0, "low": 1.8, "high": 2.2}}}]
    timed = CellResult(
        "drafts-time.history.a", "drafts-time", "a", "", "", k=6, stop={"n_events": 400.0}, figures={"by_length": rows}
    )
    m, steps = one(folder_of(tmp_path, cell, timed, arrays={"acceptance_0": each, "acceptance_1": each[:, ::-1]}), "a")
    assert (m.draft, m.k, m.n_events, m.pays) == ("lstm", 6, 400, False)
    assert m.acceptance is not None
    assert m.acceptance.event.value == pytest.approx(float((each @ [10, 90, 300]).mean() / 400)), "every event counts the same"
    early = each[:, :2] @ [0.1, 0.9]
    assert m.acceptance.fade is not None
    assert m.acceptance.fade.value == pytest.approx(float((early - each[:, 2]).mean()))
    assert steps[1].outcome is Finding.CAUSE
    assert steps[6].outcome is Finding.ATTENTION
    assert "  accepted, events 100 to 400" in [r.what for r in steps[6].readings]
    assert "Runs of 48: 2 (1.8 to 2.2) times, K = 6." in m.notes


def test_a_rest_that_changes_with_k_keeps_every_round_at_its_cost(tmp_path: Path) -> None:
    arrays = {
        "alpha": np.full(8, 0.9), "verify_k": np.array([0.0, 4, 8]), "verify": np.array([1.0, 1.2, 1.4]),
        "rest_k": np.array([4.0, 8]), "rest": np.array([0.3, -0.1]),
    }  # fmt: skip
    site = {"pair": "a", "draft": "shipped", "batch": 1, "length": 50}
    figures = {"part": "promise", "site": site, "promised_best_k": 8, "draft_step": 0.05, "target_step_ms": 2.0}
    cell = CellResult("speedup-time.law.x", "speedup-time", "a", "shipped", "", figures=figures)
    m, _ = one(folder_of(tmp_path, cell, arrays=arrays), "a")
    assert m.costs is not None
    assert m.costs.law.round(8) == pytest.approx(0.05 * 8 + 1.4 - 0.1), "a negative rest is in v"
    assert m.costs.law.round(4) == pytest.approx(0.05 * 4 + 1.2 + 0.3)
    assert m.acceptance is not None
    assert m.acceptance.event.value == pytest.approx(0.9)
    exact = StepCosts(0.05, m.costs.law.verify)
    assert m.predict(8).speedup == predict(tuple([0.9] * 8), 8, exact, n_events=50).speedup


@pytest.fixture
def timed_alone() -> Callable[..., Step]:
    """Step 2 of a pair of which only speeds are known."""

    def look(k: int, aa: float = 1.0, **speed: tuple[float, float]) -> Step:
        by_k = {int(name[1:]): Estimate((a + b) / 2, a, b) for name, (a, b) in speed.items()}
        m = Measurements(
            "a", "shipped", k, 50, 1, "made up", continuous=None, speed=Speed(by_k, Estimate.exact(aa)), from_run=True
        )
        return diagnose(m).steps[1]

    return look


def test_without_step_costs_k_is_held_to_the_ks_that_were_timed(timed_alone: Callable[..., Step]) -> None:
    assert timed_alone(4, k4=(1.4, 1.6), k8=(2.0, 2.2)).outcome is Finding.ATTENTION
    assert timed_alone(4, k4=(1.4, 1.6), k8=(1.55, 2.2)).outcome is Finding.OK, "the intervals overlap"
    assert timed_alone(8, k4=(1.4, 1.6), k8=(2.0, 2.2)).sentence.startswith("K = 8 is the fastest of the 2 that were timed.")
    assert timed_alone(4, k4=(0.8, 0.9), k8=(1.2, 1.4)).outcome is Finding.CAUSE
    assert timed_alone(4, k4=(0.8, 0.9), k8=(0.9, 1.4)).outcome is Finding.OK, "no K that was timed is known to pay"
    assert timed_alone(4, k4=(1.4, 1.6)).outcome is Finding.UNANSWERED, "a K alone has nothing to be held to"
    assert timed_alone(6, k4=(1.4, 1.6), k8=(2.0, 2.2)).outcome is Finding.UNANSWERED
    assert timed_alone(4, aa=1.3, k4=(1.4, 1.6), k8=(2.0, 2.2)).outcome is Finding.UNANSWERED, "an unsteady machine"


def test_runs_that_no_step_can_read_name_the_command_that_measures(tmp_path: Path) -> None:
    def asked(*cells: CellResult) -> Result:
        return CliRunner().invoke(main, ["doctor", str(folder_of(tmp_path, *cells, pairs={"a-b": {"source": "a:b"}}))])

    done = asked(CellResult("claims.3.a-b", "claims", "a-b", "", ""))
    assert done.exit_code == 2
    assert "has claims cells and no law, speed or fit cell, nor one of a study of drafts, speedup, buckets" in done.stderr
    assert "python -m tppsd_bench doctor --pair a:b." in done.stderr
