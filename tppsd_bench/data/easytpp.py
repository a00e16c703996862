"""EasyTPP pickles.

``{"dim_process": M, "train": [[{"time_since_start", "time_since_last_event", "type_event"}, ...], ...]}``, one split or more.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tppsd_bench.data.base import Format, RawEvents, ReadOptions, plain_name, read_bytes
from tppsd_bench.data.rows import Row, raw_of, row_of
from tppsd_bench.data.unpickle import load_pickle
from tppsd_bench.errors import InputError


def _claims(path: Path, head: bytes) -> bool:
    return head.startswith(b"\x80") and plain_name(path).endswith((".pkl", ".pickle", ".p"))


def split_rows(found: Any, path: Path) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """(sequences by split, facts stated once) of an EasyTPP-like object: a dict of lists, or a bare list."""
    if isinstance(found, list):
        return {"": found}, {}
    if not isinstance(found, dict):
        raise InputError(f"{path}: holds a {type(found).__name__}; expected a dict of splits or a list of sequences.")
    splits = {str(k): v for k, v in found.items() if isinstance(v, list)}
    if not any(splits.values()):
        keys = ", ".join(map(str, found)) or "none"
        raise InputError(f"{path}: no list of sequences under its keys ({keys}); expected train, dev, test or sequences.")
    return splits, {str(k): v for k, v in found.items() if not isinstance(v, list)}


def _read(path: Path, options: ReadOptions) -> RawEvents:
    splits, facts = split_rows(load_pickle(read_bytes(path), path), path)
    rows: list[Row] = []
    names: list[str] = []
    for split, sequences in splits.items():
        where = f"{path.name}, {split}" if split not in ("", path.stem) else path.name
        rows += [row_of(s, f"{where}: sequence {i}") for i, s in enumerate(sequences)]
        names += [split] * len(sequences)
    return raw_of(rows, path, splits=names, shared=facts)


EASYTPP = Format("easytpp", "EasyTPP pickle (.pkl)", _claims, (".pkl", ".pickle", ".p"), _read)
