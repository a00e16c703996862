"""What a run could have missed: a row a law cell, and what no number of events shows. View models, no HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tppsd_bench import budget
from tppsd_bench.report import wording
from tppsd_bench.report.power import of_kind
from tppsd_bench.results import CellResult
from tppsd_bench.stats.missed import ALWAYS, Missed, blind_spots, missed
from tppsd_bench.stats.planning import Smallest, smallest, standard_look

COLUMNS = (
    ("theta", "Shift θ"), ("ks", "KS, no pass"), ("tilt", "TV, tilt"), ("monotone", "TV, rise or fall"), ("grid", "TV, grid"),
    ("types", "TV of types"), ("lambda_gap", "λ, gaps"), ("lambda_type", "λ, types"), ("draft_gap", "TV to draft"),
)  # fmt: skip
TYPICAL_TYPES, TYPICAL_K = 3, 5


@dataclass(frozen=True)
class Reach:
    """A table: a cell (or a sample size), its events, and the smallest effects by column."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, str, str, tuple[str, ...]], ...]
    """(id of the cell or "", name, events, numbers)."""
    never: tuple[tuple[str, str], ...]
    """(clause, cells it concerns, "" for all)."""


def run_reach(cells: Sequence[CellResult], titles: Mapping[str, str]) -> Reach | None:
    """Of every law cell with the target's scores; None where there is none."""
    found = [m for c in cells if (m := missed(c)) is not None]
    if not found:
        return None
    shown = [(key, head) for key, head in COLUMNS if any(m.of(key) for m in found)]
    rows = tuple((m.cell, _named(m, titles), f"{m.n:,}", tuple(_number(m.of(key)) for key, _ in shown)) for m in found)
    concerned: dict[str, list[str]] = {}
    for m in found:
        for clause in blind_spots(m.access, horizon=m.kind == "horizon", n_types=m.n_types):
            concerned.setdefault(clause, []).append(m.cell)
    never = tuple((_said(k), "" if len(v) == len(found) else ", ".join(v)) for k, v in concerned.items())
    return Reach(tuple(head for _, head in shown), rows, never)


def proof_reach(cells: Sequence[CellResult]) -> Reach | None:
    """Of the sample sizes that a proof used, for a marked sampler with K = 5 and a whole cell's level."""
    sizes = sorted({int(n) for c in of_kind(cells, "power", "dose", "null", "transformer") if (n := c.figures.get("n_events"))})
    if not sizes:
        return None
    look = standard_look(TYPICAL_TYPES, TYPICAL_K, white=True, level=budget.LAW_ANALYTIC_LEVEL)
    shown = [(key, head) for key, head in COLUMNS if key not in ("lambda_gap", "lambda_type", "draft_gap")]
    rows = []
    for n in sizes:
        found = {s.key: s for s in smallest(n, look, TYPICAL_TYPES)}
        rows.append(("", "", f"{n:,}", tuple(_number(found.get(key)) for key, _ in shown)))
    return Reach(tuple(head for _, head in shown), tuple(rows), tuple((_said(k), "") for k in ALWAYS))


def _named(m: Missed, titles: Mapping[str, str]) -> str:
    kind = "horizon" if m.kind == "horizon" else ""
    return ", ".join(w for w in (titles.get(m.pair, m.pair), f"{m.draft} draft" if m.draft else "", kind) if w)


def _number(found: Smallest | None) -> str:
    value = None if found is None else found.refused if found.key == "ks" else found.proven
    return wording.NONE if value is None else f"{value:.3f}"


def _said(clause: str) -> str:
    return clause[:1].upper() + clause[1:] + "."
