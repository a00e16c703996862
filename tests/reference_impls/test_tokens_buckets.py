"""Time buckets: exact identities of the within laws, fitting by every strategy, and refusals that say why."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference_impls.tokens import TimeBuckets, fit_buckets
from tests.reference_impls.token_laws import STRATEGIES, WITHINS, buckets, gaps
from tppsd_bench.errors import InputError

CASES = [(n, s, w) for n in (2, 10, 500) for s in STRATEGIES for w in WITHINS]


@pytest.mark.parametrize(("n", "strategy", "within"), CASES)
def test_buckets_partition_time_and_each_within_law_is_a_law(n: int, strategy: str, within: str) -> None:
    b = buckets(n, strategy, within)
    assert len(b) == n
    assert b.edges[0] == 0.0
    assert np.isinf(b.edges[-1])
    assert (np.diff(b.edges) > 0).all()
    inner = np.random.default_rng(1).random((n, 50))
    at = np.broadcast_to(np.arange(n)[:, None], inner.shape)
    x = b.gap_at(at, inner)
    np.testing.assert_array_equal(b.bucket_of(x), at)
    below, above = b.shares(x)
    np.testing.assert_allclose(below, inner, atol=1e-9)
    np.testing.assert_allclose(below + above, 1.0, atol=1e-12)


@pytest.mark.parametrize("within", WITHINS)
@pytest.mark.parametrize("tail", ["pareto", "exponential"])
def test_the_density_is_the_derivative_of_the_share(within: str, tail: str) -> None:
    b = buckets(20, "quantile", within, tail)
    rng = np.random.default_rng(2)
    x = b.gap_at(rng.integers(0, 20, 4000), rng.random(4000))
    step = 1e-6 * x
    low, high = x - step, x + step
    inside = (b.bucket_of(low) == b.bucket_of(high)) & (b.log_density(low * 0.99999) != 0)
    if within == "empirical":
        inside &= np.abs(b.log_density(low) - b.log_density(high)) < 1e-9
    slope = (b.shares(high)[0] - b.shares(low)[0]) / (2 * step)
    assert inside.mean() > 0.9
    np.testing.assert_allclose(np.exp(b.log_density(x))[inside], slope[inside], rtol=1e-5)


def test_edges_belong_to_the_bucket_above_and_no_draw_leaves_its_bucket() -> None:
    b = buckets(50, "log_width", "log_uniform")
    np.testing.assert_array_equal(b.bucket_of(b.edges[1:-1]), np.arange(1, 50))
    np.testing.assert_array_equal(b.bucket_of(np.nextafter(b.edges[1:-1], 0)), np.arange(49))
    every = np.arange(50)
    for share in (0.0, 2.0**-54, 1.0 - 2.0**-53, 1.0):
        x = b.gap_at(every, np.full(50, share))
        assert (np.isfinite(x) & (x > 0)).all()
        np.testing.assert_array_equal(b.bucket_of(x), every)
    assert np.isneginf(b.log_density(np.array([0.0, -1.0, np.inf]))).all()


def test_strategies_put_edges_where_they_say() -> None:
    x = gaps()
    counts = np.bincount(buckets(100, "quantile").bucket_of(x), minlength=100)
    assert np.abs(counts - len(x) / 100).max() <= 1
    equal = buckets(100, "equal_width").edges[:-1]
    np.testing.assert_allclose(np.diff(equal), equal[1], rtol=1e-9)
    assert (x > equal[-1]).mean() == pytest.approx(1e-3, abs=1e-4)
    log = np.log(buckets(100, "log_width").edges[1:-1])
    np.testing.assert_allclose(np.diff(log), log[1] - log[0], rtol=1e-9)
    assert (x < buckets(100, "log_width").edges[1]).mean() == pytest.approx(1e-3, abs=1e-4)


def test_the_tail_keeps_the_mean_excess_and_finds_a_heavy_tail_heavy() -> None:
    rng = np.random.default_rng(3)
    light, heavy = rng.exponential(2.0, 50_000), 2.0 * np.expm1(-0.4 * np.log(rng.random(50_000))) / 0.4
    for x, shape in ((light, 0.0), (heavy, 0.4)):
        b = fit_buckets(x, 20)
        assert b.tail_shape == pytest.approx(shape, abs=0.08)
        excess = x[x >= b.edges[-2]] - b.edges[-2]
        assert b.tail_scale / (1 - b.tail_shape) == pytest.approx(excess.mean())
    assert fit_buckets(heavy, 20, tail="exponential").tail_shape == 0.0


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 60), st.sampled_from(STRATEGIES), st.sampled_from(WITHINS), st.integers(0, 2**32 - 1))
def test_buckets_survive_a_file_to_the_last_bit(n: int, strategy: str, within: str, seed: int) -> None:
    b = fit_buckets(gaps(2000, seed), n, strategy, within)  # type: ignore[arg-type]
    again = TimeBuckets.from_json(json.loads(json.dumps(b.to_json())))
    assert b.same_as(again)
    x = gaps(100, seed + 1)
    np.testing.assert_array_equal(b.log_density(x), again.log_density(x))


def test_other_buckets_are_other_buckets() -> None:
    b = buckets(20)
    assert not b.same_as(buckets(21))
    assert not b.same_as(buckets(20, within="log_uniform"))
    assert not b.same_as(buckets(20, tail="exponential"))
    assert not buckets(20, within="empirical").same_as(fit_buckets(gaps(seed=5), 20, within="empirical"))


@pytest.mark.parametrize(
    ("x", "n", "strategy", "said"),
    [
        (np.array([]), 10, "quantile", "no gaps to fit"),
        (np.append(gaps(100), [0.0, -1.0]), 10, "quantile", r"2 of 102 gaps are not finite positive numbers \(such as -1"),
        (np.append(gaps(100), np.nan), 10, "quantile", "1 of 101 gaps are not finite"),
        (gaps(30), 100, "quantile", "30 distinct values, too few for 100 buckets; give more data, or ask for 15"),
        (gaps(100), 1, "quantile", "cannot tell gaps apart"),
        (np.append(np.full(5000, 0.25), gaps(5000)), 50, "quantile", "the value 0.25 alone makes 50.0% of the gaps"),
        (gaps(100), 10, "even", "strategy is 'even'; expected one of quantile, equal_width, log_width"),
    ],
)
def test_what_cannot_be_cut_is_refused_with_a_reason(x: np.ndarray, n: int, strategy: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        fit_buckets(x, n, strategy)  # type: ignore[arg-type]


def test_a_broken_file_is_refused() -> None:
    good = buckets(5).to_json()
    with pytest.raises(InputError, match="expected exactly"):
        TimeBuckets.from_json({k: v for k, v in good.items() if k != "weights"})
    cells = [list(row) for row in good["cells"]]
    cells[2][3] = 0.0
    with pytest.raises(InputError, match="edges that increase from 0"):
        TimeBuckets.from_json({**good, "cells": cells})
