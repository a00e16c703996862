"""Counting target work: the part of speed that has no noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.protocols import Counts, Stop
from tppsd_bench.results import Axis, Evidence

IntArray = NDArray[np.int64]


def target_forwards_per_event(counts: Counts) -> float:
    """Sequences advanced by a target pass, per committed event; NaN where nothing was committed."""
    return counts.target_row_forwards / counts.committed if counts.committed else float("nan")


def forwards_saved(counts: Counts, target_only: Counts) -> float:
    """Target row forwards per event of target-only sampling over those of the sampler: what a free draft would gain."""
    return target_forwards_per_event(target_only) / target_forwards_per_event(counts)


def target_only_forwards(lengths: IntArray, stop: Stop, *, prompt_or_start_token: bool = False) -> IntArray:
    """(n,) forwards that target-only sampling needs for sequences of ``lengths`` generated events.

    N - 1 for a count stop from an empty history (the first law is a learned initial context, the last event is not encoded);
    N where a draw must cross the horizon; one more where a prompt or a start token has to be encoded first.
    """
    n = np.asarray(lengths, dtype=np.int64)
    needed = n if stop.horizon is not None else np.maximum(n - 1, 0)
    return needed + int(prompt_or_start_token)


def fewest_forwards(lengths: IntArray, k: int, *, first_event_free: bool = False) -> IntArray:
    """(n,) ceil(N / (K + 1)): no exact sampler commits more than K + 1 events a target pass.

    ``first_event_free`` where the first event may be drawn from a learned initial context without any pass:
    ceil((N - 1) / (K + 1)), which at K = 0 is what target-only sampling needs.
    """
    n = np.maximum(np.asarray(lengths, dtype=np.int64) - int(first_event_free), 0)
    return -(-n // (k + 1))


def check_fewest_forwards(lengths: IntArray, forwards: IntArray | int, k: int, *, first_event_free: bool = False) -> Evidence:
    """F >= ceil(N / (K + 1)) (see ``fewest_forwards``), per sequence where ``forwards`` is (n,), else for the total.

    Fewer forwards mean that events were kept without the target having seen them, or that the counter lost some.
    """
    least = fewest_forwards(lengths, k, first_event_free=first_event_free)
    if np.ndim(forwards) == 0:
        total, needed = int(np.asarray(forwards)), int(least.sum())
        passed, detail = total >= needed, f"{total} target row forwards; these events need at least {needed} at K = {k}."
    else:
        short = np.flatnonzero(np.asarray(forwards) < least)
        passed, detail = len(short) == 0, f"Every sequence has the target forwards that its events need at K = {k}."
        if len(short):
            i = int(short[0])
            detail = (
                f"Sequence {i} has {int(lengths[i])} events from {int(np.asarray(forwards)[i])} target forwards; at K = {k} "
                f"at least {int(least[i])} are needed ({len(short)} such sequences)."
            )
    n, null = int(np.sum(lengths)), "F >= ceil(N / (K + 1))"
    return Evidence("counts.fewest_forwards", Axis.MECHANISM, passed=passed, n=n, null=null, detail=detail)


def check_counters_agree(wrapper: Counts, hook: Counts) -> Evidence:
    """Two independent counters (the model's wrapper, a hook on the module) agree on target calls and row forwards."""
    differing = [
        f"{name.replace('_', ' ')}: the wrapper counted {getattr(wrapper, name)}, the module hook {getattr(hook, name)}"
        for name in ("target_calls", "target_row_forwards")
        if getattr(wrapper, name) != getattr(hook, name)
    ]
    detail = "; ".join(differing) if differing else "Wrapper and module hook counted the same target calls and row forwards."
    return Evidence("counts.two_counters", Axis.MECHANISM, passed=not differing, n=wrapper.target_calls, detail=detail)
