"""Text pairs of the RMTPP code: ``time-1-test.txt`` and ``event-1-test.txt``, one sequence a line, separated by blanks.

By that code's convention types run from 1.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tppsd_bench.data.base import Finding, FloatArray, Format, RawEvents, ReadOptions, plain_name, read_bytes
from tppsd_bench.errors import InputError


def _claims(path: Path, head: bytes) -> bool:
    return plain_name(path).startswith("time") and plain_name(path).endswith(".txt")


def _table(path: Path) -> list[FloatArray]:
    lines = read_bytes(path).decode("utf-8", errors="replace").rstrip("\n").split("\n")
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(np.array(line.split(), dtype=np.float64))
        except ValueError as error:
            raise InputError(f"{path.name}, line {number}: {error}; expected numbers separated by blanks.") from error
    return rows


def _read(path: Path, options: ReadOptions) -> RawEvents:
    twin = path.with_name("event" + path.name[len("time") :])
    if not twin.is_file():
        raise InputError(f"{path}: its types are missing, no {twin.name} beside it; the format is a pair of files.")
    times, types = _table(path), _table(twin)
    if len(times) != len(types):
        raise InputError(f"{path.name} has {len(times)} lines but {twin.name} has {len(types)}; line i of both is sequence i.")
    empty = [i + 1 for i, (t, k) in enumerate(zip(times, types, strict=True)) if not len(t) and not len(k)]
    for number, (t, k) in enumerate(zip(times, types, strict=True), start=1):
        if len(t) != len(k):
            raise InputError(f"{path.name}, line {number}: {len(t)} times but {len(k)} types; every event needs one of each.")
    kept = [i for i, t in enumerate(times) if len(t)]
    if not kept:
        raise InputError(f"{path}: no sequences in the file; expected at least one.")
    flat = np.concatenate([types[i] for i in kept])
    note = Finding(
        "note", "empty_lines", f"{path.name}: {len(empty)} empty lines skipped, the first is line {min(empty, default=0)}."
    )
    return RawEvents(
        lengths=np.array([len(times[i]) for i in kept], dtype=np.int64),
        names=tuple(f"{path.name}, line {i + 1} (sequence {row})" for row, i in enumerate(kept)),
        times=np.concatenate([times[i] for i in kept]),
        types=flat,
        first_type=1 if flat.min() >= 1 else None,
        splits=tuple(next((s for s in ("train", "test", "dev") if s in path.stem), "") for _ in kept),
        findings=(note,) if empty else (),
        files=(path, twin),
    )


RMTPP = Format("rmtpp", "RMTPP text pair (name its time-*.txt file)", _claims, (), _read)
