"""What a family of bets is, and how its wealth is added up.

A bet multiplies its wealth by a factor for every draw. The factor is a function of the draw and of what was known before it,
is never negative and has mean 1 under exactness (or less): its wealth is a non-negative supermartingale of mean at most 1.
An average of such wealths with weights fixed in advance is one too, so by Ville's inequality P(it ever reaches 1/alpha) <= alpha,
however often and whenever one looks. Source: Ramdas, Gruenwald, Vovk, Shafer (2023), Game-theoretic statistics and safe
anytime-valid inference, arXiv 2210.01948.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.protocols import FloatArray, IntArray, Rule
from tppsd_bench.results import Axis

if TYPE_CHECKING:
    from tppsd_bench.stats.eprocess.chunk import Chunk

_Scalar = TypeVar("_Scalar", np.float64, np.int64)
BLOCK = 128
"""Factors multiplied before a logarithm is taken; within [0.01, 200] their product neither under- nor overflows."""
LAMBDAS = (-0.25, -0.1, -0.03, -0.01, 0.01, 0.03, 0.1, 0.25)
SAFE = 0.9
"""A bet 1 + lambda s keeps |lambda s| at or below this: no single draw takes all of its wealth."""

AFTER, START, INNER, BONUS = range(4)
"""Where a draw stands, known before it: first of a round after a replacement, first of another round, inner, bonus."""
PLACES = ("pooled", "first of a round", "first after a replacement", "inner positions", "bonus position")
_MEMBERS = ((AFTER, START, INNER, BONUS), (AFTER, START), (AFTER,), (INNER,), (BONUS,))


@dataclass(frozen=True)
class Design:
    """What decides which bets are made; all of it is fixed before the first draw."""

    n_types: int
    positions: bool = False
    """Whether a trace says where in its round each draw stands."""
    laws: bool = False
    """Whether the target hands out its conditional laws."""
    draft: bool = False
    """Whether the draft's conditional laws are at hand."""
    trace: bool = False
    """Whether verifications are recorded."""
    horizon: bool = False
    """Whether sequences stop at a time."""
    rule: Rule = "other"

    @property
    def marked(self) -> bool:
        return self.n_types > 1

    @property
    def places(self) -> tuple[str, ...]:
        """Strata of a bet that is also made by position."""
        return PLACES if self.positions else PLACES[:1]


class Family(ABC):
    """Bets of one kind, weighted equally. Subclasses state what they bet on; ``FAMILIES`` lists them."""

    name: str
    axis: Axis = Axis.LAW

    @abstractmethod
    def bets(self, design: Design) -> tuple[str, ...]:
        """One phrase a bet, in the order of ``growth``; empty where the access does not allow the family."""

    @abstractmethod
    def growth(self, chunk: Chunk, design: Design) -> FloatArray:
        """(bets, n sequences): the log factor of each bet over each sequence."""


@dataclass(frozen=True)
class Segments:
    """Sums of draws by sequence and, where positions are known, by place in the round."""

    key: IntArray
    """(D,) sequence, or sequence * 4 + place."""
    n: int
    """Number of sequences."""
    places: bool = False

    @cached_property
    def _order(self) -> IntArray | None:
        return None if bool((np.diff(self.key) >= 0).all()) else np.argsort(self.key, kind="stable")

    @cached_property
    def _starts(self) -> tuple[IntArray, IntArray, IntArray]:
        """Starts of blocks, starts of segments among the blocks, and the segments' keys."""
        key = self.sort(self.key)
        new = np.concatenate([[True], key[1:] != key[:-1]]) if len(key) else np.zeros(0, dtype=np.bool_)
        first = np.flatnonzero(new)
        within = np.arange(len(key)) - np.repeat(first, np.diff(np.append(first, len(key))))
        blocks = np.flatnonzero(within % BLOCK == 0)
        return blocks, np.flatnonzero(new[blocks]), key[first]

    def sort(self, values: NDArray[_Scalar]) -> NDArray[_Scalar]:
        """(..., D) in the order that ``log_product`` and ``log_sum`` expect."""
        return values if self._order is None else np.take(values, self._order, axis=-1)

    def log_product(self, factors: FloatArray) -> FloatArray:
        """Log of the product of sorted ``factors`` (B, D) over each segment: (B * places, n)."""
        blocks, segments, keys = self._starts
        if not len(blocks):
            return self._spread(np.zeros((len(factors), 0)), keys)
        with np.errstate(divide="ignore"):
            logs = np.log(np.multiply.reduceat(factors, blocks, axis=1))
        return self._spread(np.add.reduceat(logs, segments, axis=1), keys)

    def log_sum(self, logs: FloatArray) -> FloatArray:
        """Sum of sorted ``logs`` (B, D) over each segment: (B * places, n)."""
        blocks, segments, keys = self._starts
        if not len(blocks):
            return self._spread(np.zeros((len(logs), 0)), keys)
        return self._spread(np.add.reduceat(logs, blocks[segments], axis=1), keys)

    def _spread(self, sums: FloatArray, keys: IntArray) -> FloatArray:
        width = len(_MEMBERS[0]) if self.places else 1
        out = np.zeros((len(sums), self.n * width))
        out[:, keys] = sums
        if not self.places:
            return out
        by_place = out.reshape(len(sums), self.n, width)
        stacked = np.stack([by_place[:, :, list(members)].sum(axis=2) for members in _MEMBERS], axis=1)
        return stacked.reshape(len(sums) * len(_MEMBERS), self.n)


def linear(segments: Segments, scores: FloatArray, lambdas: tuple[float, ...], bound: float) -> FloatArray:
    """Bets 1 + lambda s on sorted ``scores`` (S, D) of mean 0, |s| <= ``bound``, lambda shrunk to ``SAFE`` / bound where larger.

    (lambdas * S * places, n), lambda outermost.
    """
    shrink = SAFE / bound
    out = []
    for value in lambdas:
        factors = np.multiply(scores, float(np.clip(value, -shrink, shrink)))
        factors += 1.0
        out.append(segments.log_product(factors))
    return np.concatenate(out)


def mixtures(segments: Segments, log_ratio: FloatArray, weights: tuple[float, ...]) -> FloatArray:
    """Bets 1 + lambda (r - 1) on sorted likelihood ratios r = exp(``log_ratio``) (D,), mean of r under exactness at most 1.

    A ratio that is not a number counts as 0: it loses. (weights * places, n)
    """
    with np.errstate(over="ignore"):
        ratio = np.exp(np.minimum(np.where(np.isnan(log_ratio), -np.inf, log_ratio), 700.0))
    return segments.log_sum(np.log1p(np.multiply.outer(np.array(weights), ratio - 1.0)))


def phrases(
    lambdas: tuple[float, ...], scores: tuple[str, ...], places: tuple[str, ...], bound: float | None = None
) -> tuple[str, ...]:
    """The phrases of ``linear`` and ``mixtures``, in their order."""
    out = []
    for value in lambdas:
        shown = value if bound is None else float(np.clip(value, -SAFE / bound, SAFE / bound))
        out += [f"{score}, {place} (lambda {shown:+.2g})" for score in scores for place in places]
    return tuple(out)
