"""One cell a claim and pair; claims that are not measured have a cell that says why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tppsd_bench.errors import InputError
from tppsd_bench.runner.plan import CellSpec, Job
from tppsd_bench.studies.claims.table import Claims
from tppsd_bench.suite import nearest

NOWHERE = "toy-marked"
"""A pair that costs nothing to load, for claims that are measured on none."""
_SECONDS = 10.0


def jobs(table: Claims, on: Callable[[str], Job]) -> Iterator[Job]:
    for number in table.only:
        if number not in table.claim:
            raise InputError(f"there is no claim {number!r};{nearest(number, list(table.claim))}")
    for number, claim in table.claim.items():
        if table.only and number not in table.only:
            continue
        kind = "claims-time" if claim.timed else "claims"
        for pair in claim.pairs or [NOWHERE]:
            job = on(pair)
            cell = CellSpec(f"{kind}.{number}.{job.pair}", kind, job.pair, "")
            cost = _SECONDS if claim.state == "measured" else 0.1
            yield replace(job, kind=kind, cells=(cell,), cost=cost, table=table.model_copy(update={"only": [number]}))


def said(jobs: Sequence[Job]) -> str:
    """How many claims are measured, pending and out of reach."""
    states = {
        number: claim.state
        for job in jobs
        if isinstance(job.table, Claims)
        for number, claim in job.table.claim.items()
        if number in job.table.only
    }
    counted = [f"{list(states.values()).count(s)} {s}" for s in dict.fromkeys(states.values())]
    return f"{len(states)} published claims: {', '.join(counted)}."


def size(job: Job) -> str:
    """The measure and its settings."""
    assert isinstance(job.table, Claims)
    claim = job.table.claim[job.table.only[0]]
    if claim.state != "measured":
        return claim.state
    settings = ", ".join(f"{k} = {v}" for k, v in claim.settings.items())
    return f"{claim.measure}{f' ({settings})' if settings else ''}"
