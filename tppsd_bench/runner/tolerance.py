"""How far a sampler's own pass may be from a teacher-forced one: ten times what rounding was seen to do on the pilot.

Never measured on the data under test. A faulty sampler cannot buy itself room: beyond 1e-3 in a log density it is a fault, whatever
the pilot shows, and what stays below moves the law by a total variation of 5e-4 at most.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tppsd_bench.protocols import ConditionalTarget, Rule, SampleRun, Target

FACTOR = 10.0
FLOOR, CEILING = 1e-9, 1e-3
ROUNDED = 5e-4
"""The least where the passes differ by rounding at all (float32): its errors have heavy tails where a density is narrow, up to
1.3e-4 in 32,000 proposals of a network whose short pilot showed 4e-6."""
UNMEASURED = 1e-4
"""Where no proposal of the pilot can be compared: ten times what float32 networks show."""
BATCH_RTOL = 1e-4
"""Relative difference of gaps that float32 may show between batch sizes."""


@dataclass(frozen=True)
class Tolerance:
    """Allowed differences of two passes over one history."""

    log_density: float = UNMEASURED
    """Of log p and log q, absolute."""
    batch_rtol: float = BATCH_RTOL
    """Of gaps between batch sizes, relative; 0 asks for identical bits."""


def measure(pilot: SampleRun, target: Target, draft: ConditionalTarget | None, rule: Rule) -> Tolerance:
    """From the pilot's verified proposals: log p and log q as reported against teacher forcing.

    Samplers whose two passes agree to the bit (float64 toys) are held to identical bits between batch sizes too.
    """
    from tppsd_bench.stats.whitebox import VERIFYING_RULES
    from tppsd_bench.stats.whitebox.contexts import line_up

    if pilot.trace is None or rule not in VERIFYING_RULES or not len(pilot.trace.event):
        return Tolerance()
    c = line_up(pilot, target, draft, rule)
    worst, compared = 0.0, 0
    for reported, forced in ((c.trace.log_p, c.log_p), (c.trace.log_q, c.log_q)):
        known = ~np.isnan(forced) & (reported != forced)
        compared += int((~np.isnan(forced)).sum())
        with np.errstate(invalid="ignore"):
            gap = np.abs(reported[known] - forced[known])
        worst = max(worst, float(np.nan_to_num(gap, nan=np.inf).max(initial=0.0)))
    if not compared:
        return Tolerance()
    log_density = FLOOR if worst <= FLOOR else min(max(FACTOR * worst, ROUNDED), CEILING)
    return Tolerance(log_density, 0.0 if worst == 0.0 else BATCH_RTOL if worst > FLOOR else FLOOR)
