"""The pooled statistics again, by predictable stratum: position in round, K, index in sequence, previous gap and type, row.

A stratum is allowed only if it is known *before* the draw (accepted or not is not). Within it the values are iid uniform if
their number is fixed, so where a count is expected in advance only the first m_j = 0.9 expected values enter; where none is,
all enter and the martingale limit is used. Everything is read off integer histograms: one ``bincount`` a family and statistic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.budget import MIN_EXPECTED_SMALL_P, STRATUM_FRACTION
from tppsd_bench.errors import InputError
from tppsd_bench.results import Axis, Evidence
from tppsd_bench.stats.base import (
    POWER,
    ChiSquareStatistic,
    Design,
    IntArray,
    Stratum,
    binomial_two_sided,
    chi_square_evidence,
    register,
    undersized,
)
from tppsd_bench.stats.neyman import MIN_VALUES, N_CELLS, ORDER, cells, neyman_from_histogram
from tppsd_bench.stats.pairs import GAP_GAP, GAP_TYPE, GRID, gap_gap_codes, gap_type_codes, type_cells
from tppsd_bench.stats.pit import PitStream
from tppsd_bench.stats.tails import ENDS, ratio_min_effect, tail_class, tail_hits

EVENT_EDGES = (0, 1, 2, 3, 7, 15, 31, 63)
EVENT_LABELS = ("1", "2", "3", "4-7", "8-15", "16-31", "32-63", "64+")
ROW_EDGES = (0, 1, 2, 4, 8, 16, 32, 64)
ROW_LABELS = ("0", "1", "2-3", "4-7", "8-15", "16-31", "32-63", "64+")
GAP_LABELS = ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter")
BONUS = "bonus"
MAX_TYPES = 10


def standard_strata(
    n_types: int, *, max_k: int | None = None, k_values: tuple[int, ...] = (), batch_row: bool = False
) -> tuple[Stratum, ...]:
    """The strata of a cell, from what is known before it runs.

    Args:
        n_types: M. max_k: the largest K of a round, or None where no position is reported. k_values: the K's a varying K can
        take (one or none: no stratum by K). batch_row: whether rows of batches are reported.
    """
    out = [Stratum("event", EVENT_LABELS), Stratum("previous_gap", GAP_LABELS)]
    if n_types > 1:
        out.append(Stratum("previous_type", _type_labels(n_types)))
    if max_k is not None:
        out.append(Stratum("position", (*(str(j) for j in range(max_k)), BONUS)))
    if len(k_values) > 1:
        out.append(Stratum("k", tuple(str(k) for k in k_values)))
    if batch_row:
        out.append(Stratum("batch_row", ROW_LABELS))
    return tuple(out)


def _type_labels(n_types: int) -> tuple[str, ...]:
    if n_types <= MAX_TYPES:
        return tuple(str(k) for k in range(n_types))
    return (*(str(k) for k in range(MAX_TYPES - 1)), f"{MAX_TYPES - 1}+")


def history_codes(stream: PitStream) -> dict[str, NDArray[np.int64]]:
    """(m,) codes of the strata that the sequences themselves give: event, previous_gap (by its own PIT), previous_type."""
    start = stream.index == 0
    previous_gap = cells(stream.before(stream.scores.cdf), len(GAP_LABELS))
    previous_gap[start] = -1
    codes: dict[str, NDArray[np.int64]] = {"event": _bin(stream.index, EVENT_EDGES), "previous_gap": previous_gap}
    if stream.batch.n_types > 1:
        previous_type = np.minimum(stream.before(stream.batch.types), MAX_TYPES - 1)
        previous_type[start] = -1
        codes["previous_type"] = previous_type
    return codes


def position_codes(position: IntArray, k_round: IntArray | None, max_k: int) -> NDArray[np.int64]:
    """(m,) position 0..max_k-1, max_k for the bonus (position equal to that round's K), -1 outside."""
    codes = np.asarray(position, dtype=np.int64).copy()
    if k_round is not None:
        codes[codes == k_round] = max_k
    codes[(codes < 0) | (codes > max_k)] = -1
    return codes


def k_codes(k_round: IntArray, k_values: tuple[int, ...]) -> NDArray[np.int64]:
    """(m,) index of each draw's K among the declared values, -1 for others."""
    codes = np.full(len(k_round), -1, dtype=np.int64)
    for code, k in enumerate(k_values):
        codes[k_round == k] = code
    return codes


def row_codes(batch_row: IntArray) -> NDArray[np.int64]:
    """(m,) rows in groups that double: faults of a batch show at row 0 alone or from row 1 on."""
    return _bin(batch_row, ROW_EDGES)


def _bin(values: IntArray, edges: tuple[int, ...]) -> NDArray[np.int64]:
    table = np.searchsorted(edges, np.arange(edges[-1] + 1), side="right") - 1
    return table[np.clip(values, 0, edges[-1])].astype(np.int64)


def keep_first(codes: NDArray[np.int64], stratum: Stratum, expected: Mapping[str, float]) -> dict[str, int]:
    """Cut each stratum after its first m_j values, in place (codes become -1); returns {label: m_j}."""
    unknown = set(expected) - set(stratum.labels)
    if unknown:
        raise InputError(
            f"Expected counts name {sorted(unknown)} in stratum {stratum.name!r}; its values are {', '.join(stratum.labels)}."
        )
    sizes: dict[str, int] = {}
    for code, label in enumerate(stratum.labels):
        if label in expected:
            sizes[label] = int(STRATUM_FRACTION * expected[label])
            codes[np.flatnonzero(codes == code)[sizes[label] :]] = -1
    return sizes


class Strata(ChiSquareStatistic):
    """Smooth tests, tails and pairs of every value of every stratum."""

    name = "strata"
    null = "chi2(4) | 4 x binomial | chi2(49) | chi2(8 min(10, types) - 1), by stratum"
    effect_name = "length of (theta_1..theta_4)"
    df = ORDER

    def members(self, design: Design) -> int:
        return (5 if design.marked else 3) * sum(len(s.labels) for s in design.strata)

    def evaluate(self, stream: PitStream, design: Design, alpha: float) -> list[Evidence]:
        parts: dict[str, tuple[IntArray, int]] = {
            "pit_time": (cells(stream.u, N_CELLS), N_CELLS),
            "tail": (tail_class(stream), 5),
            "gap_gap": (gap_gap_codes(stream), GRID * GRID),
        }
        if stream.v is not None:
            parts["pit_type"] = (cells(stream.v, N_CELLS), N_CELLS)
            parts["gap_type"] = (gap_type_codes(stream), GRID * type_cells(design.n_types))
        out: list[Evidence] = []
        for stratum in design.strata:
            if stratum.name not in stream.strata:
                continue
            out += self._family(stream, stratum, parts, alpha)
        return out

    def _family(
        self, stream: PitStream, stratum: Stratum, parts: Mapping[str, tuple[IntArray, int]], alpha: float
    ) -> list[Evidence]:
        codes, n_values = stream.strata[stratum.name].copy(), len(stratum.labels)
        sizes = keep_first(codes, stratum, stream.expected.get(stratum.name, {}))
        short = {label: (int((codes == c).sum()), sizes[label]) for c, label in enumerate(stratum.labels) if label in sizes}
        codes += 1  # -1 becomes row 0, dropped below
        starts = np.flatnonzero(stream.index == 0)
        out: list[Evidence] = []
        for part, (values, width) in parts.items():
            at = codes * width
            at += values
            if part == "gap_gap":
                at[starts] = 0
            tables = np.bincount(at, minlength=(n_values + 1) * width).reshape(n_values + 1, width)[1:]
            for label, found in zip(stratum.labels, _READERS[part](tables, stratum, alpha), strict=True):
                have, need = short.get(label, (0, 0))
                out.append(found if have >= need else undersized(found.name, have, need, found.where))
        return out


def _read_neyman(name: str, tables: IntArray, stratum: Stratum, alpha: float) -> list[Evidence]:
    _, chi2, sizes = neyman_from_histogram(tables)
    out = []
    for label, x, n in zip(stratum.labels, chi2, sizes, strict=True):
        where = {stratum.name: label}
        if n < MIN_VALUES:
            out.append(undersized(name, int(n), MIN_VALUES, where))
        else:
            out.append(chi_square_evidence(name, float(x), ORDER, int(n), alpha, Strata.effect_name, where=where))
    return out


def _read_tail(tables: IntArray, stratum: Stratum, alpha: float) -> list[Evidence]:
    """The four binomials of a stratum as one member: four times the smallest p."""
    out, needed = [], int(MIN_EXPECTED_SMALL_P / 1e-2)
    for label, hits, n in zip(stratum.labels, tail_hits(tables), tables.sum(axis=1), strict=True):
        where = {stratum.name: label}
        if n < needed:
            out.append(undersized("strata.tail", int(n), needed, where))
            continue
        ps = [binomial_two_sided(int(h), int(n), p) for h, (_, p) in zip(hits, ENDS, strict=True)]
        worst = int(np.argmin(ps))
        end, p = ENDS[worst]
        out.append(
            Evidence(
                "strata.tail",
                Axis.LAW,
                p_value=min(1.0, len(ENDS) * ps[worst]),
                statistic=float(hits[worst]),
                n=int(n),
                effect=float(hits[worst] / (n * p)),
                effect_name=f"share beyond {end} / expected share",
                min_detectable=1.0 + ratio_min_effect(int(n), p, alpha / len(ENDS), POWER),
                null="binomial, exact",
                method="four ends, Bonferroni",
                where=where,
            )
        )
    return out


def _read_gap_gap(tables: IntArray, stratum: Stratum, alpha: float) -> list[Evidence]:
    return [
        GAP_GAP.of_table("strata.gap_gap", table.reshape(GRID, GRID), alpha, {stratum.name: label})
        for table, label in zip(tables, stratum.labels, strict=True)
    ]


def _read_gap_type(tables: IntArray, stratum: Stratum, alpha: float) -> list[Evidence]:
    return [
        GAP_TYPE.of_table("strata.gap_type", table.reshape(GRID, -1), alpha, {stratum.name: label})
        for table, label in zip(tables, stratum.labels, strict=True)
    ]


_READERS: dict[str, Callable[[IntArray, Stratum, float], list[Evidence]]] = {
    "pit_time": partial(_read_neyman, "strata.pit_time"),
    "pit_type": partial(_read_neyman, "strata.pit_type"),
    "tail": _read_tail,
    "gap_gap": _read_gap_gap,
    "gap_type": _read_gap_type,
}

register(Strata())
