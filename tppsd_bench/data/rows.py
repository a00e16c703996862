"""Sequences written as dictionaries: the shape that EasyTPP pickles, JSON lines and torch-saved sets share.

A sequence is a dict of lists (``{"time_since_start": [...], "type_event": [...]}``) or a list of dicts, one an event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tppsd_bench.data.base import Finding, FloatArray, RawEvents
from tppsd_bench.errors import InputError

TIME_KEYS = ("time_since_start", "arrival_times", "times", "time", "timestamps")
GAP_KEYS = ("time_since_last_event", "gaps", "inter_times", "time_deltas")
TYPE_KEYS = ("type_event", "marks", "types", "type", "event_types", "labels")
START_KEYS = ("t_start",)
END_KEYS = ("t_end", "t_max", "horizon")
COUNT_KEYS = ("dim_process", "num_marks", "n_types")
LENGTH_KEYS = ("seq_len",)


@dataclass(frozen=True, slots=True)
class Row:
    """One sequence; ``values`` holds its time, gap and type lists by key, ``facts`` its scalars."""

    name: str
    values: dict[str, Any]
    facts: dict[str, Any]


def key_of(mapping: dict[str, Any], keys: Sequence[str]) -> str | None:
    """The first of ``keys`` that ``mapping`` has a value for."""
    return next((k for k in keys if mapping.get(k) is not None), None)


def row_of(sequence: Any, name: str) -> Row:
    """A sequence in either shape; InputError where it is neither. ``name`` is how sentences name it."""
    events = TIME_KEYS + GAP_KEYS + TYPE_KEYS
    if isinstance(sequence, dict):
        values = {k: v for k, v in sequence.items() if k in events}
        facts = {k: v for k, v in sequence.items() if k not in events}
    elif isinstance(sequence, (list, tuple)) and all(isinstance(e, dict) for e in sequence):
        keys = [k for k in events if sequence and k in sequence[0]]
        for j, event in enumerate(sequence):
            missing = [k for k in keys if k not in event]
            if missing:
                raise InputError(f"{name}, event {j}: {', '.join(missing)} is missing; every event needs the same keys.")
        values, facts = {k: [event[k] for event in sequence] for k in keys}, {}
    else:
        raise InputError(
            f"{name}: found {type(sequence).__name__}; expected a dict of lists or a list of events, each a dict with "
            "time_since_start (or times, gaps, ...) and type_event (or types, marks)."
        )
    empty = isinstance(sequence, (list, tuple)) and not sequence
    if not empty and key_of(values, TIME_KEYS + GAP_KEYS) is None:
        found = ", ".join(sorted(map(str, {**values, **facts}))[:8]) or "nothing"
        raise InputError(
            f"{name}: no time among its keys ({found}); expected one of {', '.join(TIME_KEYS + GAP_KEYS)}. "
            "One event a line is a table: write it as csv."
        )
    return Row(name, values, facts)


def raw_of(rows: Sequence[Row], path: Path, *, splits: Sequence[str] = (), shared: dict[str, Any] | None = None) -> RawEvents:
    """All sequences of a file, flat. ``shared`` holds the facts that the file states once for all of them."""
    if not rows:
        raise InputError(f"{path}: no sequences in the file; expected at least one.")
    facts = [{**(shared or {}), **row.facts} for row in rows]
    filled = [row for row in rows if row.values]
    columns: dict[str, list[Any]] = {}
    for kind, keys in (("times", TIME_KEYS), ("gaps", GAP_KEYS), ("types", TYPE_KEYS)):
        names = {key_of(row.values, keys) for row in filled}
        if len(names) > 1:
            raise InputError(
                f"{path}: sequences name their {kind} differently ({', '.join(sorted(map(str, names)))}); use one key in all."
            )
        key = names.pop() if names else None
        if key is not None:
            columns[kind] = [row.values.get(key, []) for row in rows]
            columns[kind + "_key"] = [key]
    labels: tuple[str, ...] = ()
    if "types" in columns:
        columns["types"], labels = _labelled(columns["types"])
    flat, lengths, findings = _flatten({k: v for k, v in columns.items() if not k.endswith("_key")}, rows, facts)
    declared = [int(v) for f in facts if (k := key_of(f, COUNT_KEYS)) is not None and _is_number(v := f[k])]
    return RawEvents(
        lengths=lengths,
        names=tuple(row.name for row in rows),
        times=flat.get("times"),
        gaps=flat.get("gaps"),
        types=flat.get("types"),
        start=_fact(facts, START_KEYS, path),
        end=_fact(facts, END_KEYS, path),
        splits=tuple(splits),
        n_types=max(declared) if declared else None,
        type_labels=labels,
        time_name=columns.get("times_key", ["times"])[0],
        gap_name=columns.get("gaps_key", ["gaps"])[0],
        findings=findings,
        files=(path,),
    )


def _flatten(
    columns: dict[str, list[Any]], rows: Sequence[Row], facts: Sequence[dict[str, Any]]
) -> tuple[dict[str, FloatArray], np.ndarray[Any, np.dtype[np.int64]], tuple[Finding, ...]]:
    """Flat arrays by column and lengths (n,); rows longer than their stated ``seq_len`` are cut there."""
    arrays = {k: [_numbers(v, row.name, k) for v, row in zip(column, rows, strict=True)] for k, column in columns.items()}
    lengths, cut = np.zeros(len(rows), dtype=np.int64), 0
    for i, row in enumerate(rows):
        sizes = {k: len(a[i]) for k, a in arrays.items()}
        if len(set(sizes.values())) > 1:
            found = ", ".join(f"{size} {k}" for k, size in sizes.items())
            raise InputError(f"{row.name}: {found}; every event needs one of each.")
        n = stated = next(iter(sizes.values()), 0)
        key = key_of(facts[i], LENGTH_KEYS)
        if key is not None and _is_number(facts[i][key]):
            stated = int(facts[i][key])
        if not 0 <= stated <= n:
            raise InputError(f"{row.name}: {key} is {stated} but {n} events are given; state the true length or leave it out.")
        cut += stated < n
        lengths[i] = stated
    flat = {k: np.concatenate([a[:m] for a, m in zip(column, lengths, strict=True)]) for k, column in arrays.items()}
    note = Finding("note", "cut_at_length", f"{cut} padded sequences were cut at their stated seq_len.")
    return flat, lengths, (note,) if cut else ()


def _numbers(values: Any, name: str, what: str) -> FloatArray:
    try:
        return np.asarray(values, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name}: the {what} are not numbers ({error}); expected one number an event.") from error


def _labelled(column: list[Any]) -> tuple[list[Any], tuple[str, ...]]:
    """Text types become ids in alphabetical order; numbers stay."""
    rows = [values if isinstance(values, (list, tuple)) else np.atleast_1d(values).tolist() for values in column]
    if not any(isinstance(k, str) for row in rows for k in row):
        return column, ()
    labels = sorted({str(k) for row in rows for k in row})
    ids = {label: i for i, label in enumerate(labels)}
    return [[ids[str(k)] for k in row] for row in rows], tuple(labels)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and bool(-(2**53) < value < 2**53)


def _fact(facts: Sequence[dict[str, Any]], keys: Sequence[str], path: Path) -> FloatArray | None:
    found = [key_of(f, keys) for f in facts]
    if not any(found):
        return None
    if not all(found):
        raise InputError(f"{path}: only some sequences state {'/'.join(keys)}; state it for all of them or for none.")
    values = [_numbers(f[k], str(path), k) for f, k in zip(facts, found, strict=True) if k]
    if any(len(v) != 1 for v in values):
        raise InputError(f"{path}: {'/'.join(keys)} is not one number a sequence; state one time for each.")
    return np.concatenate(values)
