"""Bets that see the past: predictable h times phi of the next draw. A stale history has fine margins and shows only here.

h is a function of what came before (the previous PITs, the previous type; for a type also its own event's gap), bounded, and phi
has mean 0 given all of it: 1 + lambda h phi has mean 1 whatever h is.
"""

from __future__ import annotations

import math

import numpy as np

from tppsd_bench.protocols import FloatArray
from tppsd_bench.stats.eprocess.base import Design, Family, linear, phrases
from tppsd_bench.stats.eprocess.chunk import Chunk

LAMBDAS = (-0.25, -0.08, -0.025, 0.025, 0.08, 0.25)
TYPES = 4
"""Previous types with a bet of their own; the higher ids of a large alphabet share none."""
_BOUND = 3.0
"""|h phi| after scaling: phi_1 phi_1 attains it."""
_SECOND = math.sqrt(3.0 / 5.0)
"""phi_2 scaled to the bound of phi_1."""


class Memory(Family):
    """Previous u, v and type against phi_1, phi_2 of u and phi_1 of v; u against v within the event."""

    name = "memory"

    def bets(self, design: Design) -> tuple[str, ...]:
        return phrases(LAMBDAS, _names(design), design.places, _BOUND)

    def growth(self, chunk: Chunk, design: Design) -> FloatArray:
        segments = chunk.by_place
        return linear(segments, segments.sort(_scores(chunk, design)), LAMBDAS, _BOUND)


class Neighbours(Family):
    """u against the u of the sequence before at the same index: shared or repeated randomness."""

    name = "neighbours"

    def bets(self, design: Design) -> tuple[str, ...]:
        return phrases(LAMBDAS, ("gaps alike in neighbouring sequences",), ("pooled",), _BOUND)

    def growth(self, chunk: Chunk, design: Design) -> FloatArray:
        other = math.sqrt(3) * (2 * chunk.neighbour - 1)
        score = chunk.phi_u[0] * np.where(np.isnan(other), 0.0, other)
        return linear(chunk.by_sequence, score[None], LAMBDAS, _BOUND)


def _names(design: Design) -> tuple[str, ...]:
    past = ["a long gap before", "an extreme gap before"]
    if design.marked:
        past += ["a high type before", *(f"type {k} before" for k in range(min(design.n_types, TYPES)))]
    targets = ["location of the gaps", "scale of the gaps", *(["location of the types"] if design.marked else [])]
    names = [f"{t} after {p}" for t in targets for p in past]
    if design.marked:
        names += ["location of the types at long gaps", "location of the types at extreme gaps"]
    return tuple(names)


def _scores(chunk: Chunk, design: Design) -> FloatArray:
    """(scores, D), each of mean 0 given the past and at most ``_BOUND`` in size."""
    u1, u2 = chunk.phi_u[0], chunk.phi_u[1] * _SECOND
    past = [chunk.before(u1), chunk.before(u2)]
    targets = [u1, u2]
    if design.marked:
        v1 = chunk.phi_v[0]
        past.append(chunk.before(v1))
        past += [math.sqrt(3) * (chunk.type_before == k) for k in range(min(design.n_types, TYPES))]
        targets.append(v1)
    rows = [t * h for t in targets for h in past]
    if design.marked:
        rows += [chunk.phi_v[0] * u1, chunk.phi_v[0] * u2]
    return np.stack(rows)
