"""Maps draft by pair, and the tables of the study."""

from __future__ import annotations

from collections.abc import Callable

from tppsd_bench.report.section import HeatMap, Row, Shade, Table
from tppsd_bench.report.wording import NONE, number, percent, times
from tppsd_bench.results import CellResult
from tppsd_bench.studies.drafts.reading import (
    Estimate,
    Results,
    at_k,
    best_k,
    maybe,
    nats_between,
    percent_between,
    points_between,
    times_between,
)
from tppsd_bench.studies.drafts.said import gains, scales
from tppsd_bench.studies.drafts.table import DISTILLED

Found = Callable[[str, str], Estimate | None]


def acceptance_map(results: Results) -> HeatMap:
    """Exact acceptance of the event, draft by pair."""

    def found(pair: str, draft: str) -> Estimate | None:
        cell = results.counted.get((pair, draft))
        return None if cell is None else maybe(cell.figures, "acceptance_event")

    rows = _rows(results, results.counted, found, 0.6, 1.0, lambda v: f"{100 * v:.1f}", percent_between, slow=False)
    return HeatMap(
        "Events accepted, per cent, exact", "draft",
        _columns(results, results.counted), rows, "60 to 100 %; outlined: the highest of the pair",
    )  # fmt: skip


def speed_map(results: Results) -> HeatMap:
    """CPU speed over cached target-only sampling, each draft at the K chosen for it on calibration seeds."""

    def found(pair: str, draft: str) -> Estimate | None:
        cell = results.timed.get((pair, draft))
        return None if cell is None else maybe(cell.figures, "speedup_cpu")

    rows = _rows(results, results.timed, found, 1.0, 4.0, times, times_between, slow=True)
    return HeatMap(
        "Speed over cached target-only, CPU time", "draft",
        _columns(results, results.timed), rows,
        "1× to 4×; outlined: the draft chosen on calibration seeds; in the colour of failure: whole interval below 1",
    )  # fmt: skip


def _columns(results: Results, of: dict[tuple[str, str], CellResult]) -> tuple[str, ...]:
    return tuple(pair for pair in results.pairs if any(p == pair for p, _ in of))


def _rows(
    results: Results, of: dict[tuple[str, str], CellResult], found: Found, low: float, high: float,
    text: Callable[[float], str], full: Callable[[Estimate], str], *, slow: bool,
) -> tuple[tuple[str, tuple[Shade, ...]], ...]:  # fmt: skip
    pairs = _columns(results, of)
    drafts = [d for d in results.drafts if any((p, d) in of for p in pairs)]
    values = {(p, d): found(p, d) for p in pairs for d in drafts}
    best = {p: max((v[0] for d in drafts if (v := values[p, d]) is not None), default=0.0) for p in pairs}
    several = {p: sum(values[p, d] is not None for d in drafts) > 1 for p in pairs}
    chosen = {p: cell.draft for p in pairs if slow and (cell := results.chosen(p)) is not None}

    def shade(pair: str, draft: str) -> Shade:
        value = values[pair, draft]
        if value is None:
            return Shade("")
        dark = 100 * min(max((value[0] - low) / (high - low), 0.0), 1.0)
        title = f"{draft} on {pair}: {full(value)}"
        failed = slow and value[1][1] < 1
        marked = chosen[pair] == draft if pair in chosen else value[0] == best[pair]
        return Shade(text(value[0]), dark, several[pair] and marked, failed, title)

    return tuple((d, tuple(shade(p, d) for p in pairs)) for d in drafts)


def gain_table(results: Results) -> Table:
    """Distilled against plain, on the same histories."""
    rows = []
    for pair, draft, gain in gains(results):
        plain = results.counted.get((pair, draft.removesuffix(DISTILLED)))
        mine = maybe(results.counted[pair, draft].figures, "acceptance_event")
        its = None if plain is None else maybe(plain.figures, "acceptance_event")
        cells = (draft.removesuffix(DISTILLED), *(_or(v, percent_between) for v in (its, mine)), points_between(gain, 2))
        rows.append(Row(pair, cells))
    head = ("pair", "architecture", "plain, %", "distilled, %", "gain, points")
    return Table("Events accepted, plain and distilled; 95 % over sequences, the gain paired", head, tuple(rows))


def share_table(results: Results) -> Table:
    """Where a round's time goes, at the chosen K."""
    rows = []
    for (pair, draft), cell in results.timed.items():
        k, f = best_k(cell), cell.figures
        if k is None:
            continue
        c, v, r = float(f["draft_step"]), float(f["verify_step"][str(k)]), float(f["rest_step"])
        whole = c * k + v + r
        parts = tuple(f"{100 * part / whole:.0f} %" for part in (c * k, v, r))
        rows.append(Row(f"{pair}, {draft}", (str(k), number(c), number(v), number(r), *parts)))
    head = ("pair, draft", "K", "c", "v(K)", "r", "drafting", "verifying", "the rest")
    return Table(
        "Cost of a round at the chosen K, in target steps (c a draft step, v(K) verifying, r the rest) and as shares", head,
        tuple(rows), folded=True,
    )  # fmt: skip


def history_table(cells: list[CellResult], long_runs: dict[str, CellResult]) -> Table:
    """Acceptance by scale of history of every draft, and the difference that decides."""
    rows = []
    for cell in cells:
        f = cell.figures
        for name, at, gap in scales(cell):
            each = at["acceptance"]
            shown = ", ".join(f"{draft} {100 * each[draft]['value']:.1f}" for draft in each)
            rows.append(Row(f"{cell.pair}, {name}", (f"{at['first']:,} to {at['end'] - 1:,}", shown, points_between(gap))))
        timed = long_runs.get(cell.pair)
        for run in timed.figures["by_length"] if timed is not None else ():
            speeds = ", ".join(f"{draft} {times(s['value'])}" for draft, s in run["speedup"].items())
            ratio = maybe(run, "transformer_over_recurrent")
            said = f"{f['transformer']} at {_or(ratio, times_between)} the speed of {f['recurrent']}"
            rows.append(Row(f"{cell.pair}, runs of {run['n_events']:,} events", ("", speeds, said)))
    head = (
        "pair, history",
        "events before",
        "accepted, %; or speed over cached target-only",
        "Transformer less recurrent draft",
    )
    return Table("Acceptance by length of history, and speed of runs; 95 % over sequences, speeds by paired order statistics", head,
                 tuple(rows))  # fmt: skip


DRAFT_HEAD = (
    "pair, draft", "parameters", "of the target's", "nats/event", "less the target's", "type accuracy, %", "the target's",
    "gap error", "the target's", "gap accepted, %", "type, %", "event, %", "jointly, %", "measured less exact, points",
)  # fmt: skip
K_HEAD = (
    "pair, draft", "K", "accepted / verified, %", "accepted / drafted, %", "events a forward", "speed by count", "drafting's share",
    "speed, CPU time", "predicted",
)  # fmt: skip


def draft_table(results: Results) -> Table:
    """What does not depend on K."""
    rows = tuple(Row(f"{pair}, {draft}", _of_draft(cell)) for (pair, draft), cell in results.counted.items())
    return Table("Every draft: size, likelihood, foresight, acceptance by quadrature", DRAFT_HEAD, rows, folded=True)


def k_table(results: Results) -> Table:
    """What depends on K; the chosen K is marked."""
    rows = []
    for (pair, draft), cell in results.counted.items():
        timed = results.timed.get((pair, draft))
        for row in cell.figures["by_k"]:
            k = int(row["k"])
            rates = tuple(_or(maybe(row, name), percent_between) for name in ("accepted_per_verified", "accepted_per_drafted"))
            counts = tuple(_or(maybe(row, name), times_between) for name in ("events_per_forward", "speedup_by_count"))
            speed = {} if timed is None else at_k(timed, "speedup_by_k", k)
            clock = (NONE,) * 3
            if speed:
                clock = percent(speed["draft_share"]), times_between(_of_row(speed)), f"{speed['predicted']:.2f}"
            shown = f"{k} (chosen)" if best_k(timed) == k else str(k)
            rows.append(Row(f"{pair}, {draft}", (shown, *rates, *counts, *clock)))
    return Table("Every draft at every K: measured acceptance, counts and times", K_HEAD, tuple(rows), folded=True)


def _of_row(row: dict[str, float]) -> Estimate:
    return row["value"], (row["low"], row["high"])


def _of_draft(cell: CellResult) -> tuple[str, ...]:
    f = cell.figures
    ratio = f.get("parameter_ratio")
    size = (f"{f['parameters']:,}", f"{100 * ratio:.2g} %") if ratio else (NONE, NONE)
    nats = _or(maybe(f, "nll_draft"), nats_between), _or(maybe(f, "nll_draft_minus_target"), lambda v: nats_between(v, True))
    types = tuple(_or(maybe(f, f"type_accuracy_{of}"), percent_between) for of in ("draft", "target"))
    errors = tuple(_or(maybe(f, f"gap_error_{of}"), nats_between) for of in ("draft", "target"))
    accepted = tuple(_or(maybe(f, f"acceptance_{unit}"), percent_between) for unit in ("gap", "type", "event", "joint"))
    return (*size, *nats, *types, *errors, *accepted, _or(maybe(f, "identity"), points_between))


def _or(value: Estimate | None, write: Callable[[Estimate], str]) -> str:
    return NONE if value is None else write(value)
