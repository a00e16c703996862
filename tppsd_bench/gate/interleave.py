"""Paired times across processes: every pair has a block of each side at the same seeds, in random order."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tppsd_bench.errors import RunBroken
from tppsd_bench.gate.process import SideProcess
from tppsd_bench.gate.speed import Speed, speed_of
from tppsd_bench.studies.gate.table import Gate

CANDIDATE, BASELINE, AGAIN = 0, 1, 2
"""Columns: the third is the baseline's tree in a second process, the A/A control."""
_AGREEMENT, _MOST_WINDOWS = 0.05, 12


def interleaved(sides: Sequence[SideProcess], table: Gate, rng: np.random.Generator) -> Speed:
    """Log of the baseline's CPU time per event over the candidate's. ``sides``: candidate, baseline, baseline again, all loaded."""
    calls = _warm_up(sides, table, rng)
    times = np.array([_pair(sides, calls, table.timed_length, rng) for _ in range(table.timed_pairs)])
    logs = np.log(times)
    return speed_of(logs[:, BASELINE] - logs[:, CANDIDATE], logs[:, BASELINE] - logs[:, AGAIN])


def _pair(sides: Sequence[SideProcess], calls: int, length: int, rng: np.random.Generator) -> list[float]:
    """CPU seconds per event of each side."""
    seeds = [int(s) for s in rng.integers(2**62, size=calls)]
    out = [0.0] * len(sides)
    for j in rng.permutation(len(sides)):
        cpu, _, events = sides[j].ask("block", seeds=seeds, length=length)
        if events <= 0:
            raise RunBroken(f"The {sides[j].name} committed {events} events in {calls} calls; a time per event needs one.")
        out[j] = max(cpu, 1e-9) / events
    return out


def _warm_up(sides: Sequence[SideProcess], table: Gate, rng: np.random.Generator) -> int:
    """Calls of a block that last ``min_seconds``, after windows until two agree on every side."""
    calls, before = 1, None
    for _ in range(_MOST_WINDOWS):
        now = _pair(sides, calls, table.timed_length, rng)
        lasts = min(now) * calls * table.timed_length
        if lasts < table.min_seconds:
            calls, before = math.ceil(calls * min(1.1 * table.min_seconds / lasts, 1000)), None
        elif before is not None and max(abs(math.log(a / b)) for a, b in zip(now, before, strict=True)) < _AGREEMENT:
            break
        else:
            before = now
    return calls
