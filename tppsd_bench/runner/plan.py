"""Suite -> jobs and cells, before anything is loaded: ids, sizes, costs, and what the run will be able to see."""

from __future__ import annotations

import hashlib
import importlib
import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from types import ModuleType
from typing import Any

from tppsd_bench import budget
from tppsd_bench.errors import InputError
from tppsd_bench.studies.base import StudyTable, module_of, needs_silence, study_of
from tppsd_bench.suite import Sections, Suite, nearest
from tppsd_bench.suite_power import Dose, Null, Power, Transformer

TYPICAL_TESTS = 200
"""About the size M of a cell's analytic family: what is detectable hardly depends on it; the exact M is the design's."""


@dataclass(frozen=True)
class CellSpec:
    """One point of the grid. ``id`` is also its file name."""

    id: str
    kind: str
    pair: str
    draft: str
    k: int | None = None


@dataclass(frozen=True)
class Levels:
    """Shares of the run's error budget that one job may spend, so that the whole run stays within it."""

    analytic: float
    """Of one law or horizon cell."""
    permutation: float
    """Of one job: its cells are permuted jointly."""
    mechanism: float
    """Of one law or horizon cell."""
    eprocess: float = budget.EPROCESS_LEVEL
    """Of one law or horizon cell, for law and mechanism together."""


@dataclass(frozen=True)
class Job:
    """What one process does in one go: the cells that share a reference arm, or a single cell."""

    kind: str
    pair: str
    source: str
    """What the loader is given: a name or a folder."""
    cells: tuple[CellSpec, ...]
    sections: Sections
    length: int
    horizon: float | None
    suite: str
    seed: int
    loader: str
    device: str
    levels: Levels
    timeout: float
    cost: float
    """Predicted seconds, for the order of jobs and the estimate shown."""
    round_seconds: float | None = None
    """Seconds a confirmation round may take; None: as long as it takes."""
    table: Power | Transformer | Dose | Null | StudyTable | None = None
    """The suite's table for cells of the proof that it works, or of a study."""

    @property
    def alone(self) -> bool:
        """Timing cells run with nothing else on the machine."""
        return needs_silence(self.kind)

    @property
    def label(self) -> str:
        """What it is called while it runs."""
        return f"{self.kind} {self.pair}" if self.table is None or len(self.cells) != 1 else self.cells[0].id

    def without(self, done: Collection[str]) -> Job:
        """The same job for the cells that are not done yet; finished cells are never written again."""
        return replace(self, cells=tuple(cell for cell in self.cells if cell.id not in done))

    def split(self) -> list[Job]:
        """One job a cell: the way to find out which of several cells kills its process."""
        return [replace(self, cells=(cell,), cost=self.cost / len(self.cells)) for cell in self.cells]


@dataclass(frozen=True)
class Plan:
    suite: Suite
    seed: int
    device: str
    jobs: tuple[Job, ...]
    round_seconds: float | None = None

    @property
    def cells(self) -> tuple[CellSpec, ...]:
        return tuple(cell for job in self.jobs for cell in job.cells)

    @property
    def digest(self) -> str:
        """Two plans with the same digest produce the same cells."""
        what = [self.suite.model_dump(mode="json"), self.seed, [(j.source, j.device, j.length, j.horizon) for j in self.jobs]]
        if self.suite.proof or self.suite.study:  # "all" means what there is now
            what.append([cell.id for cell in self.cells])
        return hashlib.blake2b(json.dumps(what, sort_keys=True).encode(), digest_size=12).hexdigest()


def make_plan(
    suite: Suite,
    *,
    pairs: Sequence[str] = (),
    seed: int | None = None,
    device: str = "cpu",
    round_seconds: float | None = None,
) -> Plan:
    """The jobs of a suite, in the order of the report. ``pairs`` (names or folders) replaces the suite's own list.

    In a suite with studies, whose pairs are not all of the grid, it selects instead.
    """
    module = loader_module(suite.loader)
    wanted = [_resolve(p, module) for p in (pairs or suite.pairs)] if suite.pairs else []
    if suite.study:
        listed = [_resolve(p, module) for p in suite.pairs]
        wanted = [pair for pair in wanted if pair in listed]
    labels = [label for label, _ in wanted]
    if len(set(labels)) < len(labels):
        raise InputError(
            f"The pairs {', '.join(s for _, s in wanted)} do not have distinct names; each is one row, name it once."
        )
    sections = {label: suite.sections(source if source in suite.pair else label) for label, source in wanted}
    levels = _levels(list(sections.values()))
    chosen = suite.seed if seed is None else seed
    jobs: list[Job] = []
    for label, source in wanted:
        base = _job(label, source, sections[label], _card(module, source), suite, chosen, device, levels)
        jobs.extend(_jobs_of_pair(replace(base, round_seconds=round_seconds)))
    if suite.proof:
        from tppsd_bench.runner.power_plan import proof_jobs

        jobs.extend(proof_jobs(suite, chosen, device, lambda pair: _resolve(pair, module), pairs, round_seconds))
    jobs.extend(_study_jobs(suite, chosen, device, module, pairs, round_seconds))
    return Plan(suite, chosen, device, tuple(jobs), round_seconds)


def _study_jobs(
    suite: Suite, seed: int, device: str, module: ModuleType, only: Sequence[str], round_seconds: float | None
) -> list[Job]:
    """The jobs of the suite's studies; ``only``: those whose pair is among these."""
    wanted = {_resolve(pair, module)[0] for pair in only}
    levels = Levels(budget.LAW_ANALYTIC_LEVEL, budget.PERMUTATION_LEVEL, budget.MECHANISM_LEVEL)
    jobs: list[Job] = []
    for name, table in suite.study.items():

        def on(pair: str, table: StudyTable = table) -> Job:
            label, source = _resolve(pair, module)
            sections, about = suite.sections(label), _card(module, source)
            return Job(
                "", label, source, (), sections, int(about.get("train_median_events") or 1), None, suite.name, seed,
                suite.loader, device, levels, suite.cell_timeout, 0.0, round_seconds, table,
            )  # fmt: skip

        try:
            made: list[Job] = list(module_of(name, "jobs").jobs(table, on))
        except InputError as problem:
            raise InputError(f"{suite.name}: [study.{name}]: {problem}") from None
        jobs += [job for job in made if not wanted or job.pair in wanted]
    return jobs


def loader_module(loader: str) -> ModuleType:
    """The module that lists, describes and loads pairs; InputError where the dotted string names none."""
    name = loader.partition(":")[0]
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        if problem.name and not name.startswith(problem.name):
            raise
        raise InputError(f"The pair loader {loader!r} names no module that can be imported ({problem}).") from None


def law_sizes(job: Job) -> tuple[int, int]:
    """(sequences, events) of one arm of a law job's first round."""
    n = max(2, math.ceil(job.sections.law.n_events / job.length))
    return n, n * job.length


def detectable(plan: Plan) -> str:
    """One sentence for people, before the run: what its size lets it see."""
    sized = [(j, law_sizes(j)[1]) for j in plan.jobs if j.kind == "law"]
    if plan.suite.proof and not sized:
        from tppsd_bench.runner.power_plan import said

        return said(plan)
    if not sized and plan.suite.study:
        return said_of_studies(plan)
    if not sized:
        return "This run has no law cells, so it cannot say whether a sampler is exact."
    small, large = min(n for _, n in sized), max(n for _, n in sized)
    events = f"{small:,}" if small == large else f"{small:,} to {large:,}"
    level = sized[0][0].levels.analytic
    n_cells = sum(len(j.cells) for j, _ in sized)
    ks, theta = (_span([f(n) for n in (large, small)]) for f in (budget.delta_ks, lambda n: min_detectable_theta(n, level)))
    return (
        f"{n_cells} law cells of {events} events each: with power .95 a cell finds a shift theta of {theta} from the target's law "
        f"at run level {budget.RUN_LEVEL:.0e}, and none passes with a Kolmogorov distance of {ks}; smaller faults may hide."
    )


def said_of_studies(plan: Plan) -> str:
    """What the studies of a plan cover, a sentence each."""
    by_study = {name: [job for job in plan.jobs if study_of(job.kind) == name] for name in plan.suite.study}
    return " ".join(str(module_of(name, "jobs").said(jobs)) for name, jobs in by_study.items())


def _span(effects: Sequence[float]) -> str:
    low, high = (f"{e:.3f}" for e in effects)
    return low if low == high else f"{low} to {high}"


def min_detectable_theta(n: int, level: float, tests: int = TYPICAL_TESTS) -> float:
    """Shift theta that one look at ``n`` events finds with power .95: Neyman's ``min_effect`` without scipy, to 1 %.

    The critical value x of chi2(4) solves exp(-x/2) (1 + x/2) = alpha; the root of a noncentral chi-square is close to normal
    with mean sqrt(df - 1/2 + noncentrality) and standard deviation 1. For listings, which may not wait for scipy; the exact
    numbers are ``stats.planning``'s.
    """
    log_alpha = math.log(level / budget.CONFIRMATION_ROUNDS / tests)
    x = -2.0 * log_alpha
    for _ in range(50):
        x = 2.0 * (math.log1p(x / 2.0) - log_alpha)
    root = math.sqrt(x) + NormalDist().inv_cdf(budget.DETECTION_POWER)
    return math.sqrt((root * root - 3.5) / n)


def scale_events(suite: Suite, n_events: int) -> Suite:
    """Every law cell at ``n_events`` events, whatever the suite or a pair's own table says."""
    pair = {name: own.model_copy(update={"law": {**own.law, "n_events": n_events}}) for name, own in suite.pair.items()}
    scaled = suite.model_copy(update={"law": suite.law.model_copy(update={"n_events": n_events}), "pair": pair})
    if suite.proof:
        from tppsd_bench.runner.power_plan import with_events

        return with_events(scaled, n_events)
    return scaled


def scale_to_budget(suite: Suite, seconds: float) -> Suite:
    """Sizes that fit ``seconds`` on two cores, from the suite's nominal times; the report's share is not negotiable.

    A budget above the nominal time goes to the law cells, one below shrinks law and timing alike.
    """
    nominal = suite.nominal
    if suite.study and not suite.pairs:
        raise InputError(f"Suite {suite.name!r} has profiles instead of a time budget; see them with 'show {suite.name}'.")
    if suite.proof and not suite.pairs:
        from tppsd_bench.runner.power_plan import scale_proof

        return scale_proof(suite, seconds)
    speed = nominal.speed if suite.speed.enabled else 0.0
    left = seconds - nominal.report
    if left < 0.1 * (nominal.law + speed):
        least = math.ceil(nominal.report + 0.1 * (nominal.law + speed))
        raise InputError(f"A time budget of {seconds:g} s is too small for suite {suite.name!r}; give at least {least} s.")
    law = left / (nominal.law + speed) if left < nominal.law + speed else (left - speed) / nominal.law
    shrunk = min(1.0, law)

    def scaled(table: dict[str, Any], key: str, factor: float, least: int | float) -> dict[str, Any]:
        return {**table, key: max(least, type(table[key])(table[key] * factor))} if table.get(key) is not None else table

    def laid(own: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        return {
            **own,
            "law": scaled(own["law"], "n_events", law, 512),
            "horizon": scaled(own["horizon"], "n_sequences", shrunk, 20),
            "speed": scaled(own["speed"], "budget_seconds", shrunk, 1.0),
        }

    tables = suite.model_dump()
    return Suite.model_validate({**laid(tables), "pair": {name: laid(own) for name, own in tables["pair"].items()}})


def _resolve(pair: str, module: ModuleType) -> tuple[str, str]:
    """(label, what the loader is given). A folder is named by its last part."""
    known: list[str] = list(module.names())
    if pair in known:
        return pair, pair
    if Path(pair).is_dir():
        return _as_label(Path(pair).resolve().name), str(Path(pair).resolve())
    if ":" in pair:  # a scheme of the loader's own, e.g. release:ENCODER:DATASET:FOLDER
        return _as_label("-".join(p for p in pair.split(":") if "/" not in p)), pair
    raise InputError(f"There is no pair or folder {pair!r};{nearest(pair, known)}")


def _as_label(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "-" for c in text).strip("-") or "pair"


def _card(module: ModuleType, source: str) -> dict[str, Any]:
    """The pair's card; a pair named by a scheme of its loader may have none."""
    try:
        card: dict[str, Any] = module.card(source)
    except InputError:
        if ":" not in source:
            raise
        return {}
    return card


def _levels(sections: Sequence[Sections]) -> Levels:
    law = sum(len(s.law.drafts) * len(s.law.k) for s in sections if s.law.enabled)
    horizon = sum(len(s.horizon.drafts) for s in sections if s.horizon.enabled)
    jobs = sum(s.law.enabled + s.horizon.enabled for s in sections)
    cells, jobs = max(law + horizon, 1), max(jobs, 1)
    return Levels(
        budget.LAW_ANALYTIC_LEVEL / cells, budget.PERMUTATION_LEVEL / jobs, budget.MECHANISM_LEVEL / cells,
        budget.EPROCESS_LEVEL / cells,
    )  # fmt: skip


def _job(
    label: str, source: str, sections: Sections, card: dict[str, Any], suite: Suite, seed: int, device: str, levels: Levels
) -> Job:
    length = sections.law.length or card.get("train_median_events")
    if not length:
        raise InputError(
            f"Pair {label!r} does not say how long its sequences are (train_median_events of its card); "
            f"give --set law.length=100, or pair.{label}.law.length in the suite."
        )
    horizon = sections.horizon.horizon or card.get("train_median_horizon") or card.get("horizon")
    if sections.horizon.enabled and not horizon:
        raise InputError(f"Pair {label!r} has a horizon cell but no horizon; set pair.{label}.horizon.horizon in the suite.")
    length = min(int(length), sections.law.n_events)
    return Job(
        "", label, source, (), sections, length, float(horizon) if horizon else None, suite.name, seed, suite.loader, device,
        levels, suite.cell_timeout, 0.0,
    )  # fmt: skip


def _jobs_of_pair(base: Job) -> list[Job]:
    s, pair = base.sections, base.pair
    # Relative costs: a law cell's arms beside the reference arm, in thousands of events; timing by its own budget.
    arm = law_sizes(base)[1] / 1000
    jobs = []
    if s.law.enabled:
        cells = [CellSpec(f"law.{pair}.{d}.k{k}", "law", pair, d, k) for d in s.law.drafts for k in s.law.k]
        jobs.append(replace(base, kind="law", cells=tuple(cells), cost=arm * (1 + 0.7 * len(cells))))
    if s.horizon.enabled:
        h = s.horizon
        cells = [CellSpec(f"horizon.{pair}.{d}.k{h.k}", "horizon", pair, d, h.k) for d in h.drafts]
        jobs.append(
            replace(base, kind="horizon", cells=tuple(cells), cost=h.n_sequences * base.length / 1000 * (1 + len(cells)))
        )
    if s.fit.enabled:
        jobs.append(replace(base, kind="fit", cells=(CellSpec(f"fit.{pair}", "fit", pair, ""),), cost=s.fit.n_events / 8000))
    if s.speed.enabled:
        seconds = s.speed.budget_seconds or s.speed.pairs * s.speed.min_seconds * (4 + len(s.speed.k))
        jobs.append(replace(base, kind="speed", cells=(CellSpec(f"speed.{pair}", "speed", pair, "shipped"),), cost=seconds))
    return jobs
