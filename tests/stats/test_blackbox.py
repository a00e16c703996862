"""Black-box battery: each statistic equals its definition, invariances of the permutation test, bad input."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch
from tppsd_bench.results import Axis, Evidence
from tppsd_bench.stats.blackbox import (
    REGISTRY,
    PermutationGroup,
    blackbox_battery,
    effects,
    max_t,
    min_sequences,
    range_screen,
    summarise,
)
from tppsd_bench.stats.blackbox.maxt import near_normal
from tppsd_bench.streams import StreamKey


def rng(name: str) -> np.random.Generator:
    return StreamKey(seed=12, cell=name).generator()


def draw(g: np.random.Generator, n: int, length: int = 12, n_types: int = 3, horizon: float | None = None) -> EventBatch:
    if horizon is None:
        lengths = np.full(n, length)
    else:
        lengths = g.poisson(length, n)
        rows = [np.sort(g.uniform(0, horizon, size)) for size in lengths]
        return EventBatch.from_times(rows, [g.integers(n_types, size=len(r)) for r in rows], n_types=n_types, horizon=horizon)
    return EventBatch.from_padded(g.exponential(size=(n, length)), g.integers(n_types, size=(n, length)), lengths, n_types)


def observed(sut: EventBatch, reference: EventBatch) -> dict[str, float]:
    """Raw value of every statistic under the observed labelling."""
    group = PermutationGroup.of(["c"], [sut, reference], rng("observed"))
    arms = next(iter(group.blocks(0, rng("observed"))))[0]
    return {s.name: float(s.value(arms)[0]) for s in group.statistics()}


def by_name(evidence: list[Evidence]) -> dict[str, Evidence]:
    return {e.name.removeprefix("blackbox."): e for e in evidence}


# -- statistics equal their definitions -----------------------------------------------------------------------------------
def test_ks_distances_equal_scipys_where_the_grid_holds_every_value() -> None:
    a, b = draw(rng("ks a"), 9, 11), draw(rng("ks b"), 7, 13)
    values = observed(a, b)
    assert values["gap_ks"] == pytest.approx(stats.ks_2samp(a.gaps, b.gaps).statistic, abs=1e-12)
    largest = [[row.max() for row in np.split(x.gaps, x.offsets[1:-1])] for x in (a, b)]
    assert values["largest_gap"] == pytest.approx(stats.ks_2samp(*largest).statistic, abs=1e-12)


def test_chi_squares_equal_scipys() -> None:
    a, b = draw(rng("chi a"), 40), draw(rng("chi b"), 30)
    tables = {"types_chi2": [np.bincount(x.types, minlength=3) for x in (a, b)]}
    inside = [np.flatnonzero(x.event_index[1:] > 0) for x in (a, b)]
    pairs = [x.types[i] * 3 + x.types[i + 1] for x, i in zip((a, b), inside, strict=True)]
    tables["transitions_chi2"] = [np.bincount(p, minlength=9) for p in pairs]
    for name, table in tables.items():
        expected = stats.chi2_contingency(np.array(table), correction=False).statistic / np.sum(table)
        assert observed(a, b)[name] == pytest.approx(expected, rel=1e-10)


def test_rare_types_are_merged_and_none_is_lost() -> None:
    g = rng("rare")
    types = np.where(g.random((50, 20)) < 0.98, g.integers(2, size=(50, 20)), g.integers(2, 30, size=(50, 20)))
    batch = EventBatch.from_padded(g.exponential(size=(50, 20)), types, np.full(50, 20), 30)
    summaries = summarise(batch)
    assert summaries.columns["types"] == ("0", "1", "rare cells together")
    for name, total in {"types": 1000, "bucket_type": 1000, "transitions": 950}.items():
        assert summaries.linear[name].sum() == total


def test_counts_means_and_fano_factors() -> None:
    a, b = draw(rng("count a"), 30, horizon=5.0), draw(rng("count b"), 25, horizon=5.0)
    values = observed(a, b)
    fano = [x.lengths.var(ddof=1) / x.lengths.mean() for x in (a, b)]
    assert values["count_mean"] == pytest.approx(a.lengths.mean() - b.lengths.mean(), rel=1e-10)
    assert values["count_fano"] == pytest.approx(np.log(fano[0] / fano[1]), rel=1e-10)
    assert values["ending"] == pytest.approx(np.mean(5.0 - a.end_times) - np.mean(5.0 - b.end_times), rel=1e-9)


def test_autocorrelation_of_sums_equals_the_direct_one() -> None:
    a, b = draw(rng("acf a"), 20, 15), draw(rng("acf b"), 20, 15)
    pooled = np.log(np.concatenate([a.gaps, b.gaps]))

    def direct(batch: EventBatch, lag: int) -> float:
        z = (np.log(batch.padded(1.0)[0]) - pooled.mean()) / pooled.std()
        return float(((z[:, lag:] * z[:, :-lag]).mean() - z.mean() ** 2) / z.var())

    expected = max(abs(direct(a, lag) - direct(b, lag)) for lag in range(1, 9))
    assert observed(a, b)["gap_acf"] == pytest.approx(expected, rel=1e-9)


def test_energy_and_discriminant_equal_their_definitions() -> None:
    a, b = draw(rng("energy a"), 60), draw(rng("energy b"), 50)
    values, scores = observed(a, b), summarise(EventBatch.concat([a, b])).normal_scores
    x, y = scores[:60], scores[60:]
    mean_distance = {
        k: np.mean(np.linalg.norm(p[:, None] - q[None], axis=2)) for k, p, q in (("xy", x, y), ("xx", x, x), ("yy", y, y))
    }
    expected = (2 * mean_distance["xy"] - mean_distance["xx"] - mean_distance["yy"]) / (2 * mean_distance["xy"])
    assert values["energy"] == pytest.approx(expected, rel=1e-9)
    shift = x.mean(axis=0) - y.mean(axis=0)
    covariance = np.cov(scores.T, bias=True)
    rank = np.linalg.matrix_rank(covariance)
    if rank <= len(scores) // 4:  # all directions kept: Mahalanobis distance under the pooled covariance
        assert values["classifier"] == pytest.approx(shift @ np.linalg.pinv(covariance, rcond=1e-11) @ shift, rel=1e-6)


def test_range_screen_counts_strictly_beyond_with_ties() -> None:
    a, b = draw(rng("range a"), 20, 6), draw(rng("range b"), 15, 6)  # shares of types tie often
    screened = range_screen(a, b)
    x, y = np.split(summarise(EventBatch.concat([a, b])).features, [20])
    beyond = ((x < y.min(0)) | (x > y.max(0))).sum(0), ((y < x.min(0)) | (y > x.max(0))).sum(0)
    np.testing.assert_array_equal(screened.sut_beyond, beyond[0])
    np.testing.assert_array_equal(screened.reference_beyond, beyond[1])
    assert observed(a, b)["range_screen"] == pytest.approx((beyond[0] + beyond[1]).mean())


def test_range_screen_expectation() -> None:
    """A continuous feature of exchangeable sequences: 2 n / (m + 1) beyond, on average (within 5 standard errors)."""
    seen = []
    for i in range(200):
        g = rng(f"range mean {i}")
        screened = range_screen(draw(g, 12, 5, 1), draw(g, 8, 5, 1))
        seen.append(screened.sut_beyond[screened.features.index("log_gap_mean")])
    assert abs(np.mean(seen) - screened.expected_sut) < 5 * np.std(seen) / np.sqrt(200)


# -- invariances ----------------------------------------------------------------------------------------------------------
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), horizon=st.booleans())
def test_values_depend_on_arms_as_sets_and_are_symmetric(seed: int, horizon: bool) -> None:
    g = rng(f"sets {seed}")
    a, b = (draw(g, n, 5, 2, 3.0 if horizon else None) for n in (8, 6))
    plain = observed(a, b)
    shuffled = observed(a.select(g.permutation(8)), b.select(g.permutation(6)))
    swapped = observed(b, a)
    for statistic in REGISTRY:
        if statistic.name not in plain:
            continue
        value = plain[statistic.name]
        assert shuffled[statistic.name] == pytest.approx(value, abs=1e-8)
        assert swapped[statistic.name] == pytest.approx(-value if statistic.two_sided else value, abs=1e-8)


def test_few_arrangements_are_counted_as_ties() -> None:
    """3 against 3: 20 arrangements, a mirror image equal to each; whatever the data, no p-value can be much below 2/20."""
    a, b = draw(rng("tiny a"), 3), draw(rng("tiny b"), 3)
    shifted = EventBatch(a.gaps * 50, a.types * 0, a.lengths, a.n_types)
    decision = blackbox_battery({"c": (shifted, b)}, rng("tiny"), n_permutations=1999)[0]
    assert decision.p_value is not None
    assert decision.p_value > 0.07
    assert "no p-value can be below 0.05" in decision.detail


def test_same_seed_same_evidence_and_constant_statistics_are_left_out() -> None:
    a, b = draw(rng("one type a"), 12, n_types=1), draw(rng("one type b"), 12, n_types=1)
    first, second = (blackbox_battery({"c": (a, b)}, rng("seed"), n_permutations=99) for _ in range(2))
    assert first == second
    assert not {"types_chi2", "transitions_chi2", "log_likelihood"} & set(by_name(first))


def test_sequences_without_events_are_legal_with_a_horizon() -> None:
    empty = [np.empty(0)] * 6
    a = EventBatch.from_gaps(empty, [np.empty(0, dtype=int)] * 6, n_types=2, horizon=1.0)
    assert blackbox_battery({"c": (a, a)}, rng("empty"), n_permutations=99)[0].p_value == 1.0
    b = draw(rng("sparse"), 20, 1, 2, 1.0)
    p = blackbox_battery({"c": (b, draw(rng("sparse 2"), 20, 1, 2, 1.0))}, rng("empty 2"), n_permutations=99)[0].p_value
    assert p is not None
    assert 0 < p <= 1


def test_shared_reference_permutes_jointly() -> None:
    g = rng("shared")
    reference, one, two = draw(g, 14), draw(g, 10), draw(g, 12)
    group = PermutationGroup.of(["one", "two"], [one, two, reference], g)
    for block in group.blocks(500, g):
        labels = np.stack([block[0].sut.labels, block[1].sut.labels, block[0].reference.labels])
        assert (labels.sum(axis=0) == 1).all()  # every sequence in exactly one arm, of the given size
        np.testing.assert_array_equal(labels.sum(axis=2)[:, 0], [10, 12, 14])
        np.testing.assert_array_equal(block[0].reference.labels, block[1].reference.labels)
    evidence = blackbox_battery({"one": (one, reference), "two": (two, reference)}, g, n_permutations=99, shared_reference=True)
    assert sum(e.name == "blackbox.maxT" for e in evidence) == 1
    ending = {e.where["cell"]: e.effect for e in evidence if e.name == "blackbox.ending"}
    for name, sut in (("one", one), ("two", two)):
        assert ending[name] == pytest.approx(sut.end_times.mean() - reference.end_times.mean())
    with pytest.raises(InputError, match="shared_reference=True"):
        blackbox_battery({"one": (one, reference), "two": (two, reference)}, g)


# -- evidence -------------------------------------------------------------------------------------------------------------
def test_one_deciding_p_value_and_complete_display() -> None:
    g = rng("evidence")
    cells = {"a": (draw(g, 20), draw(g, 20)), "b": (draw(g, 20, horizon=9.0), draw(g, 20, horizon=9.0))}
    ll = {"a": (g.normal(size=20), g.normal(size=20))}
    evidence = blackbox_battery(cells, g, n_permutations=199, log_likelihood=ll)
    deciding = [e for e in evidence if e.axis == Axis.LAW and not e.display]
    assert [e.name for e in deciding] == ["blackbox.maxT"]
    shown = [e for e in evidence if e.display]
    assert {(e.where["cell"], e.name) for e in shown} >= {("a", "blackbox.log_likelihood"), ("b", "blackbox.count_ks")}
    assert deciding[0].p_value == min(e.p_value for e in shown if e.p_value is not None)
    for e in shown:
        assert e.effect is not None
        assert e.min_detectable is not None
        assert np.isfinite([e.effect, e.min_detectable]).all()
        if e.interval is not None:
            assert e.interval[0] <= e.effect <= e.interval[1]
    assert [e.passed for e in evidence if e.axis == Axis.VALIDITY] == [True, True]


def test_arms_with_common_sequences_are_invalid_evidence() -> None:
    g = rng("common")
    a, b = draw(g, 10), draw(g, 10)
    mixed = EventBatch.concat([b.select(slice(0, 9)), a.select(slice(0, 1))])
    for reference, n_common in ((a, 10), (mixed, 1)):
        validity = by_name(blackbox_battery({"c": (a, reference)}, g, n_permutations=19))["arms_independent"]
        assert validity.passed is False
        assert validity.statistic == n_common


def test_bad_input_is_named() -> None:
    g = rng("bad")
    a, b = draw(g, 5), draw(g, 5)
    with pytest.raises(InputError, match="no cells"):
        blackbox_battery({}, g)
    with pytest.raises(InputError, match="Cell c: the reference has no sequences"):
        blackbox_battery({"c": (a, a.select(slice(0, 0)))}, g)
    with pytest.raises(InputError, match="same stop rule"):
        blackbox_battery({"c": (a, draw(g, 5, horizon=3.0))}, g)
    with pytest.raises(InputError, match="shape"):
        blackbox_battery({"c": (a, b)}, g, log_likelihood={"c": (np.zeros(5), np.zeros(4))})
    with pytest.raises(InputError, match=r"Sequence 7: the log-likelihood is nan"):
        blackbox_battery({"c": (a, b)}, g, log_likelihood={"c": (np.zeros(5), np.array([0, 0, np.nan, 0, 0]))})
    with pytest.raises(ValueError, match="n_permutations"):
        max_t([PermutationGroup.of(["c"], [a, b], g)], 0, g, critical_level=0.1)


# -- effects --------------------------------------------------------------------------------------------------------------
def test_standard_errors_match_the_spread_over_repeats() -> None:
    """Delta-method errors against the spread over 2,000 repeats: within 10 % (that spread's own error is 1.6 %)."""
    g = rng("se")
    size = g.poisson(20, (2000, 80)).astype(float)
    hits = g.binomial(size.astype(int), g.beta(4, 8, (2000, 80))).astype(float)
    ratios = hits.sum(axis=1) / size.sum(axis=1)
    se = np.mean([effects.ratio_se(h, s) for h, s in zip(hits[:300], size[:300], strict=True)])
    assert se == pytest.approx(ratios.std(), rel=0.1)
    counts = g.negative_binomial(15, 0.4, (2000, 200))
    log_fano = np.log(counts.var(axis=1) / counts.mean(axis=1))
    assert np.mean([effects.log_fano_se(c) for c in counts[:300]]) == pytest.approx(log_fano.std(), rel=0.1)


def test_phi_squared_error_matches_the_spread_over_repeats() -> None:
    g = rng("phi")
    arms = [g.multinomial(30, p, size=(1500, 60)).astype(float) for p in ([0.5, 0.3, 0.2], [0.4, 0.35, 0.25])]
    phi = effects.phi_squared(arms[0].sum(axis=1), arms[1].sum(axis=1))
    se = np.mean([effects.phi_squared_se(a, b) for a, b in zip(arms[0][:300], arms[1][:300], strict=True)])
    assert se == pytest.approx(phi.std(), rel=0.1)


def test_detectable_effects() -> None:
    df, critical = 9, 40.0
    found = effects.detectable_noncentrality(critical, effects.Null(df, np.sqrt(2 * df), 0.0))
    assert stats.ncx2.sf(critical, df, found) == pytest.approx(0.95, abs=0.02)
    assert min_sequences(0.1, 0.2, 200) == 800


def test_cube_root_makes_a_kolmogorov_tail_near_normal() -> None:
    """99.9 % point, standardised: the cube root's within .25 of the normal 3.09, the plain statistic's beyond 4."""
    values = stats.kstwobign.ppf((np.arange(100_000) + 0.5) / 100_000)

    def point(x: np.ndarray) -> float:
        return float((np.quantile(x, 0.999) - x.mean()) / x.std())

    assert point(values) > 4
    assert abs(point(near_normal(values, two_sided=False)) - 3.09) < 0.25


def test_cost_of_a_full_battery() -> None:
    """200 x 160 events per arm, 3 types, 9,999 permutations, every statistic: at most 3 s of one core (about .6 s measured)."""
    g = rng("cost")
    a, b = draw(g, 200, 160), draw(g, 200, 160)
    ll = {"c": (g.normal(size=200), g.normal(size=200))}
    before = time.process_time()
    evidence = blackbox_battery({"c": (a, b)}, g, log_likelihood=ll)
    assert time.process_time() - before < 3.0
    assert len([e for e in evidence if e.display]) == len(REGISTRY)


def test_very_many_sequences_are_permuted_in_bundles_that_stay_within_their_arm() -> None:
    """Uniform p-values over 60 exact pairs of 1,500 sequences (Kolmogorov distance beyond .27 once in 3,000), a shift is found."""
    g = rng("bundles")

    def arm(n: int, shift: float = 0.0) -> EventBatch:
        return EventBatch.from_gaps(list(np.exp(shift + g.normal(size=(n, 3)))))

    group = PermutationGroup.of(["c"], [arm(1501), arm(1502)], g)
    assert group.pooled.bundle == 3
    np.testing.assert_array_equal(np.bincount(group.arm), [1500, 1500])
    block = next(group.blocks(3, g))[0]
    assert block.sut["count"].shape[0] == 4
    np.testing.assert_allclose(block.sut["gap_cumulative"][:, -1], 4500)
    np.testing.assert_array_equal(block.sut.holds(np.array([0, 1, 2, 1499, 1500]))[0], [True, True, True, True, False])
    p = [max_t([PermutationGroup.of(["c"], [arm(1500), arm(1500)], g)], 99, g, critical_level=0.1).p_value for _ in range(60)]
    assert stats.kstest(np.array(p) - 0.005, "uniform").statistic < 0.27
    shifted = max_t([PermutationGroup.of(["c"], [arm(1500, 0.2), arm(1500)], g)], 99, g, critical_level=0.1)
    assert shifted.p_value == 0.01
