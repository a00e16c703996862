"""Event files in and out: ``read_events``, ``check_data``, ``write_npz``.

Formats are an open family: one file each, registered in ``FORMATS``; what they have in common is settled once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

import numpy as np

from tppsd_bench.data import repair, settle
from tppsd_bench.data.base import (
    FORMATS,
    Finding,
    Format,
    Origin,
    RawEvents,
    ReadKeywords,
    ReadOptions,
    Ties,
    plain_name,
    register,
)
from tppsd_bench.data.easytpp import EASYTPP
from tppsd_bench.data.jsonlines import JSON_LINES
from tppsd_bench.data.npz import NPZ, write_npz
from tppsd_bench.data.report import DataReport, render, report_of
from tppsd_bench.data.rmtpp import RMTPP
from tppsd_bench.data.table import TABLE
from tppsd_bench.data.torchsaved import TORCH
from tppsd_bench.data.work import Work
from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch

__all__ = [
    "FORMATS",
    "DataReport",
    "Finding",
    "ReadOptions",
    "check_data",
    "read_events",
    "read_with_report",
    "render",
    "write_npz",
]

for _format in (NPZ, TORCH, EASYTPP, JSON_LINES, RMTPP, TABLE):  # the order in which files are recognised
    register(_format)

_HEAD = 65536


def read_events(
    path: str | Path,
    *,
    format: str | None = None,
    time_column: str | None = None,
    split: str | None = None,
    sequence_column: str | None = None,
    type_column: str | Sequence[str] | None = None,
    origin: Origin = "auto",
    horizon: float | None = None,
    ties: Ties = "refuse",
    n_types: int | None = None,
    first_type: int | None = None,
    sort: bool = False,
    rng: np.random.Generator | None = None,
) -> EventBatch:
    """Event sequences of a file, or of a folder with files of one format, checked.

    The arguments are explained in ``ReadOptions``. Raises InputError with one sentence where the data cannot be used;
    ``check_data`` lists all that is wrong, and ``read_with_report`` also what was chosen on the way.
    """
    return read_with_report(
        path, format=format, time_column=time_column, split=split, sequence_column=sequence_column, type_column=type_column,
        origin=origin, horizon=horizon, ties=ties, n_types=n_types, first_type=first_type, sort=sort, rng=rng,
    )[0]  # fmt: skip


def read_with_report(path: str | Path, **options: Unpack[ReadKeywords]) -> tuple[EventBatch, DataReport]:
    """The events together with the report on them; raises as ``read_events`` does."""
    batch, report = _read(Path(path), ReadOptions(**options))
    if batch is None:
        more = len(report.of("error")) - 1
        raise InputError(report.reason + (f" ({more} more errors; check the data for all of them.)" if more else ""))
    return batch, report


def check_data(path: str | Path, **options: Unpack[ReadKeywords]) -> DataReport:
    """What a file or folder holds and whether ``read_events`` with the same options takes it.

    Raises InputError only where there is no such path, format or split, or an option is impossible; anything wrong with the
    content is a finding.
    """
    chosen, path = ReadOptions(**options), Path(path)
    _recognise(path, chosen)
    try:
        return _read(path, chosen)[1]
    except InputError as error:
        return DataReport(path, chosen.format or "", (Finding("error", "unreadable", str(error)),))


def _read(path: Path, options: ReadOptions) -> tuple[EventBatch | None, DataReport]:
    fmt, files = _recognise(path, options)
    raw = _select(RawEvents.concat([_parse(fmt, file, options) for file in files]), options.split, path)
    work = Work.of(raw, options)
    work.findings.extend(raw.findings)
    batch = _settle(work)
    return batch, report_of(path, fmt.name, raw, work, batch)


def _parse(fmt: Format, file: Path, options: ReadOptions) -> RawEvents:
    try:
        return fmt.read(file, options)
    except InputError as error:
        if file.name in str(error):
            raise
        raise InputError(f"{file}: {error}") from error


def _settle(work: Work) -> EventBatch | None:
    """All checks in order; those that would only repeat an earlier error in other words are left out."""
    settle.not_finite(work)
    if work.failed:
        return None
    settle.types(work)
    settle.column(work)
    if "no_column" in {f.code for f in work.findings}:
        return None
    settle.order(work)
    if {f.code for f in work.findings} & {"unsorted", "padding"}:
        return None
    settle.measure(work)
    repair.units(work)
    settle.origin(work)
    repair.precision(work)
    repair.ties(work)
    repair.coarse(work)
    repair.start(work)
    repair.horizon(work)
    repair.size(work)
    return settle.finish(work)


def _recognise(path: Path, options: ReadOptions) -> tuple[Format, list[Path]]:
    """The format and its files; content first, then the suffix, so that a damaged file is named as what it should be."""
    if options.format is not None and options.format not in FORMATS:
        raise InputError(f"format is {options.format!r}; expected one of {', '.join(FORMATS)}.")
    if not path.exists():
        raise InputError(f"{path}: no such file or folder; check the path.")
    if path.is_file():
        if options.format is not None:
            return FORMATS[options.format], [path]
        fmt = _claimant(path) or next((f for f in FORMATS.values() if Path(plain_name(path)).suffix in f.suffixes), None)
        if fmt is None:
            known = "; ".join(f"{f.name}: {f.title}" for f in FORMATS.values())
            raise InputError(f"{path}: not a known kind of event file. Known are {known}. Pass format if it is one of these.")
        return fmt, [path]
    found: dict[str, list[Path]] = {}
    for file in sorted(p for p in path.iterdir() if p.is_file() and not p.name.startswith(".")):
        claimant = _claimant(file)
        if claimant is not None and options.format in (None, claimant.name):
            found.setdefault(claimant.name, []).append(file)
    if len(found) != 1:
        what = "; ".join(f"{name}: {', '.join(f.name for f in files)}" for name, files in found.items()) or "none"
        wanted = f"files of format {options.format}" if options.format else "event files of one format"
        which = f"format='{next(iter(found))}'" if found and options.format is None else "another format"
        raise InputError(f"{path}: expected {wanted} in this folder, found {what}. Name one file, or pass {which}.")
    ((name, files),) = found.items()
    return FORMATS[name], files


def _claimant(path: Path) -> Format | None:
    with path.open("rb") as stream:
        head = stream.read(_HEAD)
    return next((f for f in FORMATS.values() if f.claims(path, head)), None)


def _select(raw: RawEvents, split: str | None, path: Path) -> RawEvents:
    if split is None:
        return raw
    keep = np.array([name == split for name in raw.splits], dtype=np.bool_)
    if not keep.any():
        have = ", ".join(sorted({name for name in raw.splits if name})) or "none"
        raise InputError(f"{path}: no split {split!r}; the file has {have}.")
    return raw.select(keep)
