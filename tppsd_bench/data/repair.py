"""The later checks of ``settle``: ties and their repair, coarse clocks, units, the dropped origin, horizons, size."""

from __future__ import annotations

import numpy as np

from tppsd_bench import budget
from tppsd_bench.data.clock import COARSE_NOTED, COARSE_REFUSED, COMMONEST, ClockReading, jitter, thousandfold
from tppsd_bench.data.work import Work

EXPLAINED_TIES = 1e-3
"""Ties above this share are never put down to rounding."""
_NEAR_ROUNDING = 64
"""Rounding explains ties where distinct times come as close as this many roundings."""
_MIN_GAPS = 100
"""Fewer gaps say nothing about how coarse a clock is."""
MIN_SEQUENCES = 20
"""Below 20 whole sequences a permutation of two arms has too few arrangements to matter."""
MIN_EVENTS = 2000
LONG_SEQUENCE = 8192
_MILLISECONDS = (1e11, 1e14)


def units(work: Work) -> None:
    """Hints that milliseconds and seconds were taken for one another."""
    first = work.gaps[work.first_at]
    low, high = _MILLISECONDS
    if len(first) and work.raw.times is not None and low < first.min() and first.max() < high:
        work.add(
            "note",
            "milliseconds",
            f"{work.source}: times such as {first[0]:.0f} look like milliseconds since 1970, so gaps are in milliseconds; "
            "divide the times by 1000 if seconds are meant.",
        )
    ends = np.cumsum(work.lengths)
    medians = [np.median(work.gaps[b - n + 1 : b]) if n > 5 else np.nan for n, b in zip(work.lengths, ends, strict=True)]
    slow = thousandfold(np.array(medians))
    if len(slow):
        work.add(
            "warning",
            "mixed_units",
            f"{work.names[int(slow.min())]}: its gaps are about 1000 times those of other sequences, as are those of "
            f"{len(slow)} of {len(medians)} sequences; expected one unit. If some are in milliseconds and some in seconds, "
            "convert them.",
        )


def precision(work: Work) -> None:
    """Times that have too few digits for the gaps between them."""
    clock, positive = work.clock, work.observed_gaps[work.observed_gaps > 0]
    if clock is None or not len(positive) or work.time_column == work.raw.gap_name:
        return
    share = clock.rounding / float(np.median(positive))
    if share > 1e-3:
        kind = "float32" if clock.single_precision else "float64"
        work.add(
            "warning",
            "precision",
            f"{work.source}: near the largest time {kind} numbers lie {clock.rounding:g} apart, {share:.1%} of the median gap; "
            "expected less than 0.1%. Subtract the start before rounding, or store float64.",
        )


def ties(work: Work) -> None:
    """Events at one time within a sequence: refused, explained by rounding, or repaired as the caller asks."""
    tied = np.flatnonzero(work.inner & (work.gaps == 0))
    clock, options = work.clock, work.options
    assert clock is not None
    if options.ties == "jitter" and options.rng is not None and (len(tied) or clock.common_share > COARSE_NOTED):
        work.gaps = jitter(work.gaps, work.inner, clock.step, options.rng)
        moved = "every event was" if clock.step is not None else "tied events were"
        width = f"one step of the clock ({clock.step:g})" if clock.step is not None else "half the smallest positive gap"
        work.add(
            "warning",
            "jittered",
            f"{work.source}: {len(tied)} ties; {moved} spread uniformly over {width}, order kept. Models and tests now speak "
            "of the jittered events.",
        )
        return
    if not len(tied):
        return
    found = f"{work.where(int(tied[0]))}: at the same time as the event before, one of {len(tied)} such events"
    found += f" ({clock.tie_share:.2%} of gaps)"
    if options.ties == "drop":
        keep = np.ones(len(work.gaps), dtype=np.bool_)
        keep[tied] = False
        work.keep(keep)
        work.add("warning", "dropped_ties", f"{found}; these were dropped, the first event of each tie is kept.")
    elif _padded_gaps(work):
        work.add(
            "error",
            "padding",
            f"{found}; all rows are equally long and end in such gaps. This is padding handed over as events: cut each row at "
            "its length (JSON rows may state it as seq_len).",
        )
    elif _rounding_explains(work, clock):
        times = work.raw.times
        assert times is not None
        work.gaps[tied] = 0.5 * np.spacing(np.abs(times[tied]))
        work.add(
            "warning", "rounded_ties", f"{found}; times have no digits left for such gaps, so each was set to half a digit."
        )
    else:
        mend = "Remove duplicates, record times more finely, or pass ties='drop' or ties='jitter' with rng."
        work.add("error", "ties", f"{found}; a continuous law has no ties. {mend}")


def _padded_gaps(work: Work) -> bool:
    """Whether all rows are equally long and zero gaps stand at their ends only, two or more in at least a tenth of them."""
    n, lengths = len(work.lengths), work.lengths
    if n < 2 or lengths.min() != lengths.max() or lengths[0] < 3:
        return False
    zero = work.gaps.reshape(n, -1)[:, 1:] == 0
    trailing = np.flip(np.cumprod(np.flip(zero, axis=1), axis=1), axis=1) == 1
    return bool((zero == trailing).all() and trailing[:, -2:].all(axis=1).mean() >= 0.1)


def _rounding_explains(work: Work, clock: ClockReading) -> bool:
    positive = work.observed_gaps[work.observed_gaps > 0]
    return (
        work.raw.times is not None
        and work.time_column == work.raw.time_name
        and not clock.single_precision
        and clock.step is None
        and clock.tie_share <= EXPLAINED_TIES
        and bool(len(positive))
        and float(positive.min()) <= _NEAR_ROUNDING * clock.rounding
    )


def coarse(work: Work) -> None:
    """A clock so coarse that gaps share a few values: a continuous density is the wrong model."""
    clock = work.clock
    assert clock is not None
    if (
        len(work.observed_gaps) < _MIN_GAPS
        or clock.common_share <= COARSE_NOTED
        or (work.options.ties == "jitter" and clock.step is not None)
    ):
        return
    step = f" (a clock of step {clock.step:g})" if clock.step is not None else ""
    found = f"{work.source}: {clock.common_share:.1%} of gaps fall on the {COMMONEST} commonest values{step}"
    if clock.common_share <= COARSE_REFUSED or work.options.ties == "jitter":
        work.add("warning", "coarse_clock", f"{found}; a continuous law puts none there, so fits and their tests will notice.")
    else:
        work.add(
            "error",
            "coarse_clock",
            f"{found}, and {clock.tie_share:.1%} are 0; a continuous density is the wrong model on this clock. "
            "Record times more finely, or pass ties='jitter' with rng to model the events spread over one step.",
        )


def start(work: Work) -> None:
    """Drop first events that served as the origin; refuse first events at exactly 0."""
    if work.origin == "first_event":
        keep = np.ones(len(work.gaps), dtype=np.bool_)
        keep[work.first_at] = False
        had = work.lengths > 0
        work.keep(keep)
        gone = had & (work.lengths == 0)
        if gone.any() and work.end is None:
            stay = ~gone
            work.lengths, work.start = work.lengths[stay], work.start[stay]
            work.names = tuple(name for name, kept in zip(work.names, stay, strict=True) if kept)
            work.add(
                "note",
                "single_events",
                f"{work.source}: {int(gone.sum())} sequences had their origin as only event; without a gap they were left out.",
            )
        return
    zero = work.first_at[work.gaps[work.first_at] == 0]
    if len(zero):
        work.add(
            "error",
            "first_event_at_zero",
            f"{work.where(int(zero[0]))}: the first event is at exactly the start of observation, one of {len(zero)} such "
            f"sequences of {len(work.lengths)}; expected a positive first gap. Pass origin='first_event' where the first event "
            "only marks the start, or the true start as a number.",
        )


def horizon(work: Work) -> None:
    """End of observation: events must lie before it; without one, sequences end with their last event."""
    if work.end is None:
        empty = np.flatnonzero(work.lengths == 0)
        if len(empty):
            work.add(
                "error",
                "empty_sequence",
                f"{work.names[int(empty[0])]}: no events and no end of observation, one of {len(empty)} such sequences; an "
                "empty sequence says something only with a horizon. Pass horizon, or remove the sequence.",
            )
        elif not work.failed:
            work.add("note", "no_horizon", f"{work.source}: no end of observation; each sequence ends with its last event.")
        return
    work.end = work.end - work.start
    owner = np.repeat(np.arange(len(work.lengths)), work.lengths)
    last = np.bincount(owner, weights=work.gaps, minlength=len(work.lengths)) if len(work.gaps) else np.zeros(len(work.lengths))
    bad = np.flatnonzero((work.end <= 0) | (last >= work.end))
    if len(bad):
        i = int(bad[0])
        known = (work.lengths > 0) & np.isfinite(work.end) & (work.end > 0) & np.isfinite(last)
        ratio = np.median(last[known] / work.end[known]) if known.any() else 0.0
        hint = " Are the times in milliseconds and the horizon in seconds?" if 100 < ratio < 2000 else ""
        work.add(
            "error",
            "beyond_horizon",
            f"{work.names[i]}: the last event is at {last[i]:g}, not before the horizon {work.end[i]:g} (both from the start "
            f"of the sequence), one of {len(bad)} such sequences; drop events at or beyond it, or give the true end.{hint}",
        )
    elif work.lengths.any() and float(work.end.min()) > 100 * float(last.max()):
        work.add(
            "warning",
            "far_horizon",
            f"{work.source}: the horizon {work.end.min():g} is over 100 times later than the last event of any sequence "
            f"({last.max():g}); expected events up to it. Are the times in seconds and the horizon in milliseconds?",
        )


def size(work: Work) -> None:
    """Too little for a verdict, copies of sequences, sequences too long for full attention."""
    n, n_events = len(work.lengths), len(work.gaps)
    small = []
    if n < MIN_SEQUENCES:
        small.append(f"tests that permute whole sequences need {MIN_SEQUENCES}")
    if n_events < MIN_EVENTS:
        delta = budget.delta_ks(max(n_events, 1))
        small.append(
            f"{n_events} events settle a KS distance to {min(delta, 1):.2f} only (8,000 settle {budget.delta_ks(8000):.2f})"
        )
    if small:
        found = f"{n} sequence{'s' * (n != 1)} with {n_events} events"
        work.add("warning", "few", f"{work.source}: {found}; {', and '.join(small)}: such verdicts will be inconclusive.")
    ends = np.cumsum(work.lengths)
    rows = [
        (work.gaps[e - k : e].tobytes(), work.types[e - k : e].tobytes())
        for k, e in zip(work.lengths, ends, strict=True)
        if k > 1
    ]
    copies = len(rows) - len(set(rows))
    if copies:
        work.add(
            "warning",
            "copies",
            f"{work.source}: {copies} of {len(rows)} sequences of two or more events are exact copies of others; expected "
            "independent sequences. Remove copies, or check that samples did not share one seed.",
        )
    longest = int(work.lengths.max(initial=0))
    if longest > LONG_SEQUENCE:
        work.add(
            "warning",
            "long_sequence",
            f"{work.names[int(work.lengths.argmax())]}: {longest} events; a full attention map takes "
            f"{4 * longest**2 / 2**30:.1f} GiB a head. Cut it into windows.",
        )
