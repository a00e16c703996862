"""The end of a run in words: one sentence a pair, and the exit code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tppsd_bench.errors import Exit
from tppsd_bench.results import Axis, CellResult, Evidence, Outcome
from tppsd_bench.runner import power_summary
from tppsd_bench.studies.base import STUDIES, module_of, study_of

JUDGED = (Axis.VALIDITY, Axis.LAW, Axis.MECHANISM)
"""Axes that decide the exit code; efficiency and speed are answers, not conditions."""


@dataclass(frozen=True)
class PairSummary:
    """What one pair's cells add up to."""

    pair: str
    outcome: Outcome
    """Worst of the judged axes over the pair's cells; BROKEN cells are counted apart."""
    broken: int
    sentence: str


def summarise(cells: Iterable[CellResult]) -> list[PairSummary]:
    """One summary a pair, in order of appearance; the cells of a proof and of each study add up to one more."""
    every = list(cells)
    by_pair: dict[str, list[CellResult]] = {}
    for cell in every:
        if cell.kind not in power_summary.KINDS and not study_of(cell.kind):
            by_pair.setdefault(cell.pair, []).append(cell)
    pairs = [summarise_pair(pair, found) for pair, found in by_pair.items()]
    proof = power_summary.of_the_proof(every)
    if proof:
        said = power_summary.sentence(proof)
        pairs.append(PairSummary(power_summary.NAME, _worst(proof), sum(bool(c.error) for c in proof), said))
    return [*pairs, *_studies(every)]


def _studies(cells: Sequence[CellResult]) -> list[PairSummary]:
    """One summary a study."""
    found = {name: [c for c in cells if study_of(c.kind) == name] for name in STUDIES}
    return [
        PairSummary(
            name, _worst(mine), sum(bool(c.error) for c in mine), f"{name}: {module_of(name, 'section').sentence(mine)}"
        )
        for name, mine in found.items()
        if mine
    ]


def exit_code(cells: Sequence[CellResult]) -> Exit:
    """FAIL before BROKEN before invalid evidence (USAGE) before INCONCLUSIVE; a proven fault outranks a missing cell."""
    worst = {summary.outcome for summary in summarise(cells)}
    if Outcome.FAIL in worst:
        return Exit.FAIL
    if not cells or any(cell.error for cell in cells):
        return Exit.BROKEN
    if Outcome.INVALID in worst:
        return Exit.USAGE
    return Exit.INCONCLUSIVE if Outcome.INCONCLUSIVE in worst else Exit.PASS


def summarise_pair(pair: str, cells: Sequence[CellResult]) -> PairSummary:
    """Exact or not, how sure, what could still hide, how fast, does it pay."""
    outcome = _worst(cells)
    broken = [c for c in cells if c.error]
    parts = [
        _exactness(outcome, [c for c in cells if c.kind in ("law", "horizon") and not c.error]),
        _speed(cells),
        _fit(cells),
    ]
    if broken:
        parts.append(f"{len(broken)} of {len(cells)} cells broke ({broken[0].id}: {broken[0].error})")
    return PairSummary(pair, outcome, len(broken), f"{pair}: " + "; ".join(p for p in parts if p) + ".")


def _worst(cells: Sequence[CellResult]) -> Outcome:
    outcomes = {v.outcome for c in cells for v in c.verdicts if v.axis in JUDGED}
    order = (Outcome.INVALID, Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.PASS)
    return next((o for o in order if o in outcomes), Outcome.NOT_APPLICABLE)


def _exactness(outcome: Outcome, cells: Sequence[CellResult]) -> str:
    if not cells:
        return "exactness not judged"
    if outcome is Outcome.INVALID:
        return "no statement, " + _first(cells, Outcome.INVALID)
    if outcome is Outcome.FAIL:
        return "NOT exact, " + _first(cells, Outcome.FAIL)
    if outcome is Outcome.INCONCLUSIVE:
        needed = max((v.needed_n or 0 for c in cells for v in c.verdicts), default=0)
        more = f", about {needed:,} are needed" if needed else ""
        return f"undecided at {_events(cells)} events{more}"
    level = max((v.level or 0.0 for c in cells for v in c.verdicts if v.axis is Axis.LAW), default=0.0)
    drafts = " and ".join(dict.fromkeys(c.draft for c in cells if c.draft))
    with_drafts = f" with the {drafts} draft" if drafts else ""
    return (
        f"exact{with_drafts} at {_events(cells)} events (an exact one fails with probability {level:.0e} at most)"
        f"{_hidden(cells)}"
    )


def _events(cells: Sequence[CellResult]) -> str:
    sizes = sorted({c.n_events for c in cells})
    return f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"


def _hidden(cells: Sequence[CellResult]) -> str:
    """What could still hide: the widest margin of the primary gap effect, which is what a PASS has bounded."""
    primary = [e for c in cells for e in c.evidence if e.primary and e.margin is not None and "KS" in e.effect_name]
    if not primary:
        return ""
    worst: Evidence = max(primary, key=lambda e: e.margin or 0.0)
    return f", a Kolmogorov distance below {worst.margin:.3f} could still hide"


def _first(cells: Sequence[CellResult], outcome: Outcome) -> str:
    """The clearest of the verdicts with this outcome: validity before law before mechanism, then the smallest q."""
    found = [(c, v) for c in cells for v in c.verdicts if v.outcome is outcome and v.axis in JUDGED]
    cell, told = min(found, key=lambda f: (JUDGED.index(f[1].axis), f[1].q_value if f[1].q_value is not None else 0.0))
    k = f", K = {cell.k}" if cell.k is not None else ""
    return (f"{cell.draft} draft{k}: " if cell.draft else "") + told.sentence.rstrip(".")


def _speed(cells: Sequence[CellResult]) -> str:
    found: list[dict[str, Any]] = [c.figures for c in cells if c.kind == "speed" and not c.error]
    if not found or "speedup_cpu" not in found[0]:
        return ""
    f = found[0]
    s = f["speedup_cpu"]
    interval = f"(CPU, {s['low']:.2f} to {s['high']:.2f})"
    text = f"{s['value']:.2f}x the speed of cached target-only sampling at K = {f['best_k']} {interval}"
    if "speedup_recompute" in f:
        text += f", {f['speedup_recompute']['value']:.3g}x the recomputing baseline"
    return text + {True: ", pays", False: ", does not pay", None: ", whether it pays is undecided"}[f.get("pays")]


def _fit(cells: Sequence[CellResult]) -> str:
    said = [str(c.figures["fit_sentence"]) for c in cells if c.kind == "fit" and c.figures.get("pointless")]
    return said[0][0].lower() + said[0][1:].rstrip(".") if said else ""
