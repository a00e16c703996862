"""Events to detection: how long the e-process watches a known fault until it has proof, or the budget is spent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tppsd_bench import budget
from tppsd_bench.errors import InputError
from tppsd_bench.protocols import FloatArray
from tppsd_bench.runner.power_examination import Case, median_interval
from tppsd_bench.runner.sequential import watch
from tppsd_bench.stats.eprocess import Wealth


def detected(wealth: Wealth | None) -> float:
    """Events up to the end of the sequence of detection; infinite where there was none, NaN where nothing could be bet on."""
    if wealth is None:
        return float("nan")
    at = wealth.detection(budget.EPROCESS_LEVEL)
    return float("inf") if at is None else float(wealth.events[at])


def watched(case: Case, seeds: int, max_events: int) -> FloatArray:
    """(seeds,) events to detection of sequential runs, each on streams of its own; NaN where an answer was refused before any bet."""
    key = case.design.key
    out: list[float] = []
    for seed in range(seeds):
        try:
            seen = watch(
                case.sampler, case.target, case.draft, case.design.stop, key.replace(cell=f"{key.cell}.watch{seed}"),
                max_events=max_events, alpha=budget.EPROCESS_LEVEL, device=case.design.device,
            )  # fmt: skip
        except InputError:
            out.append(float("nan"))
        else:
            out.append(detected(seen.wealth))
    return np.array(out)


def etd(found: Iterable[float], max_events: int) -> dict[str, Any] | None:
    """Median events to detection with its 95 % interval by order statistics; None where no run was made.

    Runs without detection count as longer than any other: a median (or bound) among them is None, beyond the budget.
    """
    events = np.array([x for x in found if not np.isnan(x)])
    if not len(events):
        return None
    median, low, high = (None if np.isinf(x) else x for x in median_interval(events))
    return {
        "median": median, "low": low, "high": high, "n": len(events), "missed": int(np.isinf(events).sum()), "budget": max_events,
    }  # fmt: skip
