"""The i.i.d. renewal fit: recovers its own law, uses the open interval, and loses to history where history matters."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import Stop
from tppsd_bench.simulate import LogNormalRenewal, Process, make, renewal_baseline
from tppsd_bench.simulate.baseline import _em_step, _Mixture
from tppsd_bench.streams import StreamKey

RENEWAL = make("renewal", locations=[0.0, -2.0], scales=[1.0, 0.5], weights=[0.6, 0.4], type_probs=[[0.8, 0.2], [0.3, 0.7]])
HAWKES = make("hawkes", mu=[0.3, 0.2], alpha=[[0.6, 0.3], [0.2, 0.5]], beta=[1.5, 1.2])
KEY = StreamKey(seed=5, suite="tests", cell="renewal baseline")


def lead(process: Process, stop: Stop, n: int = 300, types: str = "markov") -> tuple[float, float]:
    """Held-out nats per event by which the process beats its renewal fit, and the standard error over sequences."""
    train, test = (process.simulate(n, stop, KEY.replace(arm=arm)) for arm in ("train", "test"))
    gain = process.log_likelihood(test) - renewal_baseline(train, types=types).log_likelihood(test)  # type: ignore[arg-type]
    return float(gain.sum() / test.n_events), float(gain.std() / np.sqrt(n) / test.lengths.mean())


@pytest.mark.parametrize("stop", [Stop(n_events=100), Stop(horizon=40.0)], ids=["count", "horizon"])
def test_a_renewal_process_is_not_ahead_of_its_renewal_fit(stop: Stop) -> None:
    """Expected excess: 26 free parameters / (2 × 10,000+ events) ≈ .001 nats; 5 standard errors around it."""
    gain, error = lead(RENEWAL, stop)
    assert gain < 0.003 + 5 * error
    assert gain > -5 * error


def test_a_hawkes_process_is_ahead_and_type_transitions_explain_part_of_it() -> None:
    markov, error = lead(HAWKES, Stop(n_events=100))
    iid, _ = lead(HAWKES, Stop(n_events=100), types="iid")
    assert iid > markov > 0.03
    assert markov > 5 * error


def test_the_open_interval_removes_the_bias_of_short_horizons() -> None:
    batch = RENEWAL.simulate(3000, Stop(horizon=4.0), KEY)
    assert isinstance(RENEWAL, LogNormalRenewal)
    assert renewal_baseline(batch).mean_gap == pytest.approx(RENEWAL.mean_gap, rel=0.1)
    assert renewal_baseline(dataclasses.replace(batch, horizon=None)).mean_gap < 0.8 * RENEWAL.mean_gap


def test_each_em_step_raises_the_likelihood() -> None:
    rng = KEY.generator()
    x, censored = rng.normal(0.0, 1.0, 500), rng.normal(0.0, 1.0, 50)
    mixture, last = _Mixture(np.array([-1.0, 0.2, 1.0]), np.ones(3), np.full(3, 1 / 3)), -np.inf
    for _ in range(40):
        mixture, likelihood = _em_step(mixture, x, censored, 1e-3)
        assert likelihood >= last - 1e-9
        last = likelihood
    assert mixture.weights.sum() == pytest.approx(1.0)


def test_rounded_times_and_unseen_types_stay_finite() -> None:
    clock = EventBatch.from_gaps([np.ones(30), np.full(20, 2.0)], [np.zeros(30), np.zeros(20)], n_types=3)
    fit = renewal_baseline(clock)
    held_out = EventBatch.from_gaps([[1.0, 2.0, 1.5]], [[0, 2, 1]], n_types=3)
    assert np.isfinite(fit.event_log_likelihood(held_out)).all()
    assert fit == renewal_baseline(clock)
    assert fit.scales.min() >= 0.01 * np.log(clock.gaps).std() - 1e-12


def test_one_event_is_refused() -> None:
    with pytest.raises(InputError, match="has 1 events; a renewal fit needs at least 2"):
        renewal_baseline(EventBatch.from_gaps([[1.0]]))
