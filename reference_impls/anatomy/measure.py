"""The cost model of a round: CPU time by phase and line, and the share of matrix products, of one sampler at one size.

    share of products = CPU time of the products done alone / CPU time of the plain run,      overhead = 1 - share

Both are timed in every repeat, in random order, with the garbage collector off; the share is the median over repeats, its interval two
order statistics. Done alone, a product includes its call and the memory of its result, as in the run. Sums that BLAS does (a matrix times
a vector of ones) and products of two vectors are no matrix products here; ``share_with_sums`` counts them too.
"""

from __future__ import annotations

import gc
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reference_impls.anatomy.kernels import compiling, unclassified
from reference_impls.anatomy.lines import Line, LineTracer, missed, tracing_cost
from reference_impls.anatomy.phases import DRAFT, KEEP, REST, SECTIONS, TARGET, Path, Probe, Tracer, probes_of, wrapping_cost
from reference_impls.anatomy.products import PRODUCTS, Product, Recorder
from reference_impls.anatomy.replay import Replay
from tppsd_bench.measure.timing import order_statistic_ranks
from tppsd_bench.protocols import FloatArray, SampleRequest, SampleRun, Stop
from tppsd_bench.streams import StreamKey

COVERAGE = 0.95
AGREEMENT = 0.15
"""How far sums over phases may be from another run of the same."""
_LEAST_SECONDS, _MOST_RUNS = 0.15, 50
"""A plain measurement takes that long, by as many seeds as that takes."""
Span = tuple[float, float, float]
"""(median, low, high) over repeats."""
Runs = list[SampleRun]


@dataclass(frozen=True)
class Row:
    """A phase: CPU seconds in the measurement, and of the products in it done alone. ``part`` is empty for the whole section."""

    section: str
    part: str
    seconds: float
    products: float


@dataclass(frozen=True)
class Check:
    """Whether the runs belong together; ``said``: what was found."""

    name: str
    passed: bool
    said: str


@dataclass(frozen=True)
class Anatomy:
    """One sampler, one size. Seconds are CPU seconds of a measurement of ``runs`` runs, ``rounds`` rounds and ``events`` events."""

    sampler: str
    batch: int
    runs: int
    rounds: int
    """Rounds of a batch: passes of the target, for target-only."""
    events: int
    repeats: int
    seconds: Span
    share: Span
    share_with_sums: Span
    kernel_share: Span
    """Of compiled kernels that make products, all that they do."""
    inflation: Span
    """Of the run with wrapped methods over the plain one."""
    rows: tuple[Row, ...]
    """Wrapped run, cost of wrapping taken off; medians over repeats."""
    products: dict[str, int]
    """Number by kind."""
    flops: int
    """Of the matrix products."""
    replay_seconds: float
    lines: tuple[Line, ...]
    """Slowest first, of one traced run, in seconds of wall time."""
    product_lines: frozenset[tuple[str, int]]
    checks: tuple[Check, ...]

    @property
    def overhead(self) -> Span:
        """Share of the time outside matrix products."""
        median, low, high = self.share
        return 1 - median, 1 - high, 1 - low


def anatomy(sampler: Any, batch: int, events: int, *, repeats: int = 12, seed: int = 1) -> Anatomy:
    """Take a reference sampler apart: ``batch`` sequences of ``events`` events from an empty history.

    ``repeats``: 6 at least, for the interval. How many threads work is up to the caller; one is what the model is about.
    """
    probes, was_on = probes_of(sampler), gc.isenabled()
    gc.disable()
    try:
        run, plain = _sized(sampler, batch, events, seed)
        recorded, recorder = _recorded(run, probes)
        replay = Replay(made := recorder.products)
        times = _timed(run, replay, probes, repeats, np.random.default_rng(seed))
        traced, lines = _traced(run)
        again, second = _recorded(run, [])
    finally:
        if was_on:
            gc.enable()
    same = {"wrapped": times.wrapped, "recorded": recorded, "recorded again": again, "traced": traced}
    checks = (
        *(_same_events(name, plain, other) for name, other in same.items()),
        _same_products(made, second.products, len(replay)),
        *times.checks(),
        _kernels_known(recorder.kernels),
        _nothing_missed(lines, made),
        _all_found(probes),
    )
    return Anatomy(
        sampler.declares.name, batch, len(plain), times.rounds, sum(r.events.n_events for r in plain), repeats,
        span(times.plain), span(times.products / times.plain), span(times.with_sums / times.plain),
        span(times.in_kernels / times.plain), span(times.watched / times.plain), times.rows(), dict(Counter(p.kind for p in made)),
        sum(p.flops for p in made if p.kind in PRODUCTS), float(np.median(times.products)), tuple(lines),
        frozenset(p.line for p in made), checks,
    )  # fmt: skip


def span(values: FloatArray) -> Span:
    """Median and its interval by order statistics."""
    ordered = np.sort(values)
    low, high = order_statistic_ranks(len(values), COVERAGE)
    return float(np.median(values)), float(ordered[low - 1]), float(ordered[high - 1])


# -- the runs ----------------------------------------------------------------------------------------------------------------
def _sized(sampler: Any, batch: int, events: int, seed: int) -> tuple[Callable[[], Runs], Runs]:
    """A measurement, as a function, and what it gives: as many seeds as take ``_LEAST_SECONDS``."""

    def runs(n: int) -> Runs:
        keys = (StreamKey(suite="anatomy", seed=seed, cell=f"run {i}") for i in range(n))
        return [sampler.sample(SampleRequest(batch, Stop(n_events=events), key)) for key in keys]

    runs(1)  # copies of weights are made by the first run
    seconds = _cpu(lambda: runs(1))
    n = min(_MOST_RUNS, max(1, math.ceil(_LEAST_SECONDS / max(seconds, 1e-4))))
    return (lambda: runs(n)), runs(n)


def _cpu(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def _recorded(run: Callable[[], Runs], probes: Sequence[Probe]) -> tuple[Runs, Recorder]:
    """The run's output, and its products with their phases."""
    tracer = Tracer(clock=lambda: 0.0)
    recorder = Recorder(lambda: tracer.path)
    with tracer.watching(probes), recorder.recording():
        out = run()
    return out, recorder


def _traced(run: Callable[[], Runs]) -> tuple[Runs, list[Line]]:
    cost, tracer = tracing_cost(), LineTracer()
    with tracer.tracing():
        out = run()
    return out, tracer.lines(cost)


def _timed(run: Callable[[], Runs], replay: Replay, probes: Sequence[Probe], repeats: int, rng: np.random.Generator) -> _Times:
    """Every repeat: the plain run, the wrapped one, products alone, whole kernels alone, sums too, the clock read between phases."""
    cost, alone = wrapping_cost(), replay.products_only()
    only, kernels = alone.part(PRODUCTS), replay.part(PRODUCTS[1:])
    tracers: list[Tracer] = []
    by_phase: list[dict[Path, float]] = []
    wrapped: Runs = []

    def watch() -> None:
        tracer = Tracer()
        with tracer.watching(probes):
            wrapped[:] = run()
        tracers.append(tracer)

    sides = (run, only.play, alone.play, kernels.play, watch, lambda: by_phase.append(only.by_phase()))
    with compiling():
        alone.play()
    taken = np.empty((repeats, len(sides)))
    for i in range(repeats):
        gc.collect()
        for j in rng.permutation(len(sides)):
            taken[i, j] = _cpu(sides[j])
    plain, products, with_sums, in_kernels, watched, _ = taken.T
    phases = [t.net(cost) for t in tracers]
    raw = np.array([sum(t.seconds.values()) for t in tracers])
    return _Times(plain, products, with_sums, in_kernels, watched, raw, phases, by_phase, wrapped, _rounds(tracers[0]))


def _rounds(tracer: Tracer) -> int:
    return tracer.calls.get((DRAFT,), 0) or tracer.calls.get((TARGET,), 0)


@dataclass(frozen=True)
class _Times:
    """CPU seconds (repeats,) of the sides, and of the phases in each repeat."""

    plain: FloatArray
    products: FloatArray
    with_sums: FloatArray
    in_kernels: FloatArray
    watched: FloatArray
    raw: FloatArray
    """All phases, the wrappers' cost in them."""
    phases: list[dict[Path, float]]
    product_phases: list[dict[Path, float]]
    wrapped: Runs
    rounds: int

    def rows(self) -> tuple[Row, ...]:
        """Sections in order, each followed by its parts, largest first."""
        seconds, products = _by_part(self.phases), _by_part(self.product_phases)
        out = []
        for section in SECTIONS:
            parts = sorted((key for key in seconds if key[0] == section), key=lambda key: -seconds[key])
            if parts:
                whole = [sum(of.get(key, 0.0) for key in parts) for of in (seconds, products)]
                out.append(Row(section, "", *whole))
            if len(parts) > 1:
                out += [Row(*key, seconds[key], products.get(key, 0.0)) for key in parts]
        return tuple(out)

    def checks(self) -> list[Check]:
        """That phases add up to the run, and their products to the replay."""
        phases = np.array([sum(p.values()) for p in self.phases])
        products = np.array([sum(p.values()) for p in self.product_phases])
        return [
            _near("phases add up to the wrapped run", self.raw / self.watched, 0.02),
            _near("less the wrappers' cost they add up to the plain run", phases / self.plain, AGREEMENT),
            *(
                [_near("products by phase add up to all of them", products / self.products, AGREEMENT)]
                if products.any()
                else []
            ),
        ]


def _by_part(repeats: Sequence[Mapping[Path, float]]) -> dict[tuple[str, str], float]:
    """Medians over repeats by (section, part)."""
    parts = [Counter[tuple[str, str]]() for _ in repeats]
    for total, phases in zip(parts, repeats, strict=True):
        for path, seconds in phases.items():
            section = path[0] if path and path[0] in SECTIONS else KEEP
            total[section, path[-1] if len(path) > 1 else REST] += seconds  # type: ignore[assignment]
    return {key: float(np.median([p[key] for p in parts])) for key in {key for p in parts for key in p}}


# -- whether they belong together ----------------------------------------------------------------------------------------
def _near(name: str, ratios: FloatArray, limit: float) -> Check:
    ratio = float(np.median(ratios))
    return Check(name, abs(ratio - 1) <= limit, f"{ratio:.3f} of it, median of {len(ratios)}; expected 1 to within {limit:g}")


def _same_events(name: str, plain: Runs, other: Runs) -> Check:
    pairs = [(a.events, b.events) for a, b in zip(plain, other, strict=True)]
    same = sum(
        np.array_equal(a.gaps, b.gaps) and np.array_equal(a.types, b.types) and np.array_equal(a.lengths, b.lengths)
        for a, b in pairs
    )
    return Check(f"{name} run: the plain run's events, bit for bit", same == len(pairs), f"{same} of {len(pairs)} runs")


def _same_products(made: Sequence[Product], again: Sequence[Product], replayed: int) -> Check:
    different = sum(a.signature != b.signature for a, b in zip(made, again, strict=False))
    passed = len(made) == len(again) == replayed and not different
    said = f"{replayed:,} replayed, {len(made):,} recorded, {len(again):,} recorded again, {different:,} of these different"
    return Check("the replay is what the run does", passed, said)


def _nothing_missed(lines: Sequence[Line], made: Sequence[Product]) -> Check:
    left_out = missed(lines, {p.line for p in made})
    said = "; ".join(f"{x.short}:{x.number} {x.text}" for x in left_out[:5])
    return Check("no product escaped", not left_out, said or "every line that reads like a product was recorded")


def _all_found(probes: Sequence[Probe]) -> Check:
    absent = ", ".join(f"{getattr(p.owner, '__name__', p.owner)}.{p.name}" for p in probes if p.absent)
    return Check("every phase has its method", not absent, f"not there: {absent}" if absent else f"{len(probes)} methods")


def _kernels_known(used: set[Any]) -> Check:
    names = ", ".join(sorted(unclassified(used)))
    said = f"neither product nor not, or not there any more (see kernels): {names}" if names else f"{len(used)} used"
    return Check("every part of a compiled kernel is classified", not names, said)
