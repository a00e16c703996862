"""The project's figures to reach, measured anew: ``python -m reference_impls.figures --release FOLDER`` prints them with intervals.

One thread, CPU time, batch 1, horizon 100 from an empty history, the public release's THP on Hawkes (20 layers, 8 heads; one-layer
draft), unless a line says otherwise. Times are paired (``tppsd_bench.measure.timing``); K and alpha come from seeds of their own.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from reference_impls.pairs import Pair, load_pair
from tppsd_bench.measure.promise import alpha_by_quadrature
from tppsd_bench.measure.throughput import finite_rounds
from tppsd_bench.measure.timing import PairedTiming, Ratio, order_statistic_ranks, paired_timing
from tppsd_bench.protocols import SampleRequest, SampleRun, Stop
from tppsd_bench.streams import StreamKey

HORIZON = Stop(horizon=100.0)
KEY = StreamKey(suite="figures")
KS = (8, 12, 16, 20, 24, 28)
CACHED, RECOMPUTING, SPECULATIVE = "target-only, cached", "target-only, recomputing", "speculative"
COMPILED = "target-only, cached, compiled steps"
Span = tuple[float, float, float]
"""(value, low, high)."""


@dataclass(frozen=True)
class Figure:
    """One line of the table."""

    name: str
    value: Span | float
    target: str = "reported"
    reached: bool | None = None
    note: str = ""

    def line(self) -> str:
        shown = f"{self.value:.3g}" if isinstance(self.value, float) else "{:.3g} ({:.3g} to {:.3g})".format(*self.value)
        verdict = {True: "reached", False: "MISSED", None: ""}[self.reached]
        return f"{self.name:<58} {shown:<28} {self.target:<10} {verdict:<8} {self.note}".rstrip()


def at_most(name: str, value: Span, limit: float, note: str = "") -> Figure:
    """Reached only by the whole interval."""
    return Figure(name, value, f"<= {limit:g}", value[2] <= limit, note)


def at_least(name: str, value: Span, limit: float, note: str = "") -> Figure:
    """Reached only by the whole interval."""
    return Figure(name, value, f">= {limit:g}", value[1] >= limit, note)


def draw(sampler: Any, n: int, stop: Stop, seed: int, stage: str, *, trace: bool = False) -> SampleRun:
    run: SampleRun = sampler.sample(SampleRequest(n, stop, KEY.replace(seed=seed, stage=stage), want_trace=trace))
    return run


def side(sampler: Any, stop: Stop = HORIZON, n: int = 1) -> Callable[[int], int]:
    return lambda seed: draw(sampler, n, stop, seed, "timing").events.n_events


def of_ratio(ratio: Ratio) -> Span:
    return ratio.median, ratio.lower, ratio.upper


def ms_per_event(timing: PairedTiming, name: str) -> Span:
    """Median over pairs with its order-statistic interval."""
    values = 1000 * np.sort(timing.cpu[:, timing.sides.index(name)])
    low, high = order_statistic_ranks(len(values), timing.coverage)
    return float(np.median(values)), float(values[low - 1]), float(values[high - 1])


def best_k(pair: Pair, seed: int) -> int:
    """The fastest K on calibration seeds: CPU time per event over three sequences each."""

    def cost(k: int) -> float:
        sampler = pair.sampler("speculative", k=k)
        draw(sampler, 1, Stop(n_events=40), seed, "warm-up")
        begun = time.process_time()
        n = sum(draw(sampler, 1, HORIZON, seed + i, "calibration").events.n_events for i in range(3))
        return (time.process_time() - begun) / n

    return min(KS, key=cost)


def times(pair: Pair, seed: int, pairs: int) -> Iterator[Figure]:
    """Target-only, speculative at the best K, their ratio, and the recomputing baseline in the same run."""
    rng = KEY.replace(seed=seed, purpose="timing").generator()
    k = best_k(pair, seed)
    speculative = pair.sampler("speculative", k=k)
    sides = {CACHED: side(pair.sampler("target_only")), SPECULATIVE: side(speculative)}
    timing = paired_timing(sides, baseline=CACHED, again=SPECULATIVE, rng=rng, pairs=pairs)
    cached = ms_per_event(timing, CACHED)
    noted = f"{timing.n_pairs} pairs, {100 * timing.coverage:g} % intervals"
    yield at_most("target-only, cached, ms/event", cached, 3.0, noted)
    yield at_most(f"speculative, K = {k} (chosen on other seeds), ms/event", ms_per_event(timing, SPECULATIVE), 0.48)
    ratio = of_ratio(timing.ratio(SPECULATIVE))
    yield at_least("speculative over cached target-only, CPU time", ratio, 5.0)
    yield Figure("  the same in wall time", of_ratio(timing.ratio(SPECULATIVE, "wall")))
    yield Figure("  A/A: speculative against itself", of_ratio(timing.ratio("A/A")), "1", not timing.unsettled())
    compiled = copy.deepcopy(pair.target)
    compiled.lean_layers = compiled.encoder.n_layers
    engine = paired_timing(
        {COMPILED: side(replace(pair, target=compiled).sampler("target_only")), SPECULATIVE: side(speculative)},
        baseline=COMPILED, again=SPECULATIVE, rng=rng, pairs=pairs,
    )  # fmt: skip
    yield Figure("target-only, cached, in compiled steps, ms/event", ms_per_event(engine, COMPILED), note="not the reference")
    yield Figure("speculative over that", of_ratio(engine.ratio(SPECULATIVE)), note="what a faster engine leaves of the gain")
    few = 3
    anew = paired_timing(
        {RECOMPUTING: side(pair.sampler("target_only_recompute")), SPECULATIVE: side(speculative)}, baseline=RECOMPUTING,
        again=SPECULATIVE, rng=rng, pairs=few, min_pairs=few, coverage=0.75, max_warmup=1,
    )  # fmt: skip
    yield Figure("target-only, recomputing the history, ms/event", ms_per_event(anew, RECOMPUTING), note=f"{few} pairs, range")
    yield Figure("speculative over recomputing target-only", of_ratio(anew.ratio(SPECULATIVE)), note=f"{few} pairs, range")


def forwards(pair: Pair, seed: int, k: int = 10, m: int = 500, n: int = 64) -> Iterator[Figure]:
    """Events per target forward in runs of ``m`` events, against m / R(m) with alpha by quadrature on other seeds."""
    stop = Stop(n_events=m)
    histories = draw(pair.sampler("target_only", batch_size=16), 16, stop, seed, "quadrature").events
    rng = KEY.replace(seed=seed, purpose="quadrature").generator()
    alpha = alpha_by_quadrature(pair.target, pair.drafts["shipped"], histories, "leviathan_two_step", rng, n_contexts=1024)
    run = draw(pair.sampler("speculative", k=k, batch_size=64), n, stop, seed, "forwards", trace=True)
    assert run.trace is not None
    each = np.bincount(run.trace.round_sequence, minlength=n)
    error = 1.96 * float(each.std(ddof=1)) / n**0.5
    mean, promised = float(each.mean()), alpha.events_per_forward(m, k)
    ends = [finite_rounds(m, k, alpha.value + s * 1.96 * alpha.standard_error) for s in (1, -1)]
    yield Figure(f"alpha by quadrature on other seeds, {alpha.n_contexts} contexts", alpha.interval)
    yield Figure(
        f"events per target forward, {m} events, K = {k}", (m / mean, m / (mean + error), m / (mean - error)),
        note=f"m/R(m) = {promised:.3f}",
    )  # fmt: skip
    share = 100 * finite_rounds(m, k, alpha.value) / mean
    yield at_least("  as % of m/R(m)", (share, 100 * ends[0] / (mean + error), 100 * ends[1] / (mean - error)), 97.0)


def history(pair: Pair, seed: int, length: int = 4000, repeats: int = 60) -> Iterator[Figure]:
    """A cached target-only step (one event in, one gap out) after ``length`` events; the history is encoded once, in blocks."""
    model = pair.target
    source = draw(pair.sampler("target_only", batch_size=8), 8, Stop(n_events=length // 8), seed, "history").events
    gaps, types = source.gaps[None, :length], source.types[None, :length]
    cache = model.start(1, length + 2)
    for begin in range(0, length, 200):
        block = slice(begin, begin + 200)
        model.extend(cache, gaps[:, block], types[:, block], np.array([gaps[:, block].shape[1]]))
    u = KEY.replace(seed=seed, purpose="history").generator().random((repeats, 1, 2))
    seconds = []
    for i in range(repeats):
        begun = time.process_time()
        model.extend(cache, gaps[:, :1], types[:, :1], np.array([1])).sample_gap(u[i])
        seconds.append(time.process_time() - begun)
        cache.rollback(np.array([length]))
    values = 1000 * np.sort(seconds)
    low, high = order_statistic_ranks(repeats, 0.999)
    span = float(np.median(values)), float(values[low - 1]), float(values[high - 1])
    yield at_most(f"cached target-only at history {length:,}, ms/event", span, 8.0, f"{repeats} steps, 99.9 % interval")


def batch(pair: Pair, seed: int, pairs: int = 12) -> Iterator[Figure]:
    """Events a second of 64 sequences in one batch over those of single sequences, at the suites' K and at one twice as large."""
    for k, target in ((5, 4.0), (10, None)):
        sides = {"batch 1": side(pair.sampler("speculative", k=k)), "batch 64": side(pair.sampler("speculative", k=k), n=64)}
        rng = KEY.replace(seed=seed, purpose=f"batch {k}").generator()
        timing = paired_timing(sides, baseline="batch 1", rng=rng, pairs=pairs, min_pairs=pairs, coverage=0.95, max_warmup=1)
        ratio, said = of_ratio(timing.ratio("batch 64")), f"batch 64 over batch 1, events/s, speculative, K = {k}"
        note = f"{timing.n_pairs} pairs, {100 * timing.coverage:g} % interval"
        yield Figure(said, ratio, note=note) if target is None else at_least(said, ratio, target, note)


def long_runs(pair: Pair, seed: int, k: int = 10) -> Iterator[Figure]:
    """CPU time an event in one sequence of 10,000 events over that in ten of 1,000, speculative and target-only."""
    for name, sampler in (("speculative", pair.sampler("speculative", k=k)), ("target-only", pair.sampler("target_only"))):
        cost: dict[int, list[float]] = {}
        for m, repeats in ((1000, 10), (10_000, 1)):
            for i in range(repeats):
                begun = time.process_time()
                draw(sampler, 1, Stop(n_events=m), seed + i, f"long {m}")
                cost.setdefault(m, []).append(1000 * (time.process_time() - begun) / m)
        short, long = np.sort(cost[1000]), cost[10_000][0]
        low, high = order_statistic_ranks(len(short), 0.9)
        span = long / float(np.median(short)), long / float(short[high - 1]), long / float(short[low - 1])
        said, note = (
            f"{name}, an event of 10,000 over one of 1,000",
            f"{long:.3g} over {float(np.median(short)):.3g} ms, 90 % interval",
        )
        yield at_most(said, span, 3.0, note)


def tokens(pair: Pair, seed: int, pairs: int) -> Iterator[Figure]:
    """Speculative over cached target-only sampling of the same tokens: time cut into quantile buckets."""
    for buckets in (100, 500):
        cut = load_pair(f"tokens:quantile:{buckets}:{pair.name}")
        k = best_k(cut, seed)
        sides = {CACHED: side(cut.sampler("target_only")), SPECULATIVE: side(cut.sampler("speculative", k=k))}
        rng = KEY.replace(seed=seed, purpose=f"tokens {buckets}").generator()
        timing = paired_timing(sides, baseline=CACHED, again=SPECULATIVE, rng=rng, pairs=pairs)
        said = f"tokens of {buckets} buckets, speculative over cached, K = {k}"
        note = f"{timing.n_pairs} pairs, {100 * timing.coverage:g} % interval; cached {ms_per_event(timing, CACHED)[0]:.3g} ms/event"
        yield at_least(said, of_ratio(timing.ratio(SPECULATIVE)), 4.0, note)


def battery(pair: Pair, seed: int, n: int = 200, m: int = 160) -> Iterator[Figure]:
    """CPU seconds of the grey, white and black box on one cell and its reference, sampling left out."""
    from tppsd_bench.stats.blackbox import blackbox_battery
    from tppsd_bench.stats.grey import grey_battery
    from tppsd_bench.stats.whitebox import inspect_run

    stop, rng = Stop(n_events=m), KEY.replace(seed=seed, purpose="pit").generator()
    run = draw(pair.sampler("speculative", k=5, draft="stress", batch_size=64), n, stop, seed, "battery", trace=True)
    reference = draw(pair.sampler("target_only", batch_size=64), n, stop, seed, "reference").events
    begun = time.process_time()
    laws = pair.target.conditionals(run.events)
    scores, other = pair.target.score(run.events), pair.target.score(reference)
    scoring = time.process_time() - begun
    assert run.trace is not None
    begun = time.process_time()
    grey_battery(run.events, scores, rng, position=run.trace.event_position, k_round=run.trace.event_k)
    grey_battery(reference, other, rng)
    inspect_run(run, pair.target, pair.drafts["stress"], "leviathan_two_step", rng, tol=1e-4, laws=laws)
    mine, theirs = (
        np.bincount(b.sequence_index, s.log_density, len(b)).astype(np.float64)
        for b, s in ((run.events, scores), (reference, other))
    )
    blackbox_battery({"cell": (run.events, reference)}, rng, log_likelihood={"cell": (mine, theirs)})
    seconds = time.process_time() - begun
    yield Figure(
        f"law battery, {n} x {m} events, 9,999 permutations, CPU s", seconds, "<= 5", seconds <= 5.0,
        f"and {scoring:.1f} s to score both arms",
    )  # fmt: skip


def throughput(seed: int, n: int = 2000, m: int = 100, repeats: int = 9) -> Iterator[Figure]:
    """Events a second that the grey box tests on one core: three types, positions known, scores at hand."""
    from tppsd_bench.stats.grey import grey_battery

    toy = load_pair("toy-marked")
    run = draw(toy.sampler("speculative", draft="stress", batch_size=256), n, Stop(n_events=m), seed, "throughput", trace=True)
    scores, rng, each = toy.target.score(run.events), KEY.replace(seed=seed, purpose="pit").generator(), []
    assert run.trace is not None
    for _ in range(repeats):
        begun = time.process_time()
        grey_battery(run.events, scores, rng, position=run.trace.event_position, k_round=run.trace.event_k)
        each.append(n * m / (time.process_time() - begun) / 1e6)
    low, high = order_statistic_ranks(repeats, 0.95)
    span = float(np.median(each)), float(np.sort(each)[low - 1]), float(np.sort(each)[high - 1])
    yield at_least(f"grey box, {n * m:,} events of 3 types, million events/s", span, 1.0, f"{repeats} repeats, 95 % interval")


PARTS: dict[str, Callable[[Pair, int, int], Iterator[Figure]]] = {
    "times": times,
    "forwards": lambda pair, seed, _: forwards(pair, seed),
    "history": lambda pair, seed, _: history(pair, seed),
    "batch": lambda pair, seed, _: batch(pair, seed),
    "long": lambda pair, seed, _: long_runs(pair, seed),
    "tokens": lambda pair, seed, pairs: tokens(pair, seed, pairs),
    "battery": lambda pair, seed, _: battery(pair, seed),
    "throughput": lambda _pair, seed, _: throughput(seed),
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m reference_impls.figures", description=(__doc__ or "").split(":")[0])
    parser.add_argument("--release", metavar="FOLDER", help="checkpoint folder of the public release")
    parser.add_argument("--pair", help="another pair instead, by name or folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=30, help="timed pairs (12 at least)")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    given = parser.parse_args(arguments)
    if not (given.release or given.pair):
        parser.error("give --release FOLDER or --pair NAME")
    torch.set_num_threads(1)
    named = given.pair or f"release:thp:hawkes:{given.release}"
    pair = replace(load_pair(named), name=named)
    print(f"{pair.title}\n{'figure':<58} {'measured':<28} {'target':<10}")
    with threadpool_limits(limits=1):
        for part in given.parts:
            for figure in PARTS[part](pair, given.seed, given.pairs):
                print(figure.line(), flush=True)


if __name__ == "__main__":
    main()
