"""Null cells: an exact sampler examined many times. How often does it fail, at several levels, and are its p-values uniform?"""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tppsd_bench import budget
from tppsd_bench.protocols import ConditionalTarget, Declaration, FloatArray, SampleRequest, SampleRun, SamplerUnderTest, Stop
from tppsd_bench.results import Axis, CellResult, Evidence, Outcome, Verdict
from tppsd_bench.runner.design import Subject
from tppsd_bench.runner.plan import Job, Levels
from tppsd_bench.runner.power_cell import Output, draft_of
from tppsd_bench.runner.power_examination import LABEL, Case, design_of, examined, known_preconditions, rate
from tppsd_bench.runner.power_plan import null_sampler
from tppsd_bench.runner.rounds import Rounds
from tppsd_bench.stats.decide import family_q
from tppsd_bench.stats.neyman import anderson_darling, kolmogorov_smirnov
from tppsd_bench.streams import StreamKey
from tppsd_bench.suite_power import Null

SECOND_LEVEL = 1e-3
"""A family of p-values that is less uniform than this refutes its null distributions."""
_RATE_CONFIDENCE = 0.99
_CONSERVATIVE = ("tail.", "strata.tail", "acceptance_identity", "draft_direction")
"""Statistics whose p-values are conservative by construction (exact tails of counts, a bound on martingales): they may be too large,
never too small."""


@dataclass(frozen=True)
class Unpromised:
    """A sampler without its promises: that the same seed gives the same sequences is asked once, not in every run."""

    inner: SamplerUnderTest

    @property
    def declares(self) -> Declaration:
        return replace(self.inner.declares, reproducible=False, batch_independent=False)

    def sample(self, request: SampleRequest) -> SampleRun:
        return self.inner.sample(request)


@dataclass(frozen=True)
class Run:
    """What one examination of an exact sampler said."""

    alarm: str
    """The failed verdict at the run's own level; empty where there is none, as there should be."""
    failed: tuple[bool, ...]
    """At each of the other levels."""
    p: dict[str, float]
    """Every deciding p-value of the first round."""
    q_law: float
    q_mechanism: float


def run_null_job(job: Job, pair: Any) -> list[Output]:
    """All runs of one exact sampler."""
    started = time.perf_counter()
    table, cell = job.table, job.cells[0]
    assert isinstance(table, Null)
    name = cell.id.partition(".")[2]
    case = _case(job, pair, name, table)
    runs = list(_runs(case, table, pair.sampler("target_only")))
    figures, arrays = tables(runs, table.levels)
    figures = {"sampler": name, "runs": len(runs), "n_events": table.n_events, **figures}
    result = CellResult(
        cell.id, "null", job.pair, cell.draft, f"{pair.title}: {name}, exact", name, cell.k, _plain(case.design.stop), job.seed,
        case.design.n_sequences, table.n_events, (verdict(name, figures, runs),), figures=figures, arrays=tuple(arrays),
        seconds=time.perf_counter() - started,
    )  # fmt: skip
    return [(result, arrays)]


def _case(job: Job, pair: Any, name: str, table: Null) -> Case:
    zoo = importlib.import_module(table.zoo)
    spec, batch = null_sampler(name, zoo), table.batch_size
    stop = Stop(n_events=table.length) if job.horizon is None else Stop(horizon=job.horizon)
    key = StreamKey(seed=job.seed, suite=job.suite, cell=f"null.{name}")
    design = design_of(
        pair, stop, key, n_events=table.n_events, pilot=table.pilot_sequences, batch_size=batch, device=job.device
    )  # fmt: skip
    draft: ConditionalTarget | None = None
    if spec.control:
        control = zoo.mutant(spec.control)
        witness = replace(control.witness, length=table.length, batch_size=batch)
        sampler = control.sampler(pair, witness=witness)
        draft = draft_of(pair, control, sampler, witness)
    elif spec.draft:
        sampler = pair.sampler("speculative", draft=spec.draft, k=spec.k, rule=spec.rule, batch_size=batch)
        draft = pair.drafts[spec.draft]
    else:
        sampler = pair.sampler("target_only", batch_size=batch)
    return Case(pair.target, draft, sampler, design, job.levels)


def _runs(case: Case, table: Null, reference: SamplerUnderTest) -> Iterator[Run]:
    """The runs: each on streams of its own; the pilot that fixes the sizes of strata, and the promises, are the first one's."""
    first = case.rounds(0)
    known = known_preconditions(case, reference)
    subject = Subject(Unpromised(case.sampler), case.draft)
    for i in range(table.runs):
        key = first.design.key.replace(cell=f"{case.design.key.cell}.run{i}")
        rounds = first if i == 0 else replace(
            first, design=replace(first.design, key=key), subjects={LABEL: subject}, notes={}, problems={}, _arms={}, _wealth={},
            _stopped=set(),
        )  # fmt: skip
        yield _one(rounds, case.levels, known, table.levels)


def _one(rounds: Rounds, levels: Levels, known: Sequence[Evidence] | None, alphas: Sequence[float]) -> Run:
    found = examined(rounds, levels, known)
    first = rounds.arm(LABEL, 1).evidence
    verifies = any(e.axis is Axis.MECHANISM and e.p_value is not None for e in first)
    failed = tuple(examined(rounds, spent(alpha, verifies), known).caught for alpha in alphas)
    forecast = rounds.forecast(LABEL)
    q_law, q_mechanism = (
        family_q([e for e in first if e.axis is axis], m).q
        for axis, m in ((Axis.LAW, forecast.law_tests), (Axis.MECHANISM, forecast.mechanism_tests))
    )
    p = {label(e): e.p_value for e in first if e.p_value is not None and not e.display}
    return Run(found.sentence if found.caught else "", failed, p, q_law, q_mechanism)


def spent(alpha: float, verifies: bool) -> Levels:
    """A run level of ``alpha`` over the families that such a run has, in the proportions of the budget; there is no reference."""
    mechanism = budget.MECHANISM_LEVEL if verifies else 0.0
    total = budget.LAW_ANALYTIC_LEVEL + mechanism + budget.EPROCESS_LEVEL
    shares = (budget.LAW_ANALYTIC_LEVEL, budget.PERMUTATION_LEVEL, budget.MECHANISM_LEVEL, budget.EPROCESS_LEVEL)
    return Levels(*(alpha * share / total for share in shares))


def label(evidence: Evidence) -> str:
    """A statistic and its place: ``strata.pit_time[position=0]``."""
    where = ",".join(f"{k}={v}" for k, v in evidence.where.items())
    return f"{evidence.name}[{where}]" if where else evidence.name


def tables(runs: Sequence[Run], levels: Sequence[float]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Figures and arrays of a null cell: alarms, rates at each level, and the second-level test of every statistic."""
    names = sorted({name for run in runs for name in run.p})
    p = np.array([[run.p.get(name, np.nan) for name in names] for run in runs])
    second = second_level(dict(zip(names, p.T, strict=True)))
    figures = {
        "false_alarms": rate(sum(bool(run.alarm) for run in runs), len(runs)),
        "rates": {
            f"{a:g}": rate(sum(run.failed[i] for run in runs), len(runs), _RATE_CONFIDENCE) for i, a in enumerate(levels)
        },
        "second_level": second,
        "second_level_p": min([1.0, *(len(second) * value for value in second.values())]),
    }  # fmt: skip
    arrays: dict[str, NDArray[Any]] = {
        "p": p, "statistics": np.array(names), "q_law": np.array([run.q_law for run in runs]),
        "q_mechanism": np.array([run.q_mechanism for run in runs]),
    }  # fmt: skip
    return figures, arrays


def second_level(p: Mapping[str, FloatArray]) -> dict[str, float]:
    """Statistic -> p-value of the hypothesis that its p-values over exact runs are what they claim.

    Continuous statistics: uniform, by Kolmogorov-Smirnov and Anderson-Darling (twice the smaller). Conservative ones: not smaller than
    uniform, by the one-sided sup(F_n(x) - x). Statistics that some run could not fill are left out: whether a stratum fills may depend
    on the draws.
    """
    from scipy.stats import ksone

    out: dict[str, float] = {}
    for name, values in p.items():
        n = len(values)
        if n < 2 or np.isnan(values).any():
            continue
        ordered = np.sort(np.clip(values, 0.0, 1.0))
        if name.startswith(_CONSERVATIVE):
            above = float((np.arange(1, n + 1) / n - ordered).max())
            out[name] = float(ksone.sf(max(above, 0.0), n))
        else:
            out[name] = min(1.0, 2.0 * min(kolmogorov_smirnov(ordered)[1], anderson_darling(ordered)[1]))
    return out


def verdict(name: str, figures: Mapping[str, Any], runs: Sequence[Run]) -> Verdict:
    """FAIL: an exact run failed at the run level, a rate lies above its level, or a family of p-values is not what it claims."""
    alarms, n = figures["false_alarms"]["hits"], len(runs)
    n_events = figures["n_events"]
    above = [a for a, r in figures["rates"].items() if r["low"] > float(a)]
    rates = ", ".join(f"{r['hits'] / n:.3f} at level {a}" for a, r in figures["rates"].items())
    if alarms:
        first = next(run.alarm for run in runs if run.alarm).rstrip(".")
        sentence = f"FALSE ALARM: {alarms} of {n} exact runs of {name} fail at level {budget.RUN_LEVEL:.0e} ({first})."
    elif above:
        sentence = f"Exact runs of {name} fail too often: {rates}; the 99 % interval lies above {above[0]}."
    elif figures["second_level_p"] <= SECOND_LEVEL:
        worst = min(figures["second_level"], key=figures["second_level"].get)
        sentence = (
            f"The p-values of {worst} are not uniform over {n} exact runs of {name} (p = {figures['second_level_p']:.1e})."
        )
    else:
        sentence = f"No false alarm in {n} exact runs of {name}; failures {rates}."
        return Verdict(Axis.VALIDITY, Outcome.PASS, sentence, figures["second_level_p"], budget.RUN_LEVEL, n=n_events)
    return Verdict(Axis.VALIDITY, Outcome.FAIL, sentence, figures["second_level_p"], budget.RUN_LEVEL, n=n_events)


def _plain(stop: Stop) -> dict[str, float]:
    return {"n_events": float(stop.n_events)} if stop.n_events is not None else {"horizon": float(stop.horizon or 0.0)}
