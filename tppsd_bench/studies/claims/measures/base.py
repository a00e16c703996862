"""What measures share: their input, their output, and intervals of ratios, shares and paired times."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from tppsd_bench.measure.timing import PairedTiming, Ratio, paired_timing
from tppsd_bench.protocols import SampleRequest, SamplerUnderTest, Stop
from tppsd_bench.runner.plan import CellSpec, Job
from tppsd_bench.streams import StreamKey
from tppsd_bench.studies.base import StudyTable

Z95 = 1.959963984540054
Unit = Literal["", "times", "percent", "points"]


@dataclass(frozen=True)
class Quantity:
    """A number with its interval (95 % unless ``label`` says otherwise) and the conditions it was measured under."""

    name: str
    label: str
    value: float
    low: float
    high: float
    where: str
    """Conditions: pair, K, length."""
    n: int = 0
    """Sequences, pairs of times or whatever the interval rests on."""
    unit: Unit = ""


@dataclass(frozen=True)
class Measured:
    quantities: tuple[Quantity, ...]
    remark: str = ""
    """One sentence on what was found beyond the numbers."""


@dataclass(frozen=True)
class Context:
    """Where a measure works."""

    pair: Any
    name: str
    """Of the pair."""
    key: StreamKey
    device: str
    loader: str
    """Dotted name of what loads other pairs."""
    job: Job | None = None
    """What measures hand on that look at a pair as another study does."""

    def studied(self, table: StudyTable, study: str) -> Job:
        """The job of a study with this table on this pair, its streams its own."""
        if self.job is None:
            raise ValueError("this context has no job; give one to measure as a study does.")
        kind = study
        cells = (CellSpec(f"{kind}.{self.name}", kind, self.name, ""),)
        return replace(self.job, kind=kind, cells=cells, table=table)

    def load(self, name: str) -> Any:
        from tppsd_bench.runner.worker import resolve

        return resolve(self.loader)(name, device=self.device)


def estimated(
    name: str, label: str, found: Mapping[str, float], where: str, n: int = 0, unit: Unit = "", scale: float = 1.0
) -> Quantity:  # fmt: skip
    """From a figure {value, low, high}."""
    return Quantity(name, label, scale * found["value"], scale * found["low"], scale * found["high"], where, n, unit)


def exactly(name: str, label: str, value: float, where: str, n: int = 0, unit: Unit = "") -> Quantity:
    """A quantity without error: counted, or computed to rounding."""
    return Quantity(name, label, value, value, value, where, n, unit)


def ratio_of_sums(above: ArrayLike, below: ArrayLike) -> tuple[float, float, float]:
    """(value, low, high) of sum(above) / sum(below) over sequences, 95 % by the delta method."""
    a, b = np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64)
    value = float(a.sum() / b.sum())
    half = Z95 * float((a - value * b).std(ddof=1)) * math.sqrt(len(a)) / float(b.sum())
    return value, value - half, value + half


def mean(values: ArrayLike) -> tuple[float, float, float]:
    """(mean, low, high) over sequences, 95 %."""
    v = np.asarray(values, dtype=np.float64)
    middle, half = float(v.mean()), Z95 * float(v.std(ddof=1)) / math.sqrt(len(v))
    return middle, middle - half, middle + half


def share(hits: int, n: int) -> tuple[float, float, float]:
    """(share, low, high), Clopper-Pearson at 95 %."""
    from tppsd_bench.measure.acceptance import clopper_pearson

    low, high = clopper_pearson(np.array([hits]), np.array([n]))
    return hits / n, float(low[0]), float(high[0])


def timed(
    context: Context, samplers: dict[str, SamplerUnderTest], baseline: str, stop: Stop, *, stage: str, pairs: int,
    n_sequences: Mapping[str, int] | None = None, min_seconds: float = 0.02,
) -> PairedTiming:  # fmt: skip
    """CPU times of samplers against ``baseline``, interleaved pair by pair at common seeds; 95 % intervals.

    ``n_sequences``: how many sequences a sampler draws side by side; 1 where it says nothing.
    """

    def side(name: str, sampler: SamplerUnderTest) -> Callable[[int], int]:
        together = (n_sequences or {}).get(name, 1)

        def draw(seed: int) -> int:
            request = SampleRequest(together, stop, StreamKey(seed=seed, stage=stage), device=context.device, want_trace=False)
            return sampler.sample(request).events.n_events

        return draw

    rng = context.key.replace(stage=stage, purpose="timing").generator()
    return paired_timing(
        {name: side(name, s) for name, s in samplers.items()}, baseline=baseline, rng=rng, pairs=pairs, min_seconds=min_seconds,
        coverage=0.95, min_pairs=min(12, pairs), max_warmup=4,
    )  # fmt: skip


def of_ratio(name: str, label: str, ratio: Ratio, where: str) -> Quantity:
    return Quantity(name, label, ratio.median, ratio.lower, ratio.upper, where, ratio.n_pairs, "times")


def fastest(timing: PairedTiming, sides: Sequence[str], rows: slice) -> str:
    """The side with the least median CPU time per event over the pairs ``rows``."""
    columns = [timing.sides.index(s) for s in sides]
    medians = np.median(timing.cpu[rows][:, columns], axis=0)
    return sides[int(np.argmin(medians))]


def contenders(timing: PairedTiming, sides: Sequence[str]) -> list[str]:
    """Sides that are not shown to be slower than the fastest: the fastest is chosen on the first half of the pairs, the
    others are compared with it on the second half (paired log ratios, 95 %)."""
    half = timing.n_pairs // 2
    best = timing.sides.index(fastest(timing, sides, slice(0, half)))
    kept = []
    for name in sides:
        j = timing.sides.index(name)
        loss = np.log(timing.cpu[half:, j] / timing.cpu[half:, best])
        if j == best or mean(loss)[1] <= 0.0:
            kept.append(name)
    return kept
