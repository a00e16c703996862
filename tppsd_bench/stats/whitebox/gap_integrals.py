"""The integrals over the next gap that role laws and draft direction need, by one quadrature over the events of either."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tppsd_bench.protocols import ROLE_ACCEPTED, ROLE_RESIDUAL, Conditional, FloatArray, IntArray
from tppsd_bench.stats.whitebox.bucket_integrals import integrate_gaps
from tppsd_bench.stats.whitebox.contexts import Contexts
from tppsd_bench.stats.whitebox.weights import clipped_score, role_weight

P, P_S, P_S2, P_S3, P_S4, Q, Q_S, ACCEPTED, RESIDUAL = range(9)
"""Rows of the tables: integrals of p, p s, ..., p s^4, q, q s (s the draft-direction score), min(p, q), (p - q)+."""


@dataclass(frozen=True)
class GapIntegrals:
    """Integrals up to each event's gap and over all gaps (up to the time left of a horizon run), for the events chosen.

    Role laws take the first ``max_rows`` events of their role, draft direction the first ``2 max_rows`` of the run: choices
    that no draw influences. A joint rule's role laws sum over types at every node and take fewer.
    """

    c: Contexts
    p: Conditional
    q: Conditional
    max_rows: int

    @property
    def joint(self) -> bool:
        return self.c.rule == "leviathan_joint" and self.c.n_types > 1

    @cached_property
    def direction(self) -> IntArray:
        """Flat indices of the events of draft direction."""
        return np.arange(min(2 * self.max_rows, self.c.events.n_events))

    @cached_property
    def accepted(self) -> IntArray:
        return self._of_role(ROLE_ACCEPTED)

    @cached_property
    def residual(self) -> IntArray:
        return self._of_role(ROLE_RESIDUAL)

    def _of_role(self, role: int) -> IntArray:
        limit = self.max_rows // self.c.n_types if self.joint else self.max_rows
        return np.flatnonzero(self.c.trace.gap_role == role)[:limit]

    @cached_property
    def _tables(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """(place of every event in the tables or -1, below, whole)."""
        c = self.c
        events = np.unique(np.concatenate([self.direction, self.accepted, self.residual]))
        place = np.full(c.events.n_events, -1, dtype=np.int64)
        place[events] = np.arange(len(events))
        below, whole = integrate_gaps(
            self.p, self.q, c.event_row[events], c.events.gaps[events], c.time_left[events], self._integrands, (P, Q)
        )
        return place, below, whole

    def _integrands(self, p: Conditional, q: Conditional, x: FloatArray) -> FloatArray:
        log_p, log_q = p.log_prob(x), q.log_prob(x)
        f, g, s = np.exp(log_p), np.exp(log_q), clipped_score(log_p, log_q)
        out = np.empty((9, *x.shape))
        out[P], out[Q], out[Q_S] = f, g, g * s
        for power in range(P_S, Q):
            np.multiply(out[power - 1], s, out=out[power])
        if self.joint:
            log_p, log_q = log_p[..., None] + p.type_log_probs(x), log_q[..., None] + q.type_log_probs(x)
            out[ACCEPTED] = role_weight("accepted", log_p, log_q).sum(axis=-1)
            out[RESIDUAL] = role_weight("residual", log_p, log_q).sum(axis=-1)
        else:
            np.minimum(f, g, out=out[ACCEPTED])
            np.subtract(f, out[ACCEPTED], out=out[RESIDUAL])
        return out

    def whole(self, events: IntArray, rows: slice) -> FloatArray:
        """(rows, len(events)) integrals over all gaps."""
        place, _, whole = self._tables
        out: FloatArray = whole[rows, place[events]]
        return out

    def pit(self, events: IntArray, role: int) -> FloatArray:
        """(len(events),) share of ``ACCEPTED`` or ``RESIDUAL`` mass at or below each event's gap; NaN where there is none."""
        place, below, whole = self._tables
        with np.errstate(invalid="ignore", divide="ignore"):
            out: FloatArray = below[role, place[events]] / whole[role, place[events]]
        return out
