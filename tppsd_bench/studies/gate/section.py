"""The gate's part of the report: what was counted, how far the law is from its target's, how fast: one row a cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tppsd_bench.report.cells import Fact
from tppsd_bench.report.section import Block, Row, Section, Table
from tppsd_bench.results import Axis, CellResult, Outcome
from tppsd_bench.studies.gate.jobs import part_of

if TYPE_CHECKING:
    from tppsd_bench.report.canvas import Canvas

JUDGED = (Axis.VALIDITY, Axis.LAW, Axis.MECHANISM)
Arrays = Callable[[CellResult], Mapping[str, Any]]


def sentence(cells: Sequence[CellResult]) -> str:
    """What there is for a gate to judge."""
    whole = [c for c in cells if not c.error]
    failed = [c for c in whole if any(v.outcome in (Outcome.FAIL, Outcome.INVALID) for v in c.verdicts if v.axis in JUDGED)]
    if failed:
        worst = next(v for v in failed[0].verdicts if v.axis in JUDGED and v.outcome in (Outcome.FAIL, Outcome.INVALID))
        return f"{len(failed)} of {len(whole)} cells have failing verdicts; first {failed[0].id}: {worst.sentence}"
    broken = len(cells) - len(whole)
    more = f", {broken} more broke" if broken else ""
    return f"{len(whole)} cells measured{more}, no failing verdict; 'gate RUN --baseline FILE' compares them."


def section(cells: Sequence[CellResult], arrays: Arrays, canvas: Canvas) -> Section:
    """A strip of facts and one table."""
    rows = tuple(_row(c) for c in cells)
    table = Table("What a gate compares with its baseline", ("cell", "measured", "value", "interval", "verdicts"), rows)
    note = (
        "Counts and effects are exact at their seeds on one fingerprint; intervals are of 95 %, of a paired median speedup "
        "99.9 %. Whether a change keeps them is the gate's answer, not this page's."
    )
    intro = "The numbers that a change to the sampler must keep: target forwards, the law's effects, speed over target-only."
    facts = tuple(f for c in cells for f in _fact(c))[:4]
    return Section("gate", "Regression gate", sentence(cells), intro, facts, (Block(tables=(table,), notes=(note,)),))


def _shown(cell: CellResult) -> tuple[str, dict[str, float] | None]:
    """What a cell is summed up by: a name and an estimate."""
    part, f = part_of(cell.id), cell.figures
    if part == "counts":
        return "target forwards per event", f.get("forwards_per_event")
    if part == "time":
        return "speed over cached target-only, CPU", f.get("speedup_cpu")
    thetas = {name: e for name, e in f.items() if name.startswith("theta_")}
    if not thetas:
        return "effects of the PITs", None
    worst = max(thetas, key=lambda name: abs(thetas[name]["value"]))
    return f"largest effect, {worst.replace('_', ' ')}", thetas[worst]


def _row(cell: CellResult) -> Row:
    name, found = _shown(cell)
    outcomes = [v.outcome for v in cell.verdicts if v.axis in JUDGED]
    worst = next((o for o in (Outcome.INVALID, Outcome.FAIL, Outcome.INCONCLUSIVE) if o in outcomes), Outcome.PASS)
    value = "" if found is None else f"{found['value']:.4g}"
    interval = "" if found is None else f"{found['low']:.4g} to {found['high']:.4g}"
    verdicts = ", ".join(f"{v.axis.value} {v.outcome.value}" for v in cell.verdicts)
    icon = worst.value if outcomes else "none"
    return Row(cell.id, (name, value, interval, verdicts), icon)


def _fact(cell: CellResult) -> list[Fact]:
    name, found = _shown(cell)
    if found is None or part_of(cell.id) == "law":
        return []
    return [Fact(f"{cell.pair}: {name}", f"{found['value']:.3g}", f"{found['low']:.3g} to {found['high']:.3g}")]
