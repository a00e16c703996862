"""View models of the cells and of the run: facts, tables, provenance. No HTML here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tppsd_bench import budget
from tppsd_bench.report import wording
from tppsd_bench.report.context import Chip, Lead, axis_chip, cell_lead
from tppsd_bench.report.picture import Picture
from tppsd_bench.results import Axis, CellResult, Evidence


@dataclass(frozen=True)
class Fact:
    label: str
    value: str
    interval: str = ""


@dataclass(frozen=True)
class VerdictRow:
    chip: Chip
    sentence: str
    numbers: str


@dataclass(frozen=True)
class EvidenceRow:
    label: str
    name: str
    where: str
    effect: str
    interval: str
    margin: str
    hides: str
    p: str
    result: str
    n: str
    method: str


@dataclass(frozen=True)
class CellView:
    """One ``<details>`` of the report."""

    id: str
    title: str
    kind: str
    summary: str
    lead: Lead
    chips: tuple[Chip, ...]
    error: str
    sentences: tuple[str, ...]
    verdicts: tuple[VerdictRow, ...]
    facts: tuple[Fact, ...]
    pictures: tuple[Picture, ...]
    pooled: tuple[EvidenceRow, ...]
    strata: tuple[EvidenceRow, ...]
    counts: tuple[tuple[str, str, str], ...]
    not_possible: tuple[str, ...]
    reproduce: tuple[Fact, ...]
    arrays_note: str


_milliseconds: Callable[[Any], str] = lambda x: f"{wording.number(x)} ms"  # noqa: E731
_nats: Callable[[Any], str] = lambda x: f"{x:.3f}".replace("-", "−")  # noqa: E731
FACTS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "speedup_cpu": ("Speedup over cached target-only, CPU time", wording.times),
    "speedup_wall": ("Speedup in wall time", wording.times),
    "speedup_recompute": ("Speedup over recomputing target-only", wording.times),
    "best_k": ("Best K", wording.number),
    "baseline_ms": ("Cached target-only, per event", _milliseconds),
    "speculative_ms": ("Speculative, per event", _milliseconds),
    "recompute_ms": ("Recomputing target-only, per event", _milliseconds),
    "speedup_recompute_wall": ("Speedup over recomputing, wall time", wording.times),
    "n_pairs": ("Timed pairs", wording.number),
    "aa_ratio": ("A/A: one sampler against itself", wording.number),
    "forwards_per_event": ("Target forwards per event", wording.number),
    "reference_forwards_per_event": ("Target forwards per event, target-only", wording.number),
    "events_per_forward": ("Events per target forward", wording.number),
    "promised_events_per_forward": ("Events per forward promised by α and K, m/R(m)", wording.number),
    "share_of_promised": ("Share of the promise kept", wording.percent),
    "alpha_quadrature": ("Event acceptance α by quadrature", wording.percent),
    "calibrated_k": ("K chosen on calibration seeds", wording.number),
    "target_step_ms": ("One target step", _milliseconds),
    "draft_step": ("Draft step over target step, c", wording.number),
    "rest_step": ("Rest of a round over target step, r", wording.number),
    "recompute_events": ("Events of a recomputing run", wording.number),
    "events_to_detection": ("Events to detection by the e-process", wording.number),
    "acceptance": ("Verified events accepted", wording.percent),
    "accepted_per_drafted": ("Drafted events accepted", wording.percent),
    "acceptance_event": ("Events accepted", wording.percent),
    "acceptance_gap": ("Gaps accepted", wording.percent),
    "acceptance_type": ("Types accepted, given the gap", wording.percent),
    "tv_gap": ("TV of target and draft, gap", wording.percent),
    "tv_type": ("TV of target and draft, type", wording.percent),
    "tv_event": ("TV of target and draft, event", wording.percent),
    "lambda_gap": ("Draft's share in the gaps, λ", wording.number),
    "lambda_type": ("Draft's share in the types, λ", wording.number),
    "nll_target": ("Held-out NLL of the target, nats an event", _nats),
    "nll_draft": ("Held-out NLL of the draft", _nats),
    "nll_target_minus_draft": ("Target minus draft", _nats),
    "nll_target_minus_true": ("Target minus true process", _nats),
    "nll_true": ("Held-out NLL of the true process", _nats),
    "nll_renewal": ("Held-out NLL of an i.i.d. renewal fit", _nats),
    "lead_share": ("Share of the true process's lead kept", wording.percent),
}
_PROVENANCE = {
    "command": "Command",
    "started": "Started",
    "finished": "Finished",
    "seed": "Seed",
    "git": "Git revision",
    "python": "Python",
    "versions": "Versions",
    "platform": "Platform",
    "cpu": "CPU",
    "cores": "Cores",
    "threads": "Threads",
    "torch_threads": "Torch threads",
    "blas": "BLAS",
    "fingerprint": "Fingerprint",
}


def facts(figures: Mapping[str, Any]) -> tuple[Fact, ...]:
    """Scalars of a cell: the known ones in reading order, then whatever else the run recorded."""
    out = []
    for key in [*(k for k in FACTS if k in figures), *(k for k in figures if k not in FACTS)]:
        label, write = FACTS.get(key, (key.replace("_", " "), wording.number))
        found = wording.estimate(figures[key])
        if found is not None:
            value, ends = found
            if write is wording.number and ends is not None:
                out.append(Fact(label, *wording.effect(value, ends)))
            else:
                shown = write(figures[key] if isinstance(figures[key], int) else value)
                out.append(Fact(label, shown, "" if ends is None else f"{write(ends[0])} to {write(ends[1])}"))
    return tuple(out)


def evidence_row(evidence: Evidence) -> EvidenceRow:
    passed = {True: "holds", False: "violated", None: ""}[evidence.passed]
    effect, interval = wording.effect(evidence.effect, evidence.interval)
    notes = [evidence.method, evidence.null, evidence.detail]
    return EvidenceRow(
        label=wording.effect_label(evidence),
        name=evidence.name,
        where=wording.where(evidence),
        effect=effect if evidence.effect is not None else "",
        interval=interval,
        margin=wording.number(evidence.margin) if evidence.margin else "",
        hides=wording.number(evidence.min_detectable) if evidence.min_detectable else "",
        p=wording.p_value(evidence.p_value) if evidence.p_value is not None else "",
        result=passed or ("must be small" if evidence.primary else "shown only" if evidence.display else "decides"),
        n=wording.number(evidence.n) if evidence.n else "",
        method="; ".join(note for note in notes if note),
    )


def verdict_rows(cell: CellResult) -> tuple[VerdictRow, ...]:
    rows = []
    for verdict in cell.verdicts:
        numbers = [
            f"q = {wording.p_value(verdict.q_value)}" if verdict.q_value is not None else "",
            f"level {wording.p_value(verdict.level)}" if verdict.level is not None else "",
            f"{verdict.rounds} rounds on fresh seeds" if verdict.rounds > 1 else "",
            f"n = {verdict.n:,}" if verdict.n else "",
            f"needs {verdict.needed_n:,}" if verdict.needed_n else "",
        ]
        rows.append(
            VerdictRow(axis_chip(verdict.axis, [cell]), wording.clause(verdict.sentence), " · ".join(n for n in numbers if n))
        )
    return tuple(rows)


def count_rows(cell: CellResult) -> tuple[tuple[str, str, str], ...]:
    names = [*cell.counts, *(k for k in cell.reference_counts if k not in cell.counts)]
    rows = [(k.replace("_", " "), cell.counts.get(k), cell.reference_counts.get(k)) for k in names]
    return tuple((k, "" if a is None else f"{a:,}", "" if b is None else f"{b:,}") for k, a, b in rows if a or b)


def _summary(cell: CellResult) -> str:
    """What the closed line of a cell tells besides its verdicts."""
    parts = [f"{cell.n_events:,} events" if cell.n_events else "", f"K = {cell.k}" if cell.k else ""]
    speed = wording.estimate(cell.figures.get("speedup_cpu"))
    acceptance = wording.finite(cell.figures.get("acceptance_event", cell.figures.get("acceptance")))
    lead = wording.finite(cell.figures.get("lead_share"))
    parts += [f"{wording.times(speed[0])} over cached target-only" if speed else ""]
    parts += [f"{wording.percent(acceptance)} accepted" if acceptance is not None else ""]
    parts += [f"{wording.percent(lead)} of the true process's lead" if lead is not None else ""]
    return ", ".join(p for p in parts if p)


def _reproduce(cell: CellResult, run: Mapping[str, Any]) -> tuple[Fact, ...]:
    """Where each number of the cell comes from; ``run["cell_command"]`` may hold a command with ``{cell}`` in it."""
    provenance = run.get("provenance", run)
    command = str(run.get("cell_command") or provenance.get("command") or "").replace("{cell}", cell.id)
    stop = ", ".join(f"{k.replace('_', ' ')} = {v:g}" for k, v in cell.stop.items())
    rows = [
        Fact("Command", command),
        Fact("Numbers", f"cells/{cell.id}.json"),
        Fact("Arrays", f"cells/{cell.id}.npz: {', '.join(cell.arrays)}" if cell.arrays else ""),
        Fact("Seed", str(cell.seed)),
        Fact("Sampler", cell.sampler),
        Fact("Stop rule", stop),
        Fact("Sequences", f"{cell.n_sequences:,}" if cell.n_sequences else ""),
        Fact("Cell time", f"{cell.seconds:.1f} s" if cell.seconds else ""),
    ]
    return tuple(row for row in rows if row.value)


def cell_view(cell: CellResult, pictures: Sequence[Picture], run: Mapping[str, Any], arrays_note: str = "") -> CellView:
    known = {wording.clause(v.sentence) for v in cell.verdicts}
    notes = (cell.figures.get(k) for k in ("looks_like", "pays_sentence", "fit_sentence", "confirmation", "note", "source"))
    said = dict.fromkeys(wording.clause(n[:1].upper() + n[1:]) for n in notes if isinstance(n, str) and n)
    return CellView(
        id=cell.id,
        title=cell.title or cell.id,
        kind=wording.KINDS.get(cell.kind, cell.kind),
        summary=_summary(cell),
        lead=cell_lead(cell),
        chips=tuple(axis_chip(v.axis, [cell]) for v in cell.verdicts) if not cell.error else (),
        error=cell.error,
        sentences=tuple(s for s in said if s not in known),
        verdicts=verdict_rows(cell),
        facts=facts(cell.figures),
        pictures=tuple(pictures),
        pooled=tuple(evidence_row(e) for e in cell.evidence if not wording.stratum(e)),
        strata=tuple(evidence_row(e) for e in cell.evidence if wording.stratum(e)),
        counts=count_rows(cell),
        not_possible=cell.not_possible,
        reproduce=_reproduce(cell, run),
        arrays_note=arrays_note,
    )


def provenance_rows(run: Mapping[str, Any]) -> tuple[Fact, ...]:
    """Known keys in reading order, then whatever else the run recorded; mappings become ``name value`` lists."""
    provenance = run.get("provenance", run)
    own = "provenance" in run
    keys = [*(k for k in _PROVENANCE if k in provenance), *(k for k in provenance if own and k not in _PROVENANCE)]
    rows = []
    for key in keys:
        value = provenance[key]
        text = (
            ", ".join(f"{k} {v}" for k, v in value.items())
            if isinstance(value, Mapping)
            else ""
            if value is None
            else str(value)
        )
        if text:
            rows.append(Fact(_PROVENANCE.get(key, key.replace("_", " ").capitalize()), text))
    return tuple(rows)


def not_possible_rows(cells: Sequence[CellResult]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Each reason once, with the cells it concerns."""
    reasons: dict[str, list[str]] = {}
    for cell in cells:
        for reason in cell.not_possible:
            reasons.setdefault(reason, []).append(cell.id)
    return tuple((reason, tuple(ids)) for reason, ids in reasons.items())


def law_level(cells: Sequence[CellResult]) -> str:
    """The run's error level, where it judged a law at all; a verdict's own level is its cell's share of it."""
    judged = any(v.level for c in cells if (v := c.verdict(Axis.LAW)))
    return wording.p_value(budget.RUN_LEVEL) if judged else ""
