"""A gate for people: on the terminal, and as Markdown for the summary of a continuous integration."""

from __future__ import annotations

from tppsd_bench.gate.base import GateResult
from tppsd_bench.results import Outcome

_MARKS = {Outcome.PASS: "✅", Outcome.FAIL: "❌", Outcome.INCONCLUSIVE: "❔", Outcome.INVALID: "⛔"}


def as_text(result: GateResult) -> str:
    """A line a check, what was compared, the answer last."""
    widths = [max((len(part) for part in column), default=0) for column in _columns(result)]
    lines = [f"  {c.level:<{widths[0]}}  {c.cell:<{widths[1]}}  {c.word:<{widths[2]}}  {c.sentence}" for c in result.checks]
    notes = [f"  note: {note}" for note in result.notes]
    return "\n".join([f"Run {result.run} against {result.baseline}", *lines, *notes, "", result.sentence])


def _columns(result: GateResult) -> tuple[list[str], list[str], list[str]]:
    return [c.level for c in result.checks], [c.cell for c in result.checks], [c.word for c in result.checks]


def as_markdown(result: GateResult) -> str:
    """A heading, the answer, a table of checks."""
    rows = [
        f"| {_MARKS.get(c.outcome, '')} {c.word} | {c.level} | `{c.cell}` | {_escaped(c.sentence)} |" for c in result.checks
    ]
    notes = [f"> {_escaped(note)}" for note in result.notes]
    return "\n".join([
        "## Sampler gate", "", f"**{_escaped(result.sentence)}**", "", f"`{result.run}` against {_escaped(result.baseline)}", "",
        "| outcome | level | cell | what was found |", "|---|---|---|---|", *rows, "", *notes, "",
    ])  # fmt: skip


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
