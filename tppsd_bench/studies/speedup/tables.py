"""Tables of the study: verdicts, the law's record, rounds, baselines, batches, packing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tppsd_bench.measure.judging import PayCheck, Share
from tppsd_bench.report.section import Row, Table
from tppsd_bench.report.wording import number, percent, times
from tppsd_bench.results import CellResult
from tppsd_bench.studies.speedup.reading import LIMIT, REGRET, LawCheck, SiteView, ends

PAYS = {True: ("pays", "pass"), False: ("does not pay", "fail"), None: ("undecided", "inconclusive")}


def _between(estimate: Any) -> str:
    value, low, high = ends(estimate)
    return f"{times(value)} ({times(low)} to {times(high)})"


def verdicts(sites: Sequence[SiteView]) -> Table:
    """One row a site: does it pay, and what is gained at the K chosen beforehand."""
    rows = []
    for s in sites:
        word, icon = PAYS[s.pays]
        chosen = s.chosen
        rows.append(
            Row(
                s.label,
                (word, f"{chosen.k}", times(chosen.promised), _between(chosen.row[s.cell.figures.get("clock", "cpu")]),
                 _between(chosen.row["wall"]), f"{s.fastest.k}"),
                icon,
            )
        )  # fmt: skip
    head = ("site", "speculation", "K chosen by the law", "promised", "measured, paired", "in wall time", "fastest K measured")
    return Table("Does it pay? At the K that the law chose before the site was timed; 95 % intervals", head, tuple(rows))


def pay_table(law: LawCheck) -> Table:
    """Promised against measured, over points and over sites at the chosen K."""

    def row(name: str, check: PayCheck) -> Row:
        numbers = (check.true_pay, check.false_pay, check.missed_pay, check.true_loss, check.undecided)
        return Row(name, (*map(str, numbers), _share(check.precision), _share(check.recall)))

    head = (
        "",
        "promised and pays",
        "promised, does not",
        "not promised, pays",
        "not promised, does not",
        "undecided",
        "precision",
        "recall",
    )
    caption = "Does the law know where speculation pays? Undecided: the measured interval holds 1"
    return Table(caption, head, (row("all points", law.pay), row("sites, at the chosen K", law.pay_sites)))


def _share(share: Share) -> str:
    value, low, high = share
    return f"{100 * value:.0f} % ({100 * low:.0f} to {100 * high:.0f})" if value == value else "–"


def regrets(sites: Sequence[SiteView]) -> Table:
    """Promised best K against the measured one."""
    rows = []
    for s in sites:
        f = s.cell.figures
        value, low, high = ends(f["regret"])
        icon = "pass" if value <= REGRET else "fail" if low > REGRET else "inconclusive"
        rows.append(
            Row(
                s.label,
                (str(f["promised_best_k"]), str(s.fastest.k), percent(value), f"{percent(low)} to {percent(high)}"),
                icon,
            )
        )
    caption = f"Regret of the promised best K; half of the pairs chooses, half judges (at most {100 * REGRET:.0f} %, or not told apart)"
    return Table(
        caption, ("site", "promised best K", "fastest K measured", "regret", "95 % interval"), tuple(rows), folded=len(rows) > 8
    )


def every_point(sites: Sequence[SiteView]) -> Table:
    """All points: promise, measurement, error and its two parts."""
    rows = []
    for s in sites:
        for p in s.points:
            r = p.row
            icon = "pass" if abs(p.promised / p.speed[0] - 1) <= LIMIT or abs(p.speed[0] / p.promised - 1) <= LIMIT else "fail"
            rows.append(
                Row(
                    f"{s.label}, K = {p.k}",
                    (times(p.promised), times(p.speed[0]), f"{times(p.speed[1])} to {times(p.speed[2])}",
                     percent(p.speed[0] / p.promised - 1),
                     percent(r["error_of_acceptance"]), percent(r["error_of_costs"]), times(p.paired[0]),
                     f"{times(p.paired[1])} to {times(p.paired[2])}", percent(r["accepted_per_verified"]), percent(r["accepted_per_drafted"]),
                     number(r["target_forwards_per_event"]), number(r["draft_forwards_per_event"]), f"{r['counts'].get('rounds', 0):,}",
                     f"{r['counts'].get('residual_draws', 0):,}", f"{r['counts'].get('target_positions', 0):,}",
                     f"{r['counts'].get('target_padded_positions', 0):,}", "" if r["rounds_timed"] else "interpolated"),
                    icon,
                )
            )  # fmt: skip
    head = ("point", "promised", "measured", "95 % interval", "error", "by acceptance", "by costs", "paired per event", "95 % interval",
            "accepted/verified", "accepted/drafted", "target forwards/event", "draft forwards/event", "rounds", "residual draws",
            "target positions", "padded", "cost")  # fmt: skip
    return Table(f"Every point: {len(rows)}", head, tuple(rows), folded=True)


def rounds(sites: Sequence[SiteView]) -> Table:
    """What a round gives and costs at the chosen K, in events and target steps."""
    rows = []
    for s in sites:
        r = s.chosen.row
        cost = r["committed_per_round"] / s.chosen.speed[0]
        rows.append(
            Row(
                f"{s.label}, K = {s.chosen.k}",
                (number(r["committed_per_round"]), f"{s.chosen.k + 1}", number(r["draft_cost"]), number(r["verify_growth"]),
                 number(cost - 1 - r["draft_cost"] - r["verify_growth"]), number(cost)),
            )
        )  # fmt: skip
    head = (
        "site",
        "events a round",
        "of at most",
        "draft steps",
        "growth of the pass",
        "overhead",
        "whole round, one step included",
    )
    return Table("A round in target steps", head, tuple(rows), folded=True)


def baselines(sites: Sequence[SiteView]) -> Table:
    """Three baselines and the chosen K, and the memory it took."""
    rows = []
    for s in sites:
        f = s.cell.figures
        base = f["baselines"]
        ms = [number(base[name]["cpu_ms"]) for name in ("target-only, cached", "target-only, recomputing", "draft-only")]
        spec = s.chosen.row["ms_per_event"]["cpu"]
        over = base["target-only, recomputing"]["cpu_ms"] / spec
        memory = f"{f['peak_megabytes']:,.0f} MB" + ("" if f["peak_is_own"] else " (whole process)")
        rows.append(Row(s.label, (*ms, number(spec), times(over), memory)))
    head = (
        "site",
        "target-only, cached",
        "target-only, recomputing",
        "draft-only",
        "speculative, chosen K",
        "over recomputing",
        "peak memory",
    )
    return Table("CPU milliseconds per event", head, tuple(rows))


def by_batch(sites: Sequence[SiteView]) -> tuple[Table, ...]:
    """Events a second by batch, of pairs timed at several."""
    groups: dict[tuple[str, int], list[SiteView]] = {}
    for s in sites:
        groups.setdefault((s.drafted_by, s.length), []).append(s)
    tables = []
    for (pair, length), members in groups.items():
        ordered = sorted(members, key=lambda s: s.batch)
        if len(ordered) < 2:
            continue
        first = ordered[0]
        rows = [
            Row(
                f"{s.batch}",
                (f"{1000 / _target(s):,.0f}", f"{1000 / _spec(s):,.0f}", times(_target(first) / _target(s)), times(_spec(first) / _spec(s)),
                 times(s.chosen.paired[0])),
            )
            for s in ordered
        ]  # fmt: skip
        head = ("batch", "target-only, events/s", "speculative, events/s", f"target-only over batch {first.batch}",
                f"speculative over batch {first.batch}", "speculative over target-only")  # fmt: skip
        tables.append(
            Table(f"Events a second of CPU time by batch: {pair}, {length:,} events (sites are not paired)", head, tuple(rows))
        )
    return tuple(tables)


def _target(s: SiteView) -> float:
    return float(s.cell.figures["baselines"]["target-only, cached"]["cpu_ms"])


def _spec(s: SiteView) -> float:
    return float(s.chosen.row["ms_per_event"]["cpu"])


def packing(cell: CellResult) -> Table:
    """Four arms of one pair."""
    f = cell.figures
    rows = [
        Row(a["arm"], (number(a["ms_per_event"]), number(a["positions_per_event"]), percent(a["padded_share"])))
        for a in f["arms"]
    ]
    gains = [Row(f"a cache, {order}", (_between(g), "", "")) for order, g in f["cache_gain"].items()]
    gains += [Row(f"packing, {cache}", (_between(g), "", "")) for cache, g in f["packing_gain"].items()]
    head = ("arm, or what is gained by", "ms/event, or times faster", "target positions/event", "padded share")
    caption = (
        f"{cell.pair}: {f['sequences']} histories of {f['shortest']} to {f['longest']} events, batches of {f['batch']}, K = {cell.k}; "
        f"CPU time, {f['n_pairs']} pairs, 95 % intervals"
    )
    return Table(caption, head, (*rows, *gains))
