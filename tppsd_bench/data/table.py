"""Long tables, one event a row: csv, tsv or parquet (compressed or not) with sequence, time and type columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tppsd_bench.data.base import Finding, FloatArray, Format, RawEvents, ReadOptions, plain_name
from tppsd_bench.data.rows import GAP_KEYS, TIME_KEYS, TYPE_KEYS
from tppsd_bench.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

_SUFFIXES = (".csv", ".tsv", ".parquet", ".pq")
# "case:concept:name" and so on are the standard names of process-mining logs (XES).
_SEQUENCES = (
    "sequence",
    "seq",
    "seq_id",
    "seq_idx",
    "sequence_id",
    "case:concept:name",
    "case_id",
    "user_id",
    "user",
    "session_id",
)
_TIMES = (*TIME_KEYS, "t", "timestamp", "time:timestamp", "datetime", "date")
_TYPES = (*TYPE_KEYS, "event", "event_type", "concept:name", "mark", "label", "action")


def _claims(path: Path, head: bytes) -> bool:
    return plain_name(path).endswith(_SUFFIXES)


def _frame(path: Path) -> pd.DataFrame:
    import pandas as pd

    name = plain_name(path)
    try:
        if name.endswith((".parquet", ".pq")):
            return pd.read_parquet(path)
        separator = "\t" if name.endswith(".tsv") else ","
        if tuple(int(part) for part in pd.__version__.split(".")[:2]) < (3, 1):  # later versions always read floats exactly
            return pd.read_csv(path, sep=separator, float_precision="round_trip")
        return pd.read_csv(path, sep=separator)
    except ImportError as error:
        raise InputError(
            f"{path}: reading parquet needs pyarrow; pip install 'tppsd-bench[parquet]', or write a csv."
        ) from error
    except Exception as error:  # parsers raise many kinds
        raise InputError(f"{path}: not a readable table ({error}); expected a header and one event a row.") from error


def _pick(frame: pd.DataFrame, asked: str | None, known: Sequence[str], what: str, path: Path) -> str | None:
    lower = {str(c).strip().lower(): str(c) for c in frame.columns}
    if asked is not None:
        if asked not in frame.columns:
            raise InputError(
                f"{path}: no column {asked!r} for the {what}; the columns are {', '.join(map(str, frame.columns))}."
            )
        return asked
    return next((lower[k] for k in known if k in lower), None)


def _clock(column: pd.Series[Any], path: Path) -> tuple[FloatArray, bool]:
    """(times, came from dates): dates become seconds since the earliest one, subtracted before rounding to float."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column):
        return column.to_numpy(dtype=np.float64, na_value=np.nan), False
    try:
        dates = pd.to_datetime(column, utc=True, format=None if pd.api.types.is_datetime64_any_dtype(column) else "ISO8601")
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{path}: column {column.name!r} holds neither numbers nor ISO dates ({str(error).splitlines()[0]}); "
            "write numbers, or dates such as 2015-05-01T13:00:04.518Z."
        ) from error
    seconds = ((dates - dates.min()) / pd.Timedelta(seconds=1)).to_numpy(dtype=np.float64, na_value=np.nan)
    return seconds.astype(np.float64), True


def _numeric(column: pd.Series[Any], path: Path) -> FloatArray:
    import pandas as pd

    if not pd.api.types.is_numeric_dtype(column):
        raise InputError(f"{path}: column {column.name!r} holds {column.dtype}, not numbers; expected one gap an event.")
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def _types(frame: pd.DataFrame, names: Sequence[str], path: Path) -> tuple[FloatArray, tuple[str, ...]]:
    """(ids, labels): numbers stay as they are, anything else becomes ids in alphabetical order."""
    import pandas as pd

    missing = np.flatnonzero(frame[list(names)].isna().any(axis=1).to_numpy())
    if len(missing):
        raise InputError(
            f"{path}, row {missing[0]}: the type is missing, one of {len(missing)} such rows; fill or remove them."
        )
    if len(names) == 1 and pd.api.types.is_numeric_dtype(frame[names[0]]):
        return frame[names[0]].to_numpy(dtype=np.float64), ()
    text = frame[names[0]].astype(str)
    for name in names[1:]:
        text = text + "/" + frame[name].astype(str)
    labels, ids = np.unique(text.to_numpy(dtype=str), return_inverse=True)
    return ids.astype(np.float64), tuple(labels.tolist())


def _read(path: Path, options: ReadOptions) -> RawEvents:
    frame = _frame(path)
    if not len(frame):
        raise InputError(f"{path}: the table has no rows; expected one event a row.")
    gap_name = _pick(frame, None, GAP_KEYS, "gap", path)
    asked = options.time_column if options.time_column != gap_name else None
    time_name = _pick(frame, asked, _TIMES, "time", path)
    if time_name is None and gap_name is None:
        raise InputError(f"{path}: no time column among {', '.join(map(str, frame.columns))}; name it with time_column.")
    sequence = _pick(frame, options.sequence_column, _SEQUENCES, "sequence", path)
    given = options.type_column
    wanted: Sequence[str] = [given] if isinstance(given, str) else given or ()
    type_names = [c for name in wanted if (c := _pick(frame, name, (), "type", path))]
    if not type_names and (guess := _pick(frame, None, _TYPES, "type", path)) is not None:
        type_names = [guess]
    order, lengths, ids = _groups(frame, sequence, path)
    frame = frame.iloc[order]
    types, labels = _types(frame, type_names, path) if type_names else (None, ())
    times, dated = _clock(frame[time_name], path) if time_name is not None else (None, False)
    return RawEvents(
        lengths=lengths,
        names=tuple(f"{path.name}: sequence {i}" + (f" ({name})" if sequence else "") for i, name in enumerate(ids)),
        times=times,
        gaps=_numeric(frame[gap_name], path) if gap_name is not None else None,
        types=types,
        type_labels=labels,
        time_name=time_name or "times",
        gap_name=gap_name or "gaps",
        dated=dated,
        findings=(_columns_note(path, sequence, time_name or gap_name, type_names, dated),),
        files=(path,),
    )


def _groups(
    frame: pd.DataFrame, sequence: str | None, path: Path
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], list[str]]:
    """(row order, lengths, ids): sequences in order of first appearance, each sequence's rows in file order."""
    import pandas as pd

    if sequence is None:
        return np.arange(len(frame)), np.array([len(frame)], dtype=np.int64), ["0"]
    codes, ids = pd.factorize(frame[sequence])
    if (codes < 0).any():
        at = int(np.flatnonzero(codes < 0)[0])
        raise InputError(f"{path}, row {at}: no {sequence!r}; every event must name its sequence.")
    return np.argsort(codes, kind="stable"), np.bincount(codes).astype(np.int64), [str(i) for i in ids]


def _columns_note(path: Path, sequence: str | None, time: str | None, types: Sequence[str], dated: bool) -> Finding:
    parts = [
        f"sequences by {sequence!r}" if sequence else "one sequence (no sequence column)",
        f"times by {time!r}" + (" in seconds" if dated else ""),
        f"types by {' and '.join(map(repr, types))}" if types else "one type (no type column)",
    ]
    return Finding("note", "columns", f"{path.name} was read with {', '.join(parts)}; name other columns with sequence_column, "
                   "time_column and type_column.")  # fmt: skip


TABLE = Format("table", "long table, one event a row (.csv, .tsv, .parquet)", _claims, _SUFFIXES, _read)
