"""What a study is: a table ``[study.NAME]`` of a suite, the jobs it makes, what fills their cells, and its section of the report.

A study is a folder ``tppsd_bench/studies/NAME/`` with four modules, so that each layer is imported where it is needed and no earlier:

    table.py    TABLE: a ``StudyTable``, and nothing that costs time to import
    jobs.py     jobs(table, on) -> Iterator[Job]   ``on(pair)`` gives a job to ``replace``: kind, cells, length, cost, ...
                said(jobs) -> str                  one sentence for people, before the run
                size(job) -> str                   what one job draws, for a listing
    run.py      run(job, pair) -> Iterable[(CellResult, arrays)]   ``job.table`` is the study's table; ``pair`` is loaded
    section.py  sentence(cells) -> str             the answer in one sentence, from the cells alone
                section(cells, arrays, canvas) -> Section   ``arrays(cell)`` reads a cell's npz

Cells are of kind NAME, or NAME-time where they measure time: those run with nothing else on the machine. The id of a cell starts with its
kind and a dot.
"""

from __future__ import annotations

import importlib
from typing import Any

from pydantic import BaseModel, ConfigDict

from tppsd_bench.errors import InputError

STUDIES = ("drafts", "buckets", "speedup", "claims", "gate")
"""In the order of the report."""
_TIME = "-time"


class StudyTable(BaseModel):
    """Base of all tables of studies: frozen, no unknown key, no silent conversion."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def study_of(kind: str) -> str:
    """The study whose cells are of this kind; empty where it is none's."""
    name = kind.removesuffix(_TIME)
    return name if name in STUDIES else ""


def needs_silence(kind: str) -> bool:
    """Whether cells of this kind measure time, so that nothing else may run beside them."""
    return kind == "speed" or (bool(study_of(kind)) and kind.endswith(_TIME))


def module_of(study: str, module: str) -> Any:
    """One of a study's modules: table, jobs, run or section. InputError where there is no such study."""
    if study not in STUDIES:
        raise InputError(f"there is no study {study!r}; studies are {', '.join(STUDIES)}.")
    return importlib.import_module(f"tppsd_bench.studies.{study}.{module}")
