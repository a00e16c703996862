"""Against a revision: its tree beside the present one, both drawn and timed now, at the same seeds, by processes of their own.

Counts are paired by sequence. Events of both sides are scored by the present target, so that drift is that of what comes out,
whoever's fault it is: changed weights drift too. Time is the CPU time per event of one tree over the other's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tppsd_bench.events import EventBatch
from tppsd_bench.gate.again import jobs_of
from tppsd_bench.gate.base import Check
from tppsd_bench.gate.counts import Counted, judge_counts
from tppsd_bench.gate.drift import Effects, effects, judge_drift, legendre_sums
from tppsd_bench.gate.interleave import interleaved
from tppsd_bench.gate.keys import counts_key, drawn_key, effects_key
from tppsd_bench.gate.process import SideProcess
from tppsd_bench.gate.speed import Speed, judge_speed
from tppsd_bench.gate.worktree import check_provenance, path_in, toplevel, worktree
from tppsd_bench.results import CellResult
from tppsd_bench.runner.plan import CellSpec, Job
from tppsd_bench.runner.worker import resolve
from tppsd_bench.studies.base import study_of
from tppsd_bench.studies.gate.jobs import FACTORY_LOADER, part_of
from tppsd_bench.studies.gate.table import Gate


@dataclass(frozen=True)
class Trees:
    """The two source trees, as import paths."""

    here: Path
    tree: Path
    candidate: list[str]
    baseline: list[str]


def against_revision(
    run: Mapping[str, Any], cells: Mapping[str, CellResult], table: Gate, revision: str, commit: str
) -> list[Check]:
    """One check a cell of the run's plan; ``cells`` that broke are left out (they have checks of their own)."""
    here = toplevel()
    jobs = [job for job in jobs_of(run) if study_of(job.kind) == "gate"]
    with worktree(commit) as tree:
        trees = Trees(here, tree, path_in(here, here), path_in(tree, here))
        return [
            check
            for job in jobs
            for cell in job.cells
            if cell.id in cells and not cells[cell.id].error
            for check in [_checked(job, cell, table, trees, _alike(jobs, cell))]
        ]


def _alike(jobs: list[Job], cell: CellSpec) -> int:
    """Cells of the same part: they share a level."""
    return sum(part_of(c.id) == part_of(cell.id) for job in jobs for c in job.cells)


def _checked(job: Job, cell: CellSpec, table: Gate, trees: Trees, alike: int) -> Check:
    part = part_of(cell.id)
    if part == "time":
        return judge_speed(cell.id, lambda i: _timed(job, cell, table, trees, i), table.margins)
    with _sides(job, cell, table, trees) as (candidate, baseline):
        if part == "counts":
            mine, theirs = (_counted(side, job, cell, table) for side in (candidate, baseline))
            return judge_counts(
                cell.id, mine, theirs, table.margins, paired=True, cells=alike, golden=job.pair in table.goldens
            )
        pair = resolve(job.loader)(job.source, device="cpu")
        moved, fixed = (_effects(side, pair, job, cell, table, trees) for side in (candidate, baseline))
        return judge_drift(cell.id, moved, fixed, table.margins, paired=True, cells=alike)


@contextlib.contextmanager
def _sides(job: Job, cell: CellSpec, table: Gate, trees: Trees, again: bool = False) -> Iterator[list[SideProcess]]:
    """Fresh processes, loaded: candidate, baseline and, where asked for, the baseline once more."""
    law = part_of(cell.id) == "law"
    sampler = {"draft": cell.draft, "k": cell.k, "rule": table.rule, "batch_size": table.batch_size if law else None}
    own = job.source.partition(":")[0] if job.loader == FACTORY_LOADER else job.loader.partition(":")[0]
    order = {"loader": job.loader, "source": job.source, "sampler": sampler, "watch": ["tppsd_bench", own]}
    with contextlib.ExitStack() as stack:
        wanted = [("candidate", trees.candidate), ("baseline's revision", trees.baseline)]
        if again:
            wanted.append(("baseline's revision, once more", trees.baseline))
        sides = [stack.enter_context(SideProcess(name, path, job.timeout)) for name, path in wanted]
        files = [side.ask("load", **order) for side in sides]
        check_provenance(files[1], files[0], trees.tree, trees.here)
        yield sides


def _counted(side: SideProcess, job: Job, cell: CellSpec, table: Gate) -> Counted:
    key = asdict(counts_key(job.suite, cell.id, job.seed))
    found = side.ask("count", key=key, n_sequences=table.n_sequences, length=table.length)
    return Counted(np.array(found["committed"]), np.array(found["forwards"]), found["digest"])


def _effects(side: SideProcess, pair: Any, job: Job, cell: CellSpec, table: Gate, trees: Trees) -> Effects:
    """A side's events, scored by the present target."""
    key, file = asdict(drawn_key(job.suite, cell.id, job.seed)), trees.tree.parent / "drawn.npz"
    side.ask("draw", key=key, n_sequences=table.law_sequences(job.pair), length=table.length, file=str(file))
    with np.load(file, allow_pickle=False) as drawn:
        events = EventBatch(drawn["gaps"], drawn["types"], drawn["lengths"], int(drawn["n_types"]))
    events.validate(side.name)
    rng = effects_key(job.suite, cell.id, job.seed).generator()
    return effects(legendre_sums(events, pair.target.score(events), rng), events.lengths)


def _timed(job: Job, cell: CellSpec, table: Gate, trees: Trees, look: int) -> Speed:
    rng = counts_key(job.suite, cell.id, job.seed).replace(purpose="interleaved", seed_epoch=look).generator()
    with _sides(job, cell, table, trees, again=True) as sides:
        return interleaved(sides, table, rng)
