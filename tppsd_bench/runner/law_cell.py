"""Law and horizon cells: does the sampler under test draw from its target's law? One job a pair, one cell a draft and K."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.events import EventBatch
from tppsd_bench.measure.acceptance import acceptance_by_position
from tppsd_bench.measure.promise import Alpha, alpha_by_quadrature
from tppsd_bench.protocols import ConditionalTarget, SampleRun, Stop
from tppsd_bench.results import Axis, CellResult, Evidence
from tppsd_bench.runner import monitor
from tppsd_bench.runner.design import REFERENCE, Arm, Design, Subject
from tppsd_bench.runner.efficiency import efficiency
from tppsd_bench.runner.examine import Finding, examine
from tppsd_bench.runner.plan import CellSpec, Job, law_sizes
from tppsd_bench.runner.rounds import Rounds
from tppsd_bench.streams import StreamKey

Output = tuple[CellResult, dict[str, NDArray[Any]]]
Arrays = dict[str, NDArray[Any]]
ACF_LAGS = np.arange(1, 21)
RASTER_SEQUENCES = 24
HISTORY_EVENTS = 1000
"""Of the reference arm, from which the contexts of alpha are drawn."""


def run_law_job(job: Job, pair: Any) -> list[Output]:
    """Every law (or horizon) cell of one pair: one reference arm, one arm for each draft and K."""
    started = time.perf_counter()
    design = _design(job)
    law = job.sections.law
    size: dict[str, Any] = {"batch_size": law.batch_size}
    if law.memory_limit is not None:  # pairs of other loaders need not know it
        size["memory_limit"] = law.memory_limit
    subjects = {
        label_of(cell): Subject(
            pair.sampler("speculative", draft=cell.draft, k=cell.k, rule=law.rule, **size), pair.drafts[cell.draft]
        )
        for cell in job.cells
    }
    rounds = Rounds(pair.target, subjects, pair.sampler("target_only", **size), design)
    findings = examine(rounds, job.levels)
    seconds = (time.perf_counter() - started) / len(job.cells)
    return [_output(job, cell, pair, rounds, findings[label_of(cell)], seconds) for cell in job.cells]


def label_of(cell: CellSpec) -> str:
    """Name of a cell's arm: it enters the stream key."""
    return f"{cell.draft}.k{cell.k}"


def _design(job: Job) -> Design:
    law, screen = job.sections.law, job.sections.screen
    key = StreamKey(seed=job.seed, suite=job.suite, cell=f"{job.kind}.{job.pair}")
    if job.kind == "horizon":
        stop, n = Stop(horizon=job.horizon), job.sections.horizon.n_sequences
    else:
        stop, n = Stop(n_events=job.length), law_sizes(job)[0]
    return Design(
        stop, n, key, pilot_sequences=screen.n_sequences if job.kind == "law" else min(screen.n_sequences, n),
        pilot_length=screen.length, n_permutations=law.n_permutations, max_rounds=law.max_rounds,
        round_seconds=job.round_seconds, batch_size=law.batch_size, device=job.device,
        watch_level=job.levels.eprocess if law.sequential else None,
    )  # fmt: skip


def _output(job: Job, cell: CellSpec, pair: Any, rounds: Rounds, finding: Finding, seconds: float) -> Output:
    stop = {k: float(v) for k, v in dataclasses.asdict(rounds.design.stop).items() if v is not None}
    of_k = f", K = {cell.k}"
    base = CellResult(
        cell.id, cell.kind, job.pair, cell.draft, f"{pair.title}: {cell.draft} draft{of_k}",
        f"speculative ({job.sections.law.rule})",
        cell.k, stop, job.seed, seconds=seconds, error=finding.error, verdicts=finding.verdicts, evidence=finding.evidence,
        not_possible=finding.not_possible,
    )  # fmt: skip
    if finding.arm is None:
        return base, {}
    run, reference = finding.arm.run, finding.reference
    label = label_of(cell)
    screen = screened(rounds.pilot(label).events, rounds.pilot(REFERENCE).events)
    alpha = _alpha(rounds, label, reference)
    verdicts = (
        *finding.verdicts,
        efficiency(run, reference.run.counts if reference else None, cell.k or None, alpha, rounds.design.stop.n_events),
    )
    filled = dataclasses.replace(
        base, n_sequences=len(run.events), n_events=run.events.n_events, verdicts=verdicts,
        evidence=(*finding.evidence, screen),
        counts=dataclasses.asdict(run.counts), reference_counts=dataclasses.asdict(reference.run.counts) if reference else {},
        figures=_figures(run, reference, finding)
        | _promised(run, cell.k, alpha, rounds.design.stop.n_events)
        | {"design": _first_look(job, rounds, label)}
        | monitor.figures(rounds.wealth(label), job.levels.eprocess),
    )  # fmt: skip
    arrays = cell_arrays(finding.arm, reference, rounds.rng(label, "display", 1), rounds.forecast(label).m)
    arrays |= monitor.arrays(rounds.wealth(label), job.levels.eprocess)
    return dataclasses.replace(filled, arrays=tuple(arrays)), arrays


def _first_look(job: Job, rounds: Rounds, label: str) -> dict[str, float]:
    """What was fixed before the data and says what this cell could miss (``stats.missed``)."""
    forecast, stop = rounds.forecast(label), rounds.design.stop
    n = forecast.m if stop.n_events is None else rounds.design.n_sequences * stop.n_events
    fixed = {"tests": forecast.law_tests, "level": job.levels.analytic, "rounds": rounds.design.max_rounds}
    return fixed | {"n_types": rounds.target.n_types, "n_events": n or 0}


def _alpha(rounds: Rounds, label: str, reference: Arm | None) -> Alpha | None:
    """Acceptance by quadrature on the reference arm's histories: the target's own, of seeds that the sampler never sees."""
    target, subject, stop = rounds.target, rounds.subjects[label], rounds.design.stop
    if reference is None or subject.draft is None or stop.n_events is None or not isinstance(target, ConditionalTarget):
        return None
    some = reference.run.events.select(slice(0, -(-HISTORY_EVENTS // stop.n_events)))
    rng = rounds.rng(label, "quadrature", 1)
    return alpha_by_quadrature(target, subject.draft, some, subject.sampler.declares.rule, rng)


def _promised(run: SampleRun, k: int | None, alpha: Alpha | None, length: int | None) -> dict[str, Any]:
    if alpha is None or not k or length is None:
        return {}
    promised = alpha.events_per_forward(length, k)
    out: dict[str, Any] = {"alpha_quadrature": estimate(*alpha.interval), "promised_events_per_forward": promised}
    if run.counts.target_row_forwards:
        out["share_of_promised"] = run.counts.committed / run.counts.target_row_forwards / promised
    return out


def screened(mine: EventBatch, reference: EventBatch) -> Evidence:
    """The range screen on the pilots' fixed seeds: sequences of one arm beyond all of the other's, shown, never a gate."""
    from tppsd_bench.stats.blackbox import range_screen

    found = range_screen(mine, reference)
    beyond = found.sut_beyond + found.reference_beyond
    expected = found.expected_sut + found.expected_reference
    worst = int(beyond.argmax())
    detail = (
        f"Of {found.n_sut} + {found.n_reference} fixed-seed sequences {int(beyond[worst])} lie beyond the other arm's range of "
        f"{found.features[worst]} (about {expected:.0f} expected for each summary of an exact sampler)."
    )
    return Evidence(
        "screen.range", Axis.LAW, statistic=float(beyond[worst]), n=found.n_sut + found.n_reference, display=True,
        effect=float(beyond[worst]) / (found.n_sut + found.n_reference), effect_name="share beyond the other arm's range",
        where={"summary": found.features[worst]}, method="range screen of fixed seeds", detail=detail,
    )  # fmt: skip


def _figures(run: SampleRun, reference: Arm | None, finding: Finding) -> dict[str, Any]:
    c = run.counts
    out: dict[str, Any] = {}
    if c.drafted and c.committed:
        out |= {"accepted_per_drafted": c.accepted / c.drafted, "forwards_per_event": c.target_row_forwards / c.committed}
        out["events_per_forward"] = c.committed / max(c.target_row_forwards, 1)
    if run.trace is not None:
        rates = acceptance_by_position(run.trace)
        for unit, table in (("event", rates.event), ("gap", rates.gap), ("type", rates.type)):
            if table is not None and table.verified.sum():
                out[f"acceptance_{unit}"] = float(table.accepted.sum() / table.verified.sum())
        out["acceptance_by_position"] = rates.event.accepted_per_verified.tolist()
    for e in finding.evidence:
        if e.name.startswith("draft_direction.") and not e.where and e.effect is not None and e.interval is not None:
            out[f"lambda_{e.name.rpartition('.')[2]}"] = estimate(e.effect, *e.interval)
    if reference is not None and reference.run.counts.committed:
        out["reference_forwards_per_event"] = reference.run.counts.target_row_forwards / reference.run.counts.committed
    if finding.looks_like:
        out["looks_like"] = finding.looks_like
    if finding.note:
        out["confirmation"] = finding.note
    return out


def estimate(value: float, low: float, high: float) -> dict[str, float]:
    """A number with its interval, as result files hold it."""
    return {"value": value, "low": low, "high": high}


def cell_arrays(arm: Arm, reference: Arm | None, rng: np.random.Generator, m: int | None = None) -> Arrays:
    """What the report draws: PITs, both arms' events, autocorrelations, acceptance by position, a raster.

    Horizon batches: ``completed_u``, the first ``m`` PITs with every censored gap completed at random; ``u`` holds finished gaps
    alone, which are not uniform.
    """
    out: Arrays = {}
    batch = arm.run.events
    if arm.scores is not None:
        from tppsd_bench.stats.pit import completed_pit, type_pit

        out["u"] = arm.scores.cdf
        out["v"] = type_pit(batch.types, arm.scores.type_probs, rng.random(batch.n_events))
        if batch.horizon is not None:
            out["completed_u"] = completed_pit(batch, arm.scores, rng, None).u[:m]
    out |= {"event_index": batch.event_index, "gaps": batch.gaps, "types": batch.types, "lengths": batch.lengths}
    out |= {"acf_lags": ACF_LAGS, "acf": log_gap_acf(batch), **_raster(batch, "")}
    if reference is not None:
        other = reference.run.events
        out |= {"ref_gaps": other.gaps, "ref_types": other.types, "ref_lengths": other.lengths}
        out |= {"ref_acf": log_gap_acf(other), **_raster(other, "ref_")}
    if arm.run.trace is not None:
        event = acceptance_by_position(arm.run.trace).event
        out |= {"position_reached": event.verified, "position_accepted": event.accepted}
    return out


def log_gap_acf(batch: EventBatch, lags: NDArray[np.int64] = ACF_LAGS) -> NDArray[np.float64]:
    """(lags,) autocorrelation of log gaps within sequences, pooled; NaN where no pair is that far apart."""
    if batch.n_events < 2:
        return np.full(len(lags), np.nan)
    z = np.log(batch.gaps)
    z = (z - z.mean()) / (z.std() or 1.0)
    inside = [batch.event_index[lag:] >= lag for lag in lags]
    return np.array([
        np.mean((z[lag:] * z[:-lag])[ok]) if ok.any() else np.nan for lag, ok in zip(lags, inside, strict=True)
    ])  # fmt: skip


def _raster(batch: EventBatch, prefix: str) -> Arrays:
    some: Mapping[str, NDArray[Any]] = {"times": batch.times, "sequence": batch.sequence_index}
    keep = batch.sequence_index < RASTER_SEQUENCES
    return {f"{prefix}raster_{name}": values[keep] for name, values in some.items()}
