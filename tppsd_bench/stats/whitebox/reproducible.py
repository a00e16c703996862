"""reproducible: where a sampler declares it, the same seed gives the same sequences, however they are batched."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import SampleRequest, SamplerUnderTest
from tppsd_bench.results import Axis, Evidence

FLIP_RATE = 1e-5
"""Decisions per event that float32 rounding may flip between batch sizes (|log u - log ratio| < 1e-4)."""


def reproducible(
    sampler: SamplerUnderTest, request: SampleRequest, *, rtol: float = 0.0, whole: EventBatch | None = None
) -> list[Evidence]:
    """Same seed same sequences; a new seed new ones; independent of the batch size. Only what the sampler declares is asked.

    ``whole``: the same sequences as drawn in a larger request, where there was one; else the request is drawn in two halves.
    ``rtol`` 0 asks for identical bits (float64 samplers). Above 0, between batch sizes gaps may differ by ``rtol`` up to a
    first flipped decision, and such sequences may number one more than 2e-5 times the events.
    """
    declares = sampler.declares
    if not (declares.reproducible or declares.batch_independent):
        return []
    request = replace(request, want_trace=False)
    first = sampler.sample(request).events
    out: list[Evidence] = []
    if declares.reproducible:
        again = sampler.sample(request).events
        out.append(_evidence("same_seed", first, again, 0, 0.0, "the same request gave different sequences"))
        other_key = replace(request, key=request.key.replace(seed_epoch=request.key.seed_epoch + 1))
        same = int(_same(first, sampler.sample(other_key).events, 0.0).sum())
        said = (
            f"{same} of {len(first)} sequences are unchanged under a new seed, which a continuous law never gives"
            if same
            else ""
        )
        out.append(_record("new_seed", not same, same, len(first), said))
    if declares.batch_independent and request.n_sequences > 1:
        joined = _in_halves(sampler, request) if whole is None else whole
        allowed = 1 + int(2 * FLIP_RATE * first.n_events) if rtol > 0 else 0
        out.append(_evidence("batch_size", first, joined, allowed, rtol, "sequences depend on the size of their batch"))
    return out


def _in_halves(sampler: SamplerUnderTest, request: SampleRequest) -> EventBatch:
    half = request.n_sequences // 2
    parts = [
        sampler.sample(
            replace(request, n_sequences=n, first_sequence=request.first_sequence + at, prompt=_part(request, at, n))
        )
        for at, n in ((0, half), (half, request.n_sequences - half))
    ]
    return EventBatch.concat([part.events for part in parts])


def _part(request: SampleRequest, at: int, n: int) -> EventBatch | None:
    prompt = request.prompt
    return prompt if prompt is None or len(prompt) == 1 else prompt.select(slice(at, at + n))


def _same(a: EventBatch, b: EventBatch, rtol: float) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """(n,) whether sequence i is the same in both, gaps up to ``rtol``."""
    out = np.zeros(len(a), dtype=bool)
    for i in np.flatnonzero(a.lengths == b.lengths) if len(a) == len(b) else ():
        s, t = slice(a.offsets[i], a.offsets[i + 1]), slice(b.offsets[i], b.offsets[i + 1])
        out[i] = np.array_equal(a.types[s], b.types[t]) and np.allclose(a.gaps[s], b.gaps[t], rtol=rtol, atol=0.0)
    return out


def _evidence(name: str, a: EventBatch, b: EventBatch, allowed: int, rtol: float, said: str) -> Evidence:
    different = np.flatnonzero(~_same(a, b, rtol))
    passed = len(different) <= allowed
    detail = f"{len(different)} of {len(a)} {said}, first at sequence {different[0]}" if len(different) else ""
    return _record(name, passed, len(different), len(a), detail)


def _record(name: str, passed: bool, found: int, n: int, detail: str) -> Evidence:
    return Evidence(
        f"reproducible.{name}",
        Axis.MECHANISM,
        passed=passed,
        statistic=float(found),
        n=n,
        effect=found / max(n, 1),
        effect_name="share of sequences",
        method="deterministic comparison of runs",
        detail=detail,
    )
