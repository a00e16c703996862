"""The study's maps and tables: acceptance and error by strategy and number, speed by K, ratios, verification apart, drafts, atoms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tppsd_bench.report.section import HeatMap, Row, Shade, Table, shades
from tppsd_bench.report.wording import effect, number, times
from tppsd_bench.results import CellResult
from tppsd_bench.studies.buckets.jobs import CONTINUOUS
from tppsd_bench.studies.buckets.pictures import LEAST
from tppsd_bench.studies.buckets.reading import STRATEGIES, about, points, strategies

Estimate = Mapping[str, float]


def said(e: Estimate, scale: float = 1.0, unit: str = "") -> str:
    """``0.0215 (0.0140 to 0.0290)``: an estimate with its interval."""
    value, ends = effect(scale * e["value"], (scale * e["low"], scale * e["high"]))
    return f"{value}{unit} ({ends})" if ends else f"{value}{unit}"


def points_of(e: Estimate) -> str:
    """A difference of shares, in points."""
    return said(e, 100.0)


def thousandths(x: float) -> str:
    """Two digits of 1000 x."""
    return number(1000 * x, 2)


def _percent(x: float) -> str:
    return f"{100 * x:.2f} %"


def map_of(cell: CellResult, name: str, caption: str, key: str) -> HeatMap:
    """Strategy by number of buckets: acceptance in per cent, errors in thousandths and shaded by their logarithm."""
    numbers = sorted({int(p["buckets"]) for p in points(cell)})
    accepted = name in ("joint", "two_step", "gap")
    say = _percent if accepted else thousandths
    every = [p[name]["value"] for p in points(cell)]
    scale = (lambda x: x) if accepted else (lambda x: math.log10(max(x, LEAST)))
    low, high = scale(min(every)), scale(max(every))
    rows = []
    for s in strategies(cell):
        of = {int(p["buckets"]): p[name] for p in points(cell, s)}
        values = [scale(of[n]["value"]) if n in of else None for n in numbers]
        texts = [say(of[n]["value"]) if n in of else "" for n in numbers]
        titles = [said(of[n], 100.0 if accepted else 1000.0) if n in of else "" for n in numbers]
        rows.append((STRATEGIES[s], shades(values, texts, titles, low, high)))
    return HeatMap(caption, "buckets", tuple(str(n) for n in numbers), tuple(rows), key)


def speed_map(cells: Sequence[CellResult], title: str) -> HeatMap:
    """Timed point by K: median of the paired CPU ratio; the best of each point by the pairs that chose it."""
    order = [CONTINUOUS, *STRATEGIES]
    ordered = sorted(cells, key=lambda c: (order.index(c.figures["strategy"]), c.figures["buckets"]))
    ks = sorted({int(k) for c in cells for k in c.figures["ks"]})
    values = [r["value"] for c in cells for r in c.figures["speedup_by_k"]]
    top = max(1.0, *values)
    rows = []
    for c in ordered:
        by_k = {int(r["k"]): r for r in c.figures["speedup_by_k"]}
        fields = [
            Shade(
                times(r["value"]), 100 * max(min((r["value"] - 1) / max(top - 1, 1e-9), 1.0), 0.0), best=k == c.k, fail=r["high"] < 1,
                title=f"{times(r['low'])} to {times(r['high'])}",
            ) if (r := by_k.get(k)) else Shade("")
            for k in ks
        ]  # fmt: skip
        name = STRATEGIES.get(c.figures["strategy"], "")
        rows.append((f"{name}, {c.figures['buckets']}" if name else "continuous time", tuple(fields)))
    key = (
        "darker: faster than cached target-only over the same tokens (CPU time); outlined: the K chosen; hover for the interval"
    )
    return HeatMap(f"Speed by K, {title}", "buckets, K", tuple(str(k) for k in ks), tuple(rows), key)


def all_points(cell: CellResult) -> Table:
    """Every number of a map with its interval."""
    rows = tuple(
        Row(
            f"{STRATEGIES[p['strategy']]}, {p['buckets']}",
            (
                said(p["joint"], 100.0, " %"), said(p["two_step"], 100.0, " %"), points_of(p["gain_joint"]), said(p["information"], 1000.0),
                said(p["ks"]), said(p["wasserstein"], 1.0 / cell.figures["mean_gap"]), said(p["largest_bucket"]), said(p["last_bucket"]),
            ),
        )
        for s in strategies(cell) for p in points(cell, s)
    )  # fmt: skip
    head = ("buckets", "accepted, joint", "two-step", "above continuous time, points", "nats lost, thousandths", "sup |F − F tokens|",
            "Wasserstein-1 / mean gap", "fullest bucket", "open bucket")  # fmt: skip
    return Table("Every point, with 95 % intervals over histories", head, rows, folded=True)


def atoms(cell: CellResult) -> Table:
    """What a decoder without a law inside buckets does."""
    rows = tuple(
        Row(
            f"{STRATEGIES[p['strategy']]}, {p['buckets']}",
            tuple(
                text
                for d in ("middles", "edges")
                for text in (about(p[d]["tie"]), number(p[d]["ks"], 2), about(p[d]["notice"]))
            ),
        )
        for s in strategies(cell) for p in points(cell, s)
    )  # fmt: skip
    head = ("buckets", "middles: events to a tie", "KS distance of u", "events until KS sees it", "edges: events to a tie",
            "KS distance of u", "events until KS sees it")  # fmt: skip
    return Table("A decoder that emits middles or edges: ties, and the distance of its law", head, rows, folded=True)


def inside(cell: CellResult) -> Table:
    """The law inside buckets, at every point."""
    names = list(cell.figures["within"])
    rows = tuple(
        Row(f"{STRATEGIES[p['strategy']]}, {p['buckets']}", tuple(said(p["inside"][w]["information_gap"], 1000.0) for w in names))
        for s in strategies(cell) for p in points(cell, s)
    )  # fmt: skip
    head = ("buckets", *(w.replace("_", "-") for w in names))
    return Table("Thousandths of a nat lost about the gap, by the law inside the buckets", head, rows, folded=True)


def ratios(cells: Mapping[str, CellResult]) -> tuple[Table, Table]:
    """Pair and draft: spread and extremes of the ratio; what float32 makes of it."""
    each = [(f"{pair}, {d}", f) for pair, cell in cells.items() for d, f in cell.figures["drafts"].items()]
    head = (
        "pair, draft",
        "sd of log p/q",
        "over tokens",
        "extreme ratios",
        "over tokens",
        "log p/q from, to",
        "accepted",
        "over tokens",
    )
    single = (
        "pair, draft",
        "log space: largest error of log p/q",
        "decisions it turns",
        "p/q itself: not finite",
        "decisions it turns",
    )
    return (
        Table("Density ratios on the draft's own proposals", head, tuple(Row(name, _spread_row(f)) for name, f in each)),
        Table(
            "The gap's ratio in float32 against float64",
            single,
            tuple(Row(name, _single_row(f["float32"])) for name, f in each),
        ),
    )


def _spread_row(f: Mapping[str, Any]) -> tuple[str, ...]:
    plain, tokens = f["continuous"], f["tokens"]
    beyond, accepted = ([said(law[name], 100.0, " %") for law in (plain, tokens)] for name in ("beyond", "accepted"))
    ends = f"{number(plain['least'])} to {number(plain['largest'])}"
    return said(plain["sd"]), said(tokens["sd"]), *beyond, ends, *accepted


def _single_row(f: Mapping[str, Any]) -> tuple[str, ...]:
    return number(f["off"], 2), *(said(f[name], 100.0, " %") for name in ("turned", "not_finite", "turned_plain"))


def apart(cells: Mapping[str, CellResult]) -> Table:
    """Pair and draft: two exact rules, two shortcuts."""
    rows = tuple(
        Row(
            f"{pair}, {draft}",
            (
                said(f["joint"], 100.0, " %"), said(f["two_step"], 100.0, " %"), said(f["apart_accepted"], 100.0, " %"), _tv(f["apart"]),
                _tv(f["redrawn"]), *(_nats(f[f"coupling_{who}"]) for who in ("target", "draft", "apart", "redrawn")),
            ),
        )
        for pair, cell in cells.items() for draft, f in cell.figures["drafts"].items()
    )  # fmt: skip
    head = ("pair, draft", "accepted: joint", "bucket, then type", "apart", "TV from the target: apart", "redrawn apart",
            "mutual information, nats: target", "draft", "apart", "redrawn apart")  # fmt: skip
    return Table("Verified apart, and redrawn apart: what comes out, exactly", head, rows)


def _tv(e: Estimate) -> str:
    return "0" if e["high"] < 1e-9 else said(e)


def _nats(e: Estimate) -> str:
    return "0" if e["value"] < 1e-9 else number(e["value"], 2)


def drafts(cells: Mapping[str, CellResult]) -> Table:
    """Drafts of pairs trained over tokens."""
    rows: list[Row] = []
    for pair, cell in cells.items():
        for name, f in cell.figures["drafts"].items():
            less: dict[str, Any] = f.get("less", {})
            rows.append(
                Row(
                    f"{pair}, {name}{', ' + f['head'] if f['head'] else ''}",
                    (
                        said(f["joint"], 100.0, " %"), said(f["two_step"], 100.0, " %"),
                        points_of(less["joint"]) if less else "", points_of(less["two_step"]) if less else "", said(f["divergence"]),
                        said(f["roughness"]),
                    ),
                )
            )  # fmt: skip
    head = ("pair, draft, head", "accepted, joint", "two-step", "less the factorised twin, points: joint", "two-step",
            "KL(target ‖ draft), nats", "roughness")  # fmt: skip
    return Table("Drafts of pairs trained over tokens", head, tuple(rows))
