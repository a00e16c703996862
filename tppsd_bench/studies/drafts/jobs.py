"""One job a pair for what is counted, one for what is timed; likewise for every pair of the table of histories."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tppsd_bench.errors import InputError
from tppsd_bench.runner.plan import CellSpec, Job, loader_module
from tppsd_bench.studies.drafts.table import ALL, COUNTED, HISTORY, TIMED, Drafts, History
from tppsd_bench.suite import nearest

_SECONDS_A_CELL, _SECONDS_AN_EVENT = 1.0, 3e-4


def jobs(table: Drafts, on: Callable[[str], Job]) -> Iterator[Job]:
    bases = [on(name) for name in table.pairs]
    for base in bases[:1]:
        _refuse_unknown(table, base)
    for base in bases:
        there = [d for d in _known(base, table.drafts) if ALL in table.drafts or d in table.drafts]
        yield from _of_pair(base, table, there)
    for name, history in table.history.items():
        yield from _over_history(on(name), history)


def _known(base: Job, asked: Sequence[str]) -> list[str]:
    """The drafts a pair has; a loader that cannot tell is believed to have what is asked for."""
    module = loader_module(base.loader)
    return list(module.drafts_of(base.source)) if hasattr(module, "drafts_of") else [d for d in asked if d != ALL]


def _refuse_unknown(table: Drafts, base: Job) -> None:
    """A name that neither a pair of the suite nor any other pair of the loader knows is a slip of the pen."""
    module = loader_module(base.loader)
    if not hasattr(module, "drafts_of"):
        return
    every = list(dict.fromkeys(d for pair in [*table.pairs, *module.names()] for d in module.drafts_of(pair)))
    for name in [n for n in [*table.drafts, *table.time.drafts] if n not in (ALL, *every)]:
        raise InputError(f"no pair has a draft {name!r};{nearest(name, every)}")


def _of_pair(base: Job, table: Drafts, drafts: list[str]) -> Iterator[Job]:
    def cells(kind: str, names: Sequence[str]) -> tuple[CellSpec, ...]:
        return tuple(CellSpec(f"{kind}.{base.pair}.{d}", kind, base.pair, d) for d in names)

    if not drafts:
        return
    events = table.sequences * base.length
    cost = len(drafts) * (_SECONDS_A_CELL + _SECONDS_AN_EVENT * events * len(table.k) / 2)
    yield replace(base, kind=COUNTED, cells=cells(COUNTED, drafts), cost=cost)
    timed = [d for d in drafts if ALL in table.time.drafts or d in table.time.drafts]
    if timed:
        sides = 1 + len(timed) * len(table.k)
        cost = table.time.budget_seconds or table.time.pairs * table.time.min_seconds * 1.5 * sides
        yield replace(
            base,
            kind=TIMED,
            cells=cells(TIMED, timed),
            length=table.time.lengths.get(base.pair, table.time.length),
            cost=cost + len(timed),
        )


def _over_history(base: Job, table: History) -> Iterator[Job]:
    known = _known(base, table.drafts)
    for draft in table.drafts:
        if draft not in known:
            raise InputError(f"history.{base.pair}: the pair has no draft {draft!r};{nearest(draft, known)}")

    def job(kind: str, length: int, cost: float) -> Job:
        cell = CellSpec(f"{kind}.{HISTORY}.{base.pair}", kind, base.pair, "")
        return replace(base, kind=kind, cells=(cell,), length=length, cost=cost, table=own)

    assert isinstance(base.table, Drafts)
    own = base.table.model_copy(update={"pairs": [], "history": {base.pair: table}})
    yield job(COUNTED, table.length, _SECONDS_AN_EVENT * table.sequences * table.length + 4 * _SECONDS_A_CELL)
    if table.run_lengths:
        seconds = 1e-3 * table.pairs * sum(table.run_lengths) * len(table.drafts)
        yield job(TIMED, max(table.run_lengths), table.budget_seconds or seconds)


def said(jobs: Sequence[Job]) -> str:
    """How many drafts of how many pairs, and how long the histories are."""
    ordinary = [cell for job in jobs if not over_history(job) for cell in job.cells]
    drafts = {(cell.pair, cell.draft) for cell in ordinary}
    timed = sum(cell.kind == TIMED for cell in ordinary)
    pairs = len({cell.pair for cell in ordinary})
    parts = [f"{len(drafts)} drafts of {pairs} pairs, {timed} of them timed"] if drafts else []
    longest = [job.length for job in jobs if over_history(job)]
    if longest:
        parts.append(f"acceptance over histories of up to {max(longest):,} events")
    return "; ".join(parts) + "." if parts else "No draft was asked for."


def over_history(job: Job) -> bool:
    """Whether a job is about the length of history: one cell for all of its drafts."""
    return not job.cells[0].draft


def history_of(job: Job) -> History:
    """The table of histories of a job's pair."""
    assert isinstance(job.table, Drafts)
    return job.table.history[job.pair]


def size(job: Job) -> str:
    """What is drawn or timed."""
    assert isinstance(job.table, Drafts)
    if over_history(job):
        table = history_of(job)
        if job.kind == TIMED:
            return f"runs of {', '.join(f'{m:,}' for m in table.run_lengths)} events, {table.pairs} pairs"
        return f"{table.sequences} sequences of {table.length:,} events"
    ks = ", ".join(map(str, job.table.k))
    drawn = job.table.time.pairs if job.kind == TIMED else job.table.sequences
    return f"{drawn} {'timed pairs' if job.kind == TIMED else 'sequences'} of {job.length} events, K = {ks}"
