"""From a finished run folder to one self-contained ``report.html``. No torch; matplotlib is imported only while drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tppsd_bench import resources
from tppsd_bench.errors import InputError
from tppsd_bench.report.cells import CellView, cell_view, law_level, not_possible_rows, provenance_rows
from tppsd_bench.report.context import PairCard, headline, pair_card, pays_headline
from tppsd_bench.report.drawing import draw_cells, read_arrays
from tppsd_bench.report.glossary import GLOSSARY
from tppsd_bench.report.kill_matrix import label
from tppsd_bench.report.power import PROOF_KINDS, judged, proof_cells, sentence
from tppsd_bench.report.proof import Proof, proof
from tppsd_bench.report.reach import proof_reach, run_reach
from tppsd_bench.report.section import Section
from tppsd_bench.results import CellResult, cell_from_json
from tppsd_bench.store import FINISHED, PARTIAL, RUNNING, read_json, write_whole
from tppsd_bench.studies.base import STUDIES, module_of, study_of

if TYPE_CHECKING:
    from tppsd_bench.report.canvas import Canvas
    from tppsd_bench.report.figures_power import ProofPictures

REPORT_NAME = "report.html"


def build_report(run_dir: Path, processes: int = 1) -> Path:
    """Write ``report.html`` into the run folder and return its path; an earlier report is replaced in one step.

    Reads ``results.json`` (or, where the run was cut short, ``run.json`` and ``cells/*.json``) and ``cells/<id>.npz``. Raises
    InputError where the folder holds no results. ``processes``: that draw; more than one starts fresh ones, which import the caller's
    main module.
    """
    run_dir = Path(run_dir)
    run, cells = load_results(run_dir)
    ordinary = [c for c in cells if c.kind not in PROOF_KINDS and not study_of(c.kind)]
    views, pictures, studies = draw(run_dir, run, ordinary, cells, processes)
    html = render(
        run, ordinary, views, _lasting_name(run_dir), proof=proof(cells, run), pictures=pictures, all_cells=cells, studies=studies,
    )  # fmt: skip
    path = run_dir / REPORT_NAME
    write_whole(path, lambda file: file.write(html.encode()))
    return path


def _lasting_name(run_dir: Path) -> str:
    """The folder's name for commands to come: a run whose cells are all there is about to lose its suffix."""
    name = run_dir.resolve().name
    return name.removesuffix(PARTIAL) if (run_dir / "results.json").is_file() else name


def load_results(run_dir: Path) -> tuple[dict[str, Any], list[CellResult]]:
    """The run's description and its cells in suite order."""
    whole = run_dir / "results.json"
    if whole.is_file():
        data = read_json(whole)
        return data.get("run") or {}, [_cell(c, whole) for c in data.get("cells", [])]
    files = sorted((run_dir / "cells").glob("*.json"))
    if not files:
        raise InputError(f"{run_dir}: found neither results.json nor cells/*.json; give the folder that `run` wrote.")
    about = run_dir / "run.json"
    return (read_json(about) if about.is_file() else {}), [_cell(read_json(f), f) for f in files]


def _cell(data: dict[str, Any], path: Path) -> CellResult:
    try:
        return cell_from_json(data)
    except (TypeError, KeyError, ValueError) as error:
        name = data.get("id", "?")
        raise InputError(f"{path}: cell {name} is not one this version reads ({error}); run the suite again.") from error


def draw(
    run_dir: Path, run: Mapping[str, Any], cells: Sequence[CellResult], every: Sequence[CellResult] = (), processes: int = 1
) -> tuple[list[CellView], ProofPictures, list[Section]]:
    """The views of ``cells`` with their figures; of all cells the figures of a proof and the sections of studies.

    Every canvas has a prefix: ids in the page must differ.
    """
    from tppsd_bench.report.canvas import open_canvas
    from tppsd_bench.report.figures_power import proof_pictures

    drawn = draw_cells(run_dir, cells, processes)
    views = [cell_view(cell, pictures, run, note) for cell, (pictures, note) in zip(cells, drawn, strict=True)]
    with open_canvas() as canvas:
        return views, proof_pictures(proof_cells(every), canvas), study_sections(run_dir, run, every, canvas)


def study_sections(run_dir: Path, run: Mapping[str, Any], cells: Sequence[CellResult], canvas: Canvas) -> list[Section]:
    """One section a study that has cells which did not break; its cells, broken ones too, are folded at its end."""
    found = []
    for name in STUDIES:
        mine = [c for c in cells if study_of(c.kind) == name]
        if mine:
            made: Section = module_of(name, "section").section(
                [c for c in mine if not c.error], lambda cell: read_arrays(run_dir, cell)[0], canvas
            )
            found.append(replace(made, cells=tuple(cell_view(c, [], run) for c in mine)))
    return found


def render(
    run: Mapping[str, Any], cells: Sequence[CellResult], views: Sequence[CellView], folder: str, *, proof: Proof | None,
    pictures: ProofPictures, all_cells: Sequence[CellResult], studies: Sequence[Section] = (),
) -> str:  # fmt: skip
    """The page. Everything is escaped but the SVG that this package drew."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(resources.path("reports", "templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["svg"] = Markup
    by_pair: dict[str, list[CellResult]] = {}
    for cell in cells:
        by_pair.setdefault(cell.pair, []).append(cell)
    cards = [pair_card(f"pair-{i}", _title(run, pair, group), group) for i, (pair, group) in enumerate(by_pair.items(), 1)]
    groups = [
        (card, [_within(v, card.title) for v, c in zip(views, cells, strict=True) if c.pair == pair])
        for card, pair in zip(cards, by_pair, strict=True)
    ]
    titles = {pair: card.title for card, pair in zip(cards, by_pair, strict=True)}
    return environment.get_template("report.html.j2").render(
        **_frame(run, all_cells, cards, folder, studies), groups=groups, glossary=GLOSSARY, impossible=not_possible_rows(cells),
        proof=proof, pictures=pictures, reach=run_reach(cells, titles), proof_reach=proof_reach(all_cells), label=label,
        studies=studies,
    )  # fmt: skip


def _within(view: CellView, pair_title: str) -> CellView:
    """Under its pair's heading a cell need not repeat the pair's title."""
    rest = view.title.removeprefix(pair_title).lstrip(":, ")
    return replace(view, title=rest[0].upper() + rest[1:]) if rest and rest != view.title else view


def _title(run: Mapping[str, Any], pair: str, cells: Sequence[CellResult]) -> str:
    """The pair's own title, else what the titles of its cells begin with, else its name."""
    known = run.get("pairs")
    about = known.get(pair) if isinstance(known, dict) else None
    if isinstance(about, dict) and about.get("title"):
        return str(about["title"])
    heads = [{c.title[:i] for i in range(len(c.title)) if c.title.startswith(": ", i)} for c in cells]
    return max(set.intersection(*heads), key=len, default=pair or "unnamed pair")


def _headline(cells: Sequence[CellResult], cards: Sequence[PairCard], studies: Sequence[Section]) -> str:
    """Of the pairs; of a proof or a study where the run holds nothing else."""
    if not cards and proof_cells(cells):
        return sentence(proof_cells(cells))
    return studies[0].sentence if studies and not cards else headline(cards)


def _frame(
    run: Mapping[str, Any], cells: Sequence[CellResult], cards: Sequence[PairCard], folder: str, studies: Sequence[Section]
) -> dict[str, Any]:
    suite = run.get("suite")
    name = suite.get("name", "") if isinstance(suite, dict) else suite or ""
    provenance = run.get("provenance", run)
    status = str(run.get("status") or FINISHED)
    return {
        "suite": str(name),
        "headline": _headline(cells, cards, studies),
        "pays": pays_headline(cards),
        "level": law_level(cells),
        "n_events": sum(c.n_events for c in cells if c.kind in ("law", "horizon")) + judged(cells),
        "n_cells": len(cells),
        "n_broken": sum(bool(c.error) for c in cells),
        "unfinished": {FINISHED: "", RUNNING: "still running"}.get(status, status),
        "seed": provenance.get("seed", ""),
        "finished": str(provenance.get("finished") or provenance.get("started") or ""),
        "command": str(provenance.get("command") or ""),
        "folder": folder,
        "provenance": provenance_rows(run),
        "cards": cards,
    }
