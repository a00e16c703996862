"""The study's part of the report, from its cells alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tppsd_bench.report.cells import Fact
from tppsd_bench.report.picture import Arrays
from tppsd_bench.report.section import Block, Section
from tppsd_bench.report.wording import times
from tppsd_bench.results import Axis, CellResult, Outcome
from tppsd_bench.studies.drafts import maps, said
from tppsd_bench.studies.drafts.reading import Results, maybe, of

if TYPE_CHECKING:
    from tppsd_bench.report.canvas import Canvas

INTRO = (
    "A draft proposes, the target decides; whichever draft it is, the sequences have the target's law. What differs is how often its "
    "events are accepted, and what a step of it costs. Drafts of one pair are compared on the same sequences and in the same pairs of "
    "timings; K is chosen on calibration seeds and judged on others."
)


def sentence(cells: Sequence[CellResult]) -> str:
    """Fastest drafts, distilled against plain, short histories against long ones."""
    results = Results.of(cells)
    parts = [said.fastest(results), said.distilled(results), *(said.history(c) for c in results.history.values())]
    broken = sum(bool(c.error) for c in cells)
    parts.append(f"{broken} of {len(cells)} cells broke." if broken else "")
    return " ".join(p for p in parts if p) or "Nothing was measured."


def section(cells: Sequence[CellResult], _arrays: Callable[[CellResult], Arrays], canvas: Canvas) -> Section:
    """Maps of acceptance and speed, speed over K, cost of a round, distillation, histories, every number."""
    results = Results.of(cells)
    head = said.fastest(results) or sentence(cells)
    blocks = (_accepted(results), _fast(results, canvas), _distilled(results), _history(results, canvas), _all(results))
    return Section("drafts", "Drafts", head, INTRO, _facts(results), tuple(b for b in blocks if b is not None))


def _facts(results: Results) -> tuple[Fact, ...]:
    out = []
    for pair in results.pairs:
        cell = results.chosen(pair)
        if cell is not None:
            value, (low, high) = of(cell.figures, "speedup_cpu")
            out.append(Fact(f"{pair}: {cell.draft}, K = {cell.k}", times(value), f"{times(low)} to {times(high)}"))
    return tuple(out)


def _accepted(results: Results) -> Block | None:
    if not results.counted:
        return None
    intro = "1 − TV of the two laws, gap and type verified in turn, averaged over events of the target's own sequences."
    return Block("How often is a draft accepted?", intro, maps=(maps.acceptance_map(results),), notes=_notes(results))


def _notes(results: Results) -> tuple[str, ...]:
    """Where imitating the target gains nothing; whether the sampler accepts what the two laws say."""
    pointless: dict[str, list[str]] = {}
    for (pair, draft), cell in results.counted.items():
        if cell.figures.get("pointless"):
            pointless.setdefault(pair, []).append(draft)
    listed = "; ".join(f"{pair}: {', '.join(drafts)}" for pair, drafts in pointless.items())
    notes = [
        f"Held-out data do not show the target to be better than these drafts, so that speculation is pointless there and the draft "
        f"itself may be sampled. {listed}."
    ] * bool(pointless)
    checked = [c for c in results.counted.values() if c.verdict(Axis.MECHANISM)]
    wrong = [c.id for c in checked if (v := c.verdict(Axis.MECHANISM)) and v.outcome is Outcome.FAIL]
    outside = sum(bool((e := maybe(c.figures, "identity")) and not e[1][0] <= 0 <= e[1][1]) for c in checked)
    if checked:
        notes.append(
            f"Measured less exact acceptance on the same histories, zero for an exact sampler: {outside} of {len(checked)} drafts "
            f"lie outside their own 95 % interval; {f'rejected: {chr(44).join(wrong)}' if wrong else 'none is rejected'}."
        )
    return tuple(notes)


def _fast(results: Results, canvas: Canvas) -> Block | None:
    if not results.timed:
        return None
    from tppsd_bench.studies.drafts.pictures import share_pictures, speed_pictures

    open_ = [
        f"{c.pair} {c.draft}"
        for c in results.timed.values()
        if (v := c.verdict(Axis.SPEED)) and v.outcome is Outcome.INCONCLUSIVE
    ]
    note = f"Undecided whether it pays, or the machine too unsteady to tell: {', '.join(open_)}."
    return Block(
        "Is it faster?",
        "A better draft is accepted more often; a cheaper one may still be faster. Each draft at the K that was fastest for it on "
        "calibration seeds; times of other seeds, all drafts in the same pairs.",
        maps=(maps.speed_map(results),),
        pictures=(*speed_pictures(results, canvas), *share_pictures(results, canvas)),
        tables=(maps.share_table(results),),
        notes=(note,) if open_ else (),
    )


def _distilled(results: Results) -> Block | None:
    if not said.gains(results):
        return None
    intro = f"The claim: distilled drafts are accepted 5 to 10 points more often. {said.distilled(results)}"
    return Block("Distilled or plain?", intro, tables=(maps.gain_table(results),))


def _history(results: Results, canvas: Canvas) -> Block | None:
    cells = list(results.history.values())
    if not cells:
        return None
    from tppsd_bench.studies.drafts.pictures import history_pictures

    return Block(
        "Short and long histories",
        f"The claim: {said.CLAIM[0].lower()}{said.CLAIM[1:]} Here, by acceptance: {said.verdict(cells)}",
        pictures=tuple(history_pictures(cells, canvas)),
        tables=(maps.history_table(cells, results.long_runs),),
        notes=tuple(said.history(cell) for cell in cells),
    )


def _all(results: Results) -> Block | None:
    tables = (maps.draft_table(results), maps.k_table(results))
    return Block("Every number", tables=tables) if results.counted else None
