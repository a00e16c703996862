"""The report of a proof: every number that was made by hand appears, in the picture's words and in its table."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from make_proof import CONTROLS, FAULTS, SEEDS, WEAK, cells, dose_cell, etd, make_proof, null_cell, power_cell, rate
from make_run import make_run

from tppsd_bench.report import build_report, power, power_tables, reach
from tppsd_bench.report.kill_matrix import matrix
from tppsd_bench.results import CellResult
from tppsd_bench.stats.missed import missed
from tppsd_bench.store import read_cells


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_report(make_proof(tmp_path_factory.mktemp("proof") / "proof")).read_text(encoding="utf-8")


def words(page: str) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", page[page.index("<main") :])))


def test_the_headline_counts_faults_and_false_alarms(page: str) -> None:
    caught = len(FAULTS) - len(WEAK)
    said = f"{caught} of {len(FAULTS)} faults caught, 0 false alarms in 1,000 exact runs."
    assert f"<h1>{said}</h1>" in page
    assert "Not tested" not in page, "cells of a proof are no pairs"


def test_a_false_alarm_and_a_missed_fault_change_the_headline() -> None:
    some = [power_cell("clip_gap"), power_cell("colder_draft"), null_cell("target_only", 400, 17, 3, alarms=1)]
    assert power.sentence(some) == "1 of 2 faults caught, 1 false alarm in 400 exact runs."
    assert power.sentence([power_cell("k_one")]) == f"0 false alarms in {SEEDS} exact runs."
    assert power.sentence([dose_cell("lenient", [1.0], [0], None)]) == "Dose curves of one fault."


def test_the_matrix_shows_power_and_marks_unique_killers() -> None:
    shape = matrix(cells())
    assert shape is not None
    groups = dict(shape.groups)
    assert list(groups) == [
        "Gross faults", "Subtle faults", "Faults on shipped networks", "Exact controls: nothing may light up"
    ]  # fmt: skip
    rows = {r.name: r for title, rows in shape.groups for r in rows if title != "Faults on shipped networks"}
    assert set(rows) == {*FAULTS, *CONTROLS}
    at = {name: i for i, name in enumerate(shape.columns)}
    assert rows["residual_cap"].fields[at["support"]].unique
    assert "the only column that sees it" in rows["residual_cap"].fields[at["support"]].title
    assert not any(f.unique for f in rows["type_unverified"].fields)
    assert rows["stale_history"].fields[at["e_process"]].percent == round(100 * 68 / 72)
    assert rows["keep_crossing"].fields[at["pit_type"]].percent is None
    assert "94.4" not in rows["stale_history"].fields[at["e_process"]].title  # hits and interval, not a rounded rate
    assert "68 of 72 (86.4 to 98.5 %)" in rows["stale_history"].fields[at["e_process"]].title
    assert shape.alone[at["support"]] == 1
    assert shape.alone[at["strata"]] == 0
    assert shape.killed[at["support"]] == sum("support" in f[1] for f in FAULTS.values())
    assert sum(n for _, n in shape.spans) == len(shape.columns)
    assert not rows["colder_draft"].whole
    assert all(rows[c].whole for c in CONTROLS)


def test_a_control_that_lights_up_is_no_success(tmp_path: Path) -> None:
    bad = power_cell("k_one")
    bad.figures["kills"]["pit_time"] = {"hits": 3, "n": SEEDS, "low": 0.01, "high": 0.1}
    bad.figures["caught"] = {"hits": 3, "n": SEEDS, "low": 0.01, "high": 0.1}
    shape = matrix([power_cell("clip_gap"), bad])
    assert shape is not None
    row = shape.groups[-1][1][0]
    assert (row.whole, row.fields[shape.columns.index("pit_time")].percent) == (False, 4)
    assert power.exact_runs([bad]) == (3, SEEDS)


def test_every_picture_has_its_table_and_its_name(page: str) -> None:
    figures = re.findall(r'<svg class="fig".*?</svg>', page)
    assert len(figures) == 2 + 3 + 2
    for svg in figures:
        assert re.search(r'role="img" aria-label="[^"]{40,}"', svg)
        assert not re.search(r"#[0-9a-f]{6}", svg)
    text = words(page)
    for part in (
        "The matrix as numbers", "Events to detection as numbers", "Dose curves as numbers", "with the second-level test",
        "resolution 1.05", "timeout_to_draft",
    ):  # fmt: skip
        assert part in text
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    for link in re.findall(r'href="#([^"]+)"', page):
        assert link in ids


def test_tables_hold_the_numbers() -> None:
    made = power_tables.tables(cells())
    detection = {row[0]: row for row in made["detection"].rows}
    assert detection["type_unverified"][2:] == ("900 (630 to 1,350)", "0 of 24", "8,200 (5,740 to 12,300)", "0 of 24")
    assert detection["residual_cap"][2:4] == ("beyond 40,000", "24 of 24")
    assert "type_unverified on thp-hawkes" in detection
    assert ("lenient", "1.05", "0.032", "24 of 24 (85.8 to 100 %)", "2,400 (1,680 to 3,600)", "resolution") in made["dose"].rows
    assert made["null"].rows[1][0] == "speculative"
    assert made["null"].rows[1][3] == power.said_rate(cells()[-2].figures["rates"]["0.05"])
    assert len(made["second"].rows) == 9
    assert power_tables.etd_words(etd(None)) == "beyond 40,000"
    assert power_tables.etd_words({**etd(30_000), "high": None}) == "30,000 (21,000 to beyond 40,000)"


def test_what_it_would_not_have_noticed_is_said(page: str) -> None:
    text = words(page)
    for part in (
        "colder_draft: caught in 69 of 72", "lenient up to dose 1.02 (total variation 0.018): caught in 11 of 24",
        "timeout_to_draft at any dose up to 1:", "noncausal_verify, residual_cap. They show in the mechanism or not at all",
        "within 40,000 events: seed_constant, residual_cap", "oscillates within eighths", "split_residual (24/72)",
        "This cell broke",
    ):  # fmt: skip
        assert part in text
    assert "clip_gap up to dose" not in text, "caught at its smallest dose"


def test_the_smallest_departures_stand_for_every_sample_size(page: str) -> None:
    found = reach.proof_reach(cells())
    assert found is not None
    assert [row[2] for row in found.rows] == ["2,000", "8,000"]
    for row in found.rows:
        assert all(number in page for number in row[3])


def test_an_ordinary_run_says_what_it_could_have_missed(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    page = build_report(folder).read_text(encoding="utf-8")
    assert "What this suite would have noticed" not in page
    section = words(page[: page.index('id="reproduce"')])
    section = section[section.index("What this run could have missed") :]
    judged = [m for c in read_cells(folder).values() if (m := missed(c)) is not None]
    assert len(judged) == 7
    for m in judged:
        tv = m.of("monotone")
        assert tv is not None
        assert f"{tv.proven:.3f}" in section
        assert f'href="#cell-{m.cell}"' in page


def test_both_kinds_of_cell_share_a_page(tmp_path: Path) -> None:
    law = CellResult("law.a", "law", "a", "stress", "A: stress draft")
    page = build_report(make_proof(tmp_path / "proof", law)).read_text(encoding="utf-8")
    assert "<h1>A: not tested.</h1>" in page
    assert f"<b>{power.sentence(cells())}</b>" in page
    assert page.count('class="pair"') == 1
    assert 'id="cell-power.clip_gap"' in page


def test_bare_and_odd_cells_still_make_a_report(tmp_path: Path) -> None:
    folder = make_proof(
        tmp_path / "proof", *(CellResult(f"{kind}.bare", kind, "p", "", "") for kind in power.PROOF_KINDS),
        CellResult("power.odd", "power", "p", "", "", figures={"mutant": "<b>odd</b>", "kills": {"new": rate(1, 2)}}),
        CellResult("dose.odd", "dose", "p", "", "", figures={"doses": [1.0, 2.0], "caught": [], "resolution": 3.0}),
        CellResult("null.odd", "null", "p", "", "", figures={"sampler": "odd", "rates": {"0.05": {"hits": 0, "n": 0, "low": 0, "high": 1}}}),
    )  # fmt: skip
    page = build_report(folder).read_text(encoding="utf-8")
    assert "<b>odd</b>" not in page
    assert "&lt;b&gt;odd&lt;/b&gt;" in page
    assert 'id="cell-null.bare"' in page
