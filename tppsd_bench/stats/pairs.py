"""Dependence between neighbours: (u_i, u_{i+1}) and (u_i, v_i) on equal cells.

Overlapping pairs (u_i, u_{i+1}) use the *independence* chi-square with 49 degrees of freedom: margins are tested elsewhere, and
the 63-df Pearson form holds only for disjoint pairs (overlapping cells follow chi2(49) + 2 chi2(7)). Cells with too few
expected counts are merged: first both axes by halves, by n alone; then rare rows: the past, settled before the columns.
"""

from __future__ import annotations

import math

import numpy as np

from tppsd_bench.budget import MIN_EXPECTED_SMALL_P
from tppsd_bench.results import Evidence
from tppsd_bench.stats.base import (
    POWER,
    ChiSquareStatistic,
    Design,
    FloatArray,
    IntArray,
    chi_square_evidence,
    noncentrality,
    register,
    undersized,
)
from tppsd_bench.stats.neyman import cells
from tppsd_bench.stats.pit import PitStream

GRID = 8
MAX_TYPE_CELLS = 10
MIN_PAIRS = math.ceil(4 * MIN_EXPECTED_SMALL_P)


def grid_for(n: int, columns: int | None = None) -> int:
    """Largest of 8, 4, 2 cells a side that leaves 20 expected counts a cell; 0 where even 2 do not."""
    for grid in (8, 4, 2):
        if n >= MIN_EXPECTED_SMALL_P * grid * (grid if columns is None else columns):
            return grid
    return 0


def merge_rare_rows(table: FloatArray, minimum: float) -> FloatArray:
    """Adjacent rows joined until each has at least ``minimum`` counts; a rare remainder joins the row before it."""
    rows: list[FloatArray] = []
    pending = np.zeros(table.shape[1])
    for row in table:
        pending = pending + row
        if pending.sum() >= minimum:
            rows.append(pending)
            pending = np.zeros(table.shape[1])
    if pending.sum() > 0:
        if rows:
            rows[-1] = rows[-1] + pending
        else:
            rows.append(pending)
    return np.array(rows).reshape(-1, table.shape[1])


def independence(table: IntArray) -> tuple[float, int] | None:
    """(chi-square, degrees of freedom) of an (8, 8) table of (past, present) cells; None where it has too few pairs."""
    n = int(table.sum())
    grid = grid_for(n)
    if not grid:
        return None
    step = GRID // grid
    coarse = table.reshape(grid, step, grid, step).sum(axis=(1, 3)).astype(np.float64)
    coarse = merge_rare_rows(coarse, MIN_EXPECTED_SMALL_P * grid)
    coarse = coarse[:, coarse.sum(axis=0) > 0]
    df = (coarse.shape[0] - 1) * (coarse.shape[1] - 1)
    if df == 0:
        return None
    expected = coarse.sum(axis=1, keepdims=True) * coarse.sum(axis=0, keepdims=True) / n
    return float(((coarse - expected) ** 2 / expected).sum()), df


def pearson_equal(table: IntArray) -> tuple[float, int] | None:
    """(chi-square, degrees of freedom) of an (8, c) table whose cells are equally likely; None where n is too small."""
    n, columns = int(table.sum()), table.shape[1]
    grid = grid_for(n, columns)
    if not grid:
        return None
    coarse = table.reshape(grid, GRID // grid, columns).sum(axis=1)
    expected = n / coarse.size
    return float(((coarse - expected) ** 2).sum() / expected), coarse.size - 1


def type_cells(n_types: int) -> int:
    """min(10, types): how finely v is cut."""
    return min(MAX_TYPE_CELLS, n_types)


def gap_gap_codes(stream: PitStream) -> IntArray:
    """(m,) cell 0..63 of (u_{i-1}, u_i); -1 at the start of a sequence."""
    present = cells(stream.u, GRID)
    codes = np.empty_like(present)
    codes[:1] = -1
    np.multiply(present[:-1], GRID, out=codes[1:])
    codes[1:] += present[1:]
    codes[stream.index == 0] = -1
    return codes


def gap_type_codes(stream: PitStream) -> IntArray:
    """(m,) cell of (u_i, v_i) on 8 x min(10, types)."""
    columns = type_cells(stream.batch.n_types)
    return cells(stream.u, GRID) * columns + cells(stream.type_values, columns)


class GapGap(ChiSquareStatistic):
    """Independence of neighbouring gap PITs."""

    name = "pair.gap_gap"
    null = "chi2(49)"
    effect_name = "contingency w = sqrt(chi2 / n)"
    df = (GRID - 1) ** 2

    def members(self, design: Design) -> int:
        return 1

    def min_effect(self, n: int, alpha: float, power: float = POWER) -> float:
        """w on the grid that n allows."""
        grid = grid_for(n)
        return math.sqrt(noncentrality((grid - 1) ** 2, alpha, power) / n) if grid else math.inf

    def evaluate(self, stream: PitStream, design: Design, alpha: float) -> list[Evidence]:
        codes = gap_gap_codes(stream)
        table = np.bincount(codes + 1, minlength=1 + GRID * GRID)[1:].reshape(GRID, GRID)
        return [self.of_table(self.name, table, alpha)]

    def of_table(self, name: str, table: IntArray, alpha: float, where: dict[str, str] | None = None) -> Evidence:
        n, found = int(table.sum()), independence(table)
        if found is None:
            return undersized(name, n, MIN_PAIRS, where, "pairs")
        return chi_square_evidence(
            name, *found, n, alpha, self.effect_name, method="independence, overlapping pairs", where=where
        )


class GapType(ChiSquareStatistic):
    """Joint uniformity of an event's gap and type PITs."""

    name = "pair.gap_type"
    null = "chi2(8 min(10, types) - 1)"
    effect_name = "w = sqrt(chi2 / n)"
    df = GRID * MAX_TYPE_CELLS - 1

    def members(self, design: Design) -> int:
        return int(design.marked)

    def evaluate(self, stream: PitStream, design: Design, alpha: float) -> list[Evidence]:
        if stream.v is None:
            return []
        columns = type_cells(design.n_types)
        table = np.bincount(gap_type_codes(stream), minlength=GRID * columns).reshape(GRID, columns)
        return [self.of_table(self.name, table, alpha)]

    def of_table(self, name: str, table: IntArray, alpha: float, where: dict[str, str] | None = None) -> Evidence:
        n, found = int(table.sum()), pearson_equal(table)
        if found is None:
            return undersized(name, n, math.ceil(2 * table.shape[1] * MIN_EXPECTED_SMALL_P), where)
        return chi_square_evidence(name, *found, n, alpha, self.effect_name, method="Pearson, equal cells", where=where)


GAP_GAP, GAP_TYPE = GapGap(), GapType()
register(GAP_GAP)
register(GAP_TYPE)
