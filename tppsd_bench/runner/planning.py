"""The command ``plan``: how many sequences does it take, and what could this run have missed? Text or JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tppsd_bench import budget, store
from tppsd_bench.errors import InputError
from tppsd_bench.results import to_json
from tppsd_bench.stats.base import POWER
from tppsd_bench.stats.missed import Missed, blind_spots, missed
from tppsd_bench.stats.planning import (
    Look,
    Need,
    Smallest,
    need_ks,
    need_lambda,
    need_theta,
    need_tv,
    smallest,
    standard_look,
)

NONE = "–"
STRESS_TV = 0.3
"""Total variation of a stress draft, where the question names none."""
RUN_COLUMNS = (
    ("theta", "shift θ"), ("ks", "KS*"), ("tilt", "TV tilt"), ("monotone", "TV rise/fall"), ("grid", "TV grid"),
    ("types", "TV types"), ("lambda_gap", "λ gaps"), ("lambda_type", "λ types"), ("draft_gap", "TV→draft"), ("tail", "1 % tail"),
)  # fmt: skip
HOW_TO_READ = """\
Each number is the smallest departure that a cell's first look proves (FAIL) with this power; smaller ones escape more often
(–: there is none that it is sure to prove).
  shift θ       any of the four Legendre effects of the gap or type PIT
  KS*           never proven by itself (KS has no vote): at this distance, in any shape, the cell cannot PASS
  TV tilt       total variation of the gaps' PIT if the departure is a smooth tilt
  TV rise/fall  the same, guaranteed, if the ratio of the laws only rises or only falls along the gap
  TV grid       guaranteed, in any shape that 8 x min(10, types) cells of (gap, type) see
  TV types      guaranteed, any shift of the types' frequencies
  λ, TV→draft   share of the draft's law in the output, and the total variation of the gaps that it means with this draft
  1 % tail      mass of the gaps beyond a 1 % cut, as a multiple"""


@dataclass(frozen=True)
class Question:
    """What the options of ``plan`` ask; exactly one of the first five is given."""

    tv: float | None = None
    ks: float | None = None
    theta: float | None = None
    lam: float | None = None
    events: int | None = None
    draft_tv: float | None = None
    length: int = 100
    types: int = 3
    k: int = 5
    white: bool = True
    level: float = budget.LAW_ANALYTIC_LEVEL
    power: float = POWER

    @property
    def look(self) -> Look:
        return standard_look(self.types, self.k, white=self.white, level=self.level)

    @property
    def _draft(self) -> float | None:
        if not self.white:
            return None
        return STRESS_TV if self.draft_tv is None else self.draft_tv

    def needs(self) -> tuple[str, tuple[Need, ...]]:
        """(the departure in words, events it takes)."""
        self._check()
        look, power = self.look, self.power
        if self.tv is not None:
            return f"a total variation of {self.tv:g}", need_tv(self.tv, look, self.types, draft_tv=self._draft, power=power)
        if self.ks is not None:
            return f"a KS distance of {self.ks:g}", need_ks(self.ks, look, power=power)
        if self.theta is not None:
            return f"a shift theta of {self.theta:g}", need_theta(self.theta, look, power=power)
        assert self.lam is not None
        if self.draft_tv is None:
            raise InputError(
                "--lambda says how much of the draft is left, not how far the draft lies from the target; add --draft-tv, e.g. .3 "
                "for a stress draft or one minus the acceptance rate."
            )
        what = f"a departure lambda of {self.lam:g} toward a draft of total variation {self.draft_tv:g}"
        return what, need_lambda(self.lam, self.draft_tv, look, self.types, power=power)

    def finds(self) -> tuple[Smallest, ...]:
        self._check()
        assert self.events is not None
        return smallest(self.events, self.look, self.types, draft_tv=self._draft, power=self.power)

    def _check(self) -> None:
        asked = [n for n in ("tv", "ks", "theta", "lam", "events") if getattr(self, n) is not None]
        if len(asked) != 1:
            raise InputError(
                "Ask one question: --tv, --ks, --theta or --lambda (how many sequences does it take), --events (what do so many "
                "find), or the folder of a run (what could it have missed)."
            )
        check_power(self.power)
        if not 0.0 < self.level < 1.0:
            raise InputError(f"The level is {self.level:g}; expected a number strictly between 0 and 1.")


def check_power(power: float) -> None:
    if not 0.5 <= power < 1.0:
        raise InputError(f"The power is {power:g}; expected at least 0.5 and less than 1.")


def answer(question: Question, *, as_json: bool) -> str:
    """How many sequences a departure takes, or what a number of events finds."""
    if question.events is not None:
        found = question.finds()
        return _json(question, {"smallest": found}) if as_json else _found(question, found)
    what, needs = question.needs()
    if as_json:
        return _json(question, {"needs": [asdict(n) | _in_sequences(n, question.length) for n in needs]})
    head = (
        f"To find {what} with power {question.power:g}, in sequences of {question.length} events {_of_look(question.look)}:\n"
    )
    rows = [("departure", "no PASS from", "proven from", "by")]
    rows += [(n.label, _amount(n.refused, question.length), _amount(n.proven, question.length), n.statistic) for n in needs]
    why = [f"  {n.label}: {n.why}" for n in needs]
    reading = (
        "\nSequences (events). No PASS: a primary effect lies at its margin, the cell is inconclusive or fails. Proven: FAIL at the "
        f"first look.\n{NONE}: not bound to happen at any number of events."
    )
    return "\n".join([head, *_table(rows), reading, *why])


def _of_look(look: Look) -> str:
    return (
        f"(a cell at level {look.level:.1g}, {look.tests} tests, {look.rounds} looks: one p-value must reach {look.alpha:.1e})"
    )


def _in_sequences(need: Need, length: int) -> dict[str, int | None]:
    return {"refused_sequences": _sequences(need.refused, length), "proven_sequences": _sequences(need.proven, length)}


def _sequences(n: int | None, length: int) -> int | None:
    return None if n is None else math.ceil(n / length)


def _amount(n: int | None, length: int) -> str:
    return NONE if n is None else f"{_sequences(n, length):,} ({n:,})"


def _found(question: Question, found: Sequence[Smallest]) -> str:
    head = f"{question.events:,} events {_of_look(question.look)}, power {question.power:g}:\n"
    rows = [("departure", "unit", "no PASS from", "proven from", "by")]
    rows += [(s.label, s.unit, number(s.refused), number(s.proven), s.statistic) for s in found]
    never = [f"  {b}" for b in blind_spots("white B" if question.white else "grey", horizon=False, n_types=question.types)]
    return "\n".join([head, *_table(rows), "\nNot found at any number of events:", *never])


def number(x: float | None) -> str:
    return NONE if x is None else f"{x:.3f}" if x < 1 else f"{x:.2f}"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Aligned columns: words to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    right = [all(r[i] == NONE or r[i][:1].isdigit() for r in rows[1:]) for i in range(len(widths))]
    return [
        "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)).rstrip() for row in rows
    ]


def of_run(folder: Path, power: float, *, as_json: bool) -> str:
    """What a finished (or interrupted) run could have missed, cell by cell."""
    check_power(power)
    cells = store.read_cells(store.locate(folder))
    reach = [m for c in cells.values() if (m := missed(c, power)) is not None]
    if not reach:
        raise InputError(
            f"{folder} holds no law cell with the target's scores, so there is no sample whose reach could be stated; "
            "ask e.g. plan --tv .02 instead."
        )
    never = {m.cell: blind_spots(m.access, horizon=m.kind == "horizon", n_types=m.n_types) for m in reach}
    if as_json:
        cells_json = [asdict(m) | {"alpha": m.look.alpha, "never": never[m.cell]} for m in reach]
        return json.dumps(to_json({"power": power, "cells": cells_json}), indent=1, ensure_ascii=False)
    shown = [(key, head) for key, head in RUN_COLUMNS if any(m.of(key) for m in reach)]
    rows = [("cell", "events", "tests", *(head for _, head in shown))]
    rows += [(m.cell, f"{m.n:,}", str(m.look.tests), *(_cell(m.of(key)) for key, _ in shown)) for m in reach]
    head = f"What this run could have missed, with power {power:g}:\n"
    return "\n".join([head, *_table(rows), "", HOW_TO_READ, *_local(reach), *_never(reach, never)])


def _cell(found: Smallest | None) -> str:
    if found is None:
        return NONE
    return number(found.refused if found.key == "ks" else found.proven)


def _local(reach: Sequence[Missed]) -> list[str]:
    """What a fault confined to one place of the round has to be."""
    ends = [m.strata["position"] for m in reach if "position" in m.strata]
    if not ends:
        return []
    low, high = min(a for a, _ in ends), max(b for _, b in ends)
    return [
        "",
        f"At one position of the round alone a shift θ is found from {low:.3f} (the fullest) to {high:.3f} (the emptiest).",
    ]


def _never(reach: Sequence[Missed], never: dict[str, tuple[str, ...]]) -> list[str]:
    """Blind spots once each, with the cells they concern unless these are all."""
    by_clause: dict[str, list[str]] = {}
    for cell, clauses in never.items():
        for clause in clauses:
            by_clause.setdefault(clause, []).append(cell)
    lines = ["", "Not found at any number of events:"]
    for clause, cells in by_clause.items():
        lines.append(f"  {clause}" + ("" if len(cells) == len(reach) else f" [{', '.join(cells)}]"))
    missing: dict[str, list[str]] = {}
    for m in reach:
        for name in dict.fromkeys(reason.partition(":")[0].partition(" at ")[0] for reason in m.not_possible):
            missing.setdefault(name, []).append(m.cell)
    extra = [f"  {name} [{', '.join(cells)}]" for name, cells in missing.items()]
    return lines + (["", "Not possible, at least in part (the report gives each reason):", *extra] if extra else [])


def _json(question: Question, more: dict[str, Any]) -> str:
    look = asdict(question.look) | {"alpha": question.look.alpha}
    return json.dumps(to_json({"question": asdict(question), "look": look, **more}), indent=1, ensure_ascii=False)
