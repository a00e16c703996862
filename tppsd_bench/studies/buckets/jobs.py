"""One job a pair for what is computed, one a pair for what is timed; every number of buckets of a pair shares its histories."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tppsd_bench.errors import InputError
from tppsd_bench.runner.plan import CellSpec, Job
from tppsd_bench.studies.buckets.table import Buckets, Timed

COMPUTED, TIMED = "buckets", "buckets-time"
MAP, RATIO, APART, DRAFTS = "map", "ratio", "apart", "drafts"
"""Second parts of the ids of computed cells: ``buckets.map.PAIR`` and so on."""
CONTINUOUS = "continuous"
_SECONDS = {MAP: 30.0, RATIO: 2.0, APART: 2.0, DRAFTS: 6.0}


def jobs(table: Buckets, on: Callable[[str], Job]) -> Iterator[Job]:
    _refuse_twice(table)
    for name in dict.fromkeys([*table.pairs, *table.ratios, *table.apart, *table.token_pairs]):
        parts = [part for part, asked in _parts(table).items() if name in asked]
        base = on(name)
        cells = tuple(CellSpec(f"{COMPUTED}.{part}.{base.pair}", COMPUTED, base.pair, table.draft) for part in parts)
        yield replace(base, kind=COMPUTED, cells=cells, cost=sum(_SECONDS[part] for part in parts))
    if table.time is not None:
        for name in table.time.pairs:
            base = on(name)
            cells = tuple(
                CellSpec(f"{TIMED}.{base.pair}.{point.replace(':', '.')}", TIMED, base.pair, table.draft)
                for point in points(table.time)
            )
            yield replace(base, kind=TIMED, cells=cells, length=table.time.length, cost=(table.time.seconds + 1.0) * len(cells))


def _parts(table: Buckets) -> dict[str, Sequence[str]]:
    """The parts of a pair's job, and the pairs that have each."""
    return {MAP: table.pairs, RATIO: table.ratios, APART: [*table.apart, *table.token_pairs], DRAFTS: table.token_pairs}


def points(time: Timed) -> list[str]:
    """``strategy:buckets`` of every timed point, and ``continuous``; in the order of the report, each once."""
    grid = [f"{strategy}:{n}" for strategy in time.strategies for n in time.buckets]
    for point in time.more:
        strategy, _, number = point.partition(":")
        if strategy not in ("quantile", "equal_width", "log_width") or not number.isdecimal() or int(number) < 2:
            raise InputError(f"time.more: {point!r} is no timed point; expected strategy:buckets, such as quantile:100.")
    return list(dict.fromkeys([*[CONTINUOUS] * time.continuous, *grid, *time.more]))


def part_of(cell_id: str) -> str:
    """``map``, ``ratio``, ``apart`` or ``drafts``; empty for a timed cell."""
    kind, part, *_ = cell_id.split(".")
    return part if kind == COMPUTED else ""


def _refuse_twice(table: Buckets) -> None:
    for name in table.token_pairs:
        if name in (*table.pairs, *table.ratios):
            raise InputError(
                f"{name!r} is listed in token_pairs and among continuous pairs (pairs, ratios); leave it in one of them."
            )


def said(jobs: Sequence[Job]) -> str:
    """How many pairs and points, computed and timed."""
    tables = [job.table for job in jobs if isinstance(job.table, Buckets)]
    if not tables:
        return "Buckets: nothing to do."
    table = tables[0]
    maps = sum(part_of(cell.id) == MAP for job in jobs for cell in job.cells)
    timed = sum(cell.kind == TIMED for job in jobs for cell in job.cells)
    out = (
        f"Buckets: {maps} pairs at {len(table.strategies)} strategies x {len(table.buckets)} numbers of buckets, by exact sums"
    )
    ks = f" over K = {', '.join(map(str, table.time.k))}" if timed and table.time is not None else ""
    return f"{out}; {timed} points timed{ks}." if timed else f"{out}."


def size(job: Job) -> str:
    """Histories of computed cells; events and K of timed ones."""
    assert isinstance(job.table, Buckets)
    if job.kind == TIMED and job.table.time is not None:
        return f"{job.table.time.length} events a call, K = {', '.join(map(str, job.table.time.k))}"
    return f"{job.table.contexts} histories"
