"""Rounds along sequences: the recursion against enumeration and against the closed recursion, and both against a sampler that runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impls.pairs import load_pair
from tppsd_bench.measure.promise import alpha_by_quadrature
from tppsd_bench.measure.rounds import acceptance_along, expected_rounds
from tppsd_bench.measure.throughput import finite_rounds
from tppsd_bench.protocols import SampleRequest, Stop
from tppsd_bench.streams import StreamKey

PROBABILITY = st.floats(0, 1)


def enumerated(a: list[float], k: int) -> tuple[float, float, float]:
    """(rounds, drafted, accepted) by following every possible outcome of every round."""
    m = len(a)

    def after(start: int) -> tuple[float, float, float]:
        if start >= m:
            return 0.0, 0.0, 0.0
        drafted = min(k, m - 1 - start)
        total, reach = np.array([1.0, drafted, 0.0]), 1.0
        for j in range(drafted + 1):
            chance = reach * (1 - a[start + j] if j < drafted else 1.0)
            total += chance * (np.array(after(start + j + 1)) + np.array([0.0, 0.0, j]))
            reach *= a[start + j] if j < drafted else 1.0
        return float(total[0]), float(total[1]), float(total[2])

    return after(0)


@given(st.lists(PROBABILITY, min_size=1, max_size=7), st.integers(1, 5))
def test_the_recursion_is_the_sum_over_all_outcomes(a: list[float], k: int) -> None:
    found = expected_rounds(np.array([a]), k)
    rounds, drafted, accepted = enumerated(a, k)
    assert found.rounds == pytest.approx(rounds)
    assert found.drafted == pytest.approx(drafted)
    assert found.accepted.sum() == pytest.approx(accepted)


@given(st.lists(PROBABILITY, min_size=2, max_size=30), st.integers(1, 8))
def test_every_event_was_accepted_or_ended_a_round(a: list[float], k: int) -> None:
    found = expected_rounds(np.array([a]), k)
    assert found.accepted.sum() + found.rounds == pytest.approx(len(a))
    assert (found.accepted <= found.verified + 1e-12).all()
    assert found.verified.sum() <= found.drafted + 1e-9


@given(st.floats(0, 0.999), st.integers(1, 10), st.integers(1, 60))
def test_constant_acceptance_gives_the_closed_recursion(alpha: float, k: int, m: int) -> None:
    assert expected_rounds(np.full((1, m), alpha), k).rounds == pytest.approx(finite_rounds(m, k, alpha), rel=1e-9)


def test_acceptance_that_clusters_takes_other_rounds_than_its_mean() -> None:
    """Twenty sure events, twenty impossible ones, again and again: at K = 4 five and twenty rounds, where a constant .5 takes 21."""
    clustered = np.tile(np.repeat([1.0, 0.0], 20), 5)[None]
    assert expected_rounds(clustered, 4).rounds > 1.15 * finite_rounds(200, 4, 0.5)


def z_of_a_run(rule: str, claimed_rule: str, k: int, n: int = 192, m: int = 60) -> float:
    """(rounds a run took - rounds the chain expects) over their standard error; the run and the chain have seeds of their own."""
    pair, key = load_pair("toy-gap-types"), StreamKey(seed=11, cell="test_rounds")
    drawn = pair.sampler("target_only").sample(SampleRequest(n, Stop(n_events=m), key, want_trace=False)).events
    along = acceptance_along(pair.target, pair.drafts["stress"], drawn, claimed_rule).reshape(n, m)  # type: ignore[arg-type]
    expected = expected_rounds(along, k)
    run = pair.sampler("speculative", draft="stress", k=k, rule=rule).sample(
        SampleRequest(n, Stop(n_events=m), key.replace(arm="run"))
    )
    assert run.trace is not None
    per_sequence = np.bincount(run.trace.round_sequence, minlength=n)
    error = np.hypot(per_sequence.std(ddof=1) / np.sqrt(n), expected.rounds_error)
    return float((per_sequence.mean() - expected.rounds) / error)


@pytest.mark.parametrize("rule", ["leviathan_two_step", "leviathan_joint"])
@pytest.mark.parametrize("k", [1, 6])
def test_the_chain_foresees_the_rounds_of_a_run(rule: str, k: int) -> None:
    """|z| above 5 happens once in 1.7 million exact runs."""
    assert abs(z_of_a_run(rule, rule, k)) < 5


def test_the_wrong_rule_is_noticed() -> None:
    assert abs(z_of_a_run("leviathan_two_step", "leviathan_joint", 6)) > 5


def test_its_mean_is_alpha_by_quadrature() -> None:
    """Two estimates of one number on the same 3,000 histories; five standard errors of their difference."""
    pair, key = load_pair("toy-marked"), StreamKey(seed=12, cell="test_rounds")
    drawn = pair.sampler("target_only").sample(SampleRequest(50, Stop(n_events=60), key, want_trace=False)).events
    along = acceptance_along(pair.target, pair.drafts["shipped"], drawn, "leviathan_two_step")
    alpha = alpha_by_quadrature(
        pair.target, pair.drafts["shipped"], drawn, "leviathan_two_step", key.generator(), n_contexts=3000
    )
    error = along.reshape(50, 60).mean(axis=1).std(ddof=1) / np.sqrt(50)
    assert abs(along.mean() - alpha.value) < 5 * error


def test_a_rule_whose_acceptance_is_unknown_is_refused() -> None:
    pair = load_pair("toy-marked")
    drawn = pair.sampler("target_only").sample(SampleRequest(1, Stop(n_events=5), StreamKey(), want_trace=False)).events
    with pytest.raises(ValueError, match="'exact_match' has no acceptance"):
        acceptance_along(pair.target, pair.drafts["shipped"], drawn, "exact_match")
