"""JSON lines in the EasyTPP / Hugging Face style, one sequence a line; a JSON array, or an object of splits, works as well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tppsd_bench.data.base import Finding, Format, RawEvents, ReadOptions, plain_name, read_bytes
from tppsd_bench.data.easytpp import split_rows
from tppsd_bench.data.rows import GAP_KEYS, TIME_KEYS, Row, raw_of, row_of
from tppsd_bench.errors import InputError

_SUFFIXES = (".jsonl", ".json", ".ndjson")
_SPLITS = ("train", "dev", "validation", "valid", "test")


def _claims(path: Path, head: bytes) -> bool:
    text = (
        head if path.suffix.lower() in _SUFFIXES else read_bytes(path)[:65536] if plain_name(path).endswith(_SUFFIXES) else b""
    )
    return any(f'"{key}"'.encode() in text for key in TIME_KEYS + GAP_KEYS)


def _parse(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(
            f"{where}: not JSON ({error}); expected one sequence a line, such as "
            '{"time_since_start": [0.3, 0.8], "type_event": [0, 1]}.'
        ) from error


def _lines(text: str, path: Path) -> tuple[list[Row], tuple[Finding, ...]]:
    rows: list[Row] = []
    empty: list[int] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            where = f"{path.name}, line {number}"
            rows.append(row_of(_parse(line, where), f"{where} (sequence {len(rows)})"))
        else:
            empty.append(number)
    if not empty:
        return rows, ()
    sentence = f"{path.name}: {len(empty)} empty lines skipped, the first is line {empty[0]}; an empty line is not a sequence."
    return rows, (Finding("note", "empty_lines", sentence),)


def _read(path: Path, options: ReadOptions) -> RawEvents:
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start}); expected JSON lines.") from error
    try:
        whole = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        whole = None
    is_row = isinstance(whole, dict) and any(key in whole for key in TIME_KEYS + GAP_KEYS)
    split = next((s for s in _SPLITS if plain_name(path).startswith(s)), "")
    if whole is None or is_row:
        rows, findings = _lines(text, path) if whole is None else ([row_of(whole, f"{path.name}, line 1 (sequence 0)")], ())
        raw = raw_of(rows, path, splits=[split] * len(rows) if split else ())
        return RawEvents(**{**raw.__dict__, "findings": raw.findings + findings})
    splits, facts = split_rows(whole, path)
    rows = [row_of(s, f"{path.name}: sequence {i}") for i, s in enumerate(s for group in splits.values() for s in group)]
    names = [split if name in ("", "sequences") else name for name, group in splits.items() for _ in group]
    return raw_of(rows, path, splits=names if any(names) else (), shared=facts)


JSON_LINES = Format("jsonl", "JSON lines, one sequence a line (.jsonl, .json)", _claims, _SUFFIXES, _read)
