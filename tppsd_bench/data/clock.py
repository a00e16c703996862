"""What a file's clock can say: its step, its ties, how many gaps share few values; and the repair of ties.

Pure functions of flat arrays: ``gaps`` (N,), ``inner`` (N,) true where an event has a predecessor in its sequence.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.data.base import FloatArray, IntArray

BoolArray = NDArray[np.bool_]

COMMONEST = 10
COARSE_REFUSED = 0.20
"""A continuous law puts no mass on ten values; from this share of all gaps on them, it is the wrong model."""
COARSE_NOTED = 0.05
ABSOLUTE_RATIO = 10.0
"""A clock is absolute where the earliest first event is this many times later than the longest sequence lasts."""
_MIN_GAPS = 20
_UNITS = (86400.0, 3600.0, 60.0, 1.0, 1 / 24, 1 / 60, 1 / 1440, 1 / 3600, 1 / 86400)
_SAMPLE = 5000


@dataclass(frozen=True, slots=True)
class ClockReading:
    """Figures of a clock, over gaps between events of a sequence."""

    step: float | None
    """Every gap is a multiple of it, up to rounding; None where no step was found."""
    rounding: float
    """How far a time may lie from its true value for lack of digits, in the file's unit."""
    single_precision: bool
    """Every time is a float32 number, and no step of the clock explains that."""
    tie_share: float
    distinct_share: float
    common_share: float
    """Share of gaps on the ten commonest values, first occurrences not counted (0 where no value repeats)."""


def read_clock(gaps: FloatArray, inner: BoolArray, times: FloatArray | None) -> ClockReading:
    """Measure the clock; ``times`` (N,) where the file gives times, by which rounding is known."""
    between = gaps[inner]
    between = between[between >= 0]
    reference = gaps if times is None else times
    top = float(np.abs(reference).max(initial=0.0))
    rounding = float(np.spacing(top))
    if not len(between):
        return ClockReading(None, rounding, False, 0.0, 1.0, 0.0)
    step = find_step(between, rounding)
    coarser = float(np.spacing(np.float32(top)))
    single = bool((reference.astype(np.float32) == reference).all()) and (step is None or step < 4 * coarser)
    if single:
        rounding = coarser
        step = find_step(between, rounding) if step is None else step
    positive = between[between > 0]
    if step is None and len(positive) and rounding > 0.02 * float(np.median(positive)):
        step = rounding
    # Gaps given as such are exact; differences of times carry the rounding of both.
    quantum = step if step is not None else 0.0 if times is None else 8 * rounding
    values = between if quantum == 0 else np.round(between / quantum)
    _, counts = np.unique(values, return_counts=True)
    common = np.sort(counts)[::-1][:COMMONEST]
    return ClockReading(
        step=step,
        rounding=rounding,
        single_precision=single,
        tie_share=float((between == 0).mean()),
        distinct_share=len(counts) / len(between),
        common_share=float((common - 1).sum()) / len(between),
    )


def find_step(gaps: FloatArray, rounding: float) -> float | None:
    """The largest step of which every gap is a multiple up to rounding, or None.

    Tried: powers of ten, the units of the day in one another, and the smallest gap over 1..12. A step must stand clear of
    rounding (2 % of itself), so that chance agreement of 20 gaps has probability below 0.04**20.
    """
    positive = gaps[gaps > 0]
    if len(positive) < _MIN_GAPS:
        return None
    smallest = float(positive.min())
    candidates = {*_UNITS, *(10.0**k for k in range(-9, 6)), *(smallest / k for k in range(1, 13))}
    sample = positive[:: max(1, len(positive) // _SAMPLE)]
    for step in sorted(candidates, reverse=True):
        tolerance = 4 * rounding / step + 1e-9
        if step > smallest * 1.01 or tolerance > 0.02:
            continue
        if _fits(sample, step, tolerance) and _fits(positive, step, tolerance):
            return step
    return None


def _fits(gaps: FloatArray, step: float, tolerance: float) -> bool:
    ratio = gaps / step
    return bool((np.abs(ratio - np.round(ratio)) <= tolerance + 1e-12 * ratio).all())


def jitter(gaps: FloatArray, inner: BoolArray, step: float | None, rng: np.random.Generator) -> FloatArray:
    """Gaps (N,) after spreading events uniformly over one step of the clock, order kept.

    With a step, every event moves: gap = step * (m + u_i - u_{i-1}), m the whole number of steps, u sorted within a tie.
    Without one only tied events move, over half the smallest positive gap. All results of non-negative inner gaps are positive.
    """
    group = np.cumsum(~(inner & (gaps == 0)))
    u = rng.random(len(gaps))
    u = u[np.lexsort((u, group))]
    if step is None:
        tied = np.bincount(group)[group] > 1
        u = np.where(tied, u, 0.0)
        positive = gaps[gaps > 0]
        step = 0.5 * float(positive.min()) if len(positive) else 1.0
        whole = gaps / step
    else:
        whole = np.round(gaps / step)
    before = np.where(inner, np.concatenate([[0.0], u[:-1]]), 0.0)
    moved: FloatArray = step * ((whole + u) - before)
    return moved


def is_absolute(first: FloatArray, span: FloatArray) -> bool:
    """Whether the clock started long before any sequence did: (n,) first times and durations."""
    longest = float(span.max(initial=0.0))
    earliest = float(first.min(initial=np.inf))
    return bool(np.isfinite(earliest) and earliest > 0 and earliest > ABSOLUTE_RATIO * longest)


def thousandfold(medians: FloatArray) -> IntArray:
    """Indices of the sequences whose median gap (n,) is about 1000 times the others', with nothing in between; else empty.

    A file that mixes seconds and milliseconds looks so.
    """
    nothing = np.empty(0, dtype=np.int64)
    usable = np.flatnonzero(np.isfinite(medians) & (medians > 0))
    if len(usable) < 2:
        return nothing
    order = usable[np.argsort(medians[usable])]
    logs = np.log10(medians[order])
    at = int(np.argmax(np.diff(logs))) + 1
    apart = float(np.median(logs[at:]) - np.median(logs[:at]))
    return order[at:] if logs[at] - logs[at - 1] > 1.5 and abs(apart - 3) < 0.4 else nothing
