"""Alpha by quadrature on other seeds, and the events a forward that it promises, against a run of the sampler itself."""

from __future__ import annotations

import numpy as np
import pytest

from reference_impls.pairs import load_pair
from tppsd_bench.measure.acceptance import exact_acceptance
from tppsd_bench.measure.promise import alpha_by_quadrature
from tppsd_bench.protocols import SampleRequest, Stop
from tppsd_bench.streams import StreamKey

M, K = 100, 5


@pytest.mark.parametrize(("rule", "draft"), [("leviathan_two_step", "shipped"), ("leviathan_joint", "stress")])
def test_what_acceptance_promises_is_what_a_run_delivers(rule: str, draft: str) -> None:
    """Events a target forward of 128 x 100 events within 4 % of m / R(m); alpha's own error moves it by 1 %."""
    pair, key = load_pair("toy-marked"), StreamKey(seed=6, cell="promise")
    histories = pair.sampler("target_only").sample(SampleRequest(16, Stop(n_events=M), key)).events
    rng = key.replace(purpose="quadrature").generator()
    alpha = alpha_by_quadrature(pair.target, pair.drafts[draft], histories, rule, rng, n_contexts=800)
    run = pair.sampler("speculative", draft=draft, k=K, rule=rule).sample(
        SampleRequest(128, Stop(n_events=M), key.replace(arm="run"), want_trace=False)
    )
    measured = run.counts.committed / run.counts.target_row_forwards
    assert measured == pytest.approx(alpha.events_per_forward(M, K), rel=0.04)
    assert abs(alpha.events_per_forward(M, K - 3) / measured - 1) > 0.04


def test_alpha_is_the_mean_of_the_exact_acceptances() -> None:
    pair, key = load_pair("toy-gap-types"), StreamKey(seed=7, cell="promise")
    histories = pair.sampler("target_only").sample(SampleRequest(2, Stop(n_events=20), key)).events
    found = alpha_by_quadrature(pair.target, pair.drafts["stress"], histories, "leviathan_two_step", key.generator())
    laws = pair.target.conditionals(histories), pair.drafts["stress"].conditionals(histories)
    exact = exact_acceptance(*laws).two_step
    assert found.n_contexts == 40
    assert found.value == pytest.approx(float(np.mean(exact)), abs=1e-4)
    assert found.standard_error == pytest.approx(float(np.std(exact)) / 40**0.5, rel=0.01)
