"""A section of the report as plain data: facts, tables, maps, pictures and notes. One template draws every study's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tppsd_bench.report.cells import CellView, Fact
from tppsd_bench.report.picture import Picture


@dataclass(frozen=True)
class Row:
    """A row of a table: its head and its cells in words; ``icon`` (pass, fail, inconclusive, none, ...) stands before the head."""

    head: str
    cells: tuple[str, ...]
    icon: str = ""


@dataclass(frozen=True)
class Table:
    """``head`` names the columns, the first one included. ``folded`` hides it behind ``caption``."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[Row, ...]
    folded: bool = False


@dataclass(frozen=True)
class Shade:
    """One field of a map."""

    text: str
    """What stands in it; empty: not measured."""
    percent: float = 0.0
    """How dark it is, 0 to 100."""
    best: bool = False
    """Marked as the best of its row or map."""
    fail: bool = False
    """Drawn in the colour of failure: slower than the baseline, say."""
    title: str = ""
    """Read out and shown on hover, e.g. with the interval."""


@dataclass(frozen=True)
class HeatMap:
    """A table of shades: rows by columns, with what the shade means in ``key``."""

    caption: str
    corner: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Shade, ...]], ...]
    key: str


@dataclass(frozen=True)
class Statement:
    """Something said, and what became of it: prose that would not fit a table."""

    head: str
    word: str
    """The outcome in a word; ``icon`` stands before it."""
    icon: str
    text: str
    lines: tuple[tuple[str, str], ...] = ()
    """(label, sentence) beneath the text."""


@dataclass(frozen=True)
class Block:
    """A part of a section under its own heading; what is empty is left out."""

    title: str = ""
    intro: str = ""
    statements: tuple[Statement, ...] = ()
    maps: tuple[HeatMap, ...] = ()
    pictures: tuple[Picture, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Section:
    """A study's part of the page. ``id`` is its anchor."""

    id: str
    title: str
    sentence: str
    """The answer; it heads the page where the run holds nothing else."""
    intro: str = ""
    facts: tuple[Fact, ...] = ()
    """The strip beneath the headline: a handful of numbers with intervals."""
    blocks: tuple[Block, ...] = ()
    cells: tuple[CellView, ...] = ()
    """Every cell of the study, folded; filled in by the report."""


def shades(values: Sequence[float | None], texts: Sequence[str], titles: Sequence[str] = (), low: float | None = None,
           high: float | None = None) -> tuple[Shade, ...]:  # fmt: skip
    """A row of shades, as dark as its values between ``low`` and ``high`` (left out: their least and largest); None: not measured."""
    known = [v for v in values if v is not None]
    bottom = min(known, default=0.0) if low is None else low
    top = max(known, default=1.0) if high is None else high
    spread = (top - bottom) or 1.0
    said = titles or ("",) * len(values)
    return tuple(
        Shade("") if v is None else Shade(text, 100 * min(max((v - bottom) / spread, 0.0), 1.0), title=title)
        for v, text, title in zip(values, texts, said, strict=True)
    )
