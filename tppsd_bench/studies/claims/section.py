"""The claims as a table of the report: what was said, what it was held to, what was measured, what became of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tppsd_bench.report import wording
from tppsd_bench.report.canvas import Canvas
from tppsd_bench.report.cells import Fact
from tppsd_bench.report.picture import Arrays
from tppsd_bench.report.section import Block, Row, Section, Statement, Table
from tppsd_bench.results import CellResult
from tppsd_bench.studies.claims.judge import Held, hold, outcome
from tppsd_bench.studies.outcomes import Found

ICONS = {
    Found.REPRODUCED: "pass", Found.BOUNDED: "inconclusive", Found.REFUTED: "fail", Found.NOT_TESTABLE: "none",
    Found.PENDING: "none",
}  # fmt: skip
INTRO = (
    "Hypotheses and limits stand in the suite file; they follow the claims' own words, not what was measured. "
    "Reproduced: every interval lies where the claim says. Refuted: every one lies elsewhere. "
    "Bounded: it holds under some of the conditions, or an interval reaches over a limit. "
    "All of it is about the models of this run on this machine."
)
Quantities = Sequence[Mapping[str, Any]]


def sentence(cells: Sequence[CellResult]) -> str:
    """How many claims were reproduced, bounded, refuted, and which."""
    outcomes = {number: found for number, (found, _, _) in _claims(cells).items()}
    named = [
        f"{len(numbers)} {found.value} ({', '.join(numbers)})"
        for found in Found
        if (numbers := [n for n, f in outcomes.items() if f is found])
    ]
    return f"{len(outcomes)} published claims: {', '.join(named)}."


def section(cells: Sequence[CellResult], arrays: Callable[[CellResult], Arrays], canvas: Canvas) -> Section:
    claims = _claims(cells)
    statements = tuple(_statement(number, *claim) for number, claim in claims.items())
    counted = [f for f in Found if any(found is f for found, _, _ in claims.values())]
    facts = tuple(Fact(f.value.capitalize(), str(sum(found is f for found, _, _ in claims.values()))) for f in counted)
    details = tuple(
        Table(
            f"Claim {number}: every quantity", ("Quantity", "Under", "Measured", "Interval", "n"),
            tuple(Row(q["label"], (q["where"], _said(q, "value"), _interval(q), _n(q))) for q in quantities), folded=True,
        )
        for number, (_, _, quantities) in claims.items()
        if quantities
    )  # fmt: skip
    blocks = (
        Block(statements=statements),
        Block("What decided", "Every quantity of every claim, with its interval.", tables=details),
    )
    return Section("claims", "What others claim", sentence(cells), INTRO, facts, blocks)


def _claims(cells: Sequence[CellResult]) -> dict[str, tuple[Found, Mapping[str, Any], Quantities]]:
    """By number, in their own order: outcome, the claim, the quantities of all its cells."""
    by_number: dict[str, list[CellResult]] = {}
    for cell in cells:
        if not cell.error:
            by_number.setdefault(str(cell.figures["claim"]), []).append(cell)
    out: dict[str, tuple[Found, Mapping[str, Any], Quantities]] = {}
    for number in sorted(by_number, key=_order):
        mine = by_number[number]
        first = mine[0].figures
        quantities = [q for c in mine for q in c.figures["quantities"]]
        state = str(first["state"])
        found = outcome(first["criteria"], quantities) if state == "measured" else Found(state)
        remarks = list(dict.fromkeys(c.figures["remark"] for c in mine if c.figures["remark"]))
        out[number] = (found, {**first, "remarks": remarks}, quantities)
    return out


def _order(number: str) -> tuple[int, str]:
    digits = "".join(c for c in number if c.isdigit())
    return int(digits or 0), number


def _statement(number: str, found: Found, figures: Mapping[str, Any], quantities: Quantities) -> Statement:
    lines = [("why not", str(figures["reason"]))]
    if figures["state"] == "measured":
        measured = " ".join(_measured(hold(c, quantities), c) for c in figures["criteria"])
        lines = [("held to", str(figures["hypothesis"])), ("measured", measured)]
        if len(figures["remarks"]) == 1:
            lines.append(("beyond", str(figures["remarks"][0])))
    head = f"Claim {number} [{figures['said_by']}]"
    return Statement(head, found.value, ICONS[found], str(figures["claimed"]), tuple(lines))


def _measured(held: Held, criterion: Mapping[str, Any]) -> str:
    """One criterion in words: the numbers, the limit, and how many conditions lie on which side of it."""
    every = [*held.inside, *held.outside, *held.open]
    if not every:
        return f"Nowhere measured: {criterion['quantity'].replace('_', ' ')}."
    label, limit = str(every[0]["label"]), _limit(criterion, every[0])
    if len(every) == 1:
        verdict = "inside" if held.inside else "outside" if held.outside else "undecided"
        q = every[0]
        at = f" ({_interval(q)})" if q["low"] < q["high"] else ""
        return f"{label[:1].upper()}{label[1:]}: {_said(q, 'value')}{at}; {limit}: {verdict}."
    ends = min(every, key=lambda q: q["value"]), max(every, key=lambda q: q["value"])
    span = " to ".join(dict.fromkeys(_said(q, "value") for q in ends))
    sides = ((held.inside, "inside"), (held.outside, "outside"), (held.open, "undecided"))
    counted = ", ".join(f"{len(part)} {word}" for part, word in sides if part)
    return f"{label[:1].upper()}{label[1:]}: {span} under {len(every)} conditions; {limit}: {counted}."


def _limit(criterion: Mapping[str, Any], like: Mapping[str, Any]) -> str:
    low, high = criterion.get("at_least"), criterion.get("at_most")
    said = [_number(x, like["unit"]) for x in (low, high) if x is not None]
    if low is not None and high is not None:
        return f"claimed {said[0]} to {said[1]}"
    return f"claimed at {'least' if low is not None else 'most'} {said[0]}"


def _number(value: float, unit: str) -> str:
    if unit == "percent":
        return wording.percent(value)
    if unit == "times":
        return wording.times(value)
    return wording.number(value) + (" points" if unit == "points" else "")


def _said(q: Mapping[str, Any], key: str) -> str:
    return _number(q[key], q["unit"]) if q[key] is not None else wording.NONE


def _interval(q: Mapping[str, Any]) -> str:
    return f"{_said(q, 'low')} to {_said(q, 'high')}" if q["low"] != q["high"] else ""


def _n(q: Mapping[str, Any]) -> str:
    return f"{q['n']:,}" if q["n"] else ""
