"""The study's part of the report, from its cells alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tppsd_bench.report.cells import Fact
from tppsd_bench.report.picture import Arrays, Picture
from tppsd_bench.report.section import Block, Section, Statement
from tppsd_bench.report.wording import number, times
from tppsd_bench.results import Axis, CellResult, Outcome
from tppsd_bench.studies.buckets import tables
from tppsd_bench.studies.buckets.jobs import CONTINUOUS
from tppsd_bench.studies.buckets.judged import judged
from tppsd_bench.studies.buckets.reading import Results, at_start, point
from tppsd_bench.studies.buckets.tables import thousandths
from tppsd_bench.studies.outcomes import Found

if TYPE_CHECKING:
    from tppsd_bench.report.canvas import Canvas

INTRO = (
    "Cutting time into buckets makes an event one token, bucket and type. The sampler is exact for the law over tokens; how far that law "
    "is from the continuous one it was made from is measured here, beside what it accepts and how fast it is. Acceptance and error are exact "
    "sums and quadratures, averaged over one history of each of the target's own sequences."
)
ICONS = {Found.REPRODUCED: "pass", Found.BOUNDED: "inconclusive", Found.REFUTED: "fail"}


def sentence(cells: Sequence[CellResult]) -> str:
    """What the advised start costs, how fast tokens are, what became of the advice."""
    results = Results.of(cells)
    parts = [_of_start(results), _of_speed(results), _of_advice(results)]
    broken = sum(bool(c.error) for c in cells)
    parts.append(f"{broken} of {len(cells)} cells broke." if broken else "")
    return " ".join(p for p in parts if p) or "Nothing was measured."


def _of_start(results: Results) -> str:
    start = results.hypotheses.start
    there = [p for cell in results.maps.values() if (p := at_start(cell, start)) is not None]
    if not there:
        return ""
    nats, above = max(p["information"]["value"] for p in there), max(abs(p["gain_joint"]["value"]) for p in there)
    return (
        f"{start} quantile buckets cost at most {thousandths(nats)} thousandths of a nat an event, and accept within "
        f"{number(100 * above, 2)} points of what continuous time accepts, on {len(there)} pairs."
    )


def _of_speed(results: Results) -> str:
    said = []
    for pair, cells in results.timed.items():
        tokens = [c for c in cells if c.figures["strategy"] != CONTINUOUS]
        at = next(
            (c for c in tokens if c.figures["strategy"] == "quantile" and c.figures["buckets"] == results.hypotheses.start),
            None,
        )
        cell = at or next(iter(tokens), None)
        if cell is not None:
            s = cell.figures["speedup_cpu"]
            where = f"{cell.figures['buckets']} {cell.figures['strategy']} buckets".replace("_", " ")
            said.append(f"{times(s['value'])} on {pair} ({where}, K = {cell.k}; {times(s['low'])} to {times(s['high'])})")
    return f"Over cached target-only sampling of the same tokens: {', '.join(said)}." if said else ""


def _of_advice(results: Results) -> str:
    found = [j.found for j in judged(results)]
    counted = [f"{found.count(f)} {f}" for f in ICONS if f in found]
    return f"Of {len(found)} pieces of advice: {', '.join(counted)}." if found else ""


def section(cells: Sequence[CellResult], _arrays: Callable[[CellResult], Arrays], canvas: Canvas) -> Section:
    """Advice, one block a pair, time, ratios, verification apart, drafts."""
    results = Results.of(cells)
    blocks = [_advice(results), *(_pair(cell, canvas) for cell in results.maps.values()), _time(results, canvas)]
    if results.ratios:
        intro = (
            "Ratios p / q of what the draft proposes: whether they blow up, in continuous time and over the advised buckets."
        )
        blocks.append(Block("Are density ratios stable?", intro, tables=tables.ratios(results.ratios)))
    if results.apart:
        intro = (
            "Joint, and bucket then type given the bucket, are exact. Two shortcuts are not: verifying both marginals and redrawing each, "
            "and redrawing both marginals after joint verification. What they put out is computed, not sampled."
        )
        blocks.append(Block("Bucket and type apart", intro, tables=(tables.apart(results.apart),)))
    if results.drafts:
        intro = (
            "The same architecture with one softmax over tokens, or p(bucket) p(type | bucket). Roughness: the mean absolute second "
            "difference of log q along buckets, weighted by the target."
        )
        blocks.append(Block("Drafts over tokens", intro, tables=(tables.drafts(results.drafts),)))
    made = tuple(b for b in blocks if b is not None)
    return Section("buckets", "Time buckets", sentence(cells), INTRO, _facts(results), made)


def _facts(results: Results) -> tuple[Fact, ...]:
    start, out = results.hypotheses.start, []
    for pair, cell in results.maps.items():
        p = at_start(cell, start)
        if p is not None:
            e = p["information"]
            out.append(
                Fact(
                    f"{pair}: thousandths of a nat lost, {start} quantile buckets",
                    thousandths(e["value"]),
                    f"{thousandths(e['low'])} to {thousandths(e['high'])}",
                )
            )
    for pair, cells in results.timed.items():
        for c in cells:
            if (c.figures["strategy"], c.figures["buckets"]) == ("quantile", start):
                s = c.figures["speedup_cpu"]
                out.append(Fact(f"{pair}: speed, K = {c.k}", times(s["value"]), f"{times(s['low'])} to {times(s['high'])}"))
    return tuple(out)


def _advice(results: Results) -> Block | None:
    found = judged(results)
    statements = tuple(
        Statement(f"Part of claim {j.claim}", j.found, ICONS[j.found], j.said, (("measured", j.measured),)) for j in found
    )
    intro = "Held to the limits in the suite file, written before anything was measured."
    return Block("What became of the advice", intro, statements=statements) if statements else None


def _pair(cell: CellResult, canvas: Canvas) -> Block:
    from tppsd_bench.studies.buckets.pictures import map_pictures

    several = cell.figures["n_types"] > 1
    more, less = (f"darker: more is {what}; hover for the interval" for what in ("accepted", "lost (log scale)"))
    maps = [
        tables.map_of(cell, "information", "Thousandths of a nat an event lost by cutting time", less),
        tables.map_of(cell, "joint", "Accepted, joint verification" if several else "Accepted", more),
    ]
    if several:
        maps.append(tables.map_of(cell, "two_step", "Accepted, bucket then type", more))
    inside = [tables.inside(cell)] if len(cell.figures["within"]) > 1 else []
    shown = (tables.all_points(cell), *inside, tables.atoms(cell))
    c = cell.figures["continuous"]
    rule = f"jointly, {100 * c['two_step']['value']:.2f} % gap then type" if several else "of the gaps"
    notes = [
        f"Continuous time accepts {100 * c['joint']['value']:.2f} % {rule}. {cell.figures['n_contexts']} histories; buckets fitted to "
        f"{cell.figures['fit_events']:,} other gaps.",
        *(f"Not possible: {r['buckets']} {r['strategy']} buckets. {r['why']}" for r in cell.figures["refused"]),
    ]
    return Block(cell.pair, "", maps=tuple(maps), pictures=tuple(map_pictures(cell, canvas)), tables=shown, notes=tuple(notes))


def _time(results: Results, canvas: Canvas) -> Block | None:
    if not results.timed:
        return None
    from tppsd_bench.studies.buckets.pictures import speed_picture

    maps = tuple(tables.speed_map(cells, pair) for pair, cells in results.timed.items())
    drawn: list[Picture | None] = [speed_picture(cells, canvas) for cells in results.timed.values()]
    notes = [note for pair, cells in results.timed.items() for note in _time_notes(results, pair, cells)]
    intro = "CPU time, one sequence at a time, paired and interleaved; each point against cached target-only sampling of its own law."
    return Block("How fast?", intro, maps=maps, pictures=tuple(p for p in drawn if p is not None), notes=tuple(notes))


def _time_notes(results: Results, pair: str, cells: Sequence[CellResult]) -> list[str]:
    """Against speculation in continuous time, paired; unsteady points; what the timed error is."""
    over = [(c, c.figures["over_continuous"]) for c in cells if "over_continuous" in c.figures]
    out = []
    if over:
        parts = [
            f"{c.figures['buckets']} {c.figures['strategy'].replace('_', ' ')}: {times(o['value'])} ({times(o['low'])} to {times(o['high'])})"
            for c, o in over
        ]
        out.append(f"{pair}, over speculation in continuous time at K = {over[0][1]['k']}, paired: {'; '.join(parts)}.")
    unsteady = [c.id for c in cells if (v := c.verdict(Axis.SPEED)) is not None and v.outcome is Outcome.INCONCLUSIVE]
    out += (
        [f"{pair}: one sampler timed twice differs from itself too much to tell at {', '.join(unsteady)}."] if unsteady else []
    )
    cell = results.maps.get(pair)
    if cell is not None:
        errors = [
            f"{c.figures['buckets']} {c.figures['strategy'].replace('_', ' ')}: {thousandths(p['information']['value'])}"
            for c in cells if (p := point(cell, c.figures["strategy"], c.figures["buckets"])) is not None
        ]  # fmt: skip
        out += [f"{pair}, thousandths of a nat lost at the timed points: {'; '.join(errors)}."] if errors else []
    return out
