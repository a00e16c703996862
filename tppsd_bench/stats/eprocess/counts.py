"""Bets on the number of events before a horizon, against the compensator: how the horizon is handled shows nowhere else.

Alternative: the hazard of every draw that *starts* in the last share of the window is exp(c) times the target's. With L = -log S of the
gap (of the time left, for the draw that crossed) an event's likelihood ratio is exp(c - (e^c - 1) L), a crossing draw's exp(-(e^c - 1) L):
mean 1 under exactness, censored or not, with nothing drawn at random. Second alternative: each draw is with probability e not made at
all and the sequence called observed to its horizon: ratio 1 - e for an event, 1 - e + e / S for a crossing draw.
"""

from __future__ import annotations

import math

import numpy as np

from tppsd_bench.protocols import FloatArray
from tppsd_bench.stats.eprocess.base import Design, Family
from tppsd_bench.stats.eprocess.chunk import Chunk

TILTS = (-3.0, -1.0, -0.3, -0.1, 0.1, 0.3, 1.0)
SHARES = (1.0, 0.25, 0.05)
"""Of the window, from its end."""
STOPS = (0.001, 0.003, 0.01, 0.03, 0.1)
"""Probability that a sequence just stops."""
LATE_STOPS, LATE = (0.1, 0.5), (8, 16, 32, 64, 128)
"""The same from the draw of this index on: a limit on the number of events binds late."""
_LARGEST = 700.0
"""Of a compensator: a survival that underflows is no infinite win."""


class Counts(Family):
    """Fewer or more events than the compensator says, in the whole window or towards its end."""

    name = "counts"

    def bets(self, design: Design) -> tuple[str, ...]:
        if not design.horizon:
            return ()
        return tuple(
            f"{'fewer' if c < 0 else 'more'} events than the compensator says, {_window(share)} (tilt {c:+g})"
            for share in SHARES for c in TILTS
        ) + tuple(
            f"sequences that end before their horizon (a share {e:g} at each draw{f', from the {first + 1}th on' if first else ''})"
            for e, first in _stops()
        )  # fmt: skip

    def growth(self, chunk: Chunk, design: Design) -> FloatArray:
        batch = chunk.batch
        assert batch.horizon is not None
        with np.errstate(divide="ignore"):
            at_events = np.minimum(-np.log(chunk.scores.survival), _LARGEST)
        at_end = np.minimum(-chunk.log_survival, _LARGEST)
        compensator = chunk.spread(at_events, at_end)
        start = chunk.before(chunk.spread(batch.times))
        left = batch.horizon[chunk.sequence] - start
        rows = []
        for share in SHARES:
            inside = left <= share * batch.horizon[chunk.sequence] * (1 + 1e-12)
            n_events = np.bincount(chunk.sequence, weights=inside & chunk.is_event, minlength=len(batch))
            total = np.bincount(chunk.sequence, weights=np.where(inside, compensator, 0.0), minlength=len(batch))
            rows += [c * n_events - math.expm1(c) * total for c in TILTS]
        for e, first in _stops():
            went_on = np.maximum(batch.lengths - first, 0) * math.log1p(-e)
            rows.append(went_on + np.where(batch.lengths >= first, np.log1p(e * np.expm1(at_end)), 0.0))
        return np.stack(rows)


def _stops() -> list[tuple[float, int]]:
    return [(e, 0) for e in STOPS] + [(e, first) for e in LATE_STOPS for first in LATE]


def _window(share: float) -> str:
    return "in the whole window" if share == 1.0 else f"in the last {share:.0%} of the window"
