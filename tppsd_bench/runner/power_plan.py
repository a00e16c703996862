"""Jobs of the proof that the suite works: a power cell a fault or control, dose curves, runs of exact samplers. No model is loaded."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tppsd_bench import budget
from tppsd_bench.errors import InputError
from tppsd_bench.protocols import Rule
from tppsd_bench.runner.plan import CellSpec, Job, Levels, Plan
from tppsd_bench.runner.power_summary import KINDS
from tppsd_bench.suite import Suite, nearest
from tppsd_bench.suite_power import Dose, Null, Power, Some, Transformer

TARGET_ONLY, SPECULATIVE = "target_only", "speculative"
# Seconds of one examination of 20,000 events on a toy and on a network, and of its fixed part; for the order of jobs.
_EXAMINATION, _NETWORK, _FIXED = 1.0, 8.0, 0.06
Resolve = Callable[[str], tuple[str, str]]
"""Pair as named -> (label, what the loader is given)."""


@dataclass(frozen=True)
class NullSampler:
    """An exact sampler of a null cell, from its name."""

    control: str = ""
    """Name in the zoo; empty for the reference samplers."""
    draft: str = ""
    """Empty: target-only."""
    k: int = 5
    rule: Rule = "leviathan_two_step"
    horizon: bool = False


def proof_jobs(
    suite: Suite, seed: int, device: str, resolve: Resolve, only: Sequence[str] = (), round_seconds: float | None = None
) -> list[Job]:
    """The jobs of all tables of the proof, in the order of the report; ``only``: those whose pair is among these.

    Raises InputError for names that the zoo does not have.
    """
    makers: dict[str, Callable[..., Iterator[Job]]] = {
        "power": _power, "transformer": _transformer, "dose": _dose, "null": _null,
    }  # fmt: skip
    wanted = {resolve(p)[0] for p in only}
    levels = Levels(budget.LAW_ANALYTIC_LEVEL, budget.PERMUTATION_LEVEL, budget.MECHANISM_LEVEL, budget.EPROCESS_LEVEL)

    def on(pair: str) -> Job:
        label, source = resolve(pair)
        return Job(
            "", label, source, (), suite.sections(label), 1, None, suite.name, seed, suite.loader, device, levels,
            suite.cell_timeout, 0.0, round_seconds,
        )  # fmt: skip

    jobs = []
    for kind, table in suite.proof.items():
        try:
            zoo: Any = importlib.import_module(table.zoo)
        except ModuleNotFoundError as problem:
            raise InputError(f"{suite.name}: {kind}.zoo = {table.zoo!r} cannot be imported ({problem}).") from None

        try:
            made = [replace(job, kind=kind, table=job.table or table) for job in makers[kind](table, zoo, on)]
        except InputError as problem:
            raise InputError(f"{suite.name}: [{kind}]: {problem}") from None
        jobs += [job for job in made if not wanted or job.pair in wanted]
    return jobs


def _on_witness(job: Job, name: str, fault: Any, cost: float) -> Job:
    w = fault.witness
    cell = CellSpec(name, name.partition(".")[0], job.pair, w.draft, w.k)
    return replace(job, cells=(cell,), length=w.length, horizon=w.horizon, cost=cost)


def _power(table: Power, zoo: Any, on: Callable[[str], Job]) -> Iterator[Job]:
    for name in table.seeds_of:
        zoo.mutant(name)
    for names, seeds in (
        (_chosen(table.mutants, zoo.names(), zoo, control=False), table.seeds),
        (_chosen(table.controls, zoo.controls(), zoo, control=True), table.control_seeds or table.seeds),
    ):
        for name in names:
            fault = zoo.mutant(name)
            mine = table.model_copy(update={"seeds": table.seeds_of.get(name, seeds)})
            cost = (
                mine.seeds * (_FIXED + _EXAMINATION * mine.n_events / 20_000) + 0.5 * mine.blackbox_seeds + 0.2 * mine.etd_seeds
            )
            yield replace(_on_witness(on(fault.witness.pair), f"power.{name}", fault, cost), table=mine)


def _transformer(table: Transformer, zoo: Any, on: Callable[[str], Job]) -> Iterator[Job]:
    for pair in table.pairs:
        for name in table.mutants:
            fault, job = zoo.mutant(name), on(pair)
            cell = CellSpec(f"transformer.{name}.{job.pair}", "transformer", job.pair, table.draft, fault.witness.k)
            cost = table.seeds * _NETWORK * table.n_events / 20_000
            yield replace(job, cells=(cell,), length=table.length, horizon=None, cost=cost)


def _dose(table: Dose, zoo: Any, on: Callable[[str], Job]) -> Iterator[Job]:
    with_doses = [n for n in zoo.names() if zoo.mutant(n).doses or n in table.doses]
    for name in table.doses:
        zoo.mutant(name)
    for name in _chosen(table.mutants, with_doses, zoo, control=False):
        fault = zoo.mutant(name)
        doses = table.doses.get(name) or fault.doses
        if not doses:
            raise InputError(f"the fault {name!r} has no doses; give them as dose.doses.{name} = [...], or leave it out.")
        cost = len(doses) * table.seeds * (_FIXED + _EXAMINATION * table.n_events / 20_000)
        yield _on_witness(on(fault.witness.pair), f"dose.{name}", fault, cost)


def _null(table: Null, zoo: Any, on: Callable[[str], Job]) -> Iterator[Job]:
    for twice in {n for n in table.samplers if table.samplers.count(n) > 1}:
        raise InputError(f"samplers names {twice!r} twice; each is one cell, remove the repetition.")
    for name in table.samplers:
        spec = null_sampler(name, zoo)
        if spec.horizon and table.horizon is None:
            raise InputError(f"sampler {name!r} stops at a horizon; give null.horizon, or leave 'horizon' out of its name.")
        w = zoo.mutant(spec.control).witness if spec.control else None
        job = on(w.pair if w is not None else table.pair)
        horizon = w.horizon if w is not None else table.horizon if spec.horizon else None
        draft, k = (w.draft, w.k) if w is not None else (spec.draft, spec.k if spec.draft else None)
        one = _EXAMINATION * table.n_events / 20_000 * (2.5 if draft else 0.3) + 0.03
        yield replace(
            job, cells=(CellSpec(f"null.{name}", "null", job.pair, draft, k),), length=table.length, horizon=horizon,
            cost=table.runs * one,
        )  # fmt: skip


def null_sampler(name: str, zoo: Any) -> NullSampler:
    """What a name of ``null.samplers`` stands for; InputError where it is none."""
    first, *words = name.split(".")
    if first not in (TARGET_ONLY, SPECULATIVE):
        if name in zoo.controls():
            return NullSampler(control=name)
        raise InputError(f"there is no exact sampler {name!r};{nearest(name, [TARGET_ONLY, SPECULATIVE, *zoo.controls()])}")
    found: dict[str, Any] = {"draft": "stress"} if first == SPECULATIVE else {}
    for word in words:
        if word == "horizon":
            found["horizon"] = True
        elif first == TARGET_ONLY:
            raise InputError(f"{name!r}: target-only sampling has no {word!r}; only 'horizon' may follow.")
        elif word == "joint":
            found["rule"] = "leviathan_joint"
        elif re.fullmatch(r"k[1-9]\d?", word):
            found["k"] = int(word[1:])
        else:
            found["draft"] = word
    return NullSampler(**found)


def _chosen(chosen: Some, every: Sequence[str], zoo: Any, *, control: bool) -> list[str]:
    """Names as asked for, checked against the zoo (whose error names the nearest)."""
    if chosen == "all":
        return list(every)
    for name in chosen:
        if zoo.mutant(name).control is not control:
            raise InputError(
                f"{name!r} is a {'fault' if control else 'control'}; list it under {'mutants' if control else 'controls'}."
            )
    for twice in {n for n in chosen if chosen.count(n) > 1}:
        raise InputError(f"{twice!r} is listed twice; each is one cell, remove the repetition.")
    return list(chosen)


def scale_proof(suite: Suite, seconds: float) -> Suite:
    """The proof in this many seconds on two cores: fewer (or more) seeds and runs; what a single examination sees stays as it is."""
    report, nominal = suite.nominal.report, suite.nominal.power
    share = (seconds - report) / nominal
    if share < 0.1:
        least = math.ceil(report + 0.1 * nominal)
        raise InputError(f"A time budget of {seconds:g} s is too small for suite {suite.name!r}; give at least {least} s.")

    def times(table: Any, **least: int) -> Any:
        sizes: dict[str, Any] = {
            key: max(low, int(getattr(table, key) * share)) for key, low in least.items() if getattr(table, key)
        }
        if isinstance(table, Power):
            sizes["seeds_of"] = {name: max(2, int(n * share)) for name, n in table.seeds_of.items()}
        return table.model_copy(update=sizes)

    changes = {
        "power": {"seeds": 2, "control_seeds": 1, "etd_seeds": 1}, "transformer": {"seeds": 1},
        "dose": {"seeds": 2}, "null": {"runs": 20},
    }  # fmt: skip
    return suite.model_copy(update={name: times(table, **changes[name]) for name, table in suite.proof.items()})


def with_events(suite: Suite, n_events: int) -> Suite:
    """Every examination of a fault at ``n_events`` events (null cells, which look at rates, keep theirs)."""
    tables = {name: t.model_copy(update={"n_events": n_events}) for name, t in suite.proof.items() if name != "null"}
    return suite.model_copy(update=tables)


def size(job: Job) -> str:
    """What a job of the proof draws, for a listing."""
    t = job.table
    stop = f"sequences to {job.horizon:g}" if job.horizon else f"sequences of {job.length}"
    if isinstance(t, Null):
        return f"{t.runs:,} runs of {t.n_events:,} events, {stop}"
    return f"{t.seeds} seeds of {t.n_events:,} events, {stop}" if isinstance(t, Power | Transformer | Dose) else ""


def said(plan: Plan) -> str:
    """One sentence for people, before the run: what the proof covers."""
    by_kind = {kind: [j for j in plan.jobs if j.kind == kind] for kind in KINDS}
    parts = []
    if by_kind["power"]:
        parts.append(_said_of_power(by_kind["power"]))
    if by_kind["transformer"]:
        parts.append(f"{len(by_kind['transformer'])} cells with shipped networks")
    if by_kind["dose"]:
        parts.append(f"dose curves of {len(by_kind['dose'])} faults")
    if by_kind["null"]:
        runs = sum(j.table.runs for j in by_kind["null"] if isinstance(j.table, Null))
        parts.append(
            f"{runs:,} runs of {len(by_kind['null'])} exact samplers, of which a share of {budget.RUN_LEVEL:.0e} may fail"
        )
    return "; ".join(parts) + "." if parts else ""


def _said_of_power(jobs: Sequence[Job]) -> str:
    tables = [job.table for job in jobs if isinstance(job.table, Power)]
    exact = set(importlib.import_module(tables[0].zoo).controls())
    is_control = [job.cells[0].id.partition(".")[2] in exact for job in jobs]
    seeds = [t.seeds for t, control in zip(tables, is_control, strict=True) if not control] or [tables[0].seeds]
    most = max(seeds)
    return (
        f"{is_control.count(False)} faults, each under {_span(seeds)} seeds of {tables[0].n_events:,} events, and {is_control.count(True)} "
        f"exact controls: a fault caught by {most} of {most} seeds has a power of at least {0.05 ** (1.0 / most):.3f} (95 % confidence)"
    )


def _span(sizes: Sequence[int]) -> str:
    return f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
