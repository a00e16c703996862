"""LawRows, LawTarget and stopped: what they derive equals what closed forms say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from reference_impls.pairs import load_pair
from tppsd_bench import EventBatch, LawRows, LawTarget, SampleRequest, Scores, Stop, StreamKey, stopped
from tppsd_bench.errors import InputError
from tppsd_bench.protocols import Conditional, ConditionalTarget, Target
from tppsd_bench.simulate import make

Array = NDArray[np.float64]
KEY = StreamKey(seed=4, cell="tests/adapt")


@dataclass(frozen=True)
class Exponential(LawRows):
    """Gaps exponential, types whose odds lean on the gap."""

    rate: Array

    def gap_log_density(self, gap: Array) -> Array:
        return np.log(self.rate[:, None]) - self.rate[:, None] * gap

    def gap_cdf(self, gap: Array) -> Array:
        return -np.expm1(-self.rate[:, None] * gap)

    def type_logits(self, gap: Array) -> Array:
        return np.stack([np.zeros_like(gap), gap], axis=-1)


class Renewal(LawTarget):
    n_types = 2

    def conditionals(self, batch: EventBatch) -> Exponential:
        return Exponential(1.0 + 0.1 * batch.event_index)


def test_a_law_of_three_functions_is_a_conditional() -> None:
    law = Exponential(np.array([0.5, 2.0, 4.0]))
    assert isinstance(law, Conditional)
    assert (len(law), law.n_types, len(law.take(np.array([0, 2])))) == (3, 2, 2)
    gap = np.array([0.3, 1.0, 2.0])
    wide = np.stack([gap, 2 * gap], axis=1)
    np.testing.assert_allclose(law.log_prob(wide)[:, 0], law.log_prob(gap))
    np.testing.assert_allclose(law.cdf(gap) + law.sf(gap), 1.0)
    u = np.array([1e-9, 0.3, 1 - 1e-9])
    np.testing.assert_allclose(law.quantile(u), -np.log1p(-u) / law.rate, rtol=1e-7)
    np.testing.assert_array_equal(law.sample_gap(np.stack([u, u], axis=1)), law.quantile(u))
    assert law.type_log_probs(gap).shape == (3, 2)
    np.testing.assert_allclose(np.exp(law.type_log_probs(wide)).sum(axis=-1), 1.0)
    np.testing.assert_allclose(law.type_log_probs(gap)[:, 1], -np.log1p(np.exp(-gap)))


def test_scores_follow_from_the_law_with_and_without_a_horizon() -> None:
    target = Renewal()
    assert isinstance(target, Target)
    assert isinstance(target, ConditionalTarget)
    batch = EventBatch.from_gaps([[0.5, 1.0], [], [2.0]], [[0, 1], [], [1]], n_types=2, horizon=4.0)
    scores = target.score(batch)
    np.testing.assert_allclose(scores.cdf, -np.expm1(-np.array([0.5, 1.1, 2.0])))
    assert scores.crossing_cdf is not None
    np.testing.assert_allclose(scores.crossing_cdf, -np.expm1(-np.array([1.2 * 2.5, 4.0, 1.1 * 2.0])))
    assert target.score(EventBatch(batch.gaps, batch.types, batch.lengths, 2)).crossing_cdf is None


def test_scores_from_intensities_are_those_of_the_process() -> None:
    hawkes = make("hawkes", mu=[0.2, 0.1], alpha=[[0.3, 0.1], [0.2, 0.3]], beta=[[1.0, 1.0], [1.0, 1.0]])
    batch = hawkes.simulate(10, Stop(n_events=20), KEY)
    expected = hawkes.score(batch)
    mass = hawkes.compensator(batch)
    found = Scores.from_intensity(expected.type_probs * np.exp(expected.log_density + mass)[:, None], mass)
    for name in ("log_density", "cdf", "survival", "type_probs"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("stop", [Stop(n_events=10), Stop(horizon=6.0)])
def test_sequences_that_ran_on_are_cut_as_if_they_had_stopped(stop: Stop) -> None:
    sampler = load_pair("toy-marked").sampler("target_only")
    long = sampler.sample(SampleRequest(20, Stop(n_events=60), KEY)).events
    short = sampler.sample(SampleRequest(20, stop, KEY)).events
    cut = stopped(*long.padded(), long.lengths, stop, 3)
    cut.validate()
    np.testing.assert_array_equal(cut.lengths, short.lengths)
    np.testing.assert_array_equal(cut.gaps, short.gaps)
    assert (cut.horizon is None) == (stop.horizon is None)
    assert stop.reached(long.lengths, long.end_times).all()
    with pytest.raises(InputError, match="Sequence 0 ended after 60 events, before the stop"):
        stopped(*long.padded(), long.lengths, Stop(n_events=61), 3)


def test_the_mask_undoes_padding() -> None:
    batch = EventBatch.from_gaps([[0.5, 1.0], [], [2.0]], [[0, 1], [], [1]])
    gaps, types = batch.padded()
    np.testing.assert_array_equal(gaps[batch.mask], batch.gaps)
    np.testing.assert_array_equal(types[batch.mask], batch.types)
