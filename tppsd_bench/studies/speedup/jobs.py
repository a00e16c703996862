"""A job for each pair and draft, its sites one after the other, each with the cell of its promise before its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tppsd_bench.runner.plan import CellSpec, Job
from tppsd_bench.studies.speedup.sites import KIND, Site, sites
from tppsd_bench.studies.speedup.table import Grid, Speedup

_PART_SECONDS = 8.0
"""About what a packing or a history cell takes."""


def jobs(table: Speedup, on: Callable[[str], Job]) -> Iterator[Job]:
    by_draft: dict[tuple[str, str], list[Site]] = {}
    for site in sites(table):
        by_draft.setdefault((site.pair, site.draft), []).append(site)
    for (pair, _), members in by_draft.items():
        base = on(pair)
        named = [replace(site, pair=base.pair) for site in members]  # a folder is called by its last part
        cells = [CellSpec(i, KIND, base.pair, s.draft, max(s.ks)) for s in named for i in (s.promise, s.cell)]
        cost = sum(_seconds(table, site) for site in named)
        yield replace(base, kind=KIND, cells=tuple(cells), cost=cost, table=_only(table, named))
    for part, names in (("packing", table.packing.pairs), ("history", table.history.pairs)):
        for name in names:
            base = on(name)
            cell = CellSpec(f"{KIND}.{part}.{base.pair}", KIND, base.pair, "shipped")
            yield replace(base, kind=KIND, cells=(cell,), cost=_PART_SECONDS, table=_only(table, []))


def _only(table: Speedup, members: Sequence[Site]) -> Speedup:
    """The table with these sites as its whole grid."""
    grid = [Grid(pairs=[s.pair], drafts=[s.draft], k=list(s.ks), batch=[s.batch], length=[s.length]) for s in members]
    return table.model_copy(update={"grid": grid})


def _seconds(table: Speedup, site: Site) -> float:
    """Seconds a site's timing takes, where no side is longer than asked for."""
    return 1.2 * table.seconds * (table.pairs * (len(site.ks) + 4) + table.calibration_pairs * (table.calibrated + 2)) + 2.0


def sites_of(job: Job) -> list[Site]:
    """The sites of a job, in the order of its cells; those of finished cells are left out."""
    assert isinstance(job.table, Speedup)
    wanted = {cell.id for cell in job.cells}
    return [site for site in sites(job.table) if wanted & {site.promise, site.cell}]


def said(jobs: Sequence[Job]) -> str:
    """How many points of the grid, at how many sites."""
    found = {site for job in jobs for site in sites_of(job)}
    points = sum(len(site.ks) for site in found)
    pairs = len({(site.pair, site.draft) for site in found})
    return (
        f"{points} points (K x batch x length) of {pairs} pairs of target and draft, timed at {len(found)} "
        f"site{'s' * (len(found) != 1)} against three baselines; what the throughput law promises is written down before each is timed."
    )


def size(job: Job) -> str:
    """The K's of a job's sites, by id."""
    found = sites_of(job)
    if not found:
        return "one table"
    ks = sorted({k for site in found for k in site.ks})
    return f"K = {', '.join(map(str, ks))}; batch {_span([s.batch for s in found])}, {_span([s.length for s in found])} events"


def _span(values: Sequence[int]) -> str:
    return str(values[0]) if min(values) == max(values) else f"{min(values)} to {max(values)}"
