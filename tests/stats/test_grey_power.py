"""Every registered statistic rejects a fault made by hand for it; a statistic without a fault fails this module.

Samples are small (4,000 events) and faults gross: rejection means p < 1e-6 of the statistic itself, or ``passed`` False.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from grey_toys import Toy, exact, generator, uniform_case
from scipy import special

from tppsd_bench.events import EventBatch, FloatArray
from tppsd_bench.protocols import Scores
from tppsd_bench.results import Evidence
from tppsd_bench.stats.base import REGISTRY
from tppsd_bench.stats.grey import grey_battery

N, LENGTH, K = 80, 50, 4
Case = tuple[EventBatch, Scores]


def uniforms(name: str) -> tuple[FloatArray, FloatArray]:
    rng = generator(name)
    return rng.random((N, LENGTH)), rng.random((N, LENGTH))


def bent_gaps() -> Case:
    u, v = uniforms("bent gaps")
    return uniform_case(u**1.3, v)


def wrong_types() -> Case:
    u, v = uniforms("wrong types")
    return uniform_case(u, v**1.3)


def clipped() -> Case:
    u, v = uniforms("clipped")
    return uniform_case(np.minimum(u, 0.98), v)


def impossible() -> Case:
    batch, scores = exact("impossible", N, LENGTH)
    scores.type_probs[123] = np.eye(3)[(batch.types[123] + 1) % 3]
    return batch, scores


def chained_gaps() -> Case:
    """Each u is uniform, but close to (on the circle) its predecessor plus a half: correlations of any sign are weak."""
    u, v = uniforms("chained")
    for i in range(1, LENGTH):
        u[:, i] = (u[:, i - 1] + 0.5 + 0.6 * (u[:, i] - 0.5)) % 1
    return uniform_case(u, v)


def types_after_gaps() -> Case:
    u, v = uniforms("types after gaps")
    return uniform_case(u, (3 * u + 0.5 * v) % 1)


def bad_bonus() -> Case:
    u, v = uniforms("bonus")
    u.reshape(-1)[K :: K + 1] **= 1.5
    return uniform_case(u, v)


def stale_history() -> Case:
    batch = Toy().draw(*uniforms("stale"), stale=True)
    return batch, Toy().score(batch)


def blind_types() -> Case:
    """Types drawn as if every gap were 1: the history is right, the gap is ignored."""
    toy, (u, w) = Toy(), uniforms("blind")
    batch = toy.draw(u, w)
    kind = np.where(batch.event_index == 0, -1, np.roll(batch.types, 1))
    probs = toy.type_probs(np.ones(batch.n_events), kind)
    types = (w.ravel()[:, None] > np.cumsum(probs, axis=1)[:, :-1]).sum(axis=1)
    batch = EventBatch(batch.gaps, types, batch.lengths, 3)
    return batch, toy.score(batch)


def dropped_last_event() -> Case:
    batch, _ = exact("dropped", 600, 40, horizon=6.0)
    keep = batch.event_index < np.repeat(batch.lengths - 1, batch.lengths)
    batch = EventBatch(batch.gaps[keep], batch.types[keep], np.maximum(batch.lengths - 1, 0), 3, batch.horizon)
    return batch, Toy().score(batch)


def echo(values: FloatArray, lag: int, axis: int) -> FloatArray:
    """Uniforms whose normal scores have autocorrelation .5 at one lag along one axis."""
    z = special.ndtri(values)
    z = np.moveaxis(z, axis, 0)
    for i in range(lag, len(z)):
        z[i] = 0.5 * z[i - lag] + np.sqrt(0.75) * z[i]
    out: FloatArray = special.ndtr(np.moveaxis(z, 0, axis))
    return out


def echoing_gaps() -> Case:
    u, v = uniforms("echo")
    return uniform_case(echo(u, 2, 1), v)


def echoing_types() -> Case:
    u, v = uniforms("echo types")
    return uniform_case(u, echo(v, 2, 1))


def alike_neighbours() -> Case:
    u, v = uniforms("neighbours")
    return uniform_case(echo(u, 1, 0), v)


def alike_type_neighbours() -> Case:
    u, v = uniforms("type neighbours")
    return uniform_case(u, echo(v, 1, 0))


def repeated_sequence() -> Case:
    batch, _ = exact("repeated", N, LENGTH)
    batch = batch.select(np.array([*range(N), 3]))
    return batch, Toy().score(batch)


FAULTS: dict[str, tuple[Callable[[], Case], str]] = {
    "pit_time.neyman": (bent_gaps, "pit_time.neyman"),
    "pit_time.ks": (bent_gaps, "pit_time.ks"),
    "pit_type.neyman": (wrong_types, "pit_type.neyman"),
    "pit_type.ks": (wrong_types, "pit_type.ks"),
    "tail": (clipped, "tail.high_1e-2"),
    "tail.atoms": (clipped, "tail.atoms"),
    "tail.impossible": (impossible, "tail.impossible"),
    "pair.gap_gap": (chained_gaps, "pair.gap_gap"),
    "pair.gap_type": (types_after_gaps, "pair.gap_type"),
    "strata": (bad_bonus, "strata.pit_time"),
    "score.time": (stale_history, "score.time.log_previous_gap.phi_1"),
    "score.type": (blind_types, "score.type.gap"),
    "counts.horizon": (dropped_last_event, "counts.horizon"),
    "serial.time": (echoing_gaps, "serial.time.lag_2"),
    "serial.type": (echoing_types, "serial.type.lag_2"),
    "cross_sequence.duplicates": (repeated_sequence, "cross_sequence.duplicates"),
    "cross_sequence.time_neighbour": (alike_neighbours, "cross_sequence.time_neighbour_1"),
    "cross_sequence.type_neighbour": (alike_type_neighbours, "cross_sequence.type_neighbour_1"),
}


def battery(case: Case, name: str) -> list[Evidence]:
    batch, scores = case
    position, row = np.arange(batch.n_events) % (K + 1), np.arange(len(batch)) % 8
    return grey_battery(
        batch,
        scores,
        generator(f"xi {name}"),
        position=position,
        k_round=np.full(len(position), K),
        batch_row=row,
    )


@pytest.mark.parametrize("name", REGISTRY)
def test_every_statistic_rejects_its_fault(name: str) -> None:
    make, target = FAULTS[name]
    evidence = [e for e in battery(make(), name) if e.name == target]
    assert any(e.passed is False or (e.p_value is not None and e.p_value < 1e-6) for e in evidence)


def test_faults_are_seen_where_the_cheaper_statistics_are_blind() -> None:
    """Level of every "not seen" below: 1e-4 under the null the cheaper statistic still obeys."""
    chained = {e.name: e for e in battery(chained_gaps(), "blind chained")}
    assert chained["pit_time.neyman"].p_value is not None
    assert chained["pit_time.neyman"].p_value > 1e-4
    tied = {e.name: e for e in battery(types_after_gaps(), "blind types")}
    assert min(tied[f"pit_{which}.neyman"].p_value or 0 for which in ("time", "type")) > 1e-4
    bonus = battery(bad_bonus(), "blind bonus")
    worst = min((e for e in bonus if e.name == "strata.pit_time" and e.p_value is not None), key=lambda e: e.p_value or 0)
    assert worst.where == {"position": "bonus"}, "the fault must be found where it is"


def test_a_sampler_in_float32_is_not_accused_of_atoms() -> None:
    """Times of 4,000 events kept in float32: repeats that rounding explains stay above 1e-4."""
    u, v = uniforms("float32")
    batch, scores = uniform_case(u, v)
    times = batch.times.astype(np.float32).reshape(N, LENGTH)
    gaps = np.diff(times, axis=1, prepend=np.float32(0)).astype(np.float64).ravel()
    assert (gaps > 0).all()
    assert len(np.unique(gaps)) < len(gaps), "rounding must produce repeats for this test to mean anything"
    evidence = battery((EventBatch(gaps, batch.types, batch.lengths, 3), scores), "float32")
    atoms = next(e for e in evidence if e.name == "tail.atoms")
    assert atoms.p_value is not None
    assert atoms.p_value > 1e-4


@pytest.mark.slow
def test_a_million_events_take_about_a_second() -> None:
    """CPU time of the whole battery with strata by position on 1e6 events of three types: at most twice the goal."""
    import time

    batch, scores = exact("speed", 4_000, 250)
    position, k = np.arange(batch.n_events) % (K + 1), np.full(batch.n_events, K)
    rng = generator("speed xi")
    best = np.inf
    for _ in range(3):
        start = time.process_time()
        grey_battery(batch, scores, rng, position=position, k_round=k)
        best = min(best, time.process_time() - start)
    assert best < 2.0
