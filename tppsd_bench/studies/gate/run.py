"""Fills the cells of a gate: forwards counted sequence by sequence, the law examined, speed in pairs."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.errors import InputError
from tppsd_bench.gate import side
from tppsd_bench.gate.counts import Counted
from tppsd_bench.gate.drift import effects, legendre_sums
from tppsd_bench.gate.keys import EVENTS, counts_key, effects_key, law_key
from tppsd_bench.measure.counts import check_fewest_forwards
from tppsd_bench.measure.timing import AA, paired_timing
from tppsd_bench.protocols import Counts, SampleRequest, SampleRun, SamplerUnderTest, Stop
from tppsd_bench.results import Axis, CellResult, Evidence, Outcome, Verdict
from tppsd_bench.runner.answers import ask
from tppsd_bench.runner.design import Design, Subject
from tppsd_bench.runner.examine import examine
from tppsd_bench.runner.law_cell import estimate
from tppsd_bench.runner.plan import CellSpec, Job
from tppsd_bench.runner.rounds import Rounds
from tppsd_bench.stats.base import Z95
from tppsd_bench.studies.gate.jobs import part_of
from tppsd_bench.studies.gate.table import Gate

Output = tuple[CellResult, dict[str, NDArray[Any]]]
TARGET_ONLY, SUBJECT = "target-only, cached", "under test"


def run(job: Job, pair: Any) -> Iterator[Output]:
    """Cell by cell; a law cell that breaks raises, as its evidence is all there is to it."""
    for cell in job.cells:
        yield {"counts": _counts, "law": _law, "time": _time}[part_of(cell.id)](job, cell, pair)


def under_test(pair: Any, cell: CellSpec, table: Gate, batch_size: int | None) -> SamplerUnderTest:
    """The sampler that a cell is about."""
    sampler: SamplerUnderTest = pair.sampler("speculative", draft=cell.draft, k=cell.k, rule=table.rule, batch_size=batch_size)
    return sampler


def _table(job: Job) -> Gate:
    assert isinstance(job.table, Gate)
    return job.table


def _base(job: Job, cell: CellSpec, pair: Any, what: str, length: int, n: int) -> dict[str, Any]:
    of_k = "" if cell.k is None else f", K = {cell.k}"
    return {
        "id": cell.id, "kind": cell.kind, "pair": job.pair, "draft": cell.draft, "title": f"{pair.title}: {what}{of_k}",
        "sampler": "speculative" if cell.k is not None else job.source, "k": cell.k, "stop": {"n_events": float(length)},
        "seed": job.seed, "n_sequences": n, "n_events": n * length,
    }  # fmt: skip


def _counts(job: Job, cell: CellSpec, pair: Any) -> Output:
    started, t = time.perf_counter(), _table(job)
    sampler, n_types = under_test(pair, cell, t, None), int(pair.target.n_types)

    def asked(request: SampleRequest) -> SampleRun:
        return ask(sampler, request, n_types)

    found = side.count(asked, counts_key(job.suite, cell.id, job.seed), t.n_sequences, t.length)
    arrays = {name: np.array(found[name], dtype=np.int64) for name in ("committed", "forwards", "rounds")}
    counts = Counts(
        committed=int(arrays["committed"].sum()), target_row_forwards=int(arrays["forwards"].sum()),
        rounds=int(arrays["rounds"].sum()),
    )  # fmt: skip
    base = _base(job, cell, pair, "target forwards", t.length, t.n_sequences)
    if not arrays["forwards"].all():
        missing = ("counts: the sampler reports no target_row_forwards for some sequences (SampleRun.counts)",)
        return CellResult(**base, not_possible=missing, seconds=time.perf_counter() - started), {}
    counted = Counted(arrays["committed"], arrays["forwards"])
    error = float(np.sqrt((counted.influence() ** 2).sum() * t.n_sequences / (t.n_sequences - 1)))
    per_event = [counted.per_event * math.exp(sign * Z95 * error) for sign in (0, -1, 1)]
    evidence: tuple[Evidence, ...] = ()
    if cell.k is not None:
        evidence = (check_fewest_forwards(arrays["committed"], arrays["forwards"], cell.k, first_event_free=True),)
    figures = {"forwards_per_event": estimate(*per_event), "digest": found["digest"]}
    return CellResult(
        **base, verdicts=_verdicts(evidence, per_event[0], t.n_sequences), evidence=evidence, figures=figures, arrays=tuple(arrays),
        counts={"committed": counts.committed, "target_row_forwards": counts.target_row_forwards, "rounds": counts.rounds},
        seconds=time.perf_counter() - started,
    ), arrays  # fmt: skip


def _verdicts(evidence: tuple[Evidence, ...], per_event: float, n: int) -> tuple[Verdict, ...]:
    shown = Verdict(Axis.EFFICIENCY, Outcome.PASS, f"{per_event:.4f} target forwards per event in {n} sequences.", n=n)
    judged = [Verdict(Axis.MECHANISM, Outcome.PASS if e.passed else Outcome.FAIL, e.detail or e.null, n=e.n) for e in evidence]
    return (*judged, shown)


def _law(job: Job, cell: CellSpec, pair: Any) -> Output:
    started, t = time.perf_counter(), _table(job)
    n = t.law_sequences(job.pair)
    subject = Subject(under_test(pair, cell, t, t.batch_size), pair.drafts.get(cell.draft))
    design = Design(
        Stop(n_events=t.length), n, law_key(job.suite, cell.id, job.seed), pilot_length=min(24, t.length), max_rounds=1,
        batch_size=t.batch_size if cell.k is not None else None, device=job.device,
    )  # fmt: skip
    rounds = Rounds(pair.target, {EVENTS: subject}, None, design)
    finding = examine(rounds, job.levels)[EVENTS]
    if finding.error:
        raise InputError(finding.error)
    base = _base(job, cell, pair, "law", t.length, n)
    base |= {"verdicts": finding.verdicts, "evidence": finding.evidence, "not_possible": finding.not_possible}
    if finding.arm is None or finding.arm.scores is None:
        return CellResult(**base, seconds=time.perf_counter() - started), {}
    events = finding.arm.run.events
    rng = effects_key(job.suite, cell.id, job.seed).generator()
    sums = legendre_sums(events, finding.arm.scores, rng)
    arrays: dict[str, NDArray[Any]] = {"sums": sums, "lengths": events.lengths}
    found = effects(sums, events.lengths)
    half = Z95 * np.sqrt(np.diag(found.covariance))
    figures: dict[str, Any] = {
        f"theta_{'uv'[i // 4]}{i % 4 + 1}": estimate(float(x), float(x - h), float(x + h))
        for i, (x, h) in enumerate(zip(found.theta, half, strict=True))
    }
    if finding.looks_like:
        figures["looks_like"] = finding.looks_like
    return CellResult(**base, figures=figures, arrays=tuple(arrays), seconds=time.perf_counter() - started), arrays


def _time(job: Job, cell: CellSpec, pair: Any) -> Output:
    started, t = time.perf_counter(), _table(job)
    samplers = {TARGET_ONLY: pair.sampler("target_only"), SUBJECT: under_test(pair, cell, t, None)}
    sides = {name: _side(sampler, t.timed_length) for name, sampler in samplers.items()}
    timing = paired_timing(
        sides, baseline=TARGET_ONLY, again=SUBJECT, pairs=t.timed_pairs, min_seconds=t.min_seconds,
        rng=counts_key(job.suite, cell.id, job.seed).replace(purpose="timing").generator(),
    )  # fmt: skip
    arrays = {
        "log_ratio_cpu": timing.log_ratio(SUBJECT), "log_ratio_wall": timing.log_ratio(SUBJECT, "wall"),
        "log_ratio_again": timing.log_ratio(AA),
    }  # fmt: skip
    ratio, wall, again = timing.ratio(SUBJECT), timing.ratio(SUBJECT, "wall"), timing.ratio(AA)
    said = f"{ratio.median:.2f} times the speed of cached target-only sampling (CPU, {ratio.lower:.2f} to {ratio.upper:.2f})."
    unsteady = timing.unsettled(t.margins.same)
    if unsteady:
        said = f"The machine is too unsteady to tell: one sampler differs from itself by over {t.margins.same:.0%}."
    judged = Verdict(Axis.SPEED, Outcome.INCONCLUSIVE if unsteady else Outcome.PASS, said, n=timing.n_pairs)
    figures = {
        "speedup_cpu": estimate(ratio.median, ratio.lower, ratio.upper), "n_pairs": timing.n_pairs,
        "speedup_wall": estimate(wall.median, wall.lower, wall.upper), "aa_ratio": estimate(again.median, again.lower, again.upper),
        "baseline_ms": 1000 * float(np.median(timing.cpu[:, 0])), "speculative_ms": 1000 * float(np.median(timing.cpu[:, 1])),
        "note": timing.note,
    }  # fmt: skip
    base = _base(job, cell, pair, "speed", t.timed_length, 0) | {"n_events": int(timing.events.sum())}
    cell_result = CellResult(
        **base, verdicts=(judged,), figures=figures, arrays=tuple(arrays), seconds=time.perf_counter() - started
    )
    return cell_result, arrays


def _side(sampler: SamplerUnderTest, length: int) -> Any:
    return lambda seed: side.call(sampler.sample, seed, length)
