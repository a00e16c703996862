"""The study's section of the report, from its cells alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tppsd_bench.measure.judging import Share
from tppsd_bench.report.cells import Fact
from tppsd_bench.report.section import Block, Section
from tppsd_bench.report.wording import percent, times
from tppsd_bench.results import CellResult
from tppsd_bench.studies.speedup import maps, tables
from tppsd_bench.studies.speedup.reading import LIMIT, REGRET, WITHIN, LawCheck, SiteView, check_law, part, sites_of_cells

if TYPE_CHECKING:
    from tppsd_bench.report.canvas import Canvas

Arrays = Callable[[CellResult], Mapping[str, Any]]


def sentence(cells: Sequence[CellResult]) -> str:
    """Where speculation pays and by how much at least, where it does not, and how well the law knew."""
    sites = sites_of_cells(cells)
    if not sites:
        packing = part(cells, "packing")
        return str(packing[0].figures["sentence"]) if packing else "No site was timed."
    paying = sorted((s for s in sites if s.pays), key=lambda s: -s.shown.paired[1])
    parts = []
    if paying:
        best = paying[0]
        parts.append(
            f"Speculation pays at {len(paying)} of {_sites(len(sites))}, by at least {times(best.shown.paired[1])} at best "
            f"({best.label}, K = {best.shown.k})"
        )
    losing = [s for s in sites if s.pays is False]
    if losing:
        named = ", ".join(dict.fromkeys(_losing(s, sites) for s in losing))
        parts.append(f"{'it' if paying else 'speculation'} does not pay at {_sites(len(losing))} ({named})")
    open_ = len(sites) - len(paying) - len(losing)
    if open_:
        parts.append(f"{open_} undecided")
    law = check_law(sites)
    parts.append(f"the law, written down beforehand, is within {WITHIN} at {percent(law.within[0])} of the points")
    said = "; ".join(parts)
    return f"{said[0].upper()}{said[1:]}."


def _losing(site: SiteView, sites: Sequence[SiteView]) -> str:
    """A pair that loses, or where it does if it does not everywhere."""
    mine = [s for s in sites if s.drafted_by == site.drafted_by]
    if all(s.pays is False for s in mine):
        return site.drafted_by
    lost = [s for s in mine if s.pays is False]
    batches, lengths = sorted({s.batch for s in lost}), sorted({s.length for s in lost})
    same_length = len({s.length for s in mine}) == 1 or len(lengths) == 1
    where = f"batch {_listed(batches)}" if same_length else f"batch {_listed(batches)}, {_listed(lengths)} events"
    return f"{site.drafted_by} in {where}"


def _listed(values: Sequence[int]) -> str:
    words = [f"{v:,}" for v in values]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _sites(n: int) -> str:
    return f"{n} site{'s' * (n != 1)}"


def section(cells: Sequence[CellResult], arrays: Arrays, canvas: Canvas) -> Section:
    from tppsd_bench.studies.speedup import pictures

    sites = sites_of_cells(cells)
    blocks: list[Block] = []
    if sites:
        law = check_law(sites)
        blocks += [
            Block(
                "Where it pays, and at which K",
                "Speed relative to cached target-only sampling at the same batch and length. Marked: the fastest K of a row. Red: slower "
                "than target-only.",
                maps=maps.all_maps(sites), tables=(tables.verdicts(sites),),
            ),
            Block(
                "Speed over K, with the law on top",
                "Points are measured, with 95 % intervals; the band is what the law promised, give or take 5 %. Filled marks on the "
                "line are K's whose rounds were timed in calibration; at the others the law interpolates.",
                pictures=tuple(pictures.over_k(s, canvas) for s in sites),
            ),
            Block(
                "Did the law know?", _about_the_law(sites, law), pictures=(pictures.errors(sites, canvas),),
                tables=(tables.pay_table(law), tables.regrets(sites), tables.every_point(sites)), notes=_honesty(sites),
            ),
            Block(
                "Where the speed goes",
                "A round that drafts K events for nothing, loses none of them and is otherwise one target step would be K + 1 times as fast. "
                "The map says what takes how much of that, in percent of its logarithm, at the K the law chose.",
                maps=(maps.losses(sites),), tables=(tables.rounds(sites),),
            ),
            Block("Acceptance by position", _POSITIONS, pictures=pictures.positions(sites, arrays, canvas)),
            Block("Three baselines", _BASELINES, tables=(tables.baselines(sites), *tables.by_batch(sites))),
        ]  # fmt: skip
    packing, history = part(cells, "packing"), part(cells, "history")
    if packing:
        notes = tuple(f"{c.pair}: {c.figures['sentence']}" for c in packing)
        blocks.append(
            Block("Packed or padded, cached or recomputed", _PACKING, tables=tuple(map(tables.packing, packing)), notes=notes)
        )
    drawn = tuple(p for c in history if (p := pictures.history(c, canvas)) is not None)
    if drawn:
        blocks.append(Block("Cost of history", _HISTORY, pictures=drawn))
    return Section(
        "speedup", "Speedup and the throughput law", sentence(cells),
        "All ratios are paired: both sides in one process, in turn, in random order.", _facts(sites, packing), tuple(blocks),
    )  # fmt: skip


_POSITIONS = (
    "Of the events verified at each position of the round, how many are accepted: counted on held-out seeds, and what the law took from "
    "the two densities along the target's own sequences of other seeds. Accepted over drafted falls with the position because nobody "
    "looks at drafts behind a rejection."
)
_BASELINES = (
    "Milliseconds of CPU time per event. Cached target-only is the honest baseline. Recomputing encodes the history anew for every event, "
    "timed after half a run, which flatters it on long runs; draft-only is a floor for the time, not for the law."
)
_PACKING = (
    "Batches that continue histories of very unequal lengths. Packed: requests are sorted by length before they are cut into batches. "
    "Recomputed: no key/value cache, histories padded to the longest of the batch."
)
_HISTORY = "One step after histories of growing length, both axes logarithmic."


def _facts(sites: Sequence[SiteView], packing: Sequence[CellResult]) -> tuple[Fact, ...]:
    facts = []
    if sites:
        law, best = check_law(sites), max(sites, key=lambda s: s.chosen.paired[1])
        value, low, high = best.chosen.paired
        within, precision, recall = law.within, law.pay.precision, law.pay.recall
        kept = f"{law.sites_within_regret} of {law.n_sites} within {100 * REGRET:.0f} %"
        facts = [
            Fact(f"Best: {best.drafted_by}, K = {best.chosen.k} as promised", times(value), f"{times(low)} to {times(high)}"),
            Fact(f"Promises within {WITHIN}", percent(within[0]), _to(within)),
            Fact("Mean regret of the promised best K", percent(law.mean_regret), kept),
            Fact("Promised to pay, and does", percent(precision[0]), _to(precision)),
            Fact("Pays, and was promised to", percent(recall[0]), _to(recall)),
        ]
    if packing:
        gains = list(packing[0].figures["cache_gain"].values())
        facts.append(
            Fact(
                "What a cache gains", f"{times(min(g['value'] for g in gains))}", f"from {times(min(g['low'] for g in gains))}"
            )
        )
    return tuple(facts)


def _to(share: Share) -> str:
    return f"{percent(share[1])} to {percent(share[2])}"


def _about_the_law(sites: Sequence[SiteView], law: LawCheck) -> str:
    n, fresh = sum(len(s.points) for s in sites), sum(not p.row["rounds_timed"] for s in sites for p in s.points)
    larger = "the cost of rounds" if law.costs > law.acceptance else "acceptance"
    interpolated = f", {percent(law.within_fresh[0])} of the {fresh} whose rounds no calibration timed" * bool(fresh)
    return (
        f"{percent(law.within[0])} of {n} points lie within {WITHIN} of the promise ({_to(law.within)}){interpolated}. What is missed "
        f"comes mostly from {larger}: root mean square {percent(law.acceptance)} by acceptance, {percent(law.costs)} by costs. Measured "
        "here is events a round, counted, over the cost of a round, timed in pairs; intervals hold both errors."
    )


def _honesty(sites: Sequence[SiteView]) -> tuple[str, ...]:
    changed = [s.label for s in sites if s.unchanged is False]
    blind = sum(not p.tells for s in sites for p in s.points)
    unsettled = [s.label for s in sites if abs(float(s.cell.figures["aa_ratio"]["value"]) - 1) > LIMIT]
    notes = ["Promises were written to cells of their own before the sites were timed, and are the same there." * (not changed)]
    if changed:
        notes.append(
            f"Calibrated again after an interruption, so that the promise is younger than its cell: {'; '.join(changed)}."
        )
    if blind:
        notes.append(f"{blind} points have intervals wider than {WITHIN} either way: there a miss may be luck.")
    if unsettled:
        notes.append(f"One sampler differed from itself by more than {WITHIN} at: {'; '.join(unsettled)}.")
    return tuple(n for n in notes if n)
