"""Preconditions: a correct target passes all of them, each broken one fails the check made for it with a sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from grey_toys import Toy, exact, generator
from scipy import special

from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import Scores
from tppsd_bench.results import Axis, Evidence
from tppsd_bench.stats.preconditions import check_batch, check_target


@dataclass(frozen=True)
class Broken:
    """The toy target with its scores spoiled."""

    spoil: Callable[[EventBatch, Scores], Scores]
    n_types: int = 3

    def score(self, batch: EventBatch) -> Scores:
        return self.spoil(batch, Toy().score(batch))


def failures(target: object, batch: EventBatch) -> dict[str, Evidence]:
    evidence = check_target(target, batch, generator("preconditions"))  # type: ignore[arg-type]
    assert all(e.axis is Axis.VALIDITY and e.passed is not None for e in evidence)
    return {e.name: e for e in evidence if not e.passed}


def not_causal(batch: EventBatch, s: Scores) -> Scores:
    """The location of each gap leans on the gap after it."""
    after = np.where(np.append(batch.event_index[1:], 0) == 0, 0.0, np.log(np.append(batch.gaps[1:], 1.0)))
    z = special.ndtri(np.clip(s.cdf, 1e-12, 1 - 1e-12)) - 0.1 * after
    log_density = -0.5 * z**2 - 0.5 * np.log(2 * np.pi) - np.log(0.8 * batch.gaps)
    return replace(s, cdf=special.ndtr(z), survival=special.ndtr(-z), log_density=log_density)


def own_type(batch: EventBatch, s: Scores) -> Scores:
    """The gap's CDF knows the event's own type."""
    cdf = s.cdf ** (1 + 0.05 * batch.types)
    return replace(s, cdf=cdf, survival=1 - cdf)


def leaking_rows(batch: EventBatch, s: Scores) -> Scores:
    """Row b uses the previous row's type probabilities."""
    rows = np.maximum(batch.sequence_index - 1, 0)
    source = batch.offsets[rows] + np.minimum(batch.event_index, batch.lengths[rows] - 1)
    return replace(s, type_probs=s.type_probs[source])


def no_jacobian(batch: EventBatch, s: Scores) -> Scores:
    return replace(s, log_density=s.log_density + np.log(batch.gaps))


def rescaled(_: EventBatch, s: Scores) -> Scores:
    return replace(s, log_density=s.log_density + np.log(2.0))


def density_for_log(_: EventBatch, s: Scores) -> Scores:
    return replace(s, log_density=np.exp(s.log_density))


def other_cdf(_: EventBatch, s: Scores) -> Scores:
    return replace(s, cdf=s.cdf**1.05, survival=1 - s.cdf**1.05)


def defective(_: EventBatch, s: Scores) -> Scores:
    """One time in ten the next event never comes."""
    return replace(s, cdf=0.9 * s.cdf, survival=0.1 + 0.9 * s.survival, log_density=s.log_density + np.log(0.9))


def types_short(_: EventBatch, s: Scores) -> Scores:
    return replace(s, type_probs=0.98 * s.type_probs)


def nan_density(_: EventBatch, s: Scores) -> Scores:
    log_density = s.log_density.copy()
    log_density[5] = np.nan
    return replace(s, log_density=log_density)


def padded(_: EventBatch, s: Scores) -> Scores:
    return replace(s, cdf=np.append(s.cdf, 0.5))


BROKEN = [
    (not_causal, "validity.prefix", "must not depend on its future"),
    (own_type, "validity.own_type", "with the event's own type"),
    (leaking_rows, "validity.rows", "when the batch's rows are permuted"),
    (no_jacobian, "validity.density", "expected 1: return the log-density per unit of time"),
    (rescaled, "validity.density", "the density integrates to 2; expected 1"),
    (density_for_log, "validity.density", "the density integrates to"),
    (other_cdf, "validity.density", "but the CDF is"),
    (defective, "validity.density", "expected 0 to 1"),
    (types_short, "validity.types_sum", "sum to 0.98; expected 1"),
    (nan_density, "validity.finite", "Sequence 0, event 5: the log-density is nan"),
    (padded, "validity.shapes", "score() returned cdf of shape"),
]


def test_a_correct_target_passes() -> None:
    batch, _ = exact("correct", 40, 30)
    assert not failures(Toy(), batch)
    batch, _ = exact("correct horizon", 40, 60, horizon=8.0)
    assert not failures(Toy(), batch)


@pytest.mark.parametrize(("spoil", "name", "sentence"), BROKEN, ids=[b[0].__name__ for b in BROKEN])
def test_a_broken_target_is_named(spoil: Callable[[EventBatch, Scores], Scores], name: str, sentence: str) -> None:
    batch, _ = exact("broken", 40, 30)
    found = failures(Broken(spoil), batch)
    assert name in found
    assert sentence in found[name].detail


def test_a_crossing_probability_of_the_wrong_history_is_named() -> None:
    batch, _ = exact("crossing", 40, 60, horizon=8.0)

    def shifted(b: EventBatch, s: Scores) -> Scores:
        return s if s.crossing_cdf is None else replace(s, crossing_cdf=0.9 * s.crossing_cdf)

    found = failures(Broken(shifted), batch)
    assert list(found) == ["validity.crossing"]
    assert "return F(T - t_N | all events before T)" in found["validity.crossing"].detail


def test_a_narrow_law_is_resolved() -> None:
    """Log-normal components of width 1e-3: the grid must find and resolve them."""
    batch, _ = exact("narrow", 10, 10)
    narrow = Toy(scale=1e-3)
    assert "validity.density" not in failures(narrow, batch)


def test_a_float32_target_stays_within_tolerance() -> None:
    def rounded(_: EventBatch, s: Scores) -> Scores:
        noise = generator("rounding").standard_normal(len(s.cdf)) * 1e-5
        return replace(s, log_density=s.log_density + noise, cdf=np.float32(s.cdf).astype(np.float64))

    batch, _ = exact("rounded", 40, 30)
    assert not failures(Broken(rounded), batch)


def test_duplicate_sequences_are_invalid_evidence() -> None:
    batch, _ = exact("duplicates", 20, 10)
    found = {e.name: e for e in check_batch(batch.select(np.array([*range(20), 4])))}
    assert found["validity.duplicates"].passed is False
    assert "Sequence 20 is an exact copy of sequence 4" in found["validity.duplicates"].detail


def test_a_coarse_clock_is_invalid_evidence_and_float32_is_not() -> None:
    batch, _ = exact("clock", 100, 50)
    coarse = replace(batch, gaps=np.ceil(batch.gaps * 100) / 100)
    found = {e.name: e for e in check_batch(coarse)}["validity.clock"]
    assert found.passed is False
    assert "a continuous law has no ties: record times more finely" in found.detail
    fine = replace(batch, gaps=batch.gaps.astype(np.float32).astype(np.float64))
    assert {e.name: e for e in check_batch(fine)}["validity.clock"].passed


def test_ties_that_the_rounding_of_times_explains_are_reported_not_refused() -> None:
    batch, _ = exact("ulp", 40, 50)
    times = 1e9 + np.cumsum(batch.gaps.reshape(40, 50) * 1e-6, axis=1)
    gaps = np.diff(times, axis=1, prepend=0.0)
    keep = gaps > 0
    late = EventBatch(gaps[keep], batch.types[keep.ravel()], keep.sum(axis=1), 3)
    found = {e.name: e for e in check_batch(late)}["validity.clock"]
    assert found.passed
    assert found.statistic is not None
    assert found.statistic > 0.5
    assert "the rounding of float64 times explains it" in found.detail
