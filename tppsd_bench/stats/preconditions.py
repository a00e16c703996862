"""What must hold before any p-value means something: deterministic checks of the target, and of the batch as data.

Whoever brings a target brings only ``score``; its density, CDF and histories are examined by re-scoring made-up sequences. A
failure does not accuse the sampler: it makes the evidence invalid, in one sentence that says where and how to mend it.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import ConditionalTarget, Scores, Target
from tppsd_bench.results import Axis, Evidence
from tppsd_bench.stats.base import FloatArray, IntArray
from tppsd_bench.stats.cross_sequence import duplicates
from tppsd_bench.stats.density import density_evidence
from tppsd_bench.stats.scored import scored

TOLERANCE = 1e-4
"""Allowed |difference| / (1 + |value|) of two passes over the same history: ten times what float32 networks show."""
SUM_TOLERANCE = 1e-4
MAX_SEQUENCES = 32
MAX_EVENTS = 64
CLOCK_VALUES = 10_000


def check_target(target: Target, batch: EventBatch, rng: Generator, *, tolerance: float = TOLERANCE) -> list[Evidence]:
    """All preconditions, on the sequences at hand.

    Args:
        target: scores the sequences. batch: sequences of the sampler under test or of the reference. rng: chooses the sequences
            and prefixes that are re-scored. tolerance: allowed relative difference between passes.

    Returns:
        Evidence on the validity axis, each with ``passed`` and, where it failed, a sentence.
    """
    out = check_batch(batch)
    few = _sample(batch, rng)
    if few.n_events == 0:
        return out
    scores = scored(target, few)
    one_pass = check_scores(few, scores)
    out += one_pass
    if not all(e.passed for e in one_pass[:2]):
        return out
    out.append(_prefix_invariance(target, few, scores, rng, tolerance))
    out.append(_own_event(target, few, scores, rng, tolerance))
    out.append(_row_permutation(target, few, scores, rng, tolerance))
    out.append(density_evidence(target, few, rng))
    if isinstance(target, ConditionalTarget):
        out.append(_conditionals(target, few, scores, tolerance))
    if batch.horizon is not None:
        out.append(_crossing(target, few, scores, tolerance))
    return out


def check_batch(batch: EventBatch) -> list[Evidence]:
    """The batch as data: no sequence twice, no clock too coarse for a continuous law."""
    return [_no_duplicates(batch), _clock(batch)]


def check_scores(batch: EventBatch, scores: Scores) -> list[Evidence]:
    """What one pass over finished sequences shows: arrays aligned, numbers finite, types that sum to 1."""
    shapes = shapes_match(batch, scores)
    return [shapes, finite_scores(batch, scores), types_sum(batch, scores)] if shapes.passed else [shapes]


# -- the batch ------------------------------------------------------------------------------------------------------------
def _no_duplicates(batch: EventBatch) -> Evidence:
    count, pair = duplicates(batch)
    detail = ""
    if pair is not None:
        detail = (
            f"Sequence {pair[1]} is an exact copy of sequence {pair[0]}, one of {count} copies; sequences of a continuous law "
            "never repeat: give every sequence a random stream of its own, and look for a file handed in twice"
        )
    return _evidence("validity.duplicates", pair is None, float(count), len(batch), detail)


def _clock(batch: EventBatch) -> Evidence:
    """Share of gaps, among the first 10,000, whose value occurs more than once; more than half is a clock too coarse."""
    gaps = batch.gaps[:CLOCK_VALUES]
    values, first, counts = np.unique(gaps, return_index=True, return_counts=True)
    tied = int(counts[counts > 1].sum())
    share = tied / max(len(gaps), 1)
    if tied == 0 or len(gaps) < 20:
        return _evidence("validity.clock", True, share, len(gaps), "")
    top = int(np.argmax(counts))
    sequence, index = batch.locate(int(first[top]))
    step = float(np.diff(values).min()) if len(values) > 1 else float(values[0])
    said = (
        f"{share:.0%} of the first {len(gaps)} gaps share their value with another ({len(values)} distinct values; "
        f"{values[top]:g}, first at sequence {sequence}, event {index}, occurs {counts[top]} times)"
    )
    if step <= 4 * float(np.spacing(batch.end_times.max())):
        return _evidence("validity.clock", True, share, len(gaps), f"{said}; the rounding of float64 times explains it")
    if share <= 0.5:
        return _evidence("validity.clock", True, share, len(gaps), f"{said}; few enough for a continuous law")
    mend = "; a continuous law has no ties: record times more finely, hand over gaps, or score with a law of discrete times"
    return _evidence("validity.clock", False, share, len(gaps), said + mend)


# -- one pass -------------------------------------------------------------------------------------------------------------
def shapes_match(batch: EventBatch, scores: Scores) -> Evidence:
    """Whether all arrays are aligned with the batch."""
    n = batch.n_events
    wanted: dict[str, tuple[int, ...]] = {"log_density": (n,), "cdf": (n,), "survival": (n,), "type_probs": (n, batch.n_types)}
    if batch.horizon is not None:
        wanted["crossing_cdf"] = (len(batch),)
    for name, shape in wanted.items():
        found = np.shape(getattr(scores, name))
        if found != shape:
            return _evidence(
                "validity.shapes",
                False,
                None,
                n,
                f"score() returned {name} of shape {found}; expected {shape}, flat by sequence",
            )
    return _evidence("validity.shapes", True, None, n, "")


def finite_scores(batch: EventBatch, scores: Scores) -> Evidence:
    """No score is NaN, probabilities lie in [0, 1] and cdf + survival = 1. A log-density of -inf is the law's affair."""
    bad: list[tuple[NDArray[np.bool_], FloatArray, str]] = [
        (np.isnan(scores.log_density) | np.isposinf(scores.log_density), scores.log_density, "the log-density"),
        (~((scores.cdf >= 0) & (scores.cdf <= 1)), scores.cdf, "the CDF"),
        (~((scores.survival >= 0) & (scores.survival <= 1)), scores.survival, "the survival"),
        (~(np.abs(scores.cdf + scores.survival - 1) <= SUM_TOLERANCE), scores.cdf + scores.survival, "CDF + survival"),
    ]
    probs = scores.type_probs
    if not (probs.min(initial=0.0) >= 0 and probs.max(initial=0.0) <= 1 + SUM_TOLERANCE):
        bad.append((np.any(~((probs >= 0) & (probs <= 1 + SUM_TOLERANCE)), axis=1), probs, "a type probability"))
    for mask, values, what in bad:
        if mask.any():
            at = int(np.argmax(mask))
            i, j = batch.locate(at)
            found = np.array2string(np.asarray(values[at]), precision=4)
            logs = what != "the log-density" and bool((values <= 0).all())
            mend = "these look like logarithms: exponentiate" if logs else "compute them in float64 and in log space"
            detail = (
                f"Sequence {i}, event {j}: {what} is {found}, one of {int(mask.sum())} such scores; expected finite "
                f"log-densities, probabilities in [0, 1] and CDF + survival = 1: {mend}"
            )
            return _evidence("validity.finite", False, float(mask.sum()), batch.n_events, detail)
    crossing = scores.crossing_cdf
    if crossing is not None and not ((crossing >= 0) & (crossing <= 1)).all():
        i = int(np.argmin((crossing >= 0) & (crossing <= 1)))
        detail = f"Sequence {i}: crossing_cdf is {crossing[i]}; expected F(T - t_N | H) in [0, 1]"
        return _evidence("validity.finite", False, 1.0, batch.n_events, detail)
    return _evidence("validity.finite", True, 0.0, batch.n_events, "")


def types_sum(batch: EventBatch, scores: Scores) -> Evidence:
    """Whether the type probabilities of every event sum to 1."""
    off = np.abs(scores.type_probs.sum(axis=1) - 1)
    off = np.where(np.isnan(off), np.inf, off)
    at = int(np.argmax(off))
    i, j = batch.locate(at)
    detail = ""
    if off[at] > SUM_TOLERANCE:
        detail = (
            f"Sequence {i}, event {j}: the type probabilities sum to {scores.type_probs[at].sum():.6g}; expected 1: apply the "
            "softmax over types, and drop padding types"
        )
    return _evidence("validity.types_sum", off[at] <= SUM_TOLERANCE, float(off[at]), batch.n_events, detail)


# -- two passes -----------------------------------------------------------------------------------------------------------
def _prefix_invariance(target: Target, batch: EventBatch, scores: Scores, rng: Generator, tolerance: float) -> Evidence:
    """Scores of a prefix must not change when events are appended."""
    longest = int(batch.lengths.max())
    cuts = np.unique(np.concatenate([[1], rng.integers(1, longest + 1, size=4)])) if longest > 1 else np.array([1])
    worst, where = 0.0, ""
    for cut in cuts:
        prefix = batch.prefix(int(cut))
        short = scored(target, prefix)
        kept = np.flatnonzero(batch.event_index < cut)
        gap, at, what = _difference(short, scores, np.arange(len(kept)), kept)
        if gap > worst:
            i, j = batch.locate(int(kept[at]))
            worst, where = (
                gap,
                f"sequence {i}, event {j}: {what} changes by {gap:.2g} (relative) when events after {int(cut)} are appended",
            )
    detail = ""
    if worst > tolerance:
        detail = (
            f"In {where}; the scores of a prefix must not depend on its future: mask attention causally, and condition "
            "event i on events before i only"
        )
    return _evidence("validity.prefix", worst <= tolerance, worst, batch.n_events, detail)


def _own_event(target: Target, batch: EventBatch, scores: Scores, rng: Generator, tolerance: float) -> Evidence:
    """The law of a gap must not know its own type, nor the type probabilities the type that came."""
    if batch.n_types < 2:
        return _evidence("validity.own_type", True, 0.0, 0, "Only one type: nothing to leak.")
    rows = np.flatnonzero(batch.lengths > 0)
    last = rng.integers(0, batch.lengths[rows])
    cut = _cut(batch.select(rows), last + 1)
    end = cut.offsets[1:] - 1
    types = cut.types.copy()
    types[end] = (types[end] + 1) % batch.n_types
    changed = scored(target, EventBatch(cut.gaps, types, cut.lengths, cut.n_types))
    gap, at, what = _difference(changed, scored(target, cut), end, end)
    detail = ""
    if gap > tolerance:
        detail = (
            f"In sequence {int(rows[at])}, event {int(last[at])}: {what} changes by {gap:.2g} (relative) with the event's own "
            "type; the scores of event i are its law before it is seen: shift the encoded history by one event"
        )
    return _evidence("validity.own_type", gap <= tolerance, gap, len(end), detail)


def _row_permutation(target: Target, batch: EventBatch, scores: Scores, rng: Generator, tolerance: float) -> Evidence:
    """Permuting the rows of a batch must permute the scores."""
    order = rng.permutation(len(batch))
    if len(batch) > 1 and (order == np.arange(len(batch))).all():
        order = np.roll(order, 1)
    permuted = batch.select(order)
    starts = batch.offsets[:-1][order]
    back = np.repeat(starts, permuted.lengths) + permuted.event_index
    gap, at, what = _difference(scored(target, permuted), scores, np.arange(permuted.n_events), back)
    detail = ""
    if gap > tolerance:
        i, j = batch.locate(int(back[at]))
        detail = (
            f"In sequence {i}, event {j}: {what} changes by {gap:.2g} (relative) when the batch's rows are permuted; "
            "rows must be independent: check padding masks and operations across the batch axis"
        )
    return _evidence("validity.rows", gap <= tolerance, gap, batch.n_events, detail)


def _conditionals(target: ConditionalTarget, batch: EventBatch, scores: Scores, tolerance: float) -> Evidence:
    """The conditional laws that a target hands out must be those by which it scores."""
    laws, gaps = target.conditionals(batch), batch.gaps
    if len(laws) != batch.n_events:
        said = f"conditionals() returned {len(laws)} laws for {batch.n_events} events; expected one an event, flat by sequence"
        return _evidence("validity.conditionals", False, None, batch.n_events, said)
    own = Scores(laws.log_prob(gaps), laws.cdf(gaps), laws.sf(gaps), np.exp(laws.type_log_probs(gaps)))
    every = np.arange(batch.n_events)
    gap, at, what = _difference(own, scores, every, every)
    detail = ""
    if gap > tolerance:
        i, j = batch.locate(at)
        detail = (
            f"Sequence {i}, event {j}: {what} of conditionals() and of score() differ by {gap:.2g} (relative); "
            "both must be the law of event i given the events before it"
        )
    return _evidence("validity.conditionals", gap <= tolerance, gap, batch.n_events, detail)


def _crossing(target: Target, batch: EventBatch, scores: Scores, tolerance: float) -> Evidence:
    """crossing_cdf must be the CDF of the next gap at the time left before the horizon."""
    assert batch.horizon is not None
    assert scores.crossing_cdf is not None
    rest = batch.horizon - batch.end_times
    lengths = batch.lengths + 1
    at = np.arange(batch.n_events) + batch.sequence_index
    end = np.cumsum(lengths) - 1
    gaps, types = np.empty(int(lengths.sum())), np.zeros(int(lengths.sum()), dtype=np.int64)
    gaps[at], gaps[end], types[at] = batch.gaps, rest, batch.types
    appended = scored(target, EventBatch(gaps, types, lengths, batch.n_types)).cdf[end]
    off = np.abs(appended - scores.crossing_cdf)
    i = int(np.argmax(off))
    detail = ""
    if not off[i] <= tolerance:
        detail = (
            f"Sequence {i}: crossing_cdf is {scores.crossing_cdf[i]:.6g}, but an event at the horizon ({rest[i]:g} after "
            f"the last) has CDF {appended[i]:.6g}; return F(T - t_N | all events before T)"
        )
    return _evidence("validity.crossing", bool(off[i] <= tolerance), float(off[i]), len(batch), detail)


def _difference(a: Scores, b: Scores, rows_a: IntArray, rows_b: IntArray) -> tuple[float, int, str]:
    """(largest |difference| / (1 + |value|), its position among the rows, what differs)."""
    worst = (0.0, 0, "")
    for name, said in (("log_density", "the log-density"), ("cdf", "the CDF"), ("type_probs", "a type probability")):
        x, y = (np.asarray(getattr(s, name), dtype=np.float64)[r] for s, r in ((a, rows_a), (b, rows_b)))
        with np.errstate(invalid="ignore"):
            off = np.where(x == y, 0.0, np.abs(x - y) / (1 + np.abs(y)))
        off = np.where(np.isnan(off), np.inf, off)
        if off.ndim == 2:
            off = off.max(axis=1)
        at = int(np.argmax(off))
        if off[at] > worst[0]:
            worst = (float(off[at]), at, said)
    return worst


def _sample(batch: EventBatch, rng: Generator) -> EventBatch:
    """At most 32 sequences, cut at 64 events unless a horizon forbids cutting."""
    rows = np.sort(rng.permutation(len(batch))[:MAX_SEQUENCES])
    few = batch.select(rows)
    return few if batch.horizon is not None else few.prefix(MAX_EVENTS)


def _cut(batch: EventBatch, lengths: IntArray) -> EventBatch:
    keep = batch.event_index < np.repeat(lengths, batch.lengths)
    return EventBatch(batch.gaps[keep], batch.types[keep], np.minimum(lengths, batch.lengths), batch.n_types)


def _evidence(name: str, passed: bool, statistic: float | None, n: int, detail: str) -> Evidence:
    return Evidence(name, Axis.VALIDITY, passed=bool(passed), statistic=statistic, n=n, method="deterministic", detail=detail)
