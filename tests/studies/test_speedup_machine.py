"""On a machine with known costs the promise must be exact, the best K right, and the answer to "does it pay" known beforehand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from speedup_machine import Machine, machine_pair

from tppsd_bench.results import Axis, CellResult, Outcome
from tppsd_bench.runner.plan import Job, make_plan
from tppsd_bench.studies.speedup import run as study
from tppsd_bench.studies.speedup.reading import SiteView, check_law, sites_of_cells
from tppsd_bench.suite import check_suite

KS = [1, 3, 4, 6, 9]
TABLE: dict[str, Any] = {
    "pairs": 8, "calibration_pairs": 6, "seconds": 0.005, "acceptance_events": 1600, "counted_events": 400, "most_seconds": 1000.0,
}  # fmt: skip


def job(draft: str = "shipped", length: int = 40, **table: Any) -> Job:
    grid = [{"pairs": ["toy-marked"], "drafts": [draft], "k": KS, "length": [length]}]
    suite = check_suite({"name": "machine", "study": {"speedup": {**TABLE, **table, "grid": grid}}}, "machine")
    (made,) = make_plan(suite, seed=4).jobs
    return made


@dataclass(frozen=True)
class Found:
    promise: CellResult
    site: SiteView

    def rows(self) -> list[dict[str, Any]]:
        return [p.row for p in self.site.points]


def found(machine: Machine, monkeypatch: pytest.MonkeyPatch, draft: str = "shipped", **table: Any) -> Found:
    machine.rule(monkeypatch)
    pair = machine_pair(machine)
    if draft == "target":
        pair = replace(pair, drafts={"target": pair.toy.target})
    cells = [cell for cell, _ in study.run(job(draft, **table), pair)]
    assert [c.figures["part"] for c in cells] == ["promise", "site"]
    (site,) = sites_of_cells(cells)
    return Found(cells[0], site)


@pytest.fixture(scope="module")
def plain() -> Found:
    """The toys' shipped draft on the machine as it is."""
    with pytest.MonkeyPatch.context() as patch:
        return found(Machine(), patch)


def test_with_a_draft_that_is_always_right_the_promise_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """No luck is left: every round commits K + 1 events. All K's but 4 were timed as whole rounds."""
    f = found(Machine(), monkeypatch, "target")
    assert [r["k"] for r in f.rows() if r["rounds_timed"]] == [1, 3, 6, 9]
    assert [r["error"] for r in f.rows()] == pytest.approx([0.0] * len(KS), abs=1e-9)
    assert f.promise.figures["draft_step"] == pytest.approx(0.1)
    assert f.site.unchanged is True


def test_with_a_draft_that_errs_costs_are_exact_to_the_spread_of_the_last_rounds(plain: Found) -> None:
    """Costs within 2 %: rounds are timed in means of which the last are short. Acceptance within five standard errors of its luck."""
    for r in plain.rows():
        assert r["error_of_costs"] == pytest.approx(0.0, abs=0.02)
        assert abs(r["error_of_acceptance"]) < 5 * 0.6 / np.sqrt(r["counts"]["rounds"]) + 0.02
        assert r["accepted_per_drafted"] <= r["accepted_per_verified"]


def truth(machine: Machine, f: Found) -> dict[int, float]:
    """S(K) by the machine's own costs, from the promise's rounds."""
    return {r["k"]: r["committed_per_round"] / machine.round(r["drafted_per_round"]) for r in f.promise.figures["by_k"]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machine", "best"),
    [
        (Machine(draft=0.02, verify=lambda k: 1 + 0.01 * k, rest=0.1), {6, 9}),
        (Machine(draft=0.5, verify=lambda k: 1 + 0.1 * k, rest=0.1), {1, 3}),
        (Machine(draft=0.02, verify=lambda k: 1.0 if k < 3.5 else 3.0, rest=0.1), {3}),
    ],
    ids=["cheap drafts", "dear drafts", "a pass that triples from K = 4"],
)  # fmt: skip
def test_the_best_k_is_the_machines(machine: Machine, best: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    f = found(machine, monkeypatch)
    true = truth(machine, f)
    assert f.promise.figures["promised_best_k"] == max(true, key=lambda k: true[k])
    assert f.promise.figures["promised_best_k"] in best
    assert f.site.cell.figures["regret"]["value"] < 0.03


def test_where_it_pays_and_where_it_does_not(plain: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    cheap, dear = plain, found(Machine(rest=12.0), monkeypatch)
    assert cheap.promise.figures["promised_pays"]
    assert cheap.site.pays is True
    assert not dear.promise.figures["promised_pays"]
    assert dear.site.pays is False
    verdict = dear.site.cell.verdict(Axis.SPEED)
    assert verdict is not None
    assert verdict.outcome is Outcome.PASS  # measured cleanly: the answer is no
    assert "does not pay at any K timed" in verdict.sentence
    check = check_law([cheap.site, dear.site])
    assert check.pay.false_pay == check.pay.missed_pay == 0
    assert check.pay_sites.true_pay == check.pay_sites.true_loss == 1


def test_a_draft_as_expensive_as_the_target_does_not_pay_though_it_is_always_right(monkeypatch: pytest.MonkeyPatch) -> None:
    f = found(Machine(draft=1.0), monkeypatch, "target")
    assert f.site.pays is False
    lost = f.site.chosen.row["loss"]
    assert lost["acceptance"] < 0.1  # only the last, short round
    assert max(("acceptance", "draft", "verification", "overhead"), key=lambda c: lost[c]) == "draft"


def test_a_promise_that_was_tampered_with_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's passes become dearer after calibration: the law must be found wrong, by costs and not by acceptance."""
    machine = Machine()
    machine.rule(monkeypatch)
    cells = study.run(job(), machine_pair(machine))
    promise, _ = next(iter(cells))
    machine.rest = 0.9
    (site,) = sites_of_cells([promise, *(cell for cell, _ in cells)])
    assert check_law([site]).within[0] == 0.0
    for p in site.points:
        assert p.row["error_of_costs"] < -0.1
        assert abs(p.row["error_of_acceptance"]) < 5 * 0.6 / np.sqrt(p.row["counts"]["rounds"])


def test_counts_and_baselines_are_told(plain: Found) -> None:
    base = plain.site.cell.figures["baselines"]
    assert base["target-only, cached"]["cpu_ms"] == pytest.approx(1.0)
    assert base["draft-only"]["speed"]["value"] == pytest.approx(10.0)
    assert base["target-only, recomputing"]["speed"]["value"] == pytest.approx(0.1)
    for r in plain.rows():
        counts = r["counts"]
        assert counts["committed"] == counts["accepted"] + counts["rounds"]  # count stop: nothing is discarded
        assert r["target_forwards_per_event"] <= 1.0
