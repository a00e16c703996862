"""Black-box battery: p-values of exact arms are uniform although events depend; hand-made faults are found; the pooled trap."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from tppsd_bench.events import EventBatch
from tppsd_bench.results import Evidence
from tppsd_bench.stats.blackbox import blackbox_battery
from tppsd_bench.streams import StreamKey

ALARM = 1e-6  # false alarm rate of each second-level check
STICKY = np.array([[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6]])


def rng(name: str) -> np.random.Generator:
    return StreamKey(seed=13, cell=name).generator()


def dependent(
    g: np.random.Generator, n: int, length: int, *, between: float = 0.05, horizon: float | None = None
) -> EventBatch:
    """AR(1) log gaps (sd .4, coefficient .4) that depend on the type, a level per sequence (sd ``between``), Markov types."""
    level = between * g.standard_normal(n)
    log_gap, types = np.empty((n, length)), np.empty((n, length), dtype=np.int64)
    state, kind = 0.4 * g.standard_normal(n), g.integers(3, size=n)
    for t in range(length):
        kind = (g.random(n)[:, None] > STICKY[kind].cumsum(axis=1)).sum(axis=1).clip(0, 2)
        state = 0.4 * state + 0.4 * np.sqrt(1 - 0.16) * g.standard_normal(n)
        log_gap[:, t], types[:, t] = state + level + 0.2 * (kind == 2), kind
    gaps = np.exp(log_gap)
    if horizon is None:
        return EventBatch.from_padded(gaps, types, np.full(n, length), 3)
    lengths = (gaps.cumsum(axis=1) < horizon).sum(axis=1)
    return EventBatch.from_padded(gaps, types, lengths, 3, np.full(n, horizon))


def super_uniform(p_values: list[float]) -> float:
    """Smallest, times their number, of one-sided binomial p-values of #{p <= level}: small if p-values come out too small."""
    p = np.array(p_values)
    levels = (0.01, 0.05, 0.1, 0.25, 0.5)
    return len(levels) * min(float(stats.binom.sf((p <= level).sum() - 1, len(p), level)) for level in levels)


def uniform(p_values: list[float]) -> float:
    """Chi-square p-value of ten equal bins of a discrete uniform on multiples of 1/200."""
    hits = np.bincount(np.minimum((np.round(np.array(p_values) * 200) - 1).astype(int) // 20, 9), minlength=10)
    return float(stats.chisquare(hits).pvalue)


def p_of(evidence: list[Evidence]) -> float:
    assert evidence[0].name == "blackbox.maxT"
    assert evidence[0].p_value is not None
    return evidence[0].p_value


def null_p_values(name: str, n_runs: int, horizon: float | None, between: float) -> list[float]:
    out = []
    for i in range(n_runs):
        g = rng(f"{name} {i}")
        arms = dependent(g, 14, 24, between=between, horizon=horizon), dependent(g, 10, 24, between=between, horizon=horizon)
        ll = {"c": (g.normal(size=14), g.normal(size=10))}
        out.append(p_of(blackbox_battery({"c": arms}, g, n_permutations=199, log_likelihood=ll)))
    return out


@pytest.mark.parametrize("horizon", [None, 12.0])
def test_p_values_of_exact_arms_are_uniform(horizon: float | None) -> None:
    p_values = null_p_values(f"null {horizon}", 150, horizon, 0.5)
    assert super_uniform(p_values) > ALARM
    assert uniform(p_values) > ALARM


def test_p_values_are_uniform_with_a_shared_reference() -> None:
    p_values = []
    for i in range(100):
        g = rng(f"shared null {i}")
        one, two, reference = (dependent(g, n, 16, between=0.5) for n in (8, 10, 9))
        cells = {"one": (one, reference), "two": (two, reference)}
        p_values.append(p_of(blackbox_battery(cells, g, n_permutations=199, shared_reference=True)))
    assert super_uniform(p_values) > ALARM
    assert uniform(p_values) > ALARM


@pytest.mark.slow
def test_p_values_of_exact_arms_are_uniform_in_many_runs() -> None:
    p_values = null_p_values("null many", 3_000, None, 0.5)
    assert super_uniform(p_values) > ALARM
    assert uniform(p_values) > ALARM


def test_pooled_events_would_have_been_invalid() -> None:
    """The trap: KS of pooled gaps takes dependent events for independent; the check above rejects its p-values outright."""
    pooled, permuted = [], []
    for i in range(50):
        g = rng(f"trap {i}")
        a, b = dependent(g, 20, 60, between=0.3), dependent(g, 20, 60, between=0.3)
        pooled.append(float(stats.ks_2samp(a.gaps, b.gaps, method="asymp").pvalue))
        permuted.append(p_of(blackbox_battery({"c": (a, b)}, g, n_permutations=199)))
    assert super_uniform(pooled) < 1e-12
    assert np.mean(np.array(pooled) < 0.05) > 0.3
    assert super_uniform(permuted) > ALARM


# -- hand-made faults -----------------------------------------------------------------------------------------------------
def relabelled(batch: EventBatch, g: np.random.Generator) -> EventBatch:
    """15 % of type 0 become type 1."""
    moved = (batch.types == 0) & (g.random(batch.n_events) < 0.15)
    return EventBatch(batch.gaps, np.where(moved, 1, batch.types), batch.lengths, 3)


def stretched(batch: EventBatch, g: np.random.Generator) -> EventBatch:
    return EventBatch(batch.gaps * 1.03, batch.types, batch.lengths, 3)


def shuffled_gaps(batch: EventBatch, g: np.random.Generator) -> EventBatch:
    """Autocorrelation destroyed, every marginal law kept."""
    return EventBatch(g.permuted(batch.padded()[0], axis=1).reshape(-1), batch.types, batch.lengths, 3)


def untied(batch: EventBatch, g: np.random.Generator) -> EventBatch:
    """Types one event late: laws of gaps and of types alone stay, their joint law changes."""
    return EventBatch(batch.gaps, np.roll(batch.padded()[1], 1, axis=1).reshape(-1), batch.lengths, 3)


def clipped(batch: EventBatch, g: np.random.Generator) -> EventBatch:
    return EventBatch(np.minimum(batch.gaps, np.quantile(batch.gaps, 0.997)), batch.types, batch.lengths, 3)


FAULTS = {
    "types_chi2": relabelled,
    "gap_ks": stretched,
    "gap_acf": shuffled_gaps,
    "bucket_type_chi2": untied,
    "largest_gap": clipped,
}


@pytest.mark.parametrize(("killer", "fault"), FAULTS.items())
def test_faults_are_found_and_named(killer: str, fault: Callable[[EventBatch, np.random.Generator], EventBatch]) -> None:
    """Smallest possible p (chance 1/1000 for exact arms), with the statistic made for the fault below .01 itself."""
    g = rng(f"fault {killer}")
    sut, reference = fault(dependent(g, 300, 160, between=0.0), g), dependent(g, 300, 160, between=0.0)
    evidence = blackbox_battery(
        {"exact": (dependent(g, 60, 40), dependent(g, 60, 40)), "c": (sut, reference)}, g, n_permutations=999
    )
    assert p_of(evidence) == 1 / 1000
    adjusted = {(e.name, e.where["cell"]): e.p_value for e in evidence if e.display}
    killed = adjusted[f"blackbox.{killer}", "c"]
    assert killed is not None
    assert killed <= 0.01
    assert evidence[0].detail.endswith("in cell c.")


def poisson_arm(g: np.random.Generator, n: int, spread: float) -> EventBatch:
    """Poisson sequences on [0, 10], rate 6, times a mean-1 lognormal factor per sequence."""
    rate = 6 * np.exp(spread * g.standard_normal(n) - spread**2 / 2)
    rows = [np.sort(g.uniform(0, 10, size)) for size in g.poisson(10 * rate)]
    return EventBatch.from_times(rows, horizon=10.0)


def test_overdispersed_counts_are_found() -> None:
    g = rng("overdispersed")
    evidence = blackbox_battery({"c": (poisson_arm(g, 200, 0.2), poisson_arm(g, 200, 0.0))}, g, n_permutations=999)
    assert p_of(evidence) == 1 / 1000
    fano = next(e for e in evidence if e.name == "blackbox.count_fano")
    assert fano.p_value == 1 / 1000
    assert fano.interval is not None
    assert fano.interval[0] < np.log(1 + 60 * (np.exp(0.04) - 1)) < fano.interval[1]


def test_dropped_crossing_events_are_found() -> None:
    """A sampler that loses the last event before the horizon: seen by the time left to it."""
    g = rng("dropped")
    whole = poisson_arm(g, 200, 0.0)
    keep = whole.event_index < np.repeat(whole.lengths - 1, whole.lengths)
    sut = EventBatch(whole.gaps[keep], whole.types[keep], np.maximum(whole.lengths - 1, 0), 1, whole.horizon)
    evidence = blackbox_battery({"c": (sut, poisson_arm(g, 200, 0.0))}, g, n_permutations=999)
    assert p_of(evidence) == 1 / 1000
    assert next(e.p_value for e in evidence if e.name == "blackbox.ending") == 1 / 1000


def test_minimum_detectable_effect_is_detected() -> None:
    """At the stated effect the adjusted p reaches the budget's alarm level in about 95 % of runs, at a third of it rarely."""
    hits = {1.0: 0, 1 / 3: 0}
    base = rng("mde")
    arms = dependent(base, 40, 12), dependent(base, 40, 12)
    log_likelihood = {"c": (base.normal(size=40), base.normal(size=40))}
    shown = blackbox_battery({"c": arms}, base, n_permutations=999, log_likelihood=log_likelihood)
    detectable = next(e.min_detectable for e in shown if e.name == "blackbox.log_likelihood")
    assert detectable is not None
    for share in hits:
        for i in range(60):
            g = rng(f"mde {share} {i}")
            arms = dependent(g, 40, 12), dependent(g, 40, 12)
            ll = {"c": (g.normal(size=40) + share * detectable, g.normal(size=40))}
            evidence = blackbox_battery({"c": arms}, g, n_permutations=199, log_likelihood=ll)
            p = next(e.p_value for e in evidence if e.name == "blackbox.log_likelihood")
            hits[share] += p is not None and p <= 0.0149
    # Binomial(60, .88): P(< 42) < 1e-4; the effect itself carries the noise of one estimated null spread.
    assert hits[1.0] >= 42
    assert hits[1 / 3] <= 20
