"""The events of a file while they are being settled."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tppsd_bench.data.base import Finding, FloatArray, IntArray, RawEvents, ReadOptions, Severity
from tppsd_bench.data.clock import BoolArray, ClockReading


@dataclass
class Work:
    """The events while they are being settled (flat arrays as in ``RawEvents``)."""

    raw: RawEvents
    options: ReadOptions
    lengths: IntArray
    gaps: FloatArray
    types: FloatArray
    names: tuple[str, ...]
    start: FloatArray
    end: FloatArray | None
    findings: list[Finding] = field(default_factory=list)
    clock: ClockReading | None = None
    observed_gaps: FloatArray = field(default_factory=lambda: np.empty(0))
    """Gaps between events as found, before any repair."""
    origin: str = ""
    time_column: str = ""
    n_types: int = 0

    @classmethod
    def of(cls, raw: RawEvents, options: ReadOptions) -> Work:
        n_events = int(raw.lengths.sum())
        end = raw.end if options.horizon is None else np.full(len(raw.lengths), float(options.horizon))
        types = raw.types if raw.types is not None else np.zeros(n_events)
        return cls(raw, options, raw.lengths, np.empty(0), types, raw.names, np.zeros(len(raw.lengths)), end)

    @property
    def inner(self) -> BoolArray:
        """(N,) events that have a predecessor in their sequence."""
        inner = np.ones(int(self.lengths.sum()), dtype=np.bool_)
        inner[self.first_at] = False
        return inner

    @property
    def first_at(self) -> IntArray:
        """Flat index of the first event of each sequence that has one."""
        at: IntArray = (np.cumsum(self.lengths) - self.lengths)[self.lengths > 0]
        return at

    @property
    def source(self) -> str:
        return str(self.raw.files[0] if len(self.raw.files) == 1 else self.raw.files[0].parent)

    def where(self, flat: int) -> str:
        """How a sentence names a flat event index."""
        ends = np.cumsum(self.lengths)
        i = int(np.searchsorted(ends, flat, side="right"))
        return f"{self.names[i]}, event {flat - int(ends[i] - self.lengths[i])}"

    def add(self, severity: Severity, code: str, sentence: str) -> None:
        self.findings.append(Finding(severity, code, sentence))

    def keep(self, events: BoolArray) -> None:
        """Drop the events where ``events`` (N,) is false; gaps of the others stay as they are."""
        owner = np.repeat(np.arange(len(self.lengths)), self.lengths)
        self.lengths = np.bincount(owner[events], minlength=len(self.lengths)).astype(np.int64)
        self.gaps, self.types = self.gaps[events], self.types[events]

    @property
    def failed(self) -> bool:
        return any(f.severity == "error" for f in self.findings)
