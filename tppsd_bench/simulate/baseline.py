"""The i.i.d. renewal fit that a history-dependent target must beat: how far ahead it is says how much history matters.

Speedups on a target that is nearly a renewal process are flattering, because any draft imitates it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtri

from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch, FloatArray
from tppsd_bench.simulate.renewal import LogNormalRenewal

_SCALE_FLOOR = 0.01  # of the overall standard deviation of log gaps: rounded times must not become spikes of infinite density
_MAX_GAPS = 50_000  # more do not change an 8-component fit visibly


class _Mixture(NamedTuple):
    locations: FloatArray
    scales: FloatArray
    weights: FloatArray


def renewal_baseline(
    batch_train: EventBatch,
    *,
    n_components: int = 8,
    types: Literal["markov", "iid"] = "markov",
    max_iterations: int = 200,
    tolerance: float = 1e-6,
) -> LogNormalRenewal:
    """Log-normal mixture of the gaps by EM, and types by frequency or first-order transitions, ignoring all other history.

    The open interval of a horizon batch enters as a right-censored gap. EM stops when the log-likelihood gains less than
    ``tolerance`` nats per event. Above 50,000 gaps it runs on every m-th one. Type counts get a pseudo-count (1/2 a type for
    frequencies; one per row, spread as the frequencies, for transitions) so that an unseen type is rare, not impossible.
    Held-out nats per event: ``renewal_baseline(train).event_log_likelihood(test)``. Deterministic. InputError below two gaps.
    """
    if batch_train.n_events < 2:
        raise InputError(f"The training batch has {batch_train.n_events} events; a renewal fit needs at least 2.")
    step = -(-batch_train.n_events // _MAX_GAPS)
    x, censored = np.log(batch_train.gaps[::step]), np.empty(0)
    if batch_train.horizon is not None:
        censored = np.log((batch_train.horizon - batch_train.end_times)[::step])
    mixture = _fit(x, censored, n_components, max_iterations, tolerance)
    first, rows = _type_laws(batch_train)
    if types == "iid":
        return LogNormalRenewal(*mixture, type_probs=first)
    return LogNormalRenewal(*mixture, type_probs=rows, initial_type_probs=first)


def _fit(x: FloatArray, censored: FloatArray, n_components: int, max_iterations: int, tolerance: float) -> _Mixture:
    """EM for log gaps ``x`` and log lower bounds ``censored`` of the gaps that the horizon cut."""
    spread = float(x.std()) or 1.0
    floor = _SCALE_FLOOR * spread
    levels = (np.arange(n_components) + 0.5) / n_components
    scales = np.full(n_components, max(spread / np.sqrt(n_components), floor))
    mixture = _Mixture(np.quantile(x, levels) + 1e-3 * spread * ndtri(levels), scales, np.full(n_components, 1 / n_components))
    last = -np.inf
    for _ in range(max_iterations):
        updated, log_likelihood = _em_step(mixture, x, censored, floor)
        if log_likelihood - last < tolerance * len(x):
            break
        mixture, last = updated, log_likelihood
    return mixture


def _em_step(mixture: _Mixture, x: FloatArray, censored: FloatArray, floor: float) -> tuple[_Mixture, float]:
    """One EM update and the log-likelihood (of log gaps) before it."""
    locations, scales, weights = mixture
    log_weights = np.log(weights)
    z = (x[:, None] - locations) / scales
    joint = log_weights - np.log(scales * np.sqrt(2 * np.pi)) - 0.5 * z**2
    a = (censored[:, None] - locations) / scales
    joint_censored = log_weights + log_ndtr(-a)
    (share, total), (share_censored, total_censored) = _normalise(joint), _normalise(joint_censored)
    # moments of a normal beyond a: mean scale·hazard above the location, second moment scale²(1 + a·hazard)
    hazard = np.exp(-0.5 * a**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(-a))
    mass = share.sum(axis=0) + share_censored.sum(axis=0) + 1e-10
    shift = (share * z).sum(axis=0) + (share_censored * hazard).sum(axis=0)
    second = (share * z**2).sum(axis=0) + (share_censored * (1 + a * hazard)).sum(axis=0)
    mean = shift / mass
    variance = np.maximum(second / mass - mean**2, 0.0)
    updated = _Mixture(locations + scales * mean, np.maximum(scales * np.sqrt(variance), floor), mass / mass.sum())
    return updated, total + total_censored


def _normalise(log_joint: FloatArray) -> tuple[FloatArray, float]:
    """Rows of exp(log_joint) scaled to sum 1, and the sum of the logs of their sums."""
    peak = log_joint.max(axis=1, keepdims=True)
    share = np.exp(log_joint - peak)
    row = share.sum(axis=1, keepdims=True)
    return share / row, float((np.log(row) + peak).sum())


def _type_laws(batch: EventBatch) -> tuple[FloatArray, FloatArray]:
    """Smoothed frequencies (M,) and transitions (M, M), row = previous type."""
    m = batch.n_types
    counts = np.bincount(batch.types, minlength=m) + 0.5
    frequencies: FloatArray = counts / counts.sum()
    later = np.flatnonzero(batch.event_index > 0)
    pairs = np.bincount(batch.types[later - 1] * m + batch.types[later], minlength=m * m).reshape(m, m)
    rows: FloatArray = (pairs + frequencies) / (pairs.sum(axis=1, keepdims=True) + 1.0)
    return frequencies, rows
