"""Power cells: a fault (or control) on its witness, examined under many seeds: caught how often, by which statistics, how soon?"""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.errors import InputError
from tppsd_bench.protocols import ConditionalTarget, FloatArray, SampleRequest, SamplerUnderTest, Stop
from tppsd_bench.results import Axis, CellResult, Evidence, Outcome, Verdict
from tppsd_bench.runner.plan import CellSpec, Job
from tppsd_bench.runner.power_etd import detected, etd, watched
from tppsd_bench.runner.power_examination import (
    LABEL,
    Case,
    Examined,
    design_of,
    distances,
    examined,
    kills,
    known_preconditions,
    matrix,
    place_among_suspects,
    rate,
)
from tppsd_bench.runner.tolerance import CEILING
from tppsd_bench.runner.worker import resolve
from tppsd_bench.stats.columns import COLUMNS, KILL_LEVEL, column_p
from tppsd_bench.streams import StreamKey
from tppsd_bench.suite_power import Power, Transformer

Output = tuple[CellResult, dict[str, NDArray[Any]]]
CONFIDENT = 0.05
"""One minus the confidence of the bounds by which a power is judged."""


@dataclass(frozen=True)
class Sizes:
    """How much of each: the same for faults on toys and on networks."""

    seeds: int
    n_events: int
    pilot: int
    required: float
    blackbox_seeds: int = 0
    n_permutations: int = 99
    etd_seeds: int = 0
    etd_budget: int = 0


def run_power_job(job: Job, pair: Any) -> list[Output]:
    """One fault or control on its own witness."""
    table = job.table
    assert isinstance(table, Power)
    fault = member(table.zoo, job.cells[0].id)
    sizes = Sizes(
        table.seeds, table.n_events, table.pilot_sequences, table.required, table.blackbox_seeds, table.n_permutations,
        table.etd_seeds, table.etd_budget,
    )  # fmt: skip
    other = resolve(job.loader)(table.etd_pair, device=job.device) if table.etd_seeds else None
    reference = None if other is None else (other, replace(fault.witness, pair=table.etd_pair, draft=table.etd_draft, k=5))
    return [_power_cell(job, job.cells[0], pair, fault, fault.witness, sizes, reference)]


def run_transformer_job(job: Job, pair: Any) -> list[Output]:
    """The same fault on a shipped network, for as many seeds as there is time."""
    table = job.table
    assert isinstance(table, Transformer)
    cell = job.cells[0]
    fault = member(table.zoo, cell.id)
    witness = replace(fault.witness, pair=job.source, draft=table.draft, length=job.length, horizon=None)
    sizes = Sizes(table.seeds, table.n_events, table.pilot_sequences, table.required)
    return [_power_cell(job, cell, pair, fault, witness, sizes, None)]


def member(zoo: str, cell_id: str) -> Any:
    """The fault or control that a cell is about."""
    return importlib.import_module(zoo).mutant(cell_id.split(".")[1])


def case_of(
    job: Job, cell_id: str, pair: Any, fault: Any, witness: Any, *, n_events: int, pilot: int, dose: float | None = None
) -> Case:
    """A member of the zoo under a witness, ready to be examined."""
    sampler = fault.sampler(pair, dose, witness=witness)
    key = StreamKey(seed=job.seed, suite=job.suite, cell=cell_id if dose is None else f"{cell_id}.{dose:g}")
    design = design_of(
        pair, witness.stop, key, n_events=n_events, pilot=pilot, batch_size=witness.batch_size, round_seconds=job.round_seconds,
        device=job.device,
    )  # fmt: skip
    return Case(pair.target, draft_of(pair, fault, sampler, witness), sampler, design, job.levels)


def draft_of(pair: Any, fault: Any, sampler: Any, witness: Any) -> ConditionalTarget | None:
    """The draft's law as its owner would give it: of a fault the pair's own, of a control the one it samples from.

    None where a control says another q than that draft's teacher-forced law (a cache that is stale on purpose): it has none to give.
    """
    if not fault.control:
        return pair.drafts[witness.draft]  # type: ignore[no-any-return]
    from tppsd_bench.stats.whitebox.contexts import line_up

    draft: ConditionalTarget = getattr(sampler, "draft", pair.drafts[witness.draft])
    request = SampleRequest(16, Stop(n_events=24), StreamKey(cell="whose draft", arm=fault.name))
    run = sampler.sample(request)
    if run.trace is None or not len(run.trace.event):
        return draft
    known = line_up(run, pair.target, draft, sampler.declares.rule).log_q
    return None if np.nanmax(np.abs(known - run.trace.log_q), initial=0.0) > CEILING else draft


def _power_cell(
    job: Job, cell: CellSpec, pair: Any, fault: Any, witness: Any, sizes: Sizes, reference: tuple[Any, Any] | None
) -> Output:
    started = time.perf_counter()
    case = case_of(job, cell.id, pair, fault, witness, n_events=sizes.n_events, pilot=sizes.pilot)
    known = known_preconditions(case, pair.sampler("target_only"))
    found: list[Examined] = []
    columns: list[dict[str, float]] = []
    places: list[int | None] = []
    baseline = fault.baseline(pair, witness=witness)
    for seed in range(sizes.seeds):
        rounds = case.rounds(seed)
        one = examined(rounds, case.levels, known)
        extra = _against_baseline(rounds, baseline, one, sizes.n_permutations) if seed < sizes.blackbox_seeds else []
        found.append(one.light())
        columns.append(one.p | column_p(extra))
        if not fault.control:
            places.append(place_among_suspects(one, (fault.name, *fault.faults)))
    here = np.array([detected(one.wealth) for one in found])
    elsewhere = _elsewhere(job, cell, fault, reference, sizes) if reference is not None else np.zeros(0)
    p = matrix(columns)
    figures = _figures(fault, case, pair, witness, found, places, p, sizes)
    figures |= {"etd": etd(here, sizes.n_events), "etd_reference": etd(elsewhere, sizes.etd_budget)}
    arrays = {"p": p, "statistics": np.array(COLUMNS), "etd": here, "etd_reference": elsewhere}
    said = f"{pair.title}: {fault.name}"
    result = CellResult(
        cell.id, cell.kind, job.pair, witness.draft, said, fault.name, witness.k, _plain(witness.stop), job.seed,
        case.design.n_sequences, sizes.n_events, (verdict(fault, found, sizes),), _strongest(found), figures=figures,
        arrays=tuple(arrays), seconds=time.perf_counter() - started,
    )  # fmt: skip
    return result, arrays


def _against_baseline(rounds: Any, baseline: SamplerUnderTest, one: Examined, n_permutations: int) -> list[Evidence]:
    """The permutation battery against the target-only arm that the fault's users had; no part of the decision."""
    if one.finding.arm is None or one.finding.arm.scores is None:
        return []
    design = replace(rounds.design, n_permutations=n_permutations)
    with_reference = replace(rounds, reference=baseline, design=design)
    try:
        return [e for e in with_reference.permutation_evidence([LABEL], 1) if e.axis is Axis.LAW]
    except InputError:  # the baseline breaks too: nothing is compared
        return []


def _elsewhere(job: Job, cell: CellSpec, fault: Any, reference: tuple[Any, Any], sizes: Sizes) -> FloatArray:
    """The same fault on the reference pair; empty for controls and where it cannot be made there."""
    if fault.control:
        return np.zeros(0)
    pair, witness = reference
    try:
        case = case_of(job, f"{cell.id}.reference", pair, fault, witness, n_events=sizes.etd_budget, pilot=sizes.pilot)
        return watched(case, sizes.etd_seeds, sizes.etd_budget)
    except (InputError, AttributeError, TypeError):  # it breaks what the reference pair does not have: token buckets, say
        return np.zeros(0)


def _figures(
    fault: Any, case: Case, pair: Any, witness: Any, found: Sequence[Examined], places: Sequence[int | None],
    p: NDArray[np.float64], sizes: Sizes,
) -> dict[str, Any]:  # fmt: skip
    n = len(found)
    draft = case.draft or pair.drafts[witness.draft]
    ranked = None
    if places:
        ranked = {"first": rate(sum(i == 1 for i in places), n), "top3": rate(sum(i is not None and i <= 3 for i in places), n)}
    return {
        "mutant": fault.name, "control": fault.control, "broken": fault.broken, "precedent": fault.precedent,
        "killers": list(fault.killers), "blessed_by": list(fault.blessed_by), "gross": fault.gross, "faults": list(fault.faults),
        **distances(pair, draft, witness.stop, case.sampler.declares.rule, case.design.key),
        "seeds": n, "n_events": sizes.n_events, "caught": rate(sum(one.caught for one in found), n),
        "caught_by": {
            "law": rate(sum(one.law for one in found), n), "mechanism": rate(sum(one.mechanism for one in found), n),
            "validity": rate(sum(one.validity for one in found), n),
        },
        "kills": kills(p), "expected": rate(sum(_as_expected(fault, one) for one in found), n), "ranked": ranked,
    }  # fmt: skip


def _as_expected(fault: Any, one: Examined) -> bool:
    """Whether one of the statistics that are there to see this fault kills it (adjusted for how many of them there are)."""
    mine = [e for e in one.evidence if e.name.startswith(tuple(fault.killers) or ("-",)) and not e.display]
    values = [e.p_value for e in mine if e.p_value is not None]
    return any(e.passed is False for e in mine) or any(len(values) * p <= KILL_LEVEL for p in values)


def verdict(fault: Any, found: Sequence[Examined], sizes: Sizes) -> Verdict:
    """Of the suite, not of the sampler: a fault must be caught with the power required, a control must not be."""
    n, hits, events = len(found), sum(one.caught for one in found), sizes.n_events
    if fault.control:
        if not hits:
            sentence = f"The exact control {fault.name} passes: 0 false alarms in {n} examinations."
            return Verdict(Axis.VALIDITY, Outcome.PASS, sentence, n=events)
        first = next(one.sentence for one in found if one.caught)
        sentence = f"FALSE ALARM: the exact control {fault.name} fails in {hits} of {n} examinations ({first.rstrip('.')})."
        return Verdict(Axis.VALIDITY, Outcome.FAIL, sentence, n=events)
    if hits == n:
        sentence = (
            f"The suite catches {fault.name}: {hits} of {n}, power at least {CONFIDENT ** (1.0 / n):.2f} (95 % confidence)."
        )
        return Verdict(Axis.VALIDITY, Outcome.PASS, sentence, n=events)
    from scipy.stats import binom

    likely = float(binom.cdf(hits, n, sizes.required))
    outcome = Outcome.FAIL if likely <= CONFIDENT else Outcome.INCONCLUSIVE
    sentence = (
        f"The suite {'misses' if outcome is Outcome.FAIL else 'may miss'} {fault.name}: {hits} of {n} caught, a power of "
        f"{sizes.required:g} is required (so few would be caught then with probability {likely:.2g})."
    )
    return Verdict(Axis.VALIDITY, outcome, sentence, n=events)


def _strongest(found: Sequence[Examined]) -> tuple[Evidence, ...]:
    """What the first examination saw, one a column: the failed check, or the smallest p-value."""
    from tppsd_bench.stats.columns import column

    best: dict[str, Evidence] = {}
    for e in found[0].evidence:
        if e.display or (e.p_value is None and e.passed is not False):
            continue
        name, size = column(e), 0.0 if e.passed is False else e.p_value
        if size is not None and size <= KILL_LEVEL and (name not in best or size < (best[name].p_value or 0.0)):
            best[name] = e
    return tuple(best.values())


def _plain(stop: Stop) -> dict[str, float]:
    return {"n_events": float(stop.n_events)} if stop.n_events is not None else {"horizon": float(stop.horizon or 0.0)}
