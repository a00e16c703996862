"""Cells of the proof on real toys: a fault is caught, an exact sampler is not, and a fault dressed as exact is found out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tppsd_bench.errors import Exit
from tppsd_bench.results import CellResult, Outcome
from tppsd_bench.runner import plan
from tppsd_bench.runner.execute import execute
from tppsd_bench.runner.summary import exit_code, summarise
from tppsd_bench.stats.columns import COLUMNS
from tppsd_bench.store import load_run
from tppsd_bench.suite import check_suite

SMALL = {"seeds": 2, "n_events": 2400, "pilot_sequences": 20, "zoo": "fake_zoo"}


def run(out: Path, *, resume: bool = False, **tables: Any) -> tuple[Path, dict[str, CellResult]]:
    suite = check_suite({"name": "proof", "seed": 4, **tables}, "proof.toml")
    folder, cells = execute(plan.make_plan(suite), out, jobs=1, resume=resume, say=lambda _text, _done: None, report=False)
    assert [c.error for c in cells if c.error] == []
    return folder, {c.id: c for c in cells}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, CellResult]]:
    """A fault, a fault too faint to be seen, an exact control, and a fault dressed as a control."""
    patch = pytest.MonkeyPatch()
    patch.syspath_prepend(str(Path(__file__).parent))
    power = {**SMALL, "n_permutations": 199, "etd_seeds": 2, "etd_budget": 2000}
    found = run(tmp_path_factory.mktemp("proof") / "r", power=power)
    patch.undo()
    return found


def test_a_fault_is_caught_by_those_who_should(small: tuple[Path, dict[str, CellResult]]) -> None:
    cell = small[1]["power.fault"]
    f = cell.figures
    assert (f["caught"]["hits"], f["caught"]["n"], f["expected"]["hits"]) == (2, 2, 2)
    assert f["caught_by"]["law"]["hits"] == 2
    assert {name for name, k in f["kills"].items() if k["hits"]} >= {
        "pit_type",
        "draft_direction",
        "acceptance_identity",
        "e_process",
    }
    assert f["kills"]["pit_time"]["hits"] == f["kills"]["preconditions"]["hits"] == 0
    assert f["kills"]["blackbox"]["n"] == 1
    assert f["etd"]["missed"] == f["etd_reference"]["missed"] == 0
    assert 0.1 < f["tv_gap"] < 0.4
    assert 0.4 < f["acceptance"] < 0.8
    assert cell.verdicts[0].outcome is Outcome.PASS
    with np.load(small[0] / "cells" / "power.fault.npz") as arrays:
        assert tuple(arrays["statistics"]) == COLUMNS
        assert arrays["p"].shape == (2, len(COLUMNS))
        assert np.isnan(arrays["p"][1, COLUMNS.index("blackbox")])
        assert arrays["etd"].shape == (2,)


def test_what_is_missed_and_what_alarms_is_a_failure_of_the_suite(small: tuple[Path, dict[str, CellResult]]) -> None:
    cells = small[1]
    assert cells["power.exact"].verdicts[0].outcome is Outcome.PASS
    assert cells["power.exact"].figures["ranked"] is None
    assert cells["power.faint"].verdicts[0].outcome is Outcome.FAIL
    assert "misses faint: 0 of 2" in cells["power.faint"].verdicts[0].sentence
    assert "FALSE ALARM" in cells["power.not_exact"].verdicts[0].sentence
    assert exit_code(list(cells.values())) is Exit.FAIL
    (said,) = summarise(cells.values())
    assert "1 of 2 faults caught" in said.sentence
    assert "1 of 2 exact controls fail (not_exact)" in said.sentence


def test_a_run_is_a_table_and_goes_on_where_it_was(
    small: tuple[Path, dict[str, CellResult]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    assert set(load_run(small[0])["kind"]) == {"power"}
    power = {**SMALL, "mutants": ["fault"], "controls": ["exact"], "blackbox_seeds": 0, "etd_seeds": 0}
    folder, _ = run(tmp_path / "r", power=power)
    kept = folder / "cells" / "power.fault.json"
    before = kept.stat().st_mtime_ns
    (folder / "cells" / "power.exact.json").unlink()
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**record, "status": "incomplete"}))
    _, cells = run(tmp_path / "r", resume=True, power=power)
    assert set(cells) == {"power.fault", "power.exact"}
    assert kept.stat().st_mtime_ns == before


def test_null_cells_tell_exact_from_dressed_as_exact(tmp_path: Path) -> None:
    null = {
        "samplers": ["target_only", "speculative.shipped.k2.joint", "exact", "not_exact", "target_only.horizon"], "runs": 20,
        "n_events": 300, "length": 10, "horizon": 10.0, "pilot_sequences": 20, "zoo": "fake_zoo",
    }  # fmt: skip
    folder, cells = run(tmp_path / "r", null=null)
    outcomes = {name.partition(".")[2]: c.verdicts[0].outcome for name, c in cells.items()}
    assert outcomes.pop("not_exact") is Outcome.FAIL
    assert set(outcomes.values()) == {Outcome.PASS}
    exact = cells["null.exact"].figures
    assert (exact["runs"], exact["false_alarms"]["hits"]) == (20, 0)
    assert set(exact["rates"]) == {"0.05", "0.01"}
    assert cells["null.not_exact"].figures["false_alarms"]["hits"] > 15
    with np.load(folder / "cells" / "null.exact.npz") as arrays:
        assert arrays["p"].shape == (20, len(arrays["statistics"]))
        assert arrays["q_law"].shape == arrays["q_mechanism"].shape == (20,)
        pooled = arrays["p"][:, list(arrays["statistics"]).index("pit_time.neyman")]
        assert len(np.unique(pooled)) == 20  # every run has streams of its own


def test_doses(tmp_path: Path) -> None:
    dose = {**SMALL, "mutants": ["faint"], "doses": {"faint": [0.0, 1.0]}}
    _, cells = run(tmp_path / "r", dose=dose)
    f = cells["dose.faint"].figures
    assert [c["hits"] for c in f["caught"]] == [0, 2]
    assert f["resolution"] == 1.0
    assert [e["missed"] for e in f["etd"]] == [2, 0]
    assert f["tv"][0] < 0.01 < f["tv"][1]
    assert cells["dose.faint"].verdicts[0].outcome is Outcome.PASS


@pytest.mark.slow
def test_a_network_is_no_special_case(tmp_path: Path) -> None:
    table = {
        "mutants": ["type_unverified"], "pairs": ["attnhp-selfcorrecting"], "seeds": 1, "n_events": 6000, "length": 30,
        "pilot_sequences": 20,
    }  # fmt: skip
    _, cells = run(tmp_path / "r", transformer=table)
    cell = cells["transformer.type_unverified.attnhp-selfcorrecting"]
    assert cell.figures["caught"]["hits"] == 1
    assert cell.verdicts[0].outcome is Outcome.PASS
