"""The study from suite to report on toys and one small network, and again from where it was interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reference_impls.pairs import load_pair
from tppsd_bench.report.canvas import open_canvas
from tppsd_bench.results import CellResult
from tppsd_bench.runner.execute import execute
from tppsd_bench.runner.plan import make_plan
from tppsd_bench.runner.summary import exit_code, summarise
from tppsd_bench.studies.speedup import run as study
from tppsd_bench.studies.speedup.section import section, sentence
from tppsd_bench.suite import check_suite

TABLE: dict[str, Any] = {
    "pairs": 8, "calibration_pairs": 6, "seconds": 0.002, "acceptance_events": 400, "counted_events": 200, "calibrated": 2,
}  # fmt: skip


def suite(*grid: dict[str, Any], **table: Any) -> Any:
    return check_suite({"name": "tiny", "study": {"speedup": {**TABLE, "grid": list(grid), **table}}}, "tiny")


def test_from_suite_to_report_and_on_after_an_interruption(tmp_path: Path) -> None:
    grid = {"pairs": ["toy-marked"], "k": [1, 3], "length": [20], "batch": [1, 3]}
    plan, said = make_plan(suite(grid), seed=5), []
    folder, cells = execute(plan, tmp_path / "run", jobs=1, resume=False, say=lambda text, share: said.append(text))
    assert len(cells) == 4
    assert exit_code(cells) == 0
    assert not any(c.error for c in cells)
    said_of_it = summarise(cells)[0].sentence  # a toy's draft is as dear as its target; a busy machine may leave it undecided
    assert "Speculation pays" not in said_of_it
    assert "does not pay at" in said_of_it or "2 undecided" in said_of_it
    page = (folder / "report.html").read_text(encoding="utf-8")
    for words in ("Where it pays, and at which K", "K by batch: toy-marked, 20 events", "Did the law know?", "Acceptance by position",
                  "Three baselines", "Promises were written to cells of their own"):  # fmt: skip
        assert words in page
    for cell in cells:
        with np.load(folder / "cells" / f"{cell.id}.npz") as stored:
            assert set(stored.files) == set(cell.arrays)


def test_a_site_that_was_promised_but_not_timed_is_calibrated_again_and_says_so() -> None:
    (job,) = make_plan(suite({"pairs": ["toy-marked"], "k": [1, 3], "length": [20]}), seed=5).jobs
    pair = load_pair("toy-marked")
    promise, _ = next(iter(study.run(job, pair)))  # and then the power went
    ((again, arrays),) = study.run(job.without([promise.id]), pair)
    with open_canvas() as canvas:
        made = section([promise, again], lambda cell: arrays, canvas)
    notes = [n for block in made.blocks for n in block.notes]
    assert any("Calibrated again after an interruption" in n and "toy-marked, batch 1" in n for n in notes)


@pytest.mark.slow
def test_packing_and_history_on_a_small_network() -> None:
    table = {
        "packing": {"pairs": ["thp-twitter"], "sequences": 6, "batch": 3, "longest": 60, "events": 8, "pairs_timed": 6},
        "history": {"pairs": ["thp-twitter"], "lengths": [10, 40], "repeats": 3},
    }
    jobs = make_plan(suite({"pairs": ["toy-marked"], "k": [1, 3], "length": [20]}, **table), seed=5).jobs
    pair = load_pair("thp-twitter")
    found: list[tuple[CellResult, Any]] = [made for job in jobs[1:] for made in study.run(job, pair)]
    packing, history = (cell.figures for cell, _ in found)
    shares = {a["arm"]: a["padded_share"] for a in packing["arms"]}
    assert shares["recomputed, as they come"] > shares["recomputed, packed"]
    assert packing["cache_gain"]["packed"]["value"] > 1
    assert "times and more from a cache" in packing["sentence"]
    assert history["ms"]["recompute"][1] > history["ms"]["draft"][1] > 0
    cells = [cell for cell, _ in found]
    assert sentence(cells) == packing["sentence"]
    with open_canvas() as canvas:
        made = section(cells, lambda cell: {}, canvas)
    assert [b.title for b in made.blocks] == ["Packed or padded, cached or recomputed", "Cost of history"]
