"""The grey-box battery: every registered statistic on one batch's PITs, as evidence with a family size fixed in advance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.random import Generator

from tppsd_bench.budget import LAW_ANALYTIC_LEVEL, delta_theta
from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import Scores
from tppsd_bench.results import Evidence
from tppsd_bench.stats import cross_sequence, neyman, pairs, score, serial, tails  # noqa: F401  (members register themselves)
from tppsd_bench.stats.base import REGISTRY, Design, IntArray, Stratum, undersized
from tppsd_bench.stats.pit import PitStream, completed_pit, counted_pit
from tppsd_bench.stats.preconditions import finite_scores
from tppsd_bench.stats.strata import GAP_LABELS, history_codes, k_codes, position_codes, row_codes, standard_strata


def family_size(n_types: int, strata: tuple[Stratum, ...] | None = None, *, horizon: bool = False) -> int:
    """M: the number of p-values that can decide, fixed by the design before any data.

    Args:
        n_types: number of types; with one, every type statistic leaves the family.
        strata: ``strata.standard_strata(...)`` of the cell; None for the strata that need nothing but the sequences.
        horizon: whether the cell stops at a horizon (adds the counts against the compensator).
    """
    design = Design(n_types, standard_strata(n_types) if strata is None else strata, horizon)
    return sum(statistic.members(design) for statistic in REGISTRY.values())


def infer_strata(
    n_types: int, position: IntArray | None, k_round: IntArray | None, batch_row: IntArray | None
) -> tuple[Stratum, ...]:
    """The standard strata for what is reported, K's read from the reports: pass the declared ones where K varies at random."""
    max_k: int | None = None
    k_values: tuple[int, ...] = ()
    if position is not None and len(position):
        max_k = int(np.max(position)) + 1 if k_round is None else int(np.max(k_round))
    if k_round is not None:
        k_values = tuple(int(k) for k in np.flatnonzero(np.bincount(k_round)))
    return standard_strata(n_types, max_k=max_k, k_values=k_values, batch_row=batch_row is not None)


def grey_battery(
    batch: EventBatch,
    scores: Scores,
    rng: Generator,
    *,
    position: IntArray | None = None,
    k_round: IntArray | None = None,
    batch_row: IntArray | None = None,
    expected: Mapping[str, Mapping[str, float]] | None = None,
    strata: tuple[Stratum, ...] | None = None,
    m: int | None = None,
    crossing_position: IntArray | None = None,
    crossing_k: IntArray | None = None,
) -> list[Evidence]:
    """Everything the target's own scores can say about a sampler's sequences.

    Args:
        batch: sequences of the sampler under test, stopped by count or by horizon.
        scores: the target's view of exactly these sequences. rng: for the randomised PITs, from a stream of its own.
        position, k_round: (N,) position in round and that round's K, aligned with events. batch_row: (N,) row in its batch,
            or (n,) one per sequence.
        expected: {stratum: {label: expected count}}, fixed before the data; the first 90 % of it enter. Without it all do.
        strata: the declared strata (default: inferred from the arguments).
        m: horizon cells: values used, fixed in advance; never shortened. crossing_position, crossing_k: (n,) where the draw
            that crossed stood; without them horizon cells have no strata by position or K.

    Returns:
        Evidence on the law axis (or, where a score is not a number, the one failed validity check). Those with a p-value that
        are not ``display`` are at most ``family_size`` of the same design; primary effects carry their margins; tests that the
        data could not fill are listed without p-value.
    """
    _check(batch, scores)
    finite = finite_scores(batch, scores)
    if finite.passed is False:
        return [finite]
    horizon = batch.horizon is not None
    if horizon and (crossing_position is None or crossing_k is None):
        position = k_round = None
    declared = infer_strata(batch.n_types, position, k_round, batch_row) if strata is None else strata
    design = Design(batch.n_types, declared, horizon)
    alpha = LAW_ANALYTIC_LEVEL / max(1, sum(s.members(design) for s in REGISTRY.values()))
    if horizon and m is not None and batch.n_events + len(batch) < m:
        return _too_short(batch, scores, rng, design, alpha, m)
    stream = completed_pit(batch, scores, rng, m) if horizon else counted_pit(batch, scores, rng)
    codes = history_codes(stream)
    by_name = {s.name: s for s in declared}
    if position is not None and "position" in by_name:
        at = _with_crossing(stream, position, crossing_position)
        k_at = None if k_round is None else _with_crossing(stream, k_round, crossing_k)
        codes["position"] = position_codes(at, k_at, len(by_name["position"].labels) - 1)
    if k_round is not None and "k" in by_name:
        codes["k"] = k_codes(_with_crossing(stream, k_round, crossing_k), tuple(int(x) for x in by_name["k"].labels))
    if batch_row is not None and "batch_row" in by_name:
        rows = _rows(stream, batch_row)
        if rows is not None:
            codes["batch_row"] = row_codes(rows)
    fixed = dict(expected or {})
    if not horizon:  # the one random stratum whose counts the null itself fixes
        quarter = (batch.n_events - int((batch.lengths > 0).sum())) / len(GAP_LABELS)
        fixed.setdefault("previous_gap", dict.fromkeys(GAP_LABELS, quarter))
    stream = replace(stream, strata=codes, expected=fixed)
    return [e for statistic in REGISTRY.values() for e in statistic.evaluate(stream, design, alpha)]


def _check(batch: EventBatch, scores: Scores) -> None:
    n = batch.n_events
    for name, shape in (("log_density", (n,)), ("cdf", (n,)), ("survival", (n,)), ("type_probs", (n, batch.n_types))):
        found = np.shape(getattr(scores, name))
        if found != shape:
            raise InputError(
                f"The scores' {name} has shape {found}; expected {shape}, flat and aligned with the batch's events."
            )


def _too_short(batch: EventBatch, scores: Scores, rng: Generator, design: Design, alpha: float, m: int) -> list[Evidence]:
    """What can still be said where the completed stream is shorter than m: counts and proofs; the PITs stay undersized."""
    stream = completed_pit(batch, scores, rng, None)
    small = undersized("pit_time.neyman", len(stream), m)
    out = [replace(small, primary=True, margin=delta_theta(m))]
    for name in ("counts.horizon", "tail.impossible", "cross_sequence.duplicates"):
        out += REGISTRY[name].evaluate(stream, design, alpha)
    return out


def _with_crossing(stream: PitStream, per_event: IntArray, crossing: IntArray | None) -> IntArray:
    """(m,) per-event values with each sequence's crossing value behind them, where the stream is completed."""
    if not stream.completed:
        return per_event
    assert crossing is not None
    out = crossing[stream.sequence].astype(np.int64)
    out[stream.is_event] = per_event[: int(stream.is_event.sum())]
    return out


def _rows(stream: PitStream, batch_row: IntArray) -> IntArray | None:
    """(m,) batch rows; None where a completed draw's row is unknown (a sequence without events and rows given by event)."""
    batch = stream.batch
    if len(batch_row) == batch.n_events and not stream.completed:
        return batch_row
    if len(batch_row) == len(batch):
        return batch_row[stream.sequence]
    if (batch.lengths == 0).any():
        return None
    return batch_row[batch.offsets[1:] - 1][stream.sequence]
