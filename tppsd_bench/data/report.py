"""``DataReport``: what a file holds, what is wrong with it, and whether it can be used."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tppsd_bench.data.base import Finding, RawEvents, Severity
from tppsd_bench.data.work import Work
from tppsd_bench.events import EventBatch

if TYPE_CHECKING:
    import pandas as pd

QUANTILES = (0.0, 0.01, 0.25, 0.5, 0.75, 0.99, 1.0)
_MEBIBYTE = 2.0**20


@dataclass(frozen=True)
class DataReport:
    """Figures and findings of one file or folder. Gaps are in the file's unit and as found, before any repair."""

    path: Path
    format: str
    findings: tuple[Finding, ...]
    files: tuple[Path, ...] = ()
    n_sequences: int = 0
    n_events: int = 0
    n_types: int = 0
    type_counts: tuple[int, ...] = ()
    """Events of each type, where the ids are sound."""
    type_labels: tuple[str, ...] = ()
    splits: dict[str, int] = field(default_factory=dict)
    """Sequences of each split."""
    lengths: dict[str, float] = field(default_factory=dict)
    """Events a sequence: min, median, max, and the number of empty sequences."""
    gap_quantiles: dict[float, float] = field(default_factory=dict)
    """Of gaps between events."""
    mean_gap: float | None = None
    tie_share: float | None = None
    distinct_share: float | None = None
    common_share: float | None = None
    """Share of gaps on the ten commonest values, first occurrences not counted."""
    resolution: float | None = None
    """The clock's step, where all gaps are multiples of one."""
    time_column: str = ""
    origin: str = ""
    """``start``, ``first_event`` or a number on the file's clock."""
    horizon: tuple[float, float] | None = None
    """Earliest and latest end of observation, from each sequence's start."""
    memory_mib: dict[str, float] = field(default_factory=dict)
    """Events flat, padded to the longest, and one head's full attention map of the longest sequence."""

    @property
    def usable(self) -> bool:
        return not self.of("error")

    @property
    def verdict(self) -> str:
        return "usable" if self.usable else "refused"

    @property
    def reason(self) -> str:
        """Why the data are refused, in one sentence; empty where they are usable."""
        errors = self.of("error")
        if not errors:
            return ""
        # Ties on a coarse clock follow from it, unless they are most of what is wrong.
        ties_lead = (self.tie_share or 0.0) > 0.5 * (self.common_share or 0.0)
        ranks = {"coarse_clock": -1 if not ties_lead else 1}
        return min(errors, key=lambda f: ranks.get(f.code, 0)).sentence

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        """The findings of one severity."""
        return tuple(f for f in self.findings if f.severity == severity)

    def codes(self, severity: Severity | None = None) -> set[str]:
        """The short names of the findings."""
        return {f.code for f in self.findings if severity in (None, f.severity)}

    def figures(self) -> list[tuple[str, object]]:
        """(quantity, value) in reading order."""
        rows: list[tuple[str, object]] = [
            ("verdict", self.verdict), ("format", self.format), ("files", ", ".join(f.name for f in self.files)),
            ("sequences", self.n_sequences), ("events", self.n_events), ("types", self.n_types),
        ]  # fmt: skip
        rows += [(f"sequences in {name}", n) for name, n in self.splits.items()]
        rows += [(f"length {name}", value) for name, value in self.lengths.items()]
        rows += [(f"gap quantile {q:g}", value) for q, value in self.gap_quantiles.items()]
        rows += [
            ("mean gap", self.mean_gap), ("share of ties", self.tie_share), ("share of distinct gaps", self.distinct_share),
            ("share on the ten commonest gaps", self.common_share), ("step of the clock", self.resolution),
            ("time column", self.time_column), ("clock starts at", self.origin), ("horizon", self.horizon),
        ]  # fmt: skip
        rows += [(f"memory, {name} (MiB)", value) for name, value in self.memory_mib.items()]
        return [(name, value) for name, value in rows if value not in (None, "")]

    def to_frame(self) -> pd.DataFrame:
        """The figures as a table: quantity, value."""
        import pandas as pd

        return pd.DataFrame(self.figures(), columns=["quantity", "value"])

    def findings_frame(self) -> pd.DataFrame:
        """The findings as a table: severity, code, sentence."""
        import pandas as pd

        return pd.DataFrame([(f.severity, f.code, f.sentence) for f in self.findings], columns=["severity", "code", "sentence"])


def report_of(path: Path, fmt: str, raw: RawEvents, work: Work, batch: EventBatch | None) -> DataReport:
    """Figures of a settled file, from the batch where there is one and from what was found where there is none."""
    lengths = work.lengths if batch is None else batch.lengths
    gaps = work.observed_gaps
    ids = work.types[(work.types >= 0) & (work.types < max(work.n_types, 1))]
    sound = not {f.code for f in work.findings} & {"type_outside", "type_fraction", "not_finite", "types_from_one"}
    counts = np.bincount(ids.astype(np.int64), minlength=work.n_types).tolist() if sound and len(ids) else []
    longest = int(lengths.max(initial=0))
    end = batch.horizon if batch is not None else None
    names, numbers = np.unique(np.array(raw.splits), return_counts=True) if raw.splits else ((), ())
    clock = work.clock
    return DataReport(
        path=path,
        format=fmt,
        findings=tuple(work.findings),
        files=raw.files,
        n_sequences=len(lengths),
        n_events=int(lengths.sum()),
        n_types=work.n_types,
        type_counts=tuple(counts),
        type_labels=raw.type_labels,
        splits={str(k): int(v) for k, v in zip(names, numbers, strict=True) if k},
        lengths={
            "min": int(lengths.min(initial=longest)),
            "median": float(np.median(lengths)) if len(lengths) else 0.0,
            "max": longest,
            "empty": int((lengths == 0).sum()),
        },
        gap_quantiles=dict(zip(QUANTILES, np.quantile(gaps, QUANTILES).tolist(), strict=True)) if len(gaps) else {},
        mean_gap=float(gaps.mean()) if len(gaps) else None,
        tie_share=clock.tie_share if clock else None,
        distinct_share=clock.distinct_share if clock else None,
        common_share=clock.common_share if clock else None,
        resolution=clock.step if clock else None,
        time_column=work.time_column,
        origin=work.origin,
        horizon=(float(end.min()), float(end.max())) if end is not None and len(end) else None,
        memory_mib={
            "events": 16 * float(lengths.sum()) / _MEBIBYTE,
            "padded to the longest": 16.0 * len(lengths) * longest / _MEBIBYTE,
            "attention map of the longest, one head": 4.0 * longest**2 / _MEBIBYTE,
        },
    )


def render(report: DataReport, *, width: int = 100) -> str:
    """The report as plain text for a terminal: verdict, findings (worst first), figures."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False)
    console.print(Text(f"{report.path}: {report.verdict}" + (f". {report.reason}" if report.reason else "")))
    findings = Table("", "finding", box=None, show_header=False, pad_edge=False)
    for severity in ("error", "warning", "note"):
        for finding in report.findings:
            if finding.severity == severity and finding.sentence != report.reason:
                findings.add_row(severity, Text(finding.sentence))
    console.print(findings)
    figures = Table("quantity", "value", box=None, show_header=False, pad_edge=False)
    for name, value in report.figures():
        figures.add_row(name, Text(_shown(value)))
    console.print(figures)
    file = console.file
    assert isinstance(file, io.StringIO)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return f"{value[0]:g} to {value[1]:g}" if value[0] != value[1] else f"{value[0]:g}"
    return f"{value:,}" if isinstance(value, int) else f"{value:.5g}" if isinstance(value, float) else str(value)
