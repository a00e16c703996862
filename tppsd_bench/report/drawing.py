"""The figures of a run's cells, drawn in several processes where there are many: most of a report's time."""

from __future__ import annotations

import multiprocessing
import zipfile
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tppsd_bench.report.picture import Arrays, Picture
from tppsd_bench.results import CellResult

if TYPE_CHECKING:
    from tppsd_bench.report.canvas import Canvas

Drawn = tuple[list[Picture], str]
"""A cell's figures, and a sentence where some had to be left out."""
_WORTH_A_PROCESS = 8
"""Cells; fewer are drawn before a fresh process has imported matplotlib."""


def read_arrays(run_dir: Path, cell: CellResult) -> tuple[dict[str, Any], str]:
    """A cell's arrays, and a sentence where the file that should hold them does not read."""
    path = run_dir / "cells" / f"{cell.id}.npz"
    if not path.is_file():
        return {}, f"cells/{path.name} is missing, so figures drawn from arrays are left out." if cell.arrays else ""
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}, ""
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        return {}, f"cells/{path.name} does not read ({error}), so figures drawn from arrays are left out."


def draw_cells(run_dir: Path, cells: Sequence[CellResult], processes: int) -> list[Drawn]:
    """The figures of each cell. The same page in any number of processes, this one included: ids come from a cell's place."""
    helpers = min(processes, len(cells) // _WORTH_A_PROCESS + 1) - 1
    if helpers < 1:
        return [_draw_cell(run_dir, cell, i) for i, cell in enumerate(cells)]
    with ProcessPoolExecutor(helpers, multiprocessing.get_context("spawn")) as pool:
        asked: list[Future[Drawn]] = [pool.submit(_draw_cell, run_dir, cell, i) for i, cell in enumerate(cells)]
        own = {}
        for i in reversed(range(len(cells))):  # from the other end, until both meet
            if asked[i].cancel():
                own[i] = _draw_cell(run_dir, cells[i], i)
        return [own[i] if i in own else future.result() for i, future in enumerate(asked)]


def _draw_cell(run_dir: Path, cell: CellResult, place: int) -> Drawn:
    from tppsd_bench.report.canvas import open_canvas

    arrays, note = read_arrays(run_dir, cell)
    if cell.error:
        return [], note
    with open_canvas(f"c{place}-") as canvas:
        return _pictures(cell, arrays, canvas), note


def _pictures(cell: CellResult, arrays: Arrays, canvas: Canvas) -> list[Picture]:
    from tppsd_bench.report.figures import arms_pictures, pit_pictures
    from tppsd_bench.report.figures_speed import fit_pictures, speed_pictures
    from tppsd_bench.report.figures_wealth import wealth_pictures
    from tppsd_bench.report.figures_work import work_pictures
    from tppsd_bench.report.forest import forest_pictures

    law, forest = pit_pictures(cell, arrays, canvas), forest_pictures(cell, canvas)
    return [
        *law,
        *forest,
        *wealth_pictures(arrays, canvas),
        *arms_pictures(arrays, canvas),
        *work_pictures(cell, arrays, canvas),
        *speed_pictures(cell, arrays, canvas),
        *fit_pictures(cell, canvas),
    ]
