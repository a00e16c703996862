"""What the cells of the studies ``drafts``, ``speedup`` and ``buckets`` say of one pair and draft; an adapter for each, figures to ``Part``.

Nothing is measured or judged here, and no study is imported: cells are read as any report could read them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.doctor.base import Estimate
from tppsd_bench.doctor.laws import leading_rates, over_sequences
from tppsd_bench.doctor.measurements import Acceptance, Accuracy, Cache, Costs, Cut, HistoryPoint, Speed
from tppsd_bench.doctor.parts import CHEAPEST, Arrays, Part, costs_of, estimate_of, speeds
from tppsd_bench.measure.throughput import StepCosts
from tppsd_bench.results import CellResult

Cells = Sequence[CellResult]
Beside = Callable[[CellResult], Arrays]
"""The arrays of a cell."""
Table = Mapping[str, Any]
"""The study's table in the suite, empty where the run does not tell."""
USUAL_LENGTH = 100
"""Of several lengths timed, the one nearest to this is diagnosed: what ``doctor --pair`` takes by itself, at most."""


def _event(joint: bool, of: Mapping[str, Any], prefix: str = "", two_step: str = "two_step") -> Estimate | None:
    return estimate_of(of.get(prefix + ("joint" if joint else two_step)))


def _joint(table: Table) -> bool:
    return table.get("rule") == "leviathan_joint"


# -- drafts ---------------------------------------------------------------------------------------------------------------
def of_drafts(cells: Cells, draft: str, beside: Beside, table: Table) -> Iterator[Part]:
    """Sizes, predictions and acceptance of a draft, its timing, and what changes with the history's length."""
    counted = next((c for c in cells if c.kind == "drafts" and c.draft == draft), None)
    timed = next((c for c in cells if c.kind == "drafts-time" and c.draft == draft), None)
    part = None if counted is None else _drafts_counted(counted, beside(counted), _joint(table))
    if timed is not None:
        yield _drafts_timed(timed, None if part is None else part.acceptance, {} if counted is None else counted.figures)
    if part is not None:
        yield part
    for cell in (c for c in cells if not c.draft and draft in (c.figures.get("acceptance") or {})):
        yield _over_history(cell, draft, beside(cell))
    for cell in (c for c in cells if not c.draft and "by_length" in c.figures):
        yield from _long_runs(cell, draft)


def _drafts_counted(cell: CellResult, arrays: Arrays, joint: bool) -> Part:
    f = cell.figures
    event, none = _event(joint, f, "acceptance_", "event"), np.empty(0, dtype=np.int64)
    alpha, verified = leading_rates(arrays.get("position_verified", none), arrays.get("position_accepted", none))
    at_k: Mapping[str, Any] = next((row for row in f.get("by_k", ()) if row.get("k") == cell.k), {})
    types = (estimate_of(f.get(f"type_accuracy_{of}")) for of in ("target", "draft", "minus_target"))
    gaps = [estimate_of(f.get(f"gap_error_{of}")) for of in ("target", "draft", "minus_target")]
    gap, kind = (None, None) if joint else (estimate_of(f.get(f"acceptance_{of}")) for of in ("gap", "type"))
    return Part(
        k=cell.k, n_events=int(cell.stop["n_events"]), joint=joint,
        accuracy=None if None in gaps else Accuracy(*types, *gaps),  # type: ignore[arg-type]  # none is None
        acceptance=None if event is None else Acceptance(
            event, gap, kind if "type_accuracy_draft" in f else None, by_position=alpha, verified=verified,
            measured=estimate_of(at_k.get("accepted_per_verified")),
        ),
        held_out=estimate_of(f.get("nll_draft_minus_target")),
    )  # fmt: skip


def _drafts_timed(cell: CellResult, acceptance: Acceptance | None, counted: Mapping[str, Any]) -> Part:
    """The law takes the acceptance of the runs that were timed, often of another length than those that were counted."""
    f, rows = cell.figures, cell.figures["speedup_by_k"]
    event = estimate_of(f.get("alpha_quadrature"))
    costs = replace(
        costs_of(f, apart=bool(f.get("verify_timed", True))),
        target_parameters=counted.get("target_parameters"), draft_parameters=counted.get("parameters"),
    )  # fmt: skip
    committed = {int(row["k"]): float(row["events_per_forward"]) for row in rows}
    return Part(
        k=cell.k, n_events=int(cell.stop["n_events"]), costs=costs,
        acceptance=acceptance if event is None else replace(acceptance or Acceptance(event), by_position=(event.value,), verified=()),
        speed=Speed(speeds(rows), estimate_of(f.get("aa_ratio")), committed), notes=(_pairs(f),),
    )  # fmt: skip


def _pairs(f: Mapping[str, Any]) -> str:
    """How the timing was done."""
    coverage = f", {100 * f['coverage']:g} % intervals" if "coverage" in f else ""
    return f"{f['n_pairs']} timed pairs{coverage}. {f.get('note', '')}".strip() if "n_pairs" in f else str(f.get("note", ""))


def _over_history(cell: CellResult, draft: str, arrays: Arrays) -> Part:
    """Acceptance by bin of history lengths: overall, early and late; steps after each bin."""
    f, n = cell.figures, int(cell.stop["n_events"])
    bins = [(int(b["first"]), int(b["end"])) for b in f["bins"]]
    steps = f.get("step_ms") or {}
    history = tuple(
        HistoryPoint(end, float(ms), float(mine), None)
        for (_, end), ms, mine in zip(bins, steps.get("target", ()), steps.get(draft, ()), strict=False)
    )
    each = arrays.get(f"acceptance_{list(f['acceptance']).index(draft)}")
    accepted = None if each is None else _by_bins(each, bins, n)
    return Part(n_events=n, acceptance=accepted, history=history)


def _by_bins(each: NDArray[np.float64], bins: Sequence[tuple[int, int]], n: int) -> Acceptance:
    """Of (sequences, bins): every event has the same weight; *early* are the bins within the first third, *late* all others."""
    width = np.array([end - first for first, end in bins], dtype=np.float64)

    def mean(which: NDArray[np.bool_]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = each[:, which] @ width[which] / width[which].sum()
        return found

    early = np.array([end <= n / 3 for _, end in bins])
    event = over_sequences(mean(np.ones(len(bins), dtype=bool)))
    if not early.any() or early.all():
        return Acceptance(event)
    a, b, cut = mean(early), mean(~early), bins[int(early.sum()) - 1][1]
    return Acceptance(
        event, early=over_sequences(a), late=over_sequences(b), fade=over_sequences(a - b),
        spans=(f"first {cut} events", f"events {cut} to {n}"),
    )  # fmt: skip


def _long_runs(cell: CellResult, draft: str) -> Iterator[Part]:
    """The longest runs that were timed; the shorter ones are said."""
    rows = [row for row in cell.figures["by_length"] if draft in row["speedup"]]
    if not rows or cell.k is None:
        return
    *shorter, longest = sorted(rows, key=lambda row: int(row["n_events"]))
    found = {int(row["n_events"]): estimate_of(row["speedup"][draft]) for row in rows}
    notes = tuple(f"Runs of {row['n_events']}: {_shown(found[int(row['n_events'])])} times, K = {cell.k}." for row in shorter)
    speed = found[int(longest["n_events"])]
    if speed is not None:
        timed = Speed({cell.k: speed}, estimate_of(longest.get("aa_ratio")))
        yield Part(k=cell.k, n_events=int(longest["n_events"]), speed=timed, notes=(*notes, _pairs(longest)))


def _shown(found: Estimate | None) -> str:
    return "unknown" if found is None else found.shown()


# -- speedup --------------------------------------------------------------------------------------------------------------
def of_speedup(cells: Cells, draft: str, beside: Beside, _table: Table) -> Iterator[Part]:
    """Promise and timing of the site of single sequences nearest the usual length; steps by length of history."""
    by_site: dict[tuple[int, int], dict[str, CellResult]] = {}
    for cell in cells:
        site = cell.figures.get("site")
        if cell.kind == "speedup-time" and site and site["draft"] == draft:
            by_site.setdefault((int(site["batch"]), int(site["length"])), {})[cell.figures["part"]] = cell
    if by_site:
        chosen = min(by_site, key=lambda s: ("site" not in by_site[s], s[0], abs(s[1] - USUAL_LENGTH), s[1]))
        yield _site(by_site[chosen], chosen, beside, len(by_site) - 1)
    for cell in cells:
        if cell.kind == "speedup-time" and cell.figures.get("part") == "history" and cell.draft == draft:
            ms, lengths = cell.figures["ms"], cell.figures["lengths"]
            points = zip(lengths, ms["target"], ms["draft"], strict=True)
            yield Part(history=tuple(HistoryPoint(int(n), float(t), d, None) for n, t, d in points if t is not None))


def _site(found: Mapping[str, CellResult], at: tuple[int, int], beside: Beside, others: int) -> Part:
    promise, site = found.get("promise"), found.get("site")
    cell = promise or site
    assert cell is not None
    k = int(cell.figures["promised_best_k"])
    part = Part(k=k, n_events=at[1])
    if promise is not None:
        part = _promised(part, promise.figures, beside(promise), k)
    if site is not None:
        part = _timed(part, site.figures, k, at[1])
    where = f"Timed at batch {at[0]}, runs of {at[1]}" + (f"; {others} other sites are in the report" if others else "")
    return replace(
        part, notes=(f"{where}. Acceptance is exact, along the target's own sequences, without an interval.", *part.notes)
    )


def _promised(part: Part, f: Mapping[str, Any], arrays: Arrays, k: int) -> Part:
    """alpha_j, c, v and r as the promise rests on them. r changes with K: what it is beyond r at the K in use is counted in v."""
    if not {"alpha", "verify_k", "verify", "rest_k", "rest"} <= set(arrays):
        return part
    alpha = tuple(float(a) for a in np.clip(arrays["alpha"], 0.0, 1.0))
    reached = np.cumprod([1.0, *alpha])
    event = Estimate.exact(float(reached[1:].sum() / reached[:-1].sum()))
    ks = np.arange(int(max(arrays["verify_k"])) + 1)
    rest_at = np.interp(ks, arrays["rest_k"], arrays["rest"])
    rest, c = max(float(rest_at[k]), 0.0), float(f["draft_step"])
    verify = np.interp(ks, arrays["verify_k"], arrays["verify"]) + rest_at - rest
    law = StepCosts(c, tuple(float(max(v, CHEAPEST)) for v in verify), rest)
    costs = Costs(Estimate.exact(float(f["target_step_ms"])), Estimate.exact(c), Estimate.exact(rest), law)
    return replace(part, costs=costs, acceptance=Acceptance(event, by_position=alpha))


def _timed(part: Part, f: Mapping[str, Any], k: int, length: int) -> Part:
    rows, clock = f["by_k"], str(f.get("clock", "cpu"))
    used: Mapping[str, Any] = next((row for row in rows if row["k"] == k), {})
    speed = Speed(
        speeds(rows, clock), estimate_of(f.get("aa_ratio")), {int(row["k"]): float(row["committed_per_round"]) for row in rows},
        clock={"cpu": "CPU"}.get(clock, clock),
    )  # fmt: skip
    accepted = part.acceptance
    if accepted is not None:
        accepted = replace(accepted, measured=estimate_of(used.get("accepted_per_verified")))
    recomputing = (f.get("baselines") or {}).get("target-only, recomputing") or {}
    slow, counts = estimate_of(recomputing.get("speed")), used.get("counts") or {}
    gain = None if slow is None else Estimate(1 / slow.value, 1 / slow.high, 1 / slow.low)
    rows_of = counts.get("target_row_forwards", 0)
    each = counts["target_positions"] / rows_of if rows_of and counts.get("target_positions") else None
    cache = None if gain is None and each is None else Cache(gain, length, each)
    return replace(part, speed=speed, acceptance=accepted, cache=cache, notes=(_pairs(f),))


# -- buckets --------------------------------------------------------------------------------------------------------------
def of_buckets(cells: Cells, draft: str, _beside: Beside, table: Table) -> Iterator[Part]:
    """Acceptance in continuous time or over the pair's tokens; speed by K; what cutting time into buckets would do."""
    mine = {c.id.split(".")[1]: c for c in cells if c.kind == "buckets"}
    whole, joint = {part: c for part, c in mine.items() if c.draft == draft}, _joint(table)
    timed = [c for c in cells if c.kind == "buckets-time" and c.draft == draft]
    accepted = _bucket_acceptance(mine, whole, draft, joint)
    ratios = mine["ratio"].figures["drafts"].get(draft, {}).get("continuous") if "ratio" in mine else None
    if accepted is not None and ratios:
        accepted = replace(accepted, largest_log_ratio=max(abs(ratios["least"]), abs(ratios["largest"])))
    continuous = False if "drafts" in mine else True if mine.keys() & {"map", "ratio"} or timed else None
    types = next((int(c.figures["n_types"]) for c in mine.values() if "n_types" in c.figures), None)
    plain = next((c for c in timed if c.figures.get("strategy") == "continuous"), None)
    length = next((round(c.n_events / c.n_sequences) for c in mine.values() if c.n_sequences), None)
    part = Part(
        n_events=length, n_types=types, joint=joint, acceptance=accepted, continuous=continuous,
        cuts=_cuts(whole.get("map"), timed, joint, (table.get("hypotheses") or {}).get("start", 100)),
    )  # fmt: skip
    if plain is not None:
        f = plain.figures
        best, quoted = int(f["best_k"]), estimate_of(f.get("speedup_cpu"))
        # the best K's speed comes from pairs that did not choose it
        by_k = speeds(f["speedup_by_k"]) | ({best: quoted} if quoted is not None else {})
        speed = Speed(by_k, estimate_of(f.get("aa_ratio")))
        part = replace(part, k=best, n_events=int(plain.stop["n_events"]), speed=speed, notes=(_pairs(f),))
    yield part


def _bucket_acceptance(
    mine: Mapping[str, CellResult], whole: Mapping[str, CellResult], draft: str, joint: bool
) -> Acceptance | None:
    """From the map in continuous time, or from the cells of a pair that speaks tokens itself."""
    if "map" in whole:
        found = whole["map"].figures["continuous"]
    elif "drafts" in mine:
        found = next((f for name in ("drafts", "apart") if name in mine and (f := mine[name].figures["drafts"].get(draft))), {})
    else:
        found = {}
    event, gap = _event(joint, found), estimate_of(found.get("gap"))
    if event is None:
        return None
    marked = not joint and gap is not None and mine["map" if "map" in whole else "drafts"].figures["n_types"] > 1
    kind = Estimate.exact(event.value / gap.value) if marked and gap is not None and gap.value else None
    return Acceptance(event, None if joint else gap, kind)


def _cuts(cell: CellResult | None, timed: Cells, joint: bool, start: int) -> tuple[Cut, ...]:
    """The number of quantile buckets that is advised to start with, and every point that was timed."""
    points = {} if cell is None else {(p["strategy"], int(p["buckets"])): p for p in cell.figures.get("points", ())}
    over = {
        (c.figures["strategy"], int(c.figures["buckets"])): estimate_of(c.figures.get("over_continuous"))
        for c in timed
        if c.figures.get("strategy") != "continuous"
    }
    wanted = dict.fromkeys([*([("quantile", start)] if ("quantile", start) in points else []), *over])
    return tuple(Cut(n, name, _event(joint, points.get((name, n), {})), over.get((name, n))) for name, n in wanted)


STUDIES: Mapping[str, Callable[[Cells, str, Beside, Table], Iterator[Part]]] = {
    "drafts": of_drafts, "speedup": of_speedup, "buckets": of_buckets,
}  # fmt: skip
"""Study -> its adapter. Cells are of kind ``STUDY`` or ``STUDY-time``, unbroken and of one pair."""
