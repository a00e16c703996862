"""Two runs side by side: cells matched by id, verdicts, numbers with intervals, and differences where both have arrays to compare."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tppsd_bench import budget
from tppsd_bench.gate.counts import Counted, growth
from tppsd_bench.gate.drift import SHAPES, Effects, drift, effects, summed
from tppsd_bench.gate.measured import read_run
from tppsd_bench.results import CellResult
from tppsd_bench.stats.base import Z95

TAIL = (1 - budget.DISPLAY_CONFIDENCE) / 2
Estimate = Mapping[str, float]
_SCALARS = ("forwards_per_event", "reference_forwards_per_event", "acceptance_event", "speculative_ms", "baseline_ms", "best_k")


@dataclass(frozen=True)
class Row:
    """One number, or verdict, of one cell in both runs; None where a run does not have it."""

    cell: str
    what: str
    first: str | None
    second: str | None
    difference: float | None = None
    """Second minus first, or what ``unit`` says."""
    interval: tuple[float, float] | None = None
    unit: str = ""
    how: str = ""
    """``paired``, ``separate``, or empty."""


@dataclass(frozen=True)
class Comparison:
    """Everything that two runs have in common, and what sets them apart."""

    first: str
    second: str
    apart: tuple[str, ...]
    """Suite, seed, fingerprint, revision: what differs, in words."""
    rows: tuple[Row, ...]


def compare(first: Path, second: Path) -> Comparison:
    """Cells of two run folders by id; nothing is judged."""
    (run_a, cells_a), (run_b, cells_b) = read_run(first), read_run(second)
    apart = tuple(_apart(run_a, run_b))
    paired = run_a["provenance"]["seed"] == run_b["provenance"]["seed"] and run_a["suite"]["name"] == run_b["suite"]["name"]
    rows: list[Row] = []
    for name in dict.fromkeys([*cells_a, *cells_b]):
        a, b = cells_a.get(name), cells_b.get(name)
        if a is None or b is None:
            rows.append(Row(name, "cell", None if a is None else "measured", None if b is None else "measured"))
            continue
        rows += _verdicts(a, b)
        rows += _numbers(a, b)
        rows += _differences(a, b, _arrays(first, a), _arrays(second, b), paired=paired)
    return Comparison(str(first), str(second), apart, tuple(rows))


def _apart(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[str]:
    ways: dict[str, Callable[[Mapping[str, Any]], Any]] = {
        "suite": lambda run: run["suite"]["name"],
        "settings of the suite": lambda run: {k: v for k, v in run["suite"].items() if k not in ("name", "seed")},
        "seed": lambda run: run["provenance"]["seed"],
        "fingerprint": lambda run: run["provenance"]["fingerprint"],
        "git revision": lambda run: run["provenance"].get("git"),
        "status": lambda run: run.get("status"),
    }
    for what, of in ways.items():
        one, other = of(a), of(b)
        if one != other:
            yield f"{what} differ" if isinstance(one, dict) else f"{what}: {one} and {other}"


def _verdicts(a: CellResult, b: CellResult) -> Iterator[Row]:
    if a.error or b.error:
        yield Row(a.id, "error", a.error or "none", b.error or "none")
    for axis in dict.fromkeys(v.axis for v in (*a.verdicts, *b.verdicts)):
        one, other = a.verdict(axis), b.verdict(axis)
        yield Row(a.id, axis.value, one.outcome.value if one else None, other.outcome.value if other else None)


def _numbers(a: CellResult, b: CellResult) -> Iterator[Row]:
    """Estimates that both or one has, in the order of the first; the few scalars that people ask for."""
    for name in dict.fromkeys([*a.figures, *b.figures]):
        one, other = a.figures.get(name), b.figures.get(name)
        if _is_estimate(one) or _is_estimate(other) or name in _SCALARS:
            yield Row(a.id, name, _said(one), _said(other))
    for name in ("committed", "target_row_forwards"):
        if name in a.counts or name in b.counts:
            yield Row(a.id, name, _whole(a.counts.get(name)), _whole(b.counts.get(name)))


def _differences(a: CellResult, b: CellResult, one: Any, other: Any, *, paired: bool) -> Iterator[Row]:
    """What the arrays of both allow to compare; ``paired`` where both drew from the same streams."""
    if all("committed" in x and "forwards" in x for x in (one, other)):
        sides = [Counted(x["committed"], x["forwards"]) for x in (one, other)]
        both = paired and len(sides[0].forwards) == len(sides[1].forwards)
        grown = growth(sides[1], sides[0], paired=both)
        half = grown.bound(TAIL)
        yield _row(a.id, "forwards per event", math.expm1(grown.value), math.expm1(grown.value - half), math.expm1(grown.value + half),
                   "relative growth", both)  # fmt: skip
    laws = [_effects(x) for x in (one, other)]
    if laws[0] is not None and laws[1] is not None and len(laws[0].theta) == len(laws[1].theta):
        yield from _drifts(a.id, laws[0], laws[1], paired=paired)
    if all("log_ratio_cpu" in x for x in (one, other)):
        yield from _speeds(a, one, other)


def _drifts(cell: str, first: Effects, second: Effects, *, paired: bool) -> Iterator[Row]:
    found = drift(second, first, paired=paired)
    for i, (value, error) in enumerate(zip(found.value, found.error, strict=True)):
        what = f"law of {('gaps', 'types')[i // 4]}, {SHAPES[i % 4]}"
        yield _row(cell, what, value, value - Z95 * error, value + Z95 * error, "total variation", found.paired)


def _speeds(a: CellResult, one: Any, other: Any) -> Iterator[Row]:
    """Log speedups of two jobs: intervals of the medians by order statistics, their ends subtracted."""
    from tppsd_bench.measure.timing import order_statistic_ranks

    columns = [np.asarray(x["log_ratio_cpu"]).reshape(len(x["log_ratio_cpu"]), -1) for x in (one, other)]
    ks = [np.asarray(x.get("k", [0])) for x in (one, other)]
    for k in np.intersect1d(ks[0], ks[1]):
        ends = []
        for values, known in zip(columns, ks, strict=True):
            ordered = np.sort(values[:, int(np.flatnonzero(known == k)[0])])
            low, high = order_statistic_ranks(len(ordered), budget.DISPLAY_CONFIDENCE)
            ends.append((float(np.median(ordered)), float(ordered[low - 1]), float(ordered[high - 1])))
        (m0, l0, h0), (m1, l1, h1) = ends
        what = f"CPU speedup, K = {k}" if "k" in one else "CPU speedup"
        yield _row(a.id, what, math.expm1(m1 - m0), math.expm1(l1 - h0), math.expm1(h1 - l0), "relative growth", False)


def _effects(arrays: Mapping[str, Any]) -> Effects | None:
    """Of a gate's cell its own sums, of a law cell those of its u and v; None where neither is there."""
    if "sums" in arrays and "lengths" in arrays:
        return effects(arrays["sums"], arrays["lengths"])
    if not {"u", "lengths"} <= set(arrays) or "completed_u" in arrays or len(arrays["u"]) != arrays["lengths"].sum():
        return None
    from tppsd_bench.stats.neyman import legendre

    n, at = len(arrays["lengths"]), np.repeat(np.arange(len(arrays["lengths"])), arrays["lengths"])
    scores = np.concatenate([legendre(arrays[name]) for name in ("u", "v") if name in arrays])
    return effects(summed(scores, at, n), arrays["lengths"])


def _row(cell: str, what: str, value: float, low: float, high: float, unit: str, paired: bool) -> Row:
    return Row(cell, what, None, None, float(value), (float(low), float(high)), unit, "paired" if paired else "separate")


def _arrays(folder: Path, cell: CellResult) -> dict[str, Any]:
    file = folder / "cells" / f"{cell.id}.npz"
    if not file.is_file():
        return {}
    with np.load(file, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def _is_estimate(value: Any) -> bool:
    return isinstance(value, dict) and {"value", "low", "high"} <= set(value)


def _said(value: Any) -> str | None:
    if _is_estimate(value):
        ends = [f"{value[key]:.4g}" if value[key] is not None else "?" for key in ("value", "low", "high")]
        return f"{ends[0]} ({ends[1]} to {ends[2]})"
    return None if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _whole(value: int | None) -> str | None:
    return None if value is None else f"{value:,}"


def as_table(found: Comparison) -> str:
    """For the terminal: what sets the runs apart, then each cell's rows."""
    lines = [f"A: {found.first}", f"B: {found.second}", *(f"  {a}" for a in found.apart or ("same suite, seed and machine",))]
    width = max((len(r.what) for r in found.rows), default=0)
    column = max((len(r.first or "-") for r in found.rows if r.difference is None), default=0)
    cell = ""
    for r in found.rows:
        if r.cell != cell:
            cell = r.cell
            lines += ["", cell]
        if r.difference is None or r.interval is None:
            lines.append(f"  {r.what:<{width}}  {r.first or '-':<{column}}  {r.second or '-'}")
        else:
            low, high = r.interval
            lines.append(f"  {r.what:<{width}}  B - A: {r.difference:+.4f} ({low:+.4f} to {high:+.4f}), {r.unit}, {r.how}")
    return "\n".join(lines)
