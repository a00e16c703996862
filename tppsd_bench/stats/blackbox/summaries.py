"""Per-sequence summaries: everything the black-box statistics need, one row a sequence, so that an arm is a sum of rows.

``summarise`` is given the *pooled* arms. Edges, type groups, windows and scales then depend on the pooled data alone, which a
permutation of the arm labels leaves unchanged; that is what makes the permutation test exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import rankdata

from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch, FloatArray, IntArray

N_GAP_CELLS = 256
N_BUCKETS = 8
N_WINDOWS = 16
MAX_TYPE_GROUPS = 10
MIN_CELL = 20  # pooled hits below which a contingency cell is merged with the other rare ones
GAP_LAGS = tuple(range(1, 9))
WINDOW_LAGS = tuple(range(1, 5))
_ROUNDING = 1e-9
_EXACT_FLOAT32 = 2**24  # integers below this are exact in float32


@dataclass(frozen=True)
class Summaries:
    """Row i of every array belongs to sequence i.

    ``linear[name]`` (n, k) is summed over an arm; ``columns[name]`` names its columns. Names: ``*_cumulative`` (hits at or
    below each edge, last column the total), ``types``, ``bucket_type``, ``transitions`` (cell counts), ``gap_acf``,
    ``window_acf`` (sums for autocorrelations, see ``acf_sums``), ``count`` (c, c^2), ``ending``, ``log_likelihood`` (one
    column), ``scores`` (whitened features). ``features`` (n, p) are the summary vectors, ``normal_scores`` (n, p) their
    pooled normal scores.
    """

    linear: Mapping[str, NDArray[Any]]
    columns: Mapping[str, tuple[str, ...]]
    features: FloatArray
    feature_names: tuple[str, ...]
    normal_scores: FloatArray

    def __len__(self) -> int:
        return len(self.features)


def summarise(batch: EventBatch, *, log_likelihood: FloatArray | None = None) -> Summaries:
    """Summaries of every sequence of ``batch`` (the pooled arms), with edges taken from ``batch`` itself.

    ``log_likelihood`` (n,), if given, is each sequence's log-likelihood under the target in nats.
    Raises InputError where the batch is empty or the log-likelihood does not fit it.
    """
    if not len(batch):
        raise InputError("The black-box battery was given no sequences; expected at least one per arm.")
    log_gap = _standardised_log_gaps(batch)
    groups = _type_groups(batch)
    windows, window_end = _window_counts(batch)
    count = batch.lengths if batch.horizon is not None else windows.sum(axis=1)
    largest = _by_sequence(np.maximum, batch.gaps, batch)
    ending = batch.end_times if batch.horizon is None else batch.horizon - batch.end_times
    linear: dict[str, NDArray[Any]] = {}
    columns: dict[str, tuple[str, ...]] = {}
    linear["gap_cumulative"], columns["gap_cumulative"] = _cumulative(batch.gaps, batch.sequence_index, len(batch))
    each = np.arange(len(batch))
    linear["count_cumulative"], columns["count_cumulative"] = _cumulative(count.astype(np.float64), each, len(batch))
    linear["largest_cumulative"], columns["largest_cumulative"] = _cumulative(largest, each, len(batch))
    for name, (table, cells) in _type_tables(batch, groups).items():
        linear[name], columns[name] = table, cells
    linear["gap_acf"] = acf_sums(log_gap, batch.lengths, GAP_LAGS)
    linear["window_acf"] = acf_sums(windows.astype(np.float64), np.full(len(batch), N_WINDOWS), WINDOW_LAGS)
    columns["gap_acf"], columns["window_acf"] = tuple(map(str, GAP_LAGS)), tuple(map(str, WINDOW_LAGS))
    linear["count"] = np.stack([count, count**2], axis=1).astype(np.float64)
    columns["count"] = (f"0 to {window_end:.4g}",)
    linear["ending"], columns["ending"] = ending[:, None], ("all",)
    features = _features(batch, log_gap, groups, windows)
    features |= {"count": count.astype(np.float64), "largest_gap": largest, "ending": ending}
    if log_likelihood is not None:
        ll = _checked_log_likelihood(log_likelihood, len(batch))
        linear["log_likelihood"], columns["log_likelihood"] = ll[:, None], ("all",)
        features["log_likelihood"] = ll
    vectors = _without_rounding_noise(np.stack(list(features.values()), axis=1))
    scores = ndtri((rankdata(vectors, axis=0) - 0.5) / len(batch))
    linear["scores"], columns["scores"] = _whitened(scores), ()
    return Summaries(linear, columns, vectors, tuple(features), scores)


def acf_sums(series: FloatArray, lengths: IntArray, lags: tuple[int, ...]) -> FloatArray:
    """(n, 3 + 2 L) columns N, sum z, sum z^2, then sum z_t z_(t+l) for each lag l, then the number of such pairs.

    ``series`` (n, width) holds 0 beyond each row's length.
    """
    products = [(series[:, :-lag] * series[:, lag:]).sum(axis=1) for lag in lags]
    pairs = [np.maximum(lengths - lag, 0) for lag in lags]
    return np.stack([lengths, series.sum(axis=1), (series**2).sum(axis=1), *products, *pairs], axis=1).astype(np.float64)


def _standardised_log_gaps(batch: EventBatch) -> FloatArray:
    """(n, width) log gaps, centred and scaled by the pooled mean and standard deviation; 0 where there is no event."""
    gaps, _ = batch.padded(fill_gap=np.nan)
    width = max(gaps.shape[1], max(GAP_LAGS) + 1)
    z = np.full((len(batch), width), np.nan)
    z[:, : gaps.shape[1]] = np.log(gaps)
    if batch.n_events:
        scale = float(np.nanstd(z))
        z = (z - np.nanmean(z)) / (scale if scale > 0 else 1.0)
    return np.nan_to_num(z, nan=0.0)


def _by_sequence(reduce: np.ufunc, values: FloatArray, batch: EventBatch) -> FloatArray:
    """(n,) the reduction of ``values`` (N,) over each sequence, 0 for a sequence without events."""
    out = np.zeros(len(batch))
    filled = batch.lengths > 0
    if filled.any():
        out[filled] = reduce.reduceat(values, batch.offsets[:-1][filled])
    return out


def _tabulate(rows: IntArray, cells: IntArray, n: int, k: int) -> NDArray[Any]:
    """(n, k) hits by row and cell; float32 where every sum over rows is exact in it."""
    table = np.bincount(rows * k + cells, minlength=n * k).reshape(n, k)
    return table.astype(np.float32 if len(rows) < _EXACT_FLOAT32 else np.float64)


def _cumulative(values: FloatArray, rows: IntArray, n: int) -> tuple[NDArray[Any], tuple[str, ...]]:
    """(n, G + 1) how many of each row's ``values`` are at or below each pooled-quantile edge; the last edge is infinite."""
    edges = np.empty(0)
    if len(values):
        edges = np.unique(np.quantile(values, np.arange(1, N_GAP_CELLS) / N_GAP_CELLS, method="inverted_cdf"))
    cells = np.searchsorted(edges, values, side="left")
    hits = _tabulate(rows, cells, n, len(edges) + 1)
    return np.cumsum(hits, axis=1, dtype=hits.dtype), tuple(f"{e:.4g}" for e in edges)


def _type_groups(batch: EventBatch) -> tuple[IntArray, tuple[str, ...]]:
    """Group of every type (M,) and the groups' names: the most frequent types alone, all others together."""
    if batch.n_types <= MAX_TYPE_GROUPS:
        return np.arange(batch.n_types), tuple(map(str, range(batch.n_types)))
    frequent = np.argsort(-np.bincount(batch.types, minlength=batch.n_types), kind="stable")[: MAX_TYPE_GROUPS - 1]
    group = np.full(batch.n_types, MAX_TYPE_GROUPS - 1)
    group[frequent] = np.arange(MAX_TYPE_GROUPS - 1)
    return group, (*map(str, frequent), "other")


def _type_tables(
    batch: EventBatch, groups: tuple[IntArray, tuple[str, ...]]
) -> dict[str, tuple[NDArray[Any], tuple[str, ...]]]:
    """Type counts, gap-bucket x type counts and counts of consecutive type pairs, rare cells merged."""
    group_of, names = groups
    rows, n, m = batch.sequence_index, len(batch), len(names)
    kind = group_of[batch.types]
    bucket = np.zeros(batch.n_events, dtype=np.int64)
    if batch.n_events:
        edges = np.quantile(batch.gaps, np.arange(1, N_BUCKETS) / N_BUCKETS)
        bucket = np.searchsorted(edges, batch.gaps)
    follows = np.flatnonzero(batch.event_index[1:] > 0)
    steps = kind[follows] * m + kind[follows + 1] if len(follows) else np.empty(0, dtype=np.int64)
    tables = {
        "types": (_tabulate(rows, batch.types, n, batch.n_types), [f"{k}" for k in range(batch.n_types)]),
        "bucket_type": (
            _tabulate(rows, bucket * m + kind, n, N_BUCKETS * m),
            [f"gap bucket {b} of {N_BUCKETS}, type {k}" for b in range(1, N_BUCKETS + 1) for k in names],
        ),
        "transitions": (_tabulate(rows[follows + 1], steps, n, m * m), [f"{a} to {b}" for a in names for b in names]),
    }
    return {name: _merge_rare(table, cells) for name, (table, cells) in tables.items()}


def _merge_rare(table: NDArray[Any], cells: list[str]) -> tuple[NDArray[Any], tuple[str, ...]]:
    rare = table.sum(axis=0, dtype=np.float64) < MIN_CELL
    rest = table[:, rare].sum(axis=1, keepdims=True)
    kept = tuple(c for c, r in zip(cells, rare, strict=True) if not r)
    if not rest.any():
        return table[:, ~rare], kept
    return np.concatenate([table[:, ~rare], rest], axis=1), (*kept, "rare cells together")


def _window_counts(batch: EventBatch) -> tuple[IntArray, float]:
    """(n, W) events in equal windows of [0, end], and that end.

    The end is the (shortest) horizon; without a horizon, the time by which nine sequences in ten are still running.
    """
    if batch.horizon is not None:
        end = float(batch.horizon.min())
    else:
        end = float(np.quantile(batch.end_times, 0.1))
    if not end > 0:
        return np.zeros((len(batch), N_WINDOWS), dtype=np.int64), 0.0
    inside = batch.times < end
    window = np.minimum((batch.times[inside] * (N_WINDOWS / end)).astype(np.int64), N_WINDOWS - 1)
    cells = batch.sequence_index[inside] * N_WINDOWS + window
    return np.bincount(cells, minlength=len(batch) * N_WINDOWS).reshape(len(batch), N_WINDOWS), end


def _features(
    batch: EventBatch, log_gap: FloatArray, groups: tuple[IntArray, tuple[str, ...]], windows: IntArray
) -> dict[str, FloatArray]:
    """Summary vector, by name (n,): moments of log gap, burstiness, lag-1 correlations, shares and gaps by type."""
    group_of, names = groups
    n = np.maximum(batch.lengths, 1)
    mean = log_gap.sum(axis=1) / n
    centred = np.where(np.arange(log_gap.shape[1]) < batch.lengths[:, None], log_gap - mean[:, None], 0.0)
    spread = np.sqrt((centred**2).sum(axis=1) / n)
    safe = np.where(spread > _ROUNDING, spread, np.inf)
    w = windows - windows.mean(axis=1, keepdims=True)
    w_var = (w**2).mean(axis=1)
    out = {
        "log_gap_mean": mean,
        "log_gap_sd": spread,
        "log_gap_skewness": (centred**3).sum(axis=1) / n / safe**3,
        "log_gap_lag1": (centred[:, 1:] * centred[:, :-1]).sum(axis=1) / n / safe**2,
        "window_fano": w_var / np.maximum(windows.mean(axis=1), _ROUNDING),
        "window_lag1": (w[:, 1:] * w[:, :-1]).mean(axis=1) / np.maximum(w_var, _ROUNDING),
    }
    if len(names) > 1:
        rows, kind = batch.sequence_index, group_of[batch.types]
        flat = log_gap[rows, batch.event_index]
        same = np.zeros(batch.n_events)
        same[1:] = (kind[1:] == kind[:-1]) & (batch.event_index[1:] > 0)
        out["type_repeats"] = np.bincount(rows, same, minlength=len(n)) / n
        for j, name in enumerate(names):
            hit = (kind == j).astype(np.float64)
            out[f"share_of_type_{name}"] = np.bincount(rows, hit, minlength=len(n)) / n
            out[f"log_gap_of_type_{name}"] = np.bincount(rows, hit * flat, minlength=len(n)) / n
    return out


def _without_rounding_noise(vectors: FloatArray) -> FloatArray:
    """Features on a grid far above float64 noise and far below sampling noise, so that exact ties are ties.

    Noise depends on the order of summation, that is of rows; ranks that it decides would not be exchangeable.
    """
    scale = np.abs(vectors).max(axis=0, initial=0.0)
    step = np.where(scale > 0, scale, 1.0) * _ROUNDING
    out: FloatArray = np.round(vectors / step) * step
    return out


def _whitened(scores: FloatArray) -> FloatArray:
    """Scores rotated and scaled to pooled covariance 1; at most n/4 directions, none of numerically zero spread."""
    centred = scores - scores.mean(axis=0)
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    keep = min(int((s > 1e-6 * max(float(s[0]), 1e-300)).sum()), max(1, len(scores) // 4))
    out: FloatArray = u[:, :keep] * np.sqrt(len(scores))
    return out


def _checked_log_likelihood(values: FloatArray, n: int) -> FloatArray:
    ll = np.asarray(values, dtype=np.float64)
    if ll.shape != (n,):
        raise InputError(f"The log-likelihoods have shape {ll.shape} for {n} sequences; give one total per sequence.")
    if not np.isfinite(ll).all():
        i = int(np.flatnonzero(~np.isfinite(ll))[0])
        raise InputError(f"Sequence {i}: the log-likelihood is {ll[i]}; expected a finite number. Check the target's scores.")
    return ll
