"""The run folder: whole files or none, resumable, never changed once finished."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tppsd_bench import load_run, store
from tppsd_bench.errors import InputError, RunBroken
from tppsd_bench.results import Axis, CellResult, Evidence, Outcome, Verdict

RUN = {"digest": "abc", "status": store.RUNNING, "provenance": {"started": "now"}}


def cell(name: str, error: str = "") -> CellResult:
    verdict = Verdict(Axis.LAW, Outcome.PASS, "fine")
    evidence = Evidence("pit.ks", Axis.LAW, p_value=0.5, interval=(0.0, float("nan")))
    return CellResult(
        name, "law", "pair", "shipped", name, verdicts=(verdict,), evidence=(evidence,), figures={"x": 1.5}, error=error
    )


def test_a_cell_survives_its_file(tmp_path: Path) -> None:
    store.write_cell(tmp_path, cell("a"), {"u": np.arange(3.0)})
    found = store.read_cells(tmp_path)["a"]
    assert found.verdicts == cell("a").verdicts
    assert found.evidence[0].interval == (0.0, None)
    with np.load(tmp_path / "cells" / "a.npz") as arrays:
        assert arrays["u"].tolist() == [0.0, 1.0, 2.0]
    assert sorted(p.name for p in (tmp_path / "cells").iterdir()) == ["a.json", "a.npz"]


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path) -> None:
    def fails(_file: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "x.json").write_text("before")
    with pytest.raises(RunBroken, match=r"x\.json could not be written \(No space left on device\)"):
        store.write_whole(tmp_path / "x.json", fails)
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]
    assert (tmp_path / "x.json").read_text() == "before"


def test_the_life_of_a_run(tmp_path: Path) -> None:
    name = tmp_path / "run"
    opened = store.RunFolder.open(name, dict(RUN), resume=False)
    store.write_cell(opened.folder, cell("a"), {})
    assert not name.exists()
    opened.close()  # killed here
    (opened.folder / "cells" / ".b.json.123").write_text("half")
    with pytest.raises(InputError, match="interrupted run; add --resume"):
        store.RunFolder.open(name, dict(RUN), resume=False)
    with pytest.raises(InputError, match="another suite, seed, pairs or settings"):
        store.RunFolder.open(name, {**RUN, "digest": "other"}, resume=True)
    again = store.RunFolder.open(name, dict(RUN), resume=True)
    assert list(again.finished_cells()) == ["a"]
    assert again.run["resumed"] == ["now"]
    assert not list((again.folder / "cells").glob(".*"))
    store.write_cell(again.folder, cell("b"), {})
    assert [c.id for c in again.summarise(["b", "a"])] == ["b", "a"]
    assert again.finish() == name
    assert json.loads((name / "results.json").read_text())["run"]["status"] == store.FINISHED
    for resume in (False, True):
        with pytest.raises(InputError, match="never changed"):
            store.RunFolder.open(name, dict(RUN), resume=resume)


def test_a_run_with_a_broken_cell_may_be_mended(tmp_path: Path) -> None:
    name = tmp_path / "run"
    opened = store.RunFolder.open(name, dict(RUN), resume=False)
    store.write_cell(opened.folder, cell("a", error="fell over"), {})
    opened.summarise(["a"])
    opened.finish()
    again = store.RunFolder.open(name, dict(RUN), resume=True)
    assert again.finished_cells() == {}
    again.close()


def test_one_writer_a_folder(tmp_path: Path) -> None:
    opened = store.RunFolder.open(tmp_path / "run", dict(RUN), resume=False)
    with pytest.raises(InputError, match="Another process is writing"):
        store.RunFolder.open(tmp_path / "run", dict(RUN), resume=True)
    opened.close()


def test_resuming_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no interrupted run"):
        store.RunFolder.open(tmp_path / "run", dict(RUN), resume=True)


def test_a_run_is_a_table(tmp_path: Path) -> None:
    opened = store.RunFolder.open(tmp_path / "run", dict(RUN), resume=False)
    store.write_cell(opened.folder, cell("a"), {})
    opened.summarise(["a"])
    table = load_run(opened.finish())
    assert table.loc[0, ["id", "kind", "verdict.law", "figures.x"]].tolist() == ["a", "law", "pass", 1.5]
    assert table.attrs["run"]["status"] == store.FINISHED
    with pytest.raises(InputError, match="not a run folder"):
        load_run(tmp_path)
