"""Runs whose PITs are known, and cutting of traced runs into many small ones."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from grey_toys import uniform_case

from tppsd_bench.events import FloatArray
from tppsd_bench.protocols import SampleRun, Scores, Trace
from tppsd_bench.stats.eprocess import Design, EProcess, Wealth

GREY = Design(3)


def followed(u: FloatArray, v: FloatArray, rng: np.random.Generator) -> Wealth:
    """The grey e-process over sequences (n, L) with these PITs."""
    batch, scores = uniform_case(u, v)
    process = EProcess(GREY, rng)
    process.feed(SampleRun(batch), scores)
    return process.wealth


def some_sequences(run: SampleRun, scores: Scores, begin: int, end: int) -> tuple[SampleRun, Scores]:
    """Sequences begin..end-1 of a run with a trace, and their scores."""
    events, t = run.events, run.trace
    flat = slice(int(events.offsets[begin]), int(events.offsets[end]))
    cut = {name: getattr(scores, name)[flat] for name in ("log_density", "cdf", "survival", "type_probs")}
    if scores.crossing_cdf is not None:
        cut["crossing_cdf"] = scores.crossing_cdf[begin:end]
    part = SampleRun(events.select(slice(begin, end)))
    if t is None:
        return part, Scores(**cut)
    records = (t.sequence >= begin) & (t.sequence < end)
    rounds = (t.round_sequence >= begin) & (t.round_sequence < end)
    out = {}
    for f in fields(Trace):
        values = getattr(t, f.name)
        if f.name in ("gap_role", "type_role", "event_round", "event_position", "event_k"):
            out[f.name] = values[flat]
        elif f.name.startswith("round_"):
            out[f.name] = values[rounds]
        elif f.name.startswith("crossing_"):
            out[f.name] = None if values is None else values[begin:end]
        else:
            out[f.name] = values[records]
    out["sequence"], out["round_sequence"] = out["sequence"] - begin, out["round_sequence"] - begin
    return SampleRun(part.events, trace=Trace(**out)), Scores(**cut)
