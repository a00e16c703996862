"""The end of a proof in words: how many faults were caught, how fast, and what exact samplers did."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

from tppsd_bench.errors import Exit
from tppsd_bench.results import CellResult, Outcome

KINDS = ("power", "transformer", "dose", "null")
"""Kinds of cell by which a suite proves itself."""
NAME = "proof"
_BEYOND = math.inf


def of_the_proof(cells: Sequence[CellResult]) -> list[CellResult]:
    """The cells by which a suite proves itself."""
    return [c for c in cells if c.kind in KINDS]


def sentence(cells: Sequence[CellResult]) -> str:
    """Faults, localisation, controls, exact runs, events to detection, doses: what was measured, in one sentence."""
    whole = [c for c in cells if not c.error]
    power = [c for c in whole if c.kind == "power"]
    faults, controls = ([c for c in power if c.figures["control"] is flag] for flag in (False, True))
    parts = [
        _faults(faults, ""), _named(faults), _controls(controls), _null([c for c in whole if c.kind == "null"]),
        _detection(faults), _faults([c for c in whole if c.kind == "transformer"], " on shipped networks"),
        _doses([c for c in whole if c.kind == "dose"]),
    ]  # fmt: skip
    broken = [c for c in cells if c.error]
    if broken:
        parts.append(f"{len(broken)} of {len(cells)} cells broke ({broken[0].id}: {broken[0].error})")
    return f"{NAME}: " + "; ".join(p for p in parts if p) + "."


def _faults(cells: Sequence[CellResult], where: str) -> str:
    if not cells:
        return ""
    missed = [c for c in cells if not _passed(c)]
    bounds = [0.05 ** (1.0 / c.figures["seeds"]) for c in cells]
    text = f"{len(cells) - len(missed)} of {len(cells)} faults caught{where} by every seed"
    if not missed:
        low, high = (f"{bound:.2f}" for bound in (min(bounds), max(bounds)))
        return f"{text} (power at least {low if low == high else f'{low} to {high}'} each)"
    said = ", ".join(f"{c.figures['mutant']} {c.figures['caught']['hits']} of {c.figures['caught']['n']}" for c in missed)
    return f"{text}; missed at times: {said}"


def _named(cells: Sequence[CellResult]) -> str:
    """In how many faults' cells the true one is among the first three suspects in most seeds."""
    ranked = [c.figures["ranked"] for c in cells if c.figures.get("ranked")]
    if not ranked:
        return ""
    right = sum(2 * r["top3"]["hits"] > r["top3"]["n"] for r in ranked)
    return f"the true fault is among the first three suspects for {right} of {len(ranked)}"


def _controls(cells: Sequence[CellResult]) -> str:
    if not cells:
        return ""
    alarms = [c.figures["mutant"] for c in cells if not _passed(c)]
    return f"{len(alarms)} of {len(cells)} exact controls fail" + (f" ({', '.join(alarms)})" if alarms else "")


def _null(cells: Sequence[CellResult]) -> str:
    if not cells:
        return ""
    runs, alarms = (sum(c.figures["false_alarms"][key] for c in cells) for key in ("n", "hits"))
    levels = dict.fromkeys(level for c in cells for level in c.figures["rates"])
    rates = ", ".join(
        f"{_pooled([c.figures['rates'][a] for c in cells if a in c.figures['rates']]):.3f} at {a}" for a in levels
    )
    least = min(1.0, len(cells) * min(c.figures["second_level_p"] for c in cells))
    return f"{alarms} false alarms in {runs:,} exact runs (failures {rates}; uniformity of the p-values: p = {least:.2g})"


def _pooled(rates: Sequence[dict[str, Any]]) -> float:
    hits, n = (sum(int(r[key]) for r in rates) for key in ("hits", "n"))
    return hits / max(n, 1)


def _detection(cells: Sequence[CellResult]) -> str:
    """Median over faults of their median events to detection on the reference pair, gross and subtle apart."""
    said = []
    for word, gross in (("gross", True), ("subtle", False)):
        found = [c.figures["etd_reference"] for c in cells if c.figures["gross"] is gross and c.figures.get("etd_reference")]
        if found:
            medians = [_BEYOND if e["median"] is None else e["median"] for e in found]
            middle = median(medians)
            said.append(f"{middle:,.0f} ({word})" if math.isfinite(middle) else f"beyond {found[0]['budget']:,} ({word})")
    return "median events to detection " + ", ".join(said) if said else ""


def _doses(cells: Sequence[CellResult]) -> str:
    if not cells:
        return ""
    said = [
        f"{c.figures['mutant']} {'none' if c.figures['resolution'] is None else format(c.figures['resolution'], 'g')}"
        for c in cells
    ]
    return "smallest dose caught: " + ", ".join(said)


def _passed(cell: CellResult) -> bool:
    return all(v.outcome is Outcome.PASS for v in cell.verdicts)


def closing_line(code: Exit) -> str:
    """What the exit code of a proof means."""
    return {
        Exit.PASS: "PASS: every fault is caught with the power required, and no exact sampler fails.",
        Exit.FAIL: "FAIL: a fault is missed, or an exact sampler fails; the cells' sentences say which.",
        Exit.USAGE: "INVALID: at least one cell supports no statement.",
        Exit.INCONCLUSIVE: "INCONCLUSIVE: a fault was missed under some seeds; more seeds decide whether its power is too low.",
        Exit.BROKEN: "BROKEN: at least one cell did not finish; the others are whole.",
    }[code]
