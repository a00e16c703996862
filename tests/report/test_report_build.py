"""The report as text: everything that a run says appears, escaped, whatever is missing."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from make_run import PAIRS, PROVENANCE, make_run

from tppsd_bench.errors import InputError
from tppsd_bench.report import build_report
from tppsd_bench.report.glossary import GLOSSARY
from tppsd_bench.results import Axis, CellResult, Evidence, Outcome, Verdict, to_json

EVIL = '<script>alert("$x$ & y")</script>'


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_run(tmp_path_factory.mktemp("report") / "demo")
    build_report(folder)
    return folder


@pytest.fixture(scope="module")
def page(run: Path) -> str:
    return (run / "report.html").read_text(encoding="utf-8")


def cells_of(run: Path) -> list[dict[str, Any]]:
    return json.loads((run / "results.json").read_text())["cells"]


def write_run(folder: Path, *cells: CellResult, run: dict[str, Any] | None = None) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "results.json").write_text(json.dumps({"run": run or {}, "cells": [to_json(c) for c in cells]}))
    return build_report(folder).read_text(encoding="utf-8")


def law(
    outcome: Outcome | None, *, id: str = "a", error: str = "", validity: Outcome = Outcome.PASS, **more: Any
) -> CellResult:
    verdicts = () if outcome is None else (Verdict(Axis.VALIDITY, validity, "V."), Verdict(Axis.LAW, outcome, "L."))
    return CellResult(
        id=id, kind="law", pair=more.pop("pair", "p"), draft="stress", title="t", verdicts=verdicts, error=error, **more
    )


def headline_of(page: str) -> str:
    return html.unescape(re.findall(r"<h1>(.*?)</h1>", page)[0])


def test_every_pair_verdict_and_sentence_appears(run: Path, page: str) -> None:
    text = html.unescape(page)
    for title in PAIRS.values():
        assert text.count(title) >= 2
    for cell in cells_of(run):
        assert f'id="cell-{cell["id"]}"' in page
        for sentence in [cell["error"], *(v["sentence"] for v in cell["verdicts"]), *cell["not_possible"]]:
            assert sentence in text
    for word in ("Exact", "Not exact", "Undecided", "Invalid evidence", "Incomplete", "Does not pay", "Pays, best at K = 8"):
        assert word in text
    for term, _ in GLOSSARY:
        assert f"<dt>{html.escape(term)}</dt>" in page


def test_first_screen_says_exact_sure_and_fast(page: str) -> None:
    first = page[page.index('<ul class="pairs">') : page.index('id="cells"')]
    assert first.count('class="pair"') == len(PAIRS)
    for axis in Axis:
        assert len(re.findall(rf"</svg>{axis.value}</dt>", first)) == len(PAIRS)
    assert first.count("could still hide:") == len(PAIRS)
    assert "4.31×" in first
    assert "4.22 to 4.40" in first
    assert "38.2×" in first


def test_headline_counts_every_pair(page: str) -> None:
    assert headline_of(page) == (
        "Two of six pairs sample exactly; one does not, one has invalid evidence, one is undecided, one is incomplete."
    )


def test_provenance_and_commands_appear(page: str) -> None:
    text = html.unescape(page)
    for value in PROVENANCE.values():
        for part in value.values() if isinstance(value, dict) else [value]:
            assert str(part) in text
    assert "python -m tppsd_bench report demo" in text


def test_figures_are_named_and_take_the_theme(page: str) -> None:
    figures = re.findall(r"<svg class=\"fig\".*?</svg>", page)
    assert len(figures) > 60
    for svg in figures:
        assert 'role="img"' in svg
        assert re.search(r'aria-label="[^"]{20,}"', svg)
        assert not re.search(r"#[0-9a-f]{6}", svg), "a colour that no theme can change"
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', page))
    for a, b in re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', page):
        assert (a or b) in ids


def test_asks_the_network_for_nothing(page: str) -> None:
    assert not re.findall(r"""(?:src|href)=["']?(?!#|data:,")[^"'> ]+""", page)
    assert "url(" not in page.replace("url(#", "")
    assert "@import" not in page


def test_small_unchanged_and_whole(run: Path, page: str) -> None:
    assert len(page) < 3_000_000
    again = build_report(run)
    assert again.read_text(encoding="utf-8") == page
    assert not list(run.glob(".*"))


def test_everything_is_escaped(tmp_path: Path) -> None:
    evidence = Evidence(
        f"pit_time.theta_1{EVIL}",
        Axis.LAW,
        effect=0.1,
        effect_name="theta_1",
        interval=(0.0, 0.2),
        where={EVIL: EVIL},
        detail=EVIL,
    )
    cells = (
        law(Outcome.FAIL, id=EVIL, pair=EVIL, evidence=(evidence,), figures={EVIL: 1.0, "pays_sentence": EVIL}, sampler=EVIL),
        law(None, id="b", pair=EVIL, error=EVIL, not_possible=(EVIL,)),
    )
    page = write_run(tmp_path, *cells, run={"suite": EVIL, "provenance": {EVIL: EVIL, "command": EVIL}, "status": EVIL})
    assert EVIL not in page
    assert "<script>alert" not in page
    assert page.count("<script>") == 1
    assert html.escape(EVIL, quote=False).replace('"', "&#34;") in page


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ((law(Outcome.PASS),), "p: exact."),
        ((law(Outcome.PASS), law(Outcome.FAIL, id="b")), "p: not exact."),
        ((law(Outcome.PASS), law(None, id="b", error="boom")), "p: incomplete."),
        ((law(None, error="boom"),), "p: broken."),
        ((law(Outcome.FAIL, validity=Outcome.INVALID),), "p: invalid evidence."),
        ((law(Outcome.PASS), law(Outcome.INCONCLUSIVE, id="b")), "p: undecided."),
        ((law(Outcome.PASS), law(Outcome.PASS, id="b", pair="q")), "Both pairs sample exactly."),
        ((CellResult("s", "speed", "p", "", "t"),), "p: not tested."),
        ((), "This run holds no finished cell."),
    ],
)
def test_headline(tmp_path: Path, cells: tuple[CellResult, ...], said: str) -> None:
    assert headline_of(write_run(tmp_path, *cells)) == said


@pytest.mark.parametrize("kind", ["law", "horizon", "speed", "fit", "screen", "something new"])
def test_bare_cells_and_odd_figures_still_make_a_report(tmp_path: Path, kind: str) -> None:
    odd: dict[str, Any] = {
        "speedup_cpu": {"value": None},
        "speedup_by_k": [{"k": 1}, None],
        "acceptance_by_position": [],
        "baseline_ms": 0.0,
        "lambda_gap": {"value": 0.1, "low": None, "high": None},
        "nll_true": None,
        "nll_target": 0.3,
        "pays": None,
        "new": 3,
    }
    bare = CellResult("bare", kind, "p", "", "")
    page = write_run(tmp_path, bare, CellResult("odd", kind, "p", "", "", figures=odd, arrays=("u",)))
    assert "cells/odd.npz is missing" in page
    assert 'id="cell-bare"' in page


def test_undecided_payment_is_said(tmp_path: Path) -> None:
    figures = {"speedup_cpu": {"value": 1.01, "low": 0.98, "high": 1.04}, "pays": None, "pays_sentence": "It is undecided"}
    page = write_run(tmp_path, CellResult("s", "speed", "p", "", "Pair: speed", figures=figures))
    assert "Undecided whether it pays" in page
    assert "It is undecided." in page
    assert "<h4>Speed</h4>" in page
    assert ">Pair</a></h3>" in page


def test_unreadable_arrays_cost_only_their_figures(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    name = "law-sahp_hawkes2-stress"
    (folder / "cells" / f"{name}.npz").write_bytes(b"PK\x03\x04 cut short")
    page = build_report(folder).read_text(encoding="utf-8")
    assert f"cells/{name}.npz does not read" in page
    assert "Effect sizes" in page


def test_interrupted_run_reports_its_finished_cells(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    (folder / "results.json").unlink()
    (folder / "run.json").write_text('{"status": "running"}')
    page = build_report(folder).read_text(encoding="utf-8")
    assert "This run is still running" in page
    assert page.count('<details class="cell"') == len(list((folder / "cells").glob("*.json")))


def test_no_results_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"neither results\.json nor cells"):
        build_report(tmp_path)
    (tmp_path / "results.json").write_text('{"cells": [{"id": "x"}]}')
    with pytest.raises(InputError, match="cell x is not one this version reads"):
        build_report(tmp_path)
    assert not (tmp_path / "report.html").exists()


def test_no_torch_and_no_early_matplotlib(run: Path) -> None:
    code = (
        "import sys, pathlib; import tppsd_bench.report as r; assert 'matplotlib' not in sys.modules; "
        "r.build_report(pathlib.Path(sys.argv[1])); assert 'torch' not in sys.modules; assert 'seaborn' not in sys.modules; "
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(run)], check=True, cwd=Path(__file__).parents[2], timeout=120)


def test_commands_name_the_folder_as_it_will_be_called(tmp_path: Path) -> None:
    """The page is written just before a whole run loses its suffix; an interrupted one keeps it."""
    assert "mine.partial" not in write_run(tmp_path / "mine.partial", law(Outcome.PASS))
    broken_off = make_run(tmp_path / "other.partial")
    (broken_off / "results.json").unlink()
    assert "report other.partial" in build_report(broken_off).read_text(encoding="utf-8")


def test_a_failure_names_the_faults_that_it_resembles(tmp_path: Path) -> None:
    failed = law(
        Outcome.FAIL, figures={"looks_like": "Of the known faults this looks most like stale_history (so; similarity 0.75)."}
    )
    assert "looks most like stale_history" in html.unescape(write_run(tmp_path / "r", failed))


def test_the_page_is_the_same_in_any_number_of_processes(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "demo")
    assert len(list((folder / "cells").glob("*.json"))) >= 8, "too few cells to start a process"
    alone = build_report(folder).read_bytes()
    assert build_report(folder, processes=2).read_bytes() == alone
