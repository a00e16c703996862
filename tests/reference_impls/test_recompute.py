"""Sampling without caches: the same sequences as with them, every position encoded anew, padding counted."""

from __future__ import annotations

import numpy as np
import pytest

from reference_impls.pairs import load_pair
from reference_impls.samplers.recompute import Recomputing
from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import SampleRequest, Stop
from tppsd_bench.streams import StreamKey


def prompts(lengths: list[int]) -> EventBatch:
    rng = StreamKey(seed=1, cell="test_recompute").generator()
    n = sum(lengths)
    return EventBatch(rng.exponential(1.0, n), np.zeros(n, dtype=np.int64), np.array(lengths), 1, None)


def run(kind: str, lengths: list[int], batch_size: int | None = None) -> tuple[EventBatch, object]:
    sampler = load_pair("thp-twitter").sampler(kind, k=3, batch_size=batch_size)
    request = SampleRequest(len(lengths), Stop(n_events=8), StreamKey(seed=2), prompt=prompts(lengths), want_trace=False)
    return sampler.sample(request).events, sampler


def test_it_draws_what_the_cached_sampler_draws() -> None:
    """Float32 passes differ in the last digits: the gaps agree to 1e-3, and a decision may flip at odds of 1e-4 each."""
    lengths = [3, 17, 9]
    cached, _ = run("speculative", lengths)
    anew, _ = run("speculative_recompute", lengths)
    assert anew.gaps == pytest.approx(cached.gaps, rel=1e-3)
    other, _ = run("speculative_recompute", [4, 17, 9])
    assert other.gaps[:8] != pytest.approx(cached.gaps[:8], rel=1e-3)


def test_batches_of_like_length_are_padded_less() -> None:
    spread, sampler = run("speculative_recompute", [2, 40, 3, 41], batch_size=2)
    packed, sorted_sampler = run("speculative_recompute", [2, 3, 40, 41], batch_size=2)
    assert spread.n_events == packed.n_events == 32
    shares = [s.target.encoded.padded / s.target.encoded.positions for s in (sampler, sorted_sampler)]  # type: ignore[attr-defined]
    assert shares[1] < 0.3 * shares[0]


def test_positions_are_whole_histories() -> None:
    model = Recomputing(load_pair("thp-twitter").target)
    cache = model.start(1, 4)
    one = np.ones((1, 1)), np.zeros((1, 1), dtype=np.int64), np.array([1])
    for _ in range(6):
        model.extend(cache, *one)
    assert (model.encoded.positions, model.encoded.padded) == (1 + 2 + 3 + 4 + 5 + 6, 0)
    cache.rollback(np.array([2]))
    law = model.extend(cache, *one)
    expected = load_pair("thp-twitter").target.law_after(np.ones((1, 3)), np.zeros((1, 3), dtype=np.int64), np.array([3]))
    assert law.log_prob(np.array([0.5])) == pytest.approx(expected.log_prob(np.array([0.5])))


def test_a_model_without_a_cache_is_refused() -> None:
    with pytest.raises(InputError, match="no cache to leave out"):
        load_pair("toy-marked").sampler("speculative_recompute")
