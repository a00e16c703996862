"""Buckets fitted to training gaps: where the edges lie, how gaps spread inside, and the tail beyond the last edge."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from reference_impls.base import Model
from reference_impls.tokens.buckets import PARTS, Strategy, TimeBuckets, Within
from tppsd_bench.errors import InputError
from tppsd_bench.protocols import FloatArray, SampleRequest, Stop
from tppsd_bench.streams import StreamKey

Tail = Literal["pareto", "exponential"]

EXTREME = 1e-3
"""Share of training gaps beyond the outer edges of equal_width (above) and log_width (on either side)."""
_IN_A_CELL = 200
"""Training gaps a cell, on average, from which a bucket's empirical law is fitted: shares of fewer lose more by noise than shape wins."""
_ENOUGH = 50
"""Excesses from which a shape of the tail is fitted; with fewer it is exponential."""


def fit_buckets(
    gaps: FloatArray, n_buckets: int = 100, strategy: Strategy = "quantile", within: Within = "uniform", tail: Tail = "pareto"
) -> TimeBuckets:
    """``n_buckets`` buckets for gaps (any shape) like these.

    Strategies: ``quantile``, as many training gaps in each; ``equal_width``, equal widths up to the .999 quantile; ``log_width``, equal
    widths in log gap between the .001 and .999 quantiles. The open bucket has the training gaps' mean excess: generalised
    Pareto by probability-weighted moments (Hosking and Wallis 1987), shape between 0 and .9, or exponential.

    Raises:
        InputError: gaps that are not positive numbers, or too few distinct ones for so many buckets.
    """
    flat = np.sort(np.asarray(gaps, dtype=np.float64).ravel())
    _check(flat, n_buckets, strategy, within, tail)
    edges = _edges(flat, n_buckets, strategy)
    _check_distinct(flat, edges, n_buckets, strategy)
    excess = flat[flat >= edges[-1]] - edges[-1]
    scale, shape = _tail(excess, float(flat.mean()), tail)
    cells = np.empty((n_buckets, PARTS + 1))
    weights = np.full((n_buckets, PARTS), 1.0 / PARTS)
    counts = np.searchsorted(flat, edges)
    for b in range(n_buckets - 1):
        inside = flat[counts[b] : counts[b + 1]]
        cells[b], weights[b] = _cells(inside, edges[b], edges[b + 1])
    below = flat[: counts[1]]
    head = float(1.0 / np.mean(np.log(edges[1] / below))) if len(below) else 1.0
    fitted = TimeBuckets(cells, weights, strategy, within, float(np.clip(head, 0.05, 20.0)), scale, shape)
    levels = np.arange(PARTS) / PARTS
    cells[-1, :-1], cells[-1, -1] = edges[-1], np.inf
    cells[-1, 1:-1] = fitted.gap_at(np.full(PARTS - 1, n_buckets - 1), levels[1:])
    return TimeBuckets(cells, weights, strategy, within, fitted.head_shape, scale, shape)


def buckets_of_model(
    model: Model, n_buckets: int = 100, strategy: Strategy = "quantile", within: Within = "uniform", tail: Tail = "pareto", *,
    n_sequences: int = 200, n_events: int = 100, seed: int = 1,
) -> TimeBuckets:  # fmt: skip
    """Buckets fitted to sequences that the model itself draws, on a stream of their own, where no training data are at hand."""
    from reference_impls.samplers.target_only import TargetOnly

    key = StreamKey(seed=seed, suite="buckets", cell=model.name)
    run = TargetOnly(model).sample(SampleRequest(n_sequences, Stop(n_events=n_events), key, want_trace=False))
    return fit_buckets(run.events.gaps, n_buckets, strategy, within, tail)


def _check(flat: FloatArray, n_buckets: int, strategy: str, within: str, tail: str) -> None:
    for what, found, kinds in (("strategy", strategy, Strategy), ("within", within, Within), ("tail", tail, Tail)):
        if found not in get_args(kinds):
            raise InputError(f"buckets: {what} is {found!r}; expected one of {', '.join(get_args(kinds))}.")
    if n_buckets < 2:
        raise InputError(f"buckets: {n_buckets} buckets cannot tell gaps apart; give 2 at least (10 to 500 are usual).")
    if not len(flat):
        raise InputError("buckets: no gaps to fit them to; hand over the training sequences' gaps.")
    bad = np.flatnonzero(~(np.isfinite(flat) & (flat > 0)))
    if len(bad):
        raise InputError(
            f"buckets: {len(bad)} of {len(flat)} gaps are not finite positive numbers (such as {flat[bad[0]]}); drop padding and "
            "mend ties before fitting."
        )
    distinct = 1 + int((np.diff(flat) > 0).sum())
    if distinct < 2 * n_buckets:
        raise InputError(
            f"buckets: {len(flat)} gaps have {distinct} distinct values, too few for {n_buckets} buckets; give more data, or ask "
            f"for {max(distinct // 2, 1)} buckets at most."
        )


def _edges(flat: FloatArray, n: int, strategy: Strategy) -> FloatArray:
    """(n,) lower edges, from 0."""
    if strategy == "quantile":
        inner = np.quantile(flat, np.arange(1, n) / n)
    elif strategy == "equal_width":
        inner = np.quantile(flat, 1.0 - EXTREME) * np.arange(1, n) / (n - 1)
    else:
        low, high = np.log(np.quantile(flat, [EXTREME, 1.0 - EXTREME]))
        inner = np.exp(np.linspace(low, high, n - 1)) if n > 2 else np.exp([0.5 * (low + high)])
    return np.concatenate([[0.0], inner])


def _check_distinct(flat: FloatArray, edges: FloatArray, n: int, strategy: Strategy) -> None:
    room = 4.0 * PARTS * np.spacing(edges[1:])
    narrow = np.flatnonzero(np.diff(edges) <= room)
    if len(narrow):
        values, counts = np.unique(flat, return_counts=True)
        top = int(counts.argmax())
        raise InputError(
            f"buckets: {len(narrow)} of {n} {strategy} buckets would be empty, for edges coincide (first at {edges[narrow[0] + 1]:g}): "
            f"the value {values[top]:g} alone makes {counts[top] / len(flat):.1%} of the gaps; ask for fewer buckets, or log_width ones, "
            "or record times more finely."
        )


def _cells(inside: FloatArray, low: float, high: float) -> tuple[FloatArray, FloatArray]:
    """Cells of one closed bucket, at the quantiles of the gaps in it where these are distinct, and their (smoothed) shares."""
    levels = np.arange(PARTS + 1) / PARTS
    cells = low + (high - low) * levels
    if len(inside) < _IN_A_CELL * PARTS:  # shares of so few would be noise: evenly spread
        return np.append(cells[:-1], high), np.full(PARTS, 1.0 / PARTS)
    by_mass = np.concatenate([[low], np.quantile(inside, levels[1:-1]), [high]])
    if (np.diff(by_mass) > 1e-3 * (high - low) / PARTS).all():
        cells = by_mass
    cells[-1] = high
    counts = np.diff(np.searchsorted(inside, cells)) + 0.5
    return cells, counts / counts.sum()


def _tail(excess: FloatArray, mean_gap: float, tail: Tail) -> tuple[float, float]:
    """(scale, shape) of the law of the excess over the last edge."""
    if not len(excess) or not excess.any():
        return mean_gap, 0.0
    mean = float(excess.mean())
    if tail == "exponential" or len(excess) < _ENOUGH:
        return mean, 0.0
    rank = (np.arange(len(excess)) + 0.65) / len(excess)
    weighted = float(np.mean(excess * (1.0 - rank)))
    shape = float(np.clip(2.0 - mean / (mean - 2.0 * weighted), 0.0, 0.9)) if mean > 2.0 * weighted else 0.9
    return mean * (1.0 - shape), shape
