"""Paired timing: sides interleaved in random order in one process, compared pair by pair.

The estimator is the median over pairs of log(baseline time per event / side time per event), its interval two order statistics
of those log ratios. Bursts of foreign load hit both sides of a pair or spoil one pair; block means and minima have no such
protection. Process CPU time is the clock that decides on a CPU; wall time is shown beside it.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.errors import RunBroken

FloatArray = NDArray[np.float64]
Clock = Literal["cpu", "wall"]
Side = Callable[[int], int]

AA = "A/A"
"""Name of the side that is the baseline, or another one, timed a second time."""
_AGREEMENT = 0.05
_MAX_WARMUP_WINDOWS = 12
_SHORT_SECONDS = 0.012
"""A measurement of this length is still good for a paired ratio of CPU times (sd .003 on a shared machine)."""
_WARMUP_SHARE = 0.4
"""Of a time budget that the warm-up may use."""


def order_statistic_ranks(n: int, coverage: float) -> tuple[int, int]:
    """1-based ranks (l, u), u = n + 1 - l, such that [X_(l), X_(u)] holds the median with at least ``coverage``.

    Exact for any continuous law: coverage of rank l is 1 - 2 P(Bin(n, 1/2) <= l - 1). Thirty values at 99.9 % give (6, 25).
    Raises ValueError where even the extremes fall short.
    """
    if not 0 < coverage < 1:
        raise ValueError(f"coverage is {coverage}; expected a number between 0 and 1.")
    tail_limit = (1 - coverage) / 2
    tail, rank = 0.0, 0
    while rank < (n + 1) // 2:
        tail += math.comb(n, rank) / (1 << n)
        if tail > tail_limit:
            break
        rank += 1
    if rank == 0:
        raise ValueError(
            f"{n} pairs cannot give an interval of coverage {coverage}; use at least {fewest_pairs(coverage)} pairs "
            "or a lower coverage."
        )
    return rank, n + 1 - rank


def order_statistic_coverage(n: int, rank: int) -> float:
    """Exact coverage of the median by [X_(rank), X_(n + 1 - rank)]."""
    return 1 - 2 * sum(math.comb(n, i) for i in range(rank)) / (1 << n)


def fewest_pairs(coverage: float) -> int:
    """Smallest n whose extremes [X_(1), X_(n)] hold the median with at least ``coverage``."""
    return max(2, math.ceil(1 - math.log2(1 - coverage)))


@dataclass(frozen=True)
class Ratio:
    """Speed relative to the baseline: above 1 is faster. Claims quote ``lower``, not ``median``."""

    side: str
    baseline: str
    clock: Clock
    median: float
    lower: float
    upper: float
    coverage: float
    """Exact coverage of [lower, upper] for the median ratio; at least the one asked for."""
    n_pairs: int

    def sentence(self) -> str:
        return (
            f"{self.side} runs at {self.median:.3g} times the speed of {self.baseline} ({self.clock} time per event, "
            f"{100 * self.coverage:.4g} % interval {self.lower:.3g} to {self.upper:.3g}, {self.n_pairs} pairs)"
        )


@dataclass(frozen=True)
class PairedTiming:
    """Times per committed event, pair by pair, of every side; side ``A/A`` is the side ``again`` once more."""

    baseline: str
    sides: tuple[str, ...]
    """In the order given, the baseline included, ``A/A`` last."""
    cpu: FloatArray
    """(pairs, sides) CPU seconds of this process per committed event."""
    wall: FloatArray
    """(pairs, sides) wall seconds per committed event."""
    events: NDArray[np.int64]
    """(pairs, sides) events committed in each measurement."""
    calls: int
    """Calls of every side in every measurement, at the same seeds."""
    coverage: float
    warmup_windows: int
    warmed: bool
    """Whether two warm-up windows agreed within 5 % on every side."""
    pairs_asked: int
    note: str = ""
    """Says so where a time budget reduced the number of pairs, or the warm-up never settled."""
    again: str = ""
    """The side that ``A/A`` repeats; empty: the baseline."""

    @property
    def n_pairs(self) -> int:
        return len(self.cpu)

    def log_ratio(self, side: str, clock: Clock = "cpu") -> FloatArray:
        """(pairs,) log(baseline time per event / side time per event): positive is faster than the baseline.

        Side ``A/A`` is compared with the side it repeats.
        """
        times = self.cpu if clock == "cpu" else self.wall
        out: FloatArray = np.log(times[:, self._column(self._against(side))] / times[:, self._column(side)])
        return out

    def _against(self, side: str) -> str:
        return self.again if side == AA and self.again else self.baseline

    def ratio(self, side: str, clock: Clock = "cpu") -> Ratio:
        """Median speed ratio of ``side`` against the baseline, with its order-statistic interval."""
        logs = np.sort(self.log_ratio(side, clock))
        low, high = order_statistic_ranks(len(logs), self.coverage)
        median, lower, upper = (math.exp(x) for x in (float(np.median(logs)), logs[low - 1], logs[high - 1]))
        return Ratio(
            side, self._against(side), clock, median, lower, upper, order_statistic_coverage(len(logs), low), len(logs)
        )

    def unsettled(self, limit: float = 0.05, clock: Clock = "cpu") -> bool:
        """True where a side differs from itself by more than ``limit``: the environment allows no verdict."""
        return abs(math.log(self.ratio(AA, clock).median)) > math.log1p(limit)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a result file: ratios on both clocks and the medians of the times."""
        compared = [s for s in self.sides if s != self.baseline]
        return {
            "baseline": self.baseline,
            "n_pairs": self.n_pairs,
            "pairs_asked": self.pairs_asked,
            "calls_per_measurement": self.calls,
            "warmup_windows": self.warmup_windows,
            "warmed": self.warmed,
            "note": self.note,
            "seconds_per_event": {
                s: {"cpu": float(np.median(self.cpu[:, j])), "wall": float(np.median(self.wall[:, j]))}
                for j, s in enumerate(self.sides)
            },
            "ratios": {
                s: {
                    clock: {"median": r.median, "lower": r.lower, "upper": r.upper, "coverage": r.coverage}
                    for clock, r in (("cpu", self.ratio(s, "cpu")), ("wall", self.ratio(s, "wall")))
                }
                for s in compared
            },
        }

    def _column(self, side: str) -> int:
        if side not in self.sides:
            raise KeyError(f"No side {side!r} was timed; the sides are {', '.join(self.sides)}.")
        return self.sides.index(side)


def paired_timing(
    sides: Mapping[str, Side],
    *,
    baseline: str,
    rng: np.random.Generator,
    pairs: int = 30,
    min_seconds: float = 0.05,
    coverage: float = 0.999,
    synchronise: Callable[[], None] | None = None,
    budget_seconds: float | None = None,
    min_pairs: int = 12,
    again: str = "",
    max_warmup: int = _MAX_WARMUP_WINDOWS,
) -> PairedTiming:
    """Time every side against ``baseline``; each side takes a seed and returns the number of events it committed.

    In each pair every side, and the side ``again`` once more (``A/A``; the baseline unless named), makes the same number of
    calls at the same fresh seeds, in random order, with the garbage collector off. The number of calls is such that the fastest
    side takes ``min_seconds``. ``synchronise`` (a device's) is called before each reading of the clocks. ``budget_seconds``
    bounds warm-up and measurement together, as far as ``min_pairs`` of one call allow: pairs get shorter first, then fewer;
    both are fixed before the first is measured.
    """
    if baseline not in sides:
        raise ValueError(f"The baseline {baseline!r} is not among the sides {', '.join(sides)}.")
    if AA in sides:
        raise ValueError(f"{AA!r} is the name of a side's second timing; rename that side.")
    if again and again not in sides:
        raise ValueError(f"The side to time again, {again!r}, is not among the sides {', '.join(sides)}.")
    fewest = max(min_pairs, fewest_pairs(coverage))
    if pairs < fewest:
        raise ValueError(f"{pairs} pairs asked for; at least {fewest} are needed (min_pairs {min_pairs}, coverage {coverage}).")
    named = {**sides, AA: sides[again or baseline]}
    stopwatch = _Stopwatch(list(named.items()), rng, synchronise or (lambda: None))
    started = time.perf_counter()
    with _collector_off():
        warm = _warm_up(stopwatch, min_seconds, max_warmup, None if budget_seconds is None else _WARMUP_SHARE * budget_seconds)
        left = None if budget_seconds is None else budget_seconds - (time.perf_counter() - started)
        calls, n, notes = _size(warm, pairs, fewest, left, min_seconds)
        measured = np.empty((n, 3, len(named)))
        for i in range(n):
            gc.collect()
            measured[i] = stopwatch.pair(calls)
    cpu, wall, events = measured[:, 0], measured[:, 1], measured[:, 2]
    return PairedTiming(
        baseline, tuple(named), cpu / events, wall / events, events.astype(np.int64), calls, coverage, warm.windows,
        warm.settled, pairs, " ".join(notes), again,
    )  # fmt: skip


@dataclass(frozen=True)
class _WarmUp:
    calls: int
    """Calls of every side in a measurement."""
    windows: int
    settled: bool
    pair_seconds: float
    """Wall seconds of a pair."""


def _size(warm: _WarmUp, pairs: int, fewest: int, left: float | None, min_seconds: float) -> tuple[int, int, list[str]]:
    """(calls, pairs, notes) that fit what is left of the budget: shorter pairs first, then fewer, then shorter still."""
    notes = []
    if not warm.settled and warm.windows > 1:
        notes.append(f"The warm-up did not settle within {100 * _AGREEMENT:g} % in {warm.windows} windows.")
    calls, n, each = warm.calls, pairs, warm.pair_seconds / warm.calls
    if left is not None and left < pairs * calls * each:
        enough = math.ceil(calls * min(1.0, _SHORT_SECONDS / min_seconds))
        calls = min(calls, max(enough, int(left / (pairs * each))))
        calls = max(1, min(calls, int(left / (fewest * each))))
        n = max(fewest, min(pairs, int(left / (calls * each))))
        shorter = f", each of {calls} calls instead of {warm.calls}" if calls < warm.calls else ""
        if n < pairs or shorter:
            notes.append(
                f"{n} pairs instead of {pairs}{shorter}: a pair takes {calls * each:.3g} s and {max(left, 0.0):.3g} s were left."
            )
    return calls, n, notes


class _Stopwatch:
    """Measures every side once at common seeds."""

    def __init__(self, sides: Sequence[tuple[str, Side]], rng: np.random.Generator, synchronise: Callable[[], None]) -> None:
        self._sides, self._rng, self._synchronise = sides, rng, synchronise

    def pair(self, calls: int) -> FloatArray:
        """(3, sides): CPU seconds, wall seconds and events of each side, run in random order."""
        seeds = [int(s) for s in self._rng.integers(2**63, size=calls)]
        out = np.empty((3, len(self._sides)))
        for j in self._rng.permutation(len(self._sides)):
            name, side = self._sides[j]
            self._synchronise()
            wall, cpu = time.perf_counter(), time.process_time()
            events = sum(side(seed) for seed in seeds)
            self._synchronise()
            out[:, j] = time.process_time() - cpu, time.perf_counter() - wall, events
            if events <= 0:
                raise RunBroken(f"Side {name!r} committed {events} events in {calls} calls; a time per event needs one.")
        return out


def _warm_up(stopwatch: _Stopwatch, min_seconds: float, max_windows: int, budget_seconds: float | None) -> _WarmUp:
    """Run windows until two agree on every side, or the warm-up's share of the budget is spent."""
    calls, previous = 1, None
    begun = time.perf_counter()
    for window in range(1, max_windows + 1):
        started = time.perf_counter()
        cpu, wall, events = stopwatch.pair(calls)
        pair_seconds = time.perf_counter() - started
        spent = budget_seconds is not None and time.perf_counter() - begun + pair_seconds > budget_seconds
        fastest = float(wall.min())
        if fastest < min_seconds and not spent and window < max_windows:
            # A tenth more than needed, so that a machine that is still speeding up does not fall short again.
            calls = math.ceil(calls * min(1.1 * min_seconds / max(fastest, 1e-7), 1000))
            previous = None
            continue
        # Wall time where a device does the work and the process sleeps.
        per_event = np.maximum(cpu, 1e-9) / events if cpu.sum() > 0.5 * wall.sum() else wall / events
        settled = previous is not None and bool(np.abs(np.log(per_event / previous)).max() < _AGREEMENT)
        if settled or spent:
            return _WarmUp(calls, window, settled, pair_seconds)
        previous = per_event
    return _WarmUp(calls, max_windows, False, pair_seconds)


@contextmanager
def _collector_off() -> Iterator[None]:
    """No collection while a clock runs. What lives now (modules, models) is frozen, so that a collection between pairs looks at what
    the pairs left behind alone: it takes a tenth of a second otherwise, longer than the pair.
    """
    was_on, theirs = gc.isenabled(), gc.get_freeze_count()
    gc.collect()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        if not theirs:  # else the caller's frozen objects would thaw with ours
            gc.unfreeze()
        if was_on:
            gc.enable()
