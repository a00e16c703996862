"""From what a file says to an ``EventBatch``: every check and every choice, in order, each leaving a finding.

Errors are collected, so that one look shows them all; a batch comes out only where there is none.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tppsd_bench.data.base import FloatArray, IntArray
from tppsd_bench.data.clock import is_absolute, read_clock
from tppsd_bench.data.work import Work
from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch


def not_finite(work: Work) -> None:
    """Values that are no numbers, and files without events."""
    raw = work.raw
    if not len(raw.lengths) or (not raw.lengths.sum() and work.end is None):
        work.add(
            "error", "no_events", f"{work.source}: no events in {len(raw.lengths)} sequences; expected at least one event."
        )
    for name, values in ((raw.time_name, raw.times), (raw.gap_name, raw.gaps), ("types", raw.types)):
        bad = np.flatnonzero(~np.isfinite(values)) if values is not None else np.empty(0, dtype=np.int64)
        if values is not None and len(bad):
            work.add(
                "error",
                "not_finite",
                f"{work.where(int(bad[0]))}: {name} is {values[bad[0]]}, one of {len(bad)} such values; expected finite "
                "numbers. Remove these events, or cut rows that were padded with NaN at their length.",
            )
    for what, values in (("start", raw.start), ("end of observation", work.end)):
        bad = np.flatnonzero(~np.isfinite(values)) if values is not None else np.empty(0, dtype=np.int64)
        if values is not None and len(bad):
            found = f"{work.names[int(bad[0])]}: the {what} is {values[bad[0]]}"
            work.add("error", "not_finite", f"{found}; expected a finite time.")


def types(work: Work) -> None:
    """Ids must be whole numbers 0..M-1; ids that count from 1 are shifted where the format or the caller says so."""
    ids, options, raw = work.types, work.options, work.raw
    fractional = np.flatnonzero(ids != np.floor(ids))
    if len(fractional):
        at = int(fractional[0])
        work.add("error", "type_fraction", f"{work.where(at)}: the type is {ids[at]:g}; expected a whole number 0..M-1.")
        return
    first = options.first_type if options.first_type is not None else raw.first_type
    declared = options.n_types if options.n_types is not None else raw.n_types
    lowest, highest = (int(ids.min()), int(ids.max())) if len(ids) else (0, 0)
    if first:
        ids, lowest, highest = ids - first, lowest - first, highest - first
        work.add("note", "types_shifted", f"{work.source}: type ids run from {first}; {first} was subtracted from each.")
    elif declared is None and lowest == 1:
        work.add(
            "error",
            "types_from_one",
            f"{work.where(int(np.argmin(ids)))}: the smallest type is 1, the largest {highest}, and no number of types is "
            f"declared; expected ids 0..M-1. If they run 1..{highest} pass first_type=1; if type 0 just does not occur pass "
            f"n_types={highest + 1}.",
        )
    work.types, work.n_types = ids, declared if declared is not None else highest + 1
    outside = np.flatnonzero((ids < 0) | (ids >= work.n_types))
    if not len(outside):
        return
    at, m = int(outside[0]), work.n_types
    k = int(ids[at])
    if k < 0:
        mend = "A negative id is usually padding: cut each row at its length."
    elif highest == m and lowest >= 1:
        mend = "The ids run from 1: pass first_type=1."
    elif k == m and _only_at_ends(work, outside):
        mend = "An id equal to the number of types, at the ends of rows, is usually padding: cut each row at its length."
    else:
        mend = f"Pass n_types={highest + 1}, or map the ids to 0..{m - 1}."
    code = "type_outside"
    work.add("error", code, f"{work.where(at)}: type {k}, one of {len(outside)} outside 0..{m - 1}. {mend}")


def _only_at_ends(work: Work, at: IntArray) -> bool:
    """Whether the events ``at`` are trailing runs of their sequences."""
    ends = np.cumsum(work.lengths)
    follower = at + 1
    return bool(np.isin(follower, np.concatenate([at, ends])).all())


def column(work: Work) -> None:
    """Gaps from the time column, the gap column, or whichever the caller named; says so where both are there and disagree."""
    raw, asked = work.raw, work.options.time_column
    named = {raw.time_name: raw.times, raw.gap_name: raw.gaps}
    if asked is not None and named.get(asked) is None:
        have = " and ".join(k for k, v in named.items() if v is not None)
        work.add("error", "no_column", f"{work.source}: no time column {asked!r}; the file has {have}.")
        return
    differences = None
    if raw.times is not None:
        differences = np.diff(raw.times, prepend=0.0)
        differences[work.first_at] = raw.times[work.first_at]
    if differences is None:
        assert raw.gaps is not None
        work.gaps, work.time_column = raw.gaps.copy(), raw.gap_name
    elif (
        raw.gaps is None
        or (not _columns_agree(work, differences, raw.gaps) and asked != raw.gap_name)
        or asked == raw.time_name
    ):
        work.gaps, work.time_column = differences, raw.time_name
    else:  # asked for, or the same to rounding: the gap column keeps digits that large times lose
        work.gaps, work.time_column = np.where(work.inner, raw.gaps, differences), raw.gap_name


def _columns_agree(work: Work, differences: FloatArray, gaps: FloatArray) -> bool:
    raw, inner = work.raw, work.inner
    assert raw.times is not None
    scale = float(np.median(np.abs(differences[inner]))) if inner.any() else 0.0
    tolerance = 1e-6 * scale + 8 * float(np.spacing(np.abs(raw.times).max(initial=0.0)))
    off = np.abs(differences - gaps) > tolerance
    # By convention the first gap is 0 or the time itself.
    off &= inner | (gaps != 0)
    if not off.any():
        return True
    at = int(np.argmax(off))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = float(np.nanmedian(differences[inner & off] / gaps[inner & off])) if (inner & off).any() else np.nan
    used, other = raw.time_name, raw.gap_name
    if work.options.time_column == raw.gap_name:
        used, other = other, used
    hint = next(
        (
            f" They differ by the factor {f:g}: one is in milliseconds, the other in seconds."
            for f in (1000.0, 1e-3)
            if off[inner].mean() > 0.5 and abs(ratio / f - 1) < 0.01
        ),
        "",
    )
    work.add(
        "warning",
        "columns_disagree",
        f"{work.where(at)}: {raw.gap_name} is {gaps[at]:g} but {raw.time_name} advances by {differences[at]:g}, one of "
        f"{int(off.sum())} events ({off.mean():.2%}) where the two disagree; they describe different processes.{hint} "
        f"{used} was used; pass time_column={other!r} for the other.",
    )
    return False


def order(work: Work) -> None:
    """Times may not go back: padding, or unsorted events (sorted on request)."""
    negative = np.flatnonzero(work.inner & (work.gaps < 0))
    if not len(negative):
        return
    at, times = int(negative[0]), work.raw.times
    by_gaps = times is None or work.options.time_column == work.raw.gap_name
    if not by_gaps and work.options.sort:
        _sort(work)
        work.add(
            "warning", "sorted", f"{work.where(at)}: the time goes back, one of {len(negative)} such events; sorted by time."
        )
        return
    if not by_gaps and times is not None and _is_padding(work, times, at):
        work.add(
            "error",
            "padding",
            f"{work.where(at)}: the time falls to {times[at]:g} and stays there to the end of the row, one of {len(negative)} "
            "such rows. This is padding handed over as events: cut each row at its length (JSON rows may state it as seq_len).",
        )
        return
    mend = "Give positive gaps." if by_gaps else "Sort the events of each sequence by time, or pass sort=True."
    work.add(
        "error",
        "unsorted",
        f"{work.where(at)}: the time goes back by {-work.gaps[at]:g}, one of {len(negative)} such events; expected increasing "
        f"times. {mend}",
    )


def _sort(work: Work) -> None:
    times = work.raw.times
    assert times is not None
    owner = np.repeat(np.arange(len(work.lengths)), work.lengths)
    by_time = np.lexsort((times, owner))
    times = times[by_time]
    work.raw, work.time_column = replace(work.raw, times=times), work.raw.time_name
    work.types = work.types[by_time]
    work.gaps = np.where(work.inner, np.diff(times, prepend=0.0), times)


def _is_padding(work: Work, times: FloatArray, at: int) -> bool:
    end = int(np.cumsum(work.lengths)[np.searchsorted(np.cumsum(work.lengths), at, side="right")])
    return bool((times[at:end] == times[at]).all() and (times[at] <= 0 or end - at > 1))


def origin(work: Work) -> None:
    """Where each sequence's clock starts; with ``first_event`` the first event only marks the start (dropped later)."""
    raw, asked, first_at = work.raw, work.options.origin, work.first_at
    has = work.lengths > 0
    stated = raw.start if raw.start is not None else np.zeros(len(work.lengths))
    # Gaps alone count from the stated start; times are on the file's clock already.
    first = work.gaps[first_at] + (stated[has] if raw.times is None else 0.0)
    if isinstance(asked, (int, float)):
        work.start[:], work.origin = float(asked), f"{asked:g}"
    elif asked == "first_event" or (asked == "auto" and raw.start is None and (why := _first_is_origin(work))):
        work.origin = "first_event"
        if asked == "auto":
            work.add(
                "note",
                "origin",
                f"{work.source}: {why}, so each sequence's clock starts at its first event, which is dropped; pass "
                "origin='start' (or a number on the file's clock) if observation began earlier.",
            )
        work.start[has] = first
    else:
        work.start, work.origin = stated.copy(), "start"
    work.gaps[first_at] = first - work.start[has]
    early = np.flatnonzero(work.gaps[first_at] < 0)
    if len(early):
        at = int(first_at[early[0]])
        work.add(
            "error",
            "before_start",
            f"{work.where(at)}: the event lies {-work.gaps[at]:g} before the start of observation; expected later times. "
            "Give the right origin, or origin='first_event'.",
        )


def _first_is_origin(work: Work) -> str:
    """Why the first event is the origin, or the empty string."""
    raw, first_at = work.raw, work.first_at
    ends = (np.cumsum(work.lengths) - 1)[work.lengths > 0]
    if not len(first_at):
        return ""
    first = work.gaps[first_at]
    if (first == 0).all():
        return "every sequence begins at exactly 0"
    if raw.gaps is not None and raw.times is not None and (raw.gaps[first_at] == 0).all():
        return f"{raw.gap_name} is 0 for every first event"
    if raw.times is not None and is_absolute(first, raw.times[ends] - raw.times[first_at]):
        return f"the clock is absolute (earliest first event at {first.min():.10g})"
    if raw.dated:
        return "times are dates"
    return ""


def measure(work: Work) -> None:
    """Read the clock before anything is repaired."""
    times = work.raw.times if work.time_column != work.raw.gap_name else None
    work.observed_gaps = work.gaps[work.inner]
    work.clock = read_clock(work.gaps, work.inner, times)


def finish(work: Work) -> EventBatch | None:
    """The batch, or None (with an error among the findings)."""
    if work.failed:
        return None
    batch = EventBatch(work.gaps, work.types.astype(np.int64), work.lengths, work.n_types, work.end)
    try:
        batch.validate(work.source)
    except InputError as error:  # a net under the checks above
        work.add("error", "invalid", str(error))
        return None
    return batch
