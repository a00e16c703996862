"""What every file format hands over (``RawEvents``), what a finding is, and the registry of formats.

A format reads its file as it stands: no sorting, no shifting, no policy. ``settle`` decides those once, for all formats.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.errors import InputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

Severity = Literal["error", "warning", "note"]
Ties = Literal["refuse", "jitter", "drop"]
Origin = Literal["auto", "start", "first_event"] | float

TIES: tuple[Ties, ...] = ("refuse", "jitter", "drop")
ORIGINS = ("auto", "start", "first_event")
_COMPRESSED: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.decompress, ".xz": lzma.decompress, ".bz2": bz2.decompress}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing noticed in a file: what was found, where, what was expected, how to mend it."""

    severity: Severity
    code: str
    """Stable short name, e.g. ``ties``; sentences may be reworded, codes not."""
    sentence: str


class ReadKeywords(TypedDict, total=False):
    """The keyword arguments of ``read_events``, ``read_with_report`` and ``check_data``; see ``ReadOptions``."""

    format: str | None
    time_column: str | None
    split: str | None
    sequence_column: str | None
    type_column: str | Sequence[str] | None
    origin: Origin
    horizon: float | None
    ties: Ties
    n_types: int | None
    first_type: int | None
    sort: bool
    rng: np.random.Generator | None


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read a file; every choice the loader would otherwise make by itself can be made here."""

    format: str | None = None
    """Name in the registry, or None to recognise the file."""
    time_column: str | None = None
    """Which column or key holds the time; needed where two disagree."""
    split: str | None = None
    """One split of a file or folder that has several; None takes all of them."""
    sequence_column: str | None = None
    type_column: str | Sequence[str] | None = None
    """Tables only. Several type columns are crossed: ``("action", "side")``."""
    origin: Origin = "auto"
    """Where each sequence's clock starts: at 0 (``start``), at its first event, which is then dropped (``first_event``), at a
    number on the file's clock, or ``auto``: the first event where every sequence begins at 0 or the clock is absolute."""
    horizon: float | None = None
    """End of observation on the file's clock, for every sequence; overrides the file's own."""
    ties: Ties = "refuse"
    """``jitter`` spreads events uniformly over one step of the clock (needs ``rng``); ``drop`` keeps a tie's first event."""
    n_types: int | None = None
    first_type: int | None = None
    """The smallest type id of the file (1 where ids run 1..K); it is subtracted."""
    sort: bool = False
    """Sort each sequence by time instead of refusing an unsorted one."""
    rng: np.random.Generator | None = None

    def __post_init__(self) -> None:
        if self.ties not in TIES:
            raise InputError(f"ties is {self.ties!r}; expected one of {', '.join(TIES)}.")
        if isinstance(self.origin, str) and self.origin not in ORIGINS:
            raise InputError(
                f"origin is {self.origin!r}; expected one of {', '.join(ORIGINS)}, or a number on the file's clock."
            )
        if self.ties == "jitter" and self.rng is None:
            raise InputError(
                "ties='jitter' draws random numbers: pass rng, a numpy Generator, so that the result can be repeated."
            )


@dataclass(frozen=True)
class RawEvents:
    """``n`` sequences as a file gives them, flat: ``N`` events, sequence after sequence. Nothing is checked but shapes."""

    lengths: IntArray
    """(n,)"""
    names: tuple[str, ...]
    """(n,) how a sentence names each sequence: file and sequence, line or id."""
    times: FloatArray | None = None
    """(N,) on the file's clock."""
    gaps: FloatArray | None = None
    """(N,) since the previous event (first event: since the start, or 0). At least one of times and gaps is given."""
    types: FloatArray | None = None
    """(N,) ids as found; None for files without types."""
    start: FloatArray | None = None
    """(n,) start of observation on the file's clock, where the file says it."""
    end: FloatArray | None = None
    """(n,) end of observation on the file's clock, where the file says it."""
    splits: tuple[str, ...] = ()
    """(n,) or empty."""
    n_types: int | None = None
    first_type: int | None = None
    """The smallest id by the format's convention, where it has one."""
    type_labels: tuple[str, ...] = ()
    time_name: str = "times"
    gap_name: str = "gaps"
    dated: bool = False
    """Times came from dates: seconds since the earliest one."""
    findings: tuple[Finding, ...] = ()
    files: tuple[Path, ...] = ()

    def select(self, keep: NDArray[np.bool_]) -> RawEvents:
        """The sequences where ``keep`` (n,) is true."""
        events = np.repeat(keep, self.lengths)
        changes = {k: v[events] for k in ("times", "gaps", "types") if (v := getattr(self, k)) is not None}
        changes |= {k: v[keep] for k in ("start", "end") if (v := getattr(self, k)) is not None}
        rows = np.flatnonzero(keep)
        splits = tuple(self.splits[i] for i in rows) if self.splits else ()
        names = tuple(self.names[i] for i in rows)
        return RawEvents(**{**self.__dict__, **changes, "lengths": self.lengths[keep], "names": names, "splits": splits})

    @classmethod
    def concat(cls, parts: Sequence[RawEvents]) -> RawEvents:
        """The sequences of several files of one format as one set."""
        first = parts[0]
        if len(parts) == 1:
            return first
        changes: dict[str, object] = {}
        for name in ("times", "gaps", "types", "start", "end"):
            arrays = [getattr(p, name) for p in parts]
            given = [p.files[0].name for p, a in zip(parts, arrays, strict=True) if a is not None]
            if 0 < len(given) < len(parts):
                raise InputError(f"Only {', '.join(given)} of {len(parts)} files say the {name}; read the files one by one.")
            changes[name] = np.concatenate(arrays) if given else None
        declared = [p.n_types for p in parts if p.n_types is not None]
        if len({p.type_labels for p in parts}) > 1:
            raise InputError(
                f"The type labels of {first.files[0].parent} differ from file to file, so their ids would not mean the same; "
                "write integer types, or one file."
            )
        changes["n_types"] = max(declared) if declared else None
        changes["lengths"] = np.concatenate([p.lengths for p in parts])
        for name in ("names", "splits", "findings", "files"):
            changes[name] = tuple(x for p in parts for x in getattr(p, name))
        if len(changes["splits"]) != len(changes["names"]):  # type: ignore[arg-type]
            changes["splits"] = ()
        return cls(**{**first.__dict__, **changes})


@dataclass(frozen=True, slots=True)
class Format:
    """One member of the open family of file formats."""

    name: str
    title: str
    claims: Callable[[Path, bytes], bool]
    """(path, its first 64 KiB) -> is this one of mine, judged by content."""
    suffixes: tuple[str, ...]
    """Fallback where no content is recognised: then this format's reader says what is wrong."""
    read: Callable[[Path, ReadOptions], RawEvents]


FORMATS: dict[str, Format] = {}


def register(fmt: Format) -> Format:
    """Add a format; the order of registration is the order of recognition."""
    FORMATS[fmt.name] = fmt
    return fmt


def plain_name(path: Path) -> str:
    """File name in lower case without a compression suffix."""
    name = path.name.lower()
    return name[: -len(path.suffix)] if path.suffix.lower() in (*_COMPRESSED, ".zst") else name


def read_bytes(path: Path) -> bytes:
    """The file's content, decompressed by its suffix."""
    try:
        data = path.read_bytes()
        data = _COMPRESSED.get(path.suffix.lower(), bytes)(data)
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise InputError(f"{path}: cannot be read ({error}); check the path and that the file is whole.") from error
    if not data.strip():
        raise InputError(f"{path}: the file is empty; expected event sequences.")
    return data
