"""Statistical laws of the known processes: time rescaling, and moments known in closed form.

Every threshold is |z| < 5 or p > 5.7e-7, a false alarm rate of 5.7e-7 per check (about 60 checks: 4e-5 per new seed);
each kind of check is also shown to reject a law that is wrong.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.stats import kstest, norm

from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import Stop
from tppsd_bench.simulate import EchoRenewal, ExponentialHawkes, LogNormalRenewal, Process, make
from tppsd_bench.streams import StreamKey

ALPHA, Z = 5.7e-7, 5.0

RIGHT_AND_WRONG: dict[str, tuple[Process, Process]] = {
    "poisson": (
        make("poisson", rate=[1.0, 0.5], amplitude=[0.8, 0.3], period=[10.0, 7.0]),
        make("poisson", rate=[1.0, 0.5], amplitude=[0.3, 0.3], period=[10.0, 7.0]),
    ),
    "hawkes": (
        make("hawkes", mu=[0.3, 0.2], alpha=[[0.6, 0.3], [0.2, 0.5]], beta=[1.5, 1.2]),
        make("hawkes", mu=[0.3, 0.2], alpha=[[0.6, 0.2], [0.2, 0.3]], beta=[1.5, 1.2]),
    ),
    "hawkes, beta by pair": (
        make("hawkes", mu=[0.3, 0.2], alpha=[[0.6, 0.3], [0.2, 0.5]], beta=[[1.5, 0.8], [3.0, 1.2]]),
        make("hawkes", mu=[0.3, 0.2], alpha=[[0.6, 0.3], [0.2, 0.5]], beta=[[1.5, 3.0], [0.8, 1.2]]),
    ),
    "self-correcting, types by gap": (
        make("self_correcting", mu=1.0, alpha=[1.0, 0.6], type_slopes=[1.0, -1.0]),
        make("self_correcting", mu=1.0, alpha=[0.8, 0.8], type_slopes=[1.0, -1.0]),
    ),
    "renewal, Markov types": (
        make("renewal", locations=[0.0, -2.0], scales=[1.0, 0.5], weights=[0.6, 0.4], type_probs=[[0.8, 0.2], [0.3, 0.7]]),
        make("renewal", locations=[0.0, -2.0], scales=[1.1, 0.5], weights=[0.6, 0.4], type_probs=[[0.7, 0.3], [0.3, 0.7]]),
    ),
    "echo": (
        make("echo", lag=20, location=-0.3, scale=0.8, echo=0.8, type_probs=[0.6, 0.4], type_echo=0.6),
        make("echo", lag=20, location=-0.3, scale=0.8, echo=0.7, type_probs=[0.6, 0.4], type_echo=0.6),
    ),
}
every_pair = pytest.mark.parametrize("name", RIGHT_AND_WRONG)


def key(name: str) -> StreamKey:
    return StreamKey(seed=2, suite="tests", cell=f"simulate laws: {name}")


def residual_p_values(process: Process, batch: EventBatch) -> dict[str, float]:
    """KS of the gap PIT, KS of the randomised type PIT, lag-1 serial correlation of the former, correlation of the two."""
    scores = process.score(batch)
    events = np.arange(batch.n_events)
    cumulative = np.cumsum(scores.type_probs, axis=1)
    p = scores.type_probs[events, batch.types]
    xi = key("randomisation").replace(purpose="pit").generator().random(batch.n_events)
    v = np.clip(cumulative[events, batch.types] - p * xi, 1e-12, 1 - 1e-12)
    x, y = norm.ppf(np.clip(scores.cdf, 1e-15, 1 - 1e-15)), norm.ppf(v)
    later = np.flatnonzero(batch.event_index > 0)
    serial = (x[later] * x[later - 1]).sum() / np.sqrt(len(later))
    return {
        "gap": float(kstest(scores.cdf, "uniform").pvalue),
        "type": float(kstest(v, "uniform").pvalue),
        "serial": float(2 * norm.sf(abs(serial))),
        "gap and type": float(2 * norm.sf(abs((x * y).sum()) / np.sqrt(len(x)))),
    }


@every_pair
def test_time_rescaling_accepts_the_process_and_rejects_a_wrong_one(name: str) -> None:
    right, wrong = RIGHT_AND_WRONG[name]
    batch = right.simulate(400, Stop(n_events=100), key(name))
    assert min(residual_p_values(right, batch).values()) > ALPHA
    assert min(residual_p_values(wrong, batch).values()) < ALPHA


@every_pair
def test_compensated_counts_before_a_horizon_have_mean_zero(name: str) -> None:
    """Σ_r (N_r − Λ_r) / sqrt(Σ Λ_r) → N(0, 1) if the open interval's compensator is counted, and not if it is forgotten."""
    process, _ = RIGHT_AND_WRONG[name]
    batch = process.simulate(2000, Stop(horizon=15.0), key(name))
    crossing = process.score(batch).crossing_cdf
    assert crossing is not None
    closed = process.compensator(batch).sum()
    mass = closed - np.log1p(-crossing).sum()
    assert abs(batch.n_events - mass) / np.sqrt(mass) < Z
    assert abs(batch.n_events - closed) / np.sqrt(closed) > Z


def test_poisson_counts_have_equal_mean_and_variance_in_closed_form() -> None:
    process = make("poisson", rate=[1.0, 0.5], amplitude=[0.8, 0.9], period=[10.0, 7.0], phase=[0.0, 1.0])
    counts = process.simulate(4000, Stop(horizon=23.0), key("poisson counts")).lengths
    omega = 2 * np.pi / np.array([10.0, 7.0])
    swing = (np.cos([0.0, 1.0]) - np.cos(omega * 23.0 + [0.0, 1.0])) / omega
    mean = float((np.array([1.0, 0.5]) * (23.0 + np.array([0.8, 0.9]) * swing)).sum())
    assert abs(counts.mean() - mean) / np.sqrt(mean / 4000) < Z

    def dispersion_z(n: np.ndarray) -> float:
        return float((n.var(ddof=1) / n.mean() - 1) / np.sqrt(2 / (len(n) - 1)))

    assert abs(dispersion_z(counts)) < Z
    bursty = make("hawkes", mu=1.3, alpha=0.2, beta=1.6).simulate(4000, Stop(horizon=23.0), key("bursty"))
    assert dispersion_z(bursty.lengths) > Z


def expected_counts(process: ExponentialHawkes, horizon: float) -> np.ndarray:
    """E N(T) from an empty start: x' = (α − diag β) x + α μ for the mean excitation x, N' = μ + x; beta (M,) by row."""
    m = process.n_types
    system = np.zeros((2 * m + 1, 2 * m + 1))
    system[:m, :m], system[:m, -1] = process.alpha - np.diag(process.beta), process.alpha @ process.mu
    system[m:-1, :m], system[m:-1, -1] = np.eye(m), process.mu
    return np.asarray(expm(system * horizon)[m:-1, -1])


def type_counts(batch: EventBatch) -> np.ndarray:
    m = batch.n_types
    return np.bincount(batch.sequence_index * m + batch.types, minlength=len(batch) * m).reshape(-1, m)


def test_hawkes_mean_counts_from_an_empty_start_and_stationary_rate() -> None:
    process = RIGHT_AND_WRONG["hawkes"][0]
    assert isinstance(process, ExponentialHawkes)
    counts = type_counts(process.simulate(4000, Stop(horizon=12.0), key("hawkes mean")))
    standard_error = counts.std(axis=0) / np.sqrt(4000)
    assert (np.abs(counts.mean(axis=0) - expected_counts(process, 12.0)) / standard_error).max() < Z
    stationary = process.stationary_rate * 12.0
    assert (np.abs(counts.mean(axis=0) - stationary) / standard_error).max() > Z  # the start-up deficit is seen
    late = expected_counts(process, 300.0) - expected_counts(process, 200.0)
    assert late / 100.0 == pytest.approx(process.stationary_rate, rel=1e-9)
    one = make("hawkes", mu=0.5, alpha=0.8, beta=1.6)
    assert isinstance(one, ExponentialHawkes)
    assert one.stationary_rate == pytest.approx([0.5 / (1 - 0.5)])


def test_hawkes_counts_have_the_asymptotic_covariance() -> None:
    """Cov N(T) / T → (I − B)⁻¹ diag(Λ) (I − B)⁻ᵀ, B = α/β (Hawkes 1971; Bacry et al. 2013)."""
    process = RIGHT_AND_WRONG["hawkes, beta by pair"][0]
    assert isinstance(process, ExponentialHawkes)
    horizon, n = 800.0, 1500
    counts = type_counts(process.simulate(n, Stop(horizon=horizon), key("hawkes covariance")))
    observed = np.cov(counts.T) / horizon
    multiplier = np.linalg.inv(np.eye(2) - process.branching_matrix)

    def worst_z(limit: np.ndarray) -> float:
        spread = np.sqrt((np.outer(np.diag(limit), np.diag(limit)) + limit**2) / n)
        return float((np.abs(observed - limit) / spread).max())

    # the start-up deficit is O(1/T), below 0.03 of each entry here, one standard error
    assert worst_z(multiplier @ np.diag(process.stationary_rate) @ multiplier.T) < Z + 1
    assert worst_z(np.diag(process.stationary_rate)) > 3 * Z


def test_self_correcting_long_run_rate_is_mu_over_mean_alpha() -> None:
    def window_z(process: Process, rate: float) -> float:
        batch = process.simulate(1500, Stop(horizon=60.0), key("self-correcting rate"))
        window = np.bincount(batch.sequence_index[batch.times > 20.0], minlength=1500)
        return float((window.mean() - 40.0 * rate) / (window.std() / np.sqrt(1500)))

    assert abs(window_z(make("self_correcting", mu=1.0, alpha=0.8), 1.25)) < Z
    assert abs(window_z(make("self_correcting", mu=1.0, alpha=[1.0, 0.5], type_logits=[0.0, 0.0]), 1 / 0.75)) < Z
    assert abs(window_z(make("self_correcting", mu=1.0, alpha=0.8), 1.28)) > Z


def test_self_correcting_counts_are_underdispersed() -> None:
    counts = make("self_correcting", mu=1.0, alpha=0.8).simulate(1000, Stop(horizon=60.0), key("underdispersed")).lengths
    assert counts.var() / counts.mean() < 0.1


def test_types_conditioned_on_the_gap_are_told_from_types_that_ignore_it() -> None:
    process = make("self_correcting", mu=1.0, alpha=1.0, type_slopes=[1.0, -1.0])
    batch = process.simulate(400, Stop(n_events=100), key("types by gap"))
    share = float(batch.types.mean())
    blind = make("self_correcting", mu=1.0, alpha=1.0, type_logits=[np.log(1 - share), np.log(share)])
    assert residual_p_values(process, batch)["gap and type"] > ALPHA
    p_values = residual_p_values(blind, batch)
    assert p_values["gap and type"] < ALPHA
    assert min(p_values["gap"], p_values["type"], p_values["serial"]) > ALPHA  # no single margin shows it


def test_renewal_gaps_and_types_have_their_closed_form_moments() -> None:
    process = make("renewal", locations=-0.2, scales=0.6, type_probs=[[0.8, 0.2], [0.3, 0.7]])
    assert isinstance(process, LogNormalRenewal)
    batch = process.simulate(1000, Stop(n_events=40), key("renewal moments"))
    log_gaps, n = np.log(batch.gaps), batch.n_events
    assert abs(log_gaps.mean() + 0.2) / (0.6 / np.sqrt(n)) < Z
    assert abs(log_gaps.var() / 0.36 - 1) / np.sqrt(2 / n) < Z
    assert process.mean_gap == pytest.approx(np.exp(-0.2 + 0.18))
    assert abs(batch.gaps.mean() - process.mean_gap) / (batch.gaps.std() / np.sqrt(n)) < Z
    first = batch.types[batch.event_index == 0]
    assert abs(first.mean() - 0.4) / np.sqrt(0.24 / 1000) < Z  # the chain's stationary law
    later = np.flatnonzero(batch.event_index > 0)
    stayed = batch.types[later][batch.types[later - 1] == 0] == 0
    assert abs(stayed.mean() - 0.8) / np.sqrt(0.16 / len(stayed)) < Z
    assert abs(stayed.mean() - 0.77) / np.sqrt(0.16 / len(stayed)) > Z


def test_echo_has_its_stationary_rate_its_correlation_and_its_information() -> None:
    """In closed form: every gap log-normal by itself, memory at the lag and nowhere else, and its worth in nats an event."""
    process = make("echo", lag=30, location=-0.3, scale=0.8, echo=0.8, type_probs=[0.6, 0.4], type_echo=0.6)
    assert isinstance(process, EchoRenewal)
    n, length = 1500, 90
    batch = process.simulate(n, Stop(n_events=length), key("echo moments"))
    x = (np.log(batch.gaps).reshape(n, length) + 0.3) / 0.8
    assert process.mean_gap == pytest.approx(np.exp(-0.3 + 0.32))
    each = batch.gaps.reshape(n, length).mean(axis=1)  # gaps of a sequence are not independent: errors over sequences
    assert abs(each.mean() - process.mean_gap) / (each.std() / np.sqrt(n)) < Z
    for rows in (slice(0, 30), slice(30, 60), slice(60, 90)):  # stationary from the first event on
        assert abs((x[:, rows] ** 2).mean() - 1) / np.sqrt(2 / (30 * n)) < Z

    def correlation_z(lag: int, expected: float) -> float:
        products = (x[:, lag:] * x[:, :-lag]).mean(axis=1)
        return float((products.mean() - expected) / (products.std() / np.sqrt(n)))

    assert abs(correlation_z(30, 0.8)) < Z
    assert abs(correlation_z(60, 0.64)) < Z
    assert max(abs(correlation_z(lag, 0.0)) for lag in (1, 2, 15, 29, 31, 45)) < Z
    assert abs(correlation_z(30, 0.75)) > Z
    types = batch.types.reshape(n, length)
    same = (types[:, 30:] == types[:, :-30]).mean(axis=1)
    assert abs(same.mean() - (0.6 + 0.4 * 0.52)) / (same.std() / np.sqrt(n)) < Z
    blind = make("renewal", locations=-0.3, scales=0.8, type_probs=[0.6, 0.4])
    lead = (process.event_log_likelihood(batch) - blind.event_log_likelihood(batch)).reshape(n, length)
    assert lead[:, :30] == pytest.approx(0.0, abs=1e-12)
    worth = lead[:, 30:].mean(axis=1)
    assert abs(worth.mean() - process.information) / (worth.std() / np.sqrt(n)) < Z
    assert abs(worth.mean() - 1.03 * process.information) / (worth.std() / np.sqrt(n)) > Z
