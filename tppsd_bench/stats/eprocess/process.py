"""The e-process: all bets at once, weighted before the data, followed from sequence to sequence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from tppsd_bench.protocols import Conditional, ConditionalTarget, FloatArray, IntArray, SampleRun, Scores
from tppsd_bench.results import Axis
from tppsd_bench.stats.eprocess.base import Design, Family
from tppsd_bench.stats.eprocess.chunk import line_up
from tppsd_bench.stats.eprocess.counts import Counts
from tppsd_bench.stats.eprocess.directions import Behind, Draft
from tppsd_bench.stats.eprocess.impossible import Proofs
from tppsd_bench.stats.eprocess.memory import Memory, Neighbours
from tppsd_bench.stats.eprocess.shapes import Shape, Tails
from tppsd_bench.stats.eprocess.types import Types
from tppsd_bench.stats.eprocess.verification import Acceptance, Noise, Proposals, Roles

FAMILIES: tuple[Family, ...] = (
    Shape("gap shape", "u", "gaps"), Shape("type shape", "v", "types"), Tails(), Memory(), Neighbours(), Counts(), Types(),
    Draft(), Behind(), Acceptance(), Noise(), Proposals(), Roles(),
)  # fmt: skip
PROOF = "impossible event"
ROUNDING = 1e-3
"""Default tolerance of log densities, far above what float32 passes differ by."""


class Best(NamedTuple):
    """A family's best bet."""

    family: str
    phrase: str
    log_wealth: float
    """Of that bet alone, begun at 1."""
    axis: Axis


@dataclass(frozen=True)
class Wealth:
    """An e-process as it went, one value a sequence (S of them), and who earned it.

    ``log_law`` and ``log_rule`` are the two halves of the wealth: half the money was put on bets about the law, half on bets
    about the declared rule (all on the law where the rule cannot be seen). Their sum is the wealth.
    """

    events: IntArray
    """(S,) events up to the end of each sequence."""
    log_law: FloatArray
    log_rule: FloatArray
    top: tuple[Best, ...]
    """One a family, those that hold most first."""
    proofs: Mapping[Axis, str] = field(default_factory=dict)
    """What happened that has probability 0 under exactness, by what it is proof against."""

    @property
    def log_wealth(self) -> FloatArray:
        """(S,)"""
        out: FloatArray = np.logaddexp(self.log_law, self.log_rule)
        return out

    def curve(self, axis: Axis) -> FloatArray:
        """(S,) log wealth to be laid to this axis: all of it where the axis' half is the larger one, else its half.

        It reaches log(1/alpha) for either axis only when the whole wealth does, so both verdicts together err at most alpha; and where
        the axis' own null holds, at most alpha too, whatever the other axis does (half the money, at least half the wealth).
        """
        mine, other = (self.log_law, self.log_rule) if axis is Axis.LAW else (self.log_rule, self.log_law)
        return np.where(mine >= other, np.logaddexp(mine, other), mine)

    def largest(self, axis: Axis) -> float:
        """Maximum of ``curve``."""
        return float(self.curve(axis).max()) if len(self.events) else 0.0

    def detection(self, alpha: float, axis: Axis | None = None) -> int | None:
        """Index of the first sequence after which the wealth (of one axis) is at least 1/alpha; None if it never is.

        Ville's inequality: it is in at most a share ``alpha`` of exact runs.
        """
        at = np.flatnonzero((self.log_wealth if axis is None else self.curve(axis)) >= -math.log(alpha))
        return int(at[0]) if len(at) else None

    def led_by(self, axis: Axis | None = None) -> tuple[str, str]:
        """(family, phrase) of the best bet, or of the proof, on one axis or on either."""
        proof = next((what for a, what in self.proofs.items() if axis in (None, a)), None)
        if proof is not None:
            return PROOF, proof
        best = next((b for b in self.top if axis in (None, b.axis)), None)
        return ("", "") if best is None else (best.family, best.phrase)

    @property
    def leading(self) -> str:
        """Family that holds most at the end, or ``PROOF``."""
        return self.led_by()[0]

    @property
    def phrase(self) -> str:
        """Its best bet in words."""
        return self.led_by()[1]


class EProcess:
    """Follows a sampler from sequence to sequence. The families' bets share their axis' money equally, and so do a family's bets.

    Sequences must be fed in index order; ``wealth`` may be looked at after any ``feed``.
    """

    def __init__(self, design: Design, rng: np.random.Generator, tol: float = ROUNDING) -> None:
        self.design = design
        self._xi, self._crossing = rng.spawn(2)
        self._proofs = Proofs(tol)
        self._families = [(f, f.bets(design)) for f in FAMILIES]
        self._families = [(f, names) for f, names in self._families if names]
        axes = [f.axis for f, _ in self._families]
        self._prior = {f.name: -math.log(len(set(axes)) * axes.count(f.axis) * len(names)) for f, names in self._families}
        self._held = {f.name: np.zeros(len(names)) for f, names in self._families}
        self._curves: dict[Axis, list[FloatArray]] = {Axis.LAW: [], Axis.MECHANISM: []}
        self._proof: dict[Axis, str] = {}
        self._events: list[IntArray] = []
        self._last = np.empty(0)

    @property
    def n_bets(self) -> int:
        return sum(len(names) for _, names in self._families)

    def feed(
        self,
        run: SampleRun,
        scores: Scores,
        *,
        target_laws: Conditional | None = None,
        draft: ConditionalTarget | None = None,
    ) -> None:
        """The next sequences: their run, the target's scores and, where the design has them, its laws and the draft.

        Raises UnsettledBet where a score is not a number; the wealth is then as it was.
        """
        if not len(run.events):
            return
        laws = target_laws if self.design.laws else None
        chunk = line_up(run, scores, self.design, (self._xi, self._crossing), self._last, laws, draft)
        parts: dict[Axis, list[FloatArray]] = {Axis.LAW: [], Axis.MECHANISM: []}
        for family, _ in self._families:
            path = self._held[family.name][:, None] + np.cumsum(family.growth(chunk, self.design), axis=1)
            self._held[family.name] = path[:, -1].copy()
            parts[family.axis].append(logsumexp(path, axis=0) + self._prior[family.name])
        curves = {
            axis: logsumexp(np.stack(rows), axis=0) if rows else np.full(len(run.events), -np.inf)
            for axis, rows in parts.items()
        }
        for axis in self._proof:
            curves[axis][:] = np.inf
        for sequence, axis, what in self._proofs.find(chunk, self.design):
            curves[axis][sequence:] = np.inf
            self._proof.setdefault(axis, what)
        for axis, curve in curves.items():
            self._curves[axis].append(curve)
        before = int(self._events[-1][-1]) if self._events else 0
        self._events.append(before + np.cumsum(run.events.lengths))
        self._last = chunk.u[chunk.sequence == len(run.events) - 1]

    @property
    def wealth(self) -> Wealth:
        law, rule = (np.concatenate([np.empty(0), *self._curves[a]]) for a in (Axis.LAW, Axis.MECHANISM))
        events = np.concatenate([np.empty(0, dtype=np.int64), *self._events])
        best = []
        for family, names in self._families:
            held = self._held[family.name]
            at = int(held.argmax())
            total = float(logsumexp(held)) + self._prior[family.name]
            best.append((total, Best(family.name, names[at], float(held[at]), family.axis)))
        best.sort(key=lambda row: -row[0])
        return Wealth(events, law, rule, tuple(bet for _, bet in best), dict(self._proof))
