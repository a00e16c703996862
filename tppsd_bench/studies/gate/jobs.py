"""For each sampler: counts and law in one job, time in another that runs alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tppsd_bench import budget
from tppsd_bench.runner.plan import CellSpec, Job, Levels
from tppsd_bench.studies.gate.table import Gate, Part

FACTORY_LOADER = "tppsd_bench.gate.subject:load_subject"


def jobs(table: Gate, on: Callable[[str], Job]) -> Iterator[Job]:
    every = [
        *((replace(on(pair), table=table), list[int | None](table.k)) for pair in table.pairs),
        *((replace(on(name), table=table, loader=FACTORY_LOADER), list[int | None]([None])) for name in table.samplers),
    ]
    law_cells = sum(len(ks) for _, ks in every) * ("law" in table.measure)
    share = max(law_cells, 1)
    levels = Levels(budget.LAW_ANALYTIC_LEVEL / share, budget.PERMUTATION_LEVEL, budget.MECHANISM_LEVEL / share,
                    budget.EPROCESS_LEVEL / share)  # fmt: skip
    for job, ks in every:
        cells = [_cell(part, job.pair, table, k) for k in ks for part in table.measure if part != "time"]
        if cells:
            cost = len(ks) * (table.n_sequences * table.length + table.law_sequences(job.pair) * table.length) / 10_000
            yield replace(job, kind="gate", cells=tuple(cells), levels=levels, length=table.length, cost=cost)
        if "time" in table.measure:
            timed = tuple(_cell("time", job.pair, table, k) for k in ks)
            cost = 4 * len(ks) * table.timed_pairs * table.min_seconds
            yield replace(job, kind="gate-time", cells=timed, levels=levels, length=table.timed_length, cost=cost)


def _cell(part: Part, pair: str, table: Gate, k: int | None) -> CellSpec:
    draft = "" if k is None else table.law_draft if part == "law" else table.draft
    end = f"{pair}.k{k}" if k is not None else pair
    return CellSpec(f"gate-time.{end}", "gate-time", pair, draft, k) if part == "time" else CellSpec(
        f"gate.{part}.{end}", "gate", pair, draft, k
    )  # fmt: skip


def part_of(cell_id: str) -> Part:
    """What a cell of this study measures."""
    return "time" if cell_id.startswith("gate-time.") else "law" if cell_id.startswith("gate.law.") else "counts"


def said(jobs: Sequence[Job]) -> str:
    """What is measured, before the run."""
    names = ", ".join(dict.fromkeys(job.pair for job in jobs))
    tables = [job.table for job in jobs if isinstance(job.table, Gate)]
    if not tables:
        return "Nothing is gated."
    t = tables[0]
    parts = {
        "counts": f"target forwards of {t.n_sequences} sequences of {t.length} events",
        "law": f"law and effects of {t.n_events:,} events",
        "time": f"{t.timed_pairs} timed pairs",
    }
    return f"What a gate judges ({names}): {'; '.join(parts[p] for p in t.measure)}."


def size(job: Job) -> str:
    """Events that a job draws, or pairs that it times."""
    assert isinstance(job.table, Gate)
    t = job.table
    if job.kind == "gate-time":
        return f"{t.timed_pairs} pairs of {t.timed_length} events"
    return f"{t.n_sequences} sequences of {t.length} counted, {t.law_sequences(job.pair) * t.length:,} events for the law"
