"""The study's answers in sentences: the fastest drafts, distilled against plain, short histories against long ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tppsd_bench.report.wording import times
from tppsd_bench.results import CellResult
from tppsd_bench.studies.drafts.reading import Estimate, Results, maybe, of, points

CLAIM = "With histories of tens of events a small LSTM is the better draft, with hundreds to thousands a small Transformer."


def fastest(results: Results) -> str:
    """What the chosen drafts gain, from least to most, and which drafts were chosen where there was a choice."""
    found = {pair: cell for pair in results.pairs if (cell := results.chosen(pair)) is not None}
    if not found:
        return ""
    speed = {pair: of(cell.figures, "speedup_cpu")[0] for pair, cell in found.items()}
    low, high = min(speed, key=lambda p: speed[p]), max(speed, key=lambda p: speed[p])
    span = f"{times(speed[low])} ({low})" + (f" to {times(speed[high])} ({high})" if len(speed) > 1 else "")
    chosen = Counter(cell.draft for pair, cell in found.items() if len(results.timed_of(pair)) > 1)
    which = ", ".join(f"{draft} on {n}" for draft, n in chosen.most_common())
    where = f" Of several drafts, the choice fell on {which} of {sum(chosen.values())} pairs." if chosen else ""
    return (
        f"Draft and K chosen on calibration seeds, speculation runs at {span} the speed of cached target-only sampling.{where}"
    )


def gains(results: Results) -> list[tuple[str, str, Estimate]]:
    """(pair, draft, acceptance less the plain sibling's) of every distilled draft."""
    found = [(pair, draft, maybe(c.figures, "acceptance_minus_plain")) for (pair, draft), c in results.counted.items()]
    return [(pair, draft, gain) for pair, draft, gain in found if gain is not None]


def distilled(results: Results) -> str:
    """Least and most of the gains by data set."""
    found = gains(results)
    if not found:
        return ""
    parts = []
    for pair in dict.fromkeys(p for p, _, _ in found):
        values = [gain[0] for p, _, gain in found if p == pair]
        low, high = points(min(values)), points(max(values))
        parts.append(f"{low} on {pair}" if low == high else f"{low} to {high} on {pair}")
    return f"Distilled less plain, points of acceptance: {', '.join(parts)}."


def _ahead(gap: Estimate, transformer: str, recurrent: str) -> str:
    value, (low, high) = gap
    if low <= 0 <= high:
        return f"{transformer} and {recurrent} not told apart ({points(low)} to {points(high)} points)"
    first, second = (transformer, recurrent) if value > 0 else (recurrent, transformer)
    value, low, high = (value, low, high) if value > 0 else (-value, -high, -low)
    return f"{first} ahead of {second} by {100 * value:.1f} points ({100 * low:.1f} to {100 * high:.1f})"


def _supports(name: str, gap: Estimate) -> bool | None:
    """Whether the claim says so at this scale; None where the interval leaves it open."""
    low, high = gap[1]
    if low <= 0 <= high:
        return None
    return (gap[0] < 0) == (name == "tens")


def scales(cell: CellResult) -> list[tuple[str, dict[str, Any], Estimate]]:
    """(name, figures, Transformer less recurrent) of each scale that was reached."""
    found: dict[str, dict[str, Any]] = cell.figures.get("scales") or {}
    return [(name, at, of(at, "transformer_minus_recurrent")) for name, at in found.items()]


def extrapolates(cell: CellResult, scale: dict[str, Any]) -> bool:
    """Whether most histories of a scale are longer than those that target and drafts were trained on."""
    trained = int(cell.figures.get("trained_events") or 0)
    return bool(trained) and (scale["first"] + scale["end"]) / 2 > trained


def history(cell: CellResult) -> str:
    """Who is ahead at each scale of history, and what that says of the claim."""
    names = str(cell.figures["transformer"]), str(cell.figures["recurrent"])
    clauses = [f"{name}: {_ahead(gap, *names)}" for name, _, gap in scales(cell)]
    if not clauses:
        return f"{cell.pair}: no scale of history was reached."
    beyond = [name for name, at, _ in scales(cell) if extrapolates(cell, at)]
    trained = cell.figures.get("trained_events")
    caution = f" Its sequences had {trained} events in training; beyond, target and drafts extrapolate." if beyond else ""
    return f"{cell.pair}, histories of {'; '.join(clauses)}.{caution}"


def verdict(cells: Sequence[CellResult]) -> str:
    """The claim against every scale of every pair."""
    found = [
        (cell.pair + " (extrapolating)" * extrapolates(cell, at), name, _supports(name, gap))
        for cell in cells
        for name, at, gap in scales(cell)
    ]
    if not found:
        return ""
    words = {True: "as claimed", False: "against the claim", None: "open"}
    by_name = {
        name: ", ".join(f"{words[held]} on {pair}" for pair, n, held in found if n == name)
        for name in dict.fromkeys(name for _, name, _ in found)
    }
    return "; ".join(f"{name}: {what}" for name, what in by_name.items()) + "."
