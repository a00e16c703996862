"""The members of the zoo one by one, and what this proof did not detect. View models, no HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tppsd_bench.report import wording
from tppsd_bench.report.cells import CellView, Fact, cell_view, facts
from tppsd_bench.report.context import Chip
from tppsd_bench.report.power import caught, faults_of, name_of, of_kind, rate, said_rate, share, short_rate
from tppsd_bench.results import CellResult


def hidden(cells: Sequence[CellResult]) -> tuple[str, ...]:
    """What this proof did not detect at its budget, one sentence each."""
    faults, out = faults_of(cells, "power", "transformer"), []
    for c in faults:
        if not caught(c):
            where = f" on {c.pair}" if c.kind == "transformer" else ""
            out.append(f"{name_of(c)}{where}: caught in {said_rate(c.figures.get('caught'))} of its runs only.")
    for c in of_kind(cells, "dose"):
        out += _below(c)
    silent = [name_of(c) for c in faults_of(cells) if share((c.figures.get("caught_by") or {}).get("law")) < 0.5]
    if silent:
        out.append(
            f"Not by the law of the sequences, at this budget: {', '.join(silent)}. They show in the mechanism or not at all."
        )
    slow = [
        name_of(c)
        for c in faults_of(cells)
        if (c.figures.get("etd") or {}).get("budget") and c.figures["etd"].get("median") is None
    ]
    if slow:
        budget = max(int(c.figures["etd"]["budget"]) for c in faults_of(cells) if c.figures.get("etd"))
        out.append(f"Not by the sequential monitor within {budget:,} events: {', '.join(slow)}.")
    return tuple(out)


def _below(cell: CellResult) -> list[str]:
    """The doses of a fault that stay below the resolution."""
    f = cell.figures
    doses, powers, resolution = f.get("doses") or [], f.get("caught") or [], f.get("resolution")
    if not doses:
        return []
    if resolution is None:
        return [f"{name_of(cell)} at any dose up to {doses[-1]:g}: caught in {said_rate(powers[-1])} of its runs at most."]
    at = doses.index(resolution) if resolution in doses else 0
    if at == 0:
        return []
    tv = wording.finite((f.get("tv") or [None] * len(doses))[at - 1])
    size = f" (total variation {tv:.2g})" if tv is not None else ""
    return [f"{name_of(cell)} up to dose {doses[at - 1]:g}{size}: caught in {said_rate(powers[at - 1])} of its runs."]


def confused(cells: Sequence[CellResult]) -> tuple[str, ...]:
    """Faults that are not among the first three suspects in most runs."""
    ranked = [c for c in faults_of(cells) if isinstance(c.figures.get("ranked"), Mapping)]
    missed = [c for c in ranked if share(c.figures["ranked"].get("top3")) <= 0.5]
    return tuple(f"{name_of(c)} ({short_rate(c.figures['ranked'].get('top3'))})" for c in missed)


def member_views(cells: Sequence[CellResult], run: Mapping[str, Any]) -> tuple[CellView, ...]:
    """A line for every cell of the proof, as the cells of ordinary runs have one."""
    return tuple(_member(c, run) for c in cells)


def _member(cell: CellResult, run: Mapping[str, Any]) -> CellView:
    view, f = cell_view(cell, [], run), cell.figures
    summary = f"{f['seeds']} seeds of {f['n_events']:,} events" if "seeds" in f and "n_events" in f else view.summary
    kind = {"dose": "power over dose", "null": "calibration on exact runs", "transformer": f"fault on {cell.pair}"}.get(
        cell.kind, "exact control" if f.get("control") else "gross fault" if f.get("gross", True) else "subtle fault"
    )
    said = [" ".join([*([str(f["broken"])] if f.get("broken") else []), *(wording.clause(v.sentence) for v in cell.verdicts)])]
    return replace(
        view,
        title=name_of(cell),
        kind=kind,
        summary=summary,
        sentences=tuple(filter(None, said)),
        verdicts=(),
        facts=_about(cell),
        chips=_chips(cell),
    )


def _chips(cell: CellResult) -> tuple[Chip, ...]:
    """What the cell's line tells instead of verdicts, which are about samplers."""
    f = cell.figures
    if cell.error or not f:
        return ()
    if cell.kind == "dose":
        found = wording.finite(f.get("resolution"))
        word = "none" if found is None else f"{found:g}"
        return (Chip("resolution", "inconclusive" if found is None else "pass", word, "The smallest dose that is caught"),)
    alarm = cell.kind == "null" or bool(f.get("control"))
    figure = f.get("false_alarms") if cell.kind == "null" else f.get("caught")
    found_rate = rate(figure)
    if found_rate is None:
        return ()
    hits, n = found_rate[:2]
    good = hits == (0 if alarm else n)
    return (Chip("false alarms" if alarm else "caught", "pass" if good else "fail", f"{hits} of {n}", ""),)


def _about(cell: CellResult) -> tuple[Fact, ...]:
    """Where a fault was seen, who is there to see it, who blessed it, how it was caught; the conditions under which."""
    f = cell.figures
    by, ranked = f.get("caught_by") or {}, f.get("ranked") or {}
    listed = (("precedent", "Precedent"), ("blessed_by", "Blessed by"), ("killers", "There to see it"), ("faults", "Combines"))
    rates = [(by.get(axis), f"Caught by the {axis}") for axis in ("law", "mechanism")] + [(by.get("validity"), "Found invalid")]
    rates += [
        (ranked.get("first"), "Named first"),
        (ranked.get("top3"), "Named among three"),
        (f.get("expected"), "Caught by those"),
    ]
    conditions: dict[str, Any] = {k: f[k] for k in ("tv_gap", "tv_type", "acceptance") if k in f}
    texts = [(label, f.get(key)) for key, label in listed]
    return (
        *(Fact(label, ", ".join(x) if isinstance(x, (list, tuple)) else str(x)) for label, x in texts if x),
        *(_rate_fact(label, figure) for figure, label in rates if rate(figure)),
        *facts(conditions),
    )


def _rate_fact(label: str, figure: Any) -> Fact:
    said, _, interval = said_rate(figure).partition(" (")
    return Fact(label, said, interval.rstrip(")"))
