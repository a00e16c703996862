"""What a run's proof cells say of the suite: rates, the headline, the first screen's numbers. No HTML here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from tppsd_bench.report import wording
from tppsd_bench.report.cells import Fact
from tppsd_bench.report.context import count_word
from tppsd_bench.results import CellResult

PROOF_KINDS = ("power", "transformer", "dose", "null")


def rate(figure: Any) -> tuple[int, int, float, float] | None:
    """``{hits, n, low, high}`` of a proof's figures; None where it is something else or of no run."""
    if not isinstance(figure, Mapping) or not figure.get("n"):
        return None
    return int(figure["hits"]), int(figure["n"]), float(figure["low"]), float(figure["high"])


def share(figure: Any) -> float:
    found = rate(figure)
    return found[0] / found[1] if found else 0.0


def said_rate(figure: Any, level: str = "95") -> str:
    """``71 of 72 (92.5 to 100 %)``."""
    found = rate(figure)
    if found is None:
        return wording.NONE
    hits, n, low, high = found
    return f"{hits:,} of {n:,} ({100 * low:.3g} to {100 * high:.3g} %)"


def short_rate(figure: Any) -> str:
    """``71/72``."""
    found = rate(figure)
    return wording.NONE if found is None else f"{found[0]}/{found[1]}"


def proof_cells(cells: Iterable[CellResult]) -> list[CellResult]:
    return [c for c in cells if c.kind in PROOF_KINDS]


def of_kind(cells: Iterable[CellResult], *kinds: str) -> list[CellResult]:
    """Whole cells of these kinds."""
    return [c for c in cells if c.kind in kinds and not c.error and c.figures]


def faults_of(cells: Iterable[CellResult], *kinds: str) -> list[CellResult]:
    return [c for c in of_kind(cells, *(kinds or ("power",))) if not c.figures.get("control")]


def controls_of(cells: Iterable[CellResult]) -> list[CellResult]:
    return [c for c in of_kind(cells, "power", "transformer") if c.figures.get("control")]


def name_of(cell: CellResult) -> str:
    return str(cell.figures.get("mutant") or cell.figures.get("sampler") or cell.id.partition(".")[2] or cell.id)


def caught(cell: CellResult) -> bool:
    """Whether every seed's examination failed."""
    found = rate(cell.figures.get("caught"))
    return found is not None and found[0] == found[1]


def alarms(cell: CellResult) -> int:
    """Failed examinations of an exact control."""
    found = rate(cell.figures.get("caught"))
    return found[0] if found else 0


def exact_runs(cells: Sequence[CellResult]) -> tuple[int, int]:
    """(false alarms, exact runs): those of the null calibration, or of the controls where there is none."""
    null = [rate(c.figures.get("false_alarms")) for c in of_kind(cells, "null")]
    found = [r for r in null if r] or [r for c in controls_of(cells) if (r := rate(c.figures.get("caught")))]
    return sum(r[0] for r in found), sum(r[1] for r in found)


def sentence(cells: Sequence[CellResult]) -> str:
    """``40 of 40 faults caught, 0 false alarms in 1,200 exact runs.``"""
    faults, (wrong, runs) = faults_of(cells), exact_runs(cells)
    parts = [f"{sum(map(caught, faults))} of {len(faults)} fault{'' if len(faults) == 1 else 's'} caught"] if faults else []
    parts += [f"{wrong} false alarm{'' if wrong == 1 else 's'} in {runs:,} exact runs"] if runs else []
    if not parts:
        doses = of_kind(cells, "dose")
        count = f"{count_word(len(doses))} fault{'' if len(doses) == 1 else 's'}"
        parts = [f"dose curves of {count}"] if doses else ["no cell of this proof finished"]
    return ", ".join(parts)[:1].upper() + ", ".join(parts)[1:] + "."


def judged(cells: Iterable[CellResult]) -> int:
    """Events of all examinations of a proof (first rounds)."""
    total = 0
    for c in of_kind(cells, *PROOF_KINDS):
        runs = (c.figures.get("runs") or c.figures.get("seeds") or 0) * len(c.figures.get("doses") or [0])
        total += int(runs) * int(c.figures.get("n_events") or 0)
    return total


def summary_facts(cells: Sequence[CellResult]) -> tuple[Fact, ...]:
    """The first screen's numbers."""
    faults, out = faults_of(cells), []
    if faults:
        seeds = min((r[1] for c in faults if (r := rate(c.figures.get("caught")))), default=1)
        weakest = min(faults, key=lambda c: share(c.figures.get("caught")))
        note = (
            f"by every one of {seeds} seeds: power {0.05 ** (1 / seeds):.2f} or more each"
            if caught(weakest)
            else f"weakest: {name_of(weakest)}, {short_rate(weakest.figures.get('caught'))}"
        )
        out.append(Fact("Faults caught", f"{sum(map(caught, faults))} of {len(faults)}", note))
    out += _alarm_facts(cells)
    for word, gross in (("gross", True), ("subtle", False)):
        medians = [_median_of(c) for c in faults if c.figures.get("gross") is gross and c.figures.get("etd_reference")]
        if medians:
            where = f"median of {len(medians)} on the reference toy; slowest {_events(max(medians))}"
            out.append(Fact(f"Events to detection, {word}", _events(median(medians)), where))
    ranked = [c.figures["ranked"] for c in faults if isinstance(c.figures.get("ranked"), Mapping)]
    if ranked:
        right = sum(share(r.get("top3")) > 0.5 for r in ranked)
        first = sum(share(r.get("first")) > 0.5 for r in ranked)
        out.append(Fact("Named among the first three", f"{right} of {len(ranked)}", f"named first: {first}"))
    return tuple(out)


def _alarm_facts(cells: Sequence[CellResult]) -> list[Fact]:
    wrong, runs = exact_runs(cells)
    if not runs:
        return []
    null = of_kind(cells, "null")
    source = f"of {len(null)} exact sampler{'' if len(null) == 1 else 's'}" if null else "of the exact controls"
    out = [Fact("False alarms", f"{wrong} of {runs:,}", f"runs {source}")]
    levels = dict.fromkeys(a for c in null for a in c.figures.get("rates", {}))
    pooled = {a: [r for c in null if (r := rate(c.figures["rates"].get(a)))] for a in levels}
    if pooled:
        shown = ", ".join(f"{sum(r[0] for r in rs) / sum(r[1] for r in rs):.3f}" for rs in pooled.values() if rs)
        out.append(Fact("Exact runs that fail at looser levels", shown, f"at levels {', '.join(pooled)}"))
    return out


def _median_of(cell: CellResult) -> float:
    """Median events to detection on the reference toy; infinite beyond the budget."""
    found = cell.figures.get("etd_reference") or {}
    value = wording.finite(found.get("median"))
    return float("inf") if value is None else value


def _events(x: float) -> str:
    return "beyond the budget" if x == float("inf") else f"{x:,.0f}"
