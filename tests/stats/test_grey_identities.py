"""Exact identities behind the grey-box statistics."""

from __future__ import annotations

import numpy as np
import pytest
from grey_toys import Toy, exact, generator, uniform_case
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tppsd_bench.budget import LAW_ANALYTIC_LEVEL, delta_ks, delta_theta
from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch
from tppsd_bench.results import Evidence
from tppsd_bench.stats import grey, neyman, pairs, pit, score, serial, strata
from tppsd_bench.stats.base import REGISTRY, binomial_two_sided, clopper_pearson, noncentrality, register
from tppsd_bench.stats.cross_sequence import duplicates, neighbour_sum, sequence_hashes

LEVELS = (1e-7, LAW_ANALYTIC_LEVEL, 1e-2)


def deciding(evidence: list[Evidence]) -> list[Evidence]:
    return [e for e in evidence if e.p_value is not None and not e.display]


# -- transforms -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("n_types", [1, 2, 3, 5, 12])
def test_type_pit_is_the_randomised_cdf(n_types: int) -> None:
    rng = generator("type_pit", n_types)
    probs = rng.dirichlet(np.ones(n_types), 50)
    types, xi = rng.integers(0, n_types, 50), rng.random(50)
    slow = [sum(p[:k]) + x * p[k] for p, k, x in zip(probs, types, xi, strict=True)]
    assert np.allclose(pit.type_pit(types, probs, xi), slow, atol=1e-15)


def test_completed_stream_keeps_events_in_order_and_puts_the_crossing_draw_last() -> None:
    batch, scores = exact("completed", 7, 60, horizon=8.0)
    stream = pit.completed_pit(batch, scores, generator("xi"), None)
    assert len(stream) == batch.n_events + 7
    assert np.array_equal(stream.u[stream.is_event], scores.cdf)
    last = np.flatnonzero(~stream.is_event)
    assert (stream.u[last] > scores.crossing_cdf).all()
    assert np.array_equal(stream.sequence[last], np.arange(7))
    assert np.array_equal(stream.lengths, batch.lengths + 1)
    assert np.allclose(stream.u + stream.survival, 1, atol=1e-12)
    before = stream.before(batch.gaps)
    for s in np.flatnonzero(stream.index > 0):
        assert before[s] == batch.gaps[batch.offsets[stream.sequence[s]] + stream.index[s] - 1]


def test_completed_stream_never_shortens_m() -> None:
    batch, scores = exact("completed", 7, 60, horizon=8.0)
    with pytest.raises(InputError, match=r"m = 100000 was fixed in advance; draw further sequences"):
        pit.completed_pit(batch, scores, generator("xi"), 100_000)
    evidence = grey.grey_battery(batch, scores, generator("xi"), m=100_000)
    assert any(e.primary and e.effect is None for e in evidence), "a stream that is too short cannot pass"


def test_completion_accepts_sequences_without_events() -> None:
    toy, gaps = Toy(), np.array([0.4, 0.5])
    batch = EventBatch(gaps, np.array([0, 2]), np.array([0, 2, 0]), 3, np.full(3, 2.0))
    stream = pit.completed_pit(batch, toy.score(batch), generator("xi"), None)
    assert stream.sequence.tolist() == [0, 1, 1, 1, 2]
    assert stream.index.tolist() == [0, 0, 1, 2, 0]
    assert strata.history_codes(stream)["previous_type"].tolist() == [-1, -1, 0, 2, -1]


# -- building blocks ------------------------------------------------------------------------------------------------------
def test_legendre_scores_are_orthonormal_in_the_continuum_and_on_cells() -> None:
    x, w = np.polynomial.legendre.leggauss(20)
    phi = neyman.legendre((x + 1) / 2)
    assert np.allclose(phi * (w / 2) @ phi.T, np.eye(4), atol=1e-13)
    assert np.allclose(phi @ w, 0, atol=1e-13)
    cell = neyman.neyman_from_histogram(np.eye(neyman.N_CELLS, dtype=np.int64))[0].T
    assert np.allclose(cell @ cell.T / neyman.N_CELLS, np.eye(4), atol=1e-12)
    assert np.allclose(cell.sum(axis=1), 0, atol=1e-9)


def test_histogram_smooth_test_agrees_with_the_exact_one() -> None:
    u = generator("histogram").beta(1.1, 1.0, 20_000)
    exact_theta = neyman.legendre(u).mean(axis=1)
    counts = np.bincount(neyman.cells(u, neyman.N_CELLS), minlength=neyman.N_CELLS)[None]
    theta, chi2, n = neyman.neyman_from_histogram(counts)
    assert np.allclose(theta[0], exact_theta, atol=5e-4)
    assert chi2[0] == pytest.approx(n[0] * (theta[0] ** 2).sum())


def test_distances_agree_with_scipy() -> None:
    u = np.sort(generator("distances").random(500))
    distance, p = neyman.kolmogorov_smirnov(u)
    reference = stats.kstest(u, "uniform")
    assert (distance, p) == pytest.approx((reference.statistic, reference.pvalue), rel=1e-9)
    # Marsaglia and Marsaglia (2004): 95 % and 99 % points of A^2 are 2.492 and 3.857
    a2, _ = neyman.anderson_darling(u)
    for shift, point, level in ((0.0, 2.492, 0.05), (0.0, 3.857, 0.01)):
        powers = np.linspace(0.3, 1.0, 4000)
        found = [neyman.anderson_darling(u[::5] ** q + shift) for q in powers]
        near = min(found, key=lambda pair: abs(pair[0] - point))
        assert near[1] == pytest.approx(level, rel=0.05)
    assert a2 > 0


@given(st.lists(st.integers(0, 6), min_size=3, max_size=12), st.integers(1, 2))
@settings(max_examples=40, deadline=None)
def test_neighbour_and_lag_sums_are_what_they_say(lengths: list[int], distance: int) -> None:
    size = np.array(lengths)
    z = np.arange(1.0, size.sum() + 1)
    rows = np.split(z, np.cumsum(size)[:-1])
    products = [a * b for r, s in zip(rows, rows[distance:], strict=False) for a, b in zip(r, s, strict=False)]
    assert neighbour_sum(z, size, distance) == (pytest.approx(sum(products)), len(products))
    index = np.concatenate([np.arange(n) for n in lengths]).astype(np.int64)
    inside = [r[i] * r[i + distance] for r in rows for i in range(len(r) - distance)]
    assert serial.lagged_sum(z, index, distance) == (pytest.approx(sum(inside)), len(inside))


def test_hashes_find_exact_copies_only() -> None:
    batch, _ = exact("hashes", 50, 4)
    assert duplicates(batch) == (0, None)
    copied = batch.select(np.array([*range(50), 17, 17]))
    assert duplicates(copied) == (2, (17, 50))
    other = EventBatch(copied.gaps, copied.types.copy(), copied.lengths, 3)
    other.types[-8:] = (other.types[-8:] + 1) % 3
    assert len(np.unique(sequence_hashes(other))) == 51, "types count too, and two changed copies are still alike"
    empty = EventBatch(np.empty(0), np.empty(0, dtype=np.int64), np.zeros(3, dtype=np.int64), 3, np.full(3, 1.0))
    assert duplicates(empty) == (0, None)


def test_rare_rows_are_merged_and_impossible_grids_refused() -> None:
    table = np.array([[1.0, 1], [30, 10], [2, 3], [1, 0]])
    assert pairs.merge_rare_rows(table, 20).tolist() == [[34.0, 14.0]]
    assert pairs.merge_rare_rows(table[:2], 20).sum() == 42
    assert pairs.independence(np.ones((8, 8), dtype=np.int64)) is None
    assert [pairs.grid_for(n) for n in (79, 80, 319, 320, 1279, 1280)] == [0, 2, 2, 4, 4, 8]
    rank_one = np.outer(np.arange(40, 48), np.arange(50, 58))
    assert pairs.independence(rank_one) == (pytest.approx(0, abs=1e-9), 49)


def test_rare_types_join_into_one_cell() -> None:
    merge = score._merging(np.array([500.0, 2.0, 300.0, 30.0, 1.0]))
    assert merge.sum(axis=0).tolist() == [1.0] * 5
    assert sorted((merge @ [500.0, 2, 300, 30, 1]).tolist()) == [333.0, 500.0]


def test_first_values_of_a_stratum_are_kept_and_unknown_labels_refused() -> None:
    stratum = strata.Stratum("x", ("a", "b"))
    codes = np.array([0, 1, 0, 0, -1, 1, 0])
    assert strata.keep_first(codes, stratum, {"a": 2.5}) == {"a": 2}
    assert codes.tolist() == [0, 1, 0, -1, -1, 1, -1]
    with pytest.raises(InputError, match=r"name \['c'\] in stratum 'x'; its values are a, b"):
        strata.keep_first(codes, stratum, {"c": 1.0})


def test_bonus_is_the_position_equal_to_its_rounds_k() -> None:
    position, k = np.array([0, 1, 2, 0, 1]), np.array([2, 2, 2, 1, 1])
    assert strata.position_codes(position, k, 3).tolist() == [0, 1, 3, 0, 3]
    assert strata.row_codes(np.array([0, 1, 2, 3, 9, 200])).tolist() == [0, 1, 2, 2, 4, 7]


def test_p_values_agree_with_scipy() -> None:
    for hits, n, p in ((0, 500, 1e-2), (9, 500, 1e-2), (5, 5, 0.2)):
        one_sided = [stats.binomtest(hits, n, p, a).pvalue for a in ("less", "greater")]
        assert binomial_two_sided(hits, n, p) == pytest.approx(min(1, 2 * min(one_sided)))
        interval = stats.binomtest(hits, n).proportion_ci(0.95, "exact")
        assert clopper_pearson(hits, n) == pytest.approx((interval.low, interval.high), abs=1e-9)
    assert stats.ncx2.sf(stats.chi2.isf(1e-7, 49), 49, noncentrality(49, 1e-7, 0.95)) == pytest.approx(0.95, abs=1e-6)


# -- the family -----------------------------------------------------------------------------------------------------------
def test_family_is_fixed_by_the_design_and_bounds_the_data() -> None:
    sizes = set()
    for index, (n, length) in enumerate(((4, 5), (40, 50), (100, 100))):
        batch, scores = exact("family", n, length, index)
        position, k = np.arange(batch.n_events) % 4, np.full(batch.n_events, 3)
        spec = strata.standard_strata(3, max_k=3, batch_row=True)
        evidence = grey.grey_battery(
            batch, scores, generator("xi", index), position=position, k_round=k, batch_row=np.arange(n) % 8
        )
        sizes.add(grey.family_size(3, spec))
        assert len(deciding(evidence)) <= grey.family_size(3, spec)
        assert grey.infer_strata(3, position, k, k) == spec
    assert len(sizes) == 1


def test_one_type_drops_every_type_statistic() -> None:
    u = generator("univariate").random((40, 50))
    batch, scores = uniform_case(u, np.zeros_like(u), n_types=1)
    evidence = grey.grey_battery(batch, scores, generator("xi"))
    assert not [e.name for e in evidence if "type" in e.name and not e.name.startswith("tail.")]
    assert len(deciding(evidence)) <= grey.family_size(1) < grey.family_size(2)
    assert [e.name for e in evidence if e.primary] == [f"pit_time.theta_{k}" for k in range(1, 5)] + ["pit_time.ks"]


def test_primary_effects_carry_margins_and_intervals() -> None:
    batch, scores = exact("primary", 40, 50)
    primary = [e for e in grey.grey_battery(batch, scores, generator("xi")) if e.primary]
    assert len(primary) == 10
    for e in primary:
        assert e.margin == (delta_ks(2000) if e.name.endswith("ks") else delta_theta(2000))
        assert e.effect is not None
        assert e.interval is not None
        assert e.interval[0] <= e.effect <= e.interval[1]


def test_a_handful_of_events_is_undersized_not_passed() -> None:
    batch, scores = exact("tiny", 3, 5)
    evidence = grey.grey_battery(batch, scores, generator("xi"))
    small = next(e for e in evidence if e.name == "pit_time.neyman")
    assert small.p_value is None
    assert small.primary
    assert small.detail == "Undersized: 15 values, this test needs 200; draw more sequences."


def test_scores_that_are_not_numbers_leave_one_failed_validity_check() -> None:
    batch, scores = exact("nan", 10, 30)
    scores.cdf[42] = np.nan
    (only,) = grey.grey_battery(batch, scores, generator("xi"))
    assert only.passed is False
    assert "Sequence 1, event 12: the CDF is nan" in only.detail


# -- power as interface ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", REGISTRY)
def test_min_n_inverts_min_effect(name: str) -> None:
    statistic = REGISTRY[name]
    for alpha in LEVELS:
        for n in (2_000, 50_000):
            effect = statistic.min_effect(n, alpha)
            assert 0 < effect < np.inf
            needed = statistic.min_n(effect * (1 + 1e-9), alpha)
            assert needed <= 1.1 * n, "up to the steps of a discrete null"
            assert statistic.min_effect(needed, alpha) <= effect * (1 + 1e-6)
        assert statistic.min_effect(200_000, alpha) < statistic.min_effect(2_000, alpha)
    with pytest.raises(InputError, match="give a positive effect"):
        statistic.min_n(0.0, 1e-3)


def test_names_in_the_registry_are_unique() -> None:
    with pytest.raises(InputError, match="already registered"):
        register(REGISTRY["tail"])
    assert all(s.null and s.effect_name for s in REGISTRY.values())
