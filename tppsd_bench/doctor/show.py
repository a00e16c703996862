"""The diagnosis as text or JSON, and the exit code of one or several."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any

from tppsd_bench.doctor.bands import Band
from tppsd_bench.doctor.base import Finding, Step
from tppsd_bench.doctor.diagnosis import Diagnosis
from tppsd_bench.doctor.from_run import Silent
from tppsd_bench.errors import Exit
from tppsd_bench.results import to_json

WIDTH = 128
ORDER = (Exit.BROKEN, Exit.FAIL, Exit.INCONCLUSIVE, Exit.PASS)


def text(d: Diagnosis) -> str:
    """The sentence; the steps with what to change; the bands; contradicted advice; every number; what to run next."""
    m = d.measurements
    head = f"{m.pair}, draft {m.draft}, K = {m.k}, sequences of {m.n_events} events ({m.source})"
    parts = [head, d.sentence, "", _steps(d.steps)]
    if d.bands:
        parts += ["", "Monitoring bands of claims 4 and 5:", _bands(d.bands)]
    other = [c for s in d.steps for c in s.contradicts]
    if other:
        parts += ["", "Other published advice that these measurements contradict:", *(f"  {c}" for c in other)]
    parts += [
        "",
        "Measured (intervals of 95 % over sequences, of 90 to 99.9 % over timed pairs, else the range over calibrations):",
    ]
    parts += [_readings(d.steps), *(f"note: {note}" for note in m.notes if note)]
    if d.next:
        parts += ["", f"Next: python -m tppsd_bench {d.next}"]
    return "\n".join(parts)


def _steps(steps: Sequence[Step]) -> str:
    """One row a step: outcome, what was found and, below it, what to change."""
    table = _table(4)
    for s in steps:
        outcome = s.outcome.value.upper() if s.outcome is Finding.CAUSE else s.outcome.value
        table.add_row(str(s.number), s.name, outcome, s.sentence)
        if s.advice:
            table.add_row("", "", "", f"-> {s.advice}")
    return _printed(table)


def _bands(found: Sequence[Band]) -> str:
    table = _table(3)
    for b in found:
        table.add_row(b.held.value, f"[{b.claim}] {b.advice}", b.measured)
    return _printed(table)


def _readings(steps: Sequence[Step]) -> str:
    table = _table(4)
    for row in _rows(steps):
        table.add_row(*row)
    return _printed(table)


def _rows(steps: Sequence[Step]) -> Iterator[tuple[str, str, str, str]]:
    for s in steps:
        for i, r in enumerate(s.readings):
            yield (str(s.number) if i == 0 else "", r.what, r.shown(), r.threshold)


def _table(columns: int) -> Any:
    from rich.table import Table

    table = Table(*[""] * columns, box=None, pad_edge=False, show_header=False)
    for column in table.columns[:-1]:
        column.no_wrap = True
    return table


def _printed(table: Any) -> str:
    from rich.console import Console

    file = io.StringIO()
    Console(file=file, width=WIDTH, color_system=None, force_terminal=False, markup=False, highlight=False).print(table)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def overview(found: Sequence[Diagnosis | Silent]) -> str:
    """A row a pair: exit code, pair and draft, verdict."""
    table = _table(3)
    for d in found:
        who = d.pair if isinstance(d, Silent) else f"{d.measurements.pair}, draft {d.measurements.draft}"
        table.add_row(str(int(d.exit_code)), who, d.sentence)
    return f"{len(found)} pairs (first column: exit code of each)\n\n{_printed(table)}"


def as_json(found: Sequence[Diagnosis | Silent], code: Exit) -> dict[str, Any]:
    """Everything, numbers unrounded."""
    return {
        "exit_code": int(code),
        "silent": [to_json(d) for d in found if isinstance(d, Silent)],
        "diagnoses": [
            {
                "pair": d.measurements.pair, "draft": d.measurements.draft, "k": d.measurements.k, "exit_code": int(d.exit_code),
                "pays": d.measurements.pays, "accepts_little": d.measurements.accepts_little, "sentence": d.sentence,
                "cause": None if d.cause is None else d.cause.name, "steps": to_json(d.steps), "bands": to_json(d.bands),
                "contradictions": list(d.contradictions), "next": d.next, "measurements": to_json(d.measurements),
            }
            for d in found
            if not isinstance(d, Silent)
        ],
    }  # fmt: skip


def exit_code(found: Sequence[Diagnosis | Silent]) -> Exit:
    """The worst: an illness before what is undecided before health."""
    codes = {d.exit_code for d in found}
    return next(code for code in ORDER if code in codes)
