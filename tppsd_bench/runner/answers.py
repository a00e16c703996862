"""What a sampler answers, checked before anything is computed from it: one sentence for each way to get it wrong."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np

from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import SampleRequest, SampleRun, SamplerUnderTest, Trace
from tppsd_bench.results import Axis, Evidence
from tppsd_bench.runner.worker import describe, time_limit

TELLING_GAPS = 4
"""First gaps that two sequences of a continuous law never share by chance; of shorter sequences two suffice."""


def ask(sampler: SamplerUnderTest, request: SampleRequest, n_types: int, *, seconds: float | None = None) -> SampleRun:
    """``sampler.sample(request)``, checked. Raises InputError where the answer is not one, TimeoutError after ``seconds``."""
    if seconds is None:
        limit: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    else:
        what = f"sample() of {request.n_sequences} sequences"
        limit = time_limit(seconds, what, ", so it counts as hanging; give it a longer timeout if it is merely slow")
    with limit:
        run = sampler.sample(request)
    check_answer(run, request, n_types)
    return run


def ask_reference(
    sampler: SamplerUnderTest, request: SampleRequest, n_types: int, *, seconds: float | None = None
) -> SampleRun:
    """The same of the reference; whatever it raises is an InputError that says whose it is."""
    try:
        return ask(sampler, request, n_types, seconds=seconds)
    except (TimeoutError, MemoryError):
        raise
    except Exception as problem:
        raise InputError(f"The reference sampler broke: {describe(problem)}") from problem


def check_answer(run: SampleRun, request: SampleRequest, n_types: int) -> None:
    """Refuse a run that is not what was asked for, with one sentence."""
    if not isinstance(run, SampleRun):
        raise InputError(f"The sampler returned a {type(run).__name__}; expected SampleRun(events) with an EventBatch.")
    events = run.events
    _check_arrays(events)
    events.validate("sampler under test")
    if len(events) != request.n_sequences:
        raise InputError(f"The sampler returned {len(events)} sequences; {request.n_sequences} were requested.")
    if events.n_types > n_types:
        raise InputError(f"The sampler's events have {events.n_types} types but the target has {n_types}.")
    _check_stop(events, request)
    if run.trace is not None:
        check_trace(run.trace, events)


def _check_arrays(events: EventBatch) -> None:
    if not isinstance(events, EventBatch):
        raise InputError(
            f"The sampler's events are a {type(events).__name__}; expected an EventBatch, e.g. EventBatch.from_gaps."
        )
    for name, wanted in (("gaps", np.float64), ("types", np.int64), ("lengths", np.int64)):
        found = getattr(events, name)
        if getattr(found, "dtype", None) != wanted:
            raise InputError(
                f"EventBatch.{name} is {getattr(found, 'dtype', type(found).__name__)}; expected a {np.dtype(wanted)} array: "
                "EventBatch.from_gaps converts and checks."
            )
    total = int(events.lengths.sum())
    if not len(events.gaps) == len(events.types) == total:
        raise InputError(
            f"The sampler's EventBatch has {len(events.gaps)} gaps and {len(events.types)} types but lengths that sum to "
            f"{total}; it is flat, sequence after sequence (EventBatch.from_padded takes padded arrays)."
        )


def _check_stop(events: EventBatch, request: SampleRequest) -> None:
    wanted, horizon = request.stop.n_events, request.stop.horizon
    if wanted is not None:
        wrong = np.flatnonzero(events.lengths != wanted)
        if len(wrong):
            i = int(wrong[0])
            raise InputError(
                f"The sampler's sequence {i} has {events.lengths[i]} events; the stop rule asked for {wanted} in each."
            )
        return
    if events.horizon is None:
        raise InputError(f"The sampler's events carry no horizon; the stop rule asked for {horizon:g}: set EventBatch.horizon.")
    other = np.flatnonzero(events.horizon != horizon)
    if len(other):
        i = int(other[0])
        raise InputError(
            f"The sampler's sequence {i} has horizon {events.horizon[i]:g}; the stop rule asked for {horizon:g} in all."
        )


def check_trace(trace: Trace, events: EventBatch) -> None:
    """Refuse a trace that contradicts itself whatever the rule: counters that cannot be, rounds that are not these events."""
    from tppsd_bench.stats.whitebox.contexts import check_shapes

    check_shapes(trace, events)
    t = trace
    if not len(t.round_index):
        return
    for said, bad in (
        ("a negative counter", np.minimum.reduce([t.round_drafted, t.round_verified, t.round_accepted, t.round_committed]) < 0),
        ("accepted more than it verified", t.round_accepted > t.round_verified),
        ("verified more than it drafted", t.round_verified > t.round_drafted),
        ("a sequence that the run does not have", (t.round_sequence < 0) | (t.round_sequence >= len(events))),
    ):
        if bad.any():
            i = int(np.argmax(bad))
            raise InputError(
                f"The trace contradicts itself: round {t.round_index[i]} of sequence {t.round_sequence[i]} has {said} "
                f"(drafted {t.round_drafted[i]}, verified {t.round_verified[i]}, accepted {t.round_accepted[i]}, committed "
                f"{t.round_committed[i]}); tppsd_bench.TraceBuilder counts from the proposals."
            )
    committed = np.bincount(t.round_sequence, weights=t.round_committed, minlength=len(events)).astype(np.int64)
    if (committed != events.lengths).any():
        i = int(np.argmax(committed != events.lengths))
        raise InputError(
            f"The trace contradicts itself: the rounds of sequence {i} committed {committed[i]} events, the run has "
            f"{events.lengths[i]}; every event is an accepted proposal, a replacement or the bonus of one round."
        )


def fresh_seeds(run: EventBatch, earlier: Sequence[EventBatch]) -> Evidence:
    """Sequences drawn under different keys must differ: a sampler that ignores its key repeats itself, confirmation included."""
    seen = set().union(*(_beginnings(batch) for batch in earlier))
    again = [row for row, gaps in enumerate(_beginnings(run)) if gaps is not None and gaps in seen]
    detail = ""
    if again:
        detail = (
            f"Sequence {again[0]} begins with the same gaps as one that was drawn under another key, one of {len(again)} such "
            "sequences: the sampler does not take its randomness from request.key, so that no look is a fresh one; seed sequence "
            "i with request.key.sequence(request.first_sequence + i), or all with request.key.generator()"
        )
    return Evidence(
        "validity.fresh_seeds", Axis.VALIDITY, passed=not again, statistic=float(len(again)), n=len(run), method="deterministic",
        detail=detail,
    )  # fmt: skip


def _beginnings(batch: EventBatch) -> list[bytes | None]:
    """The first gaps of each sequence; None where it has fewer than two."""
    ends = np.minimum(batch.lengths, TELLING_GAPS)
    return [
        batch.gaps[a : a + m].tobytes() if m >= 2 else None
        for a, m in zip(batch.offsets[:-1].tolist(), ends.tolist(), strict=True)
    ]
