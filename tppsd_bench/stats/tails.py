"""The ends of the gap law, repeated values, and events that cannot happen.

Clipped gaps pile up where smooth tests look least: exact binomials count u beyond 1e-3 and 1e-2 at both ends, and a value that
a continuous law repeats is an atom.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tppsd_bench.results import Axis, Evidence
from tppsd_bench.stats.base import (
    POWER,
    Design,
    IntArray,
    Statistic,
    binomial_two_sided,
    clopper_pearson,
    register,
)
from tppsd_bench.stats.pit import PitStream

MAX_ATOM_VALUES = 2**18
"""Gaps searched for repeats: sorting more costs more than it finds."""
ENDS = (("low_1e-3", 1e-3), ("low_1e-2", 1e-2), ("high_1e-2", 1e-2), ("high_1e-3", 1e-3))


def tail_class(stream: PitStream) -> NDArray[np.int64]:
    """(m,) 0: u < 1e-3, 1: u < 1e-2, 2: middle, 3: survival < 1e-2, 4: survival < 1e-3 (innermost name that holds)."""
    u, s = stream.u, stream.survival
    out = np.full(len(u), 2, dtype=np.int64)
    low, high = np.flatnonzero(u < 1e-2), np.flatnonzero(s < 1e-2)
    out[low] = np.where(u[low] < 1e-3, 0, 1)
    out[high] = np.where(s[high] < 1e-3, 4, 3)
    return out


def tail_hits(classes: IntArray) -> IntArray:
    """(S, 5) counts of tail classes -> (S, 4) hits in the order of ``ENDS`` (1e-2 includes 1e-3)."""
    low3, low2, _, high2, high3 = classes.T
    return np.stack([low3, low3 + low2, high2 + high3, high3], axis=1)


def ratio_min_effect(n: int, p: float, alpha: float, power: float) -> float:
    """Smallest excess ratio r - 1 such that a tail of true mass r p is found: Poisson critical count, exact power."""
    mean = n * p
    critical = 1
    step = max(1, int(mean + 40 * math.sqrt(mean) + 40))
    low, high = 0, step
    while high - low > 1:  # smallest c with P(Poisson(mean) >= c) <= alpha / 2
        middle = (low + high) // 2
        low, high = (low, middle) if special.gammainc(middle, mean) <= alpha / 2 else (middle, high)
    critical = high
    return float(special.gammaincinv(critical, power)) / mean - 1.0


class Tail(Statistic):
    """Exact two-sided binomials of both ends."""

    name = "tail"
    null = "binomial, exact"
    effect_name = "share beyond the cut / expected share"

    def members(self, design: Design) -> int:
        return len(ENDS)

    def min_effect(self, n: int, alpha: float, power: float = POWER) -> float:
        """Excess ratio of the 1e-2 ends."""
        return ratio_min_effect(n, 1e-2, alpha, power)

    def evaluate(self, stream: PitStream, design: Design, alpha: float) -> list[Evidence]:
        hits = tail_hits(np.bincount(tail_class(stream), minlength=5)[None, :])[0]
        n = len(stream)
        if n == 0:
            return []
        out = []
        for (end, p), count in zip(ENDS, hits, strict=True):
            low, high = clopper_pearson(int(count), n)
            out.append(
                Evidence(
                    f"tail.{end}",
                    Axis.LAW,
                    p_value=binomial_two_sided(int(count), n, p),
                    statistic=float(count),
                    n=n,
                    effect=float(count) / (n * p),
                    effect_name=self.effect_name,
                    interval=(low / p, high / p),
                    min_detectable=1.0 + ratio_min_effect(n, p, alpha, POWER),
                    null=f"binomial({n}, {p:g})",
                    method="exact, two-sided",
                )
            )
        return out


class Atoms(Statistic):
    """Whether one gap value comes back more often than times kept in float32 could explain.

    A continuous law repeats no value; one rounded to steps of s puts about N f(x) s gaps on the value x. With s the spacing of
    float32 at the latest time and f the largest conditional density at the value (times 4, the history being mixed),
    P(any value c times) <= N P(Poisson(4 N f s) >= c - 1): conservative for float64 gaps, fair to float32 samplers.
    """

    name = "tail.atoms"
    null = "at most N P(Poisson(4 N f s) >= c - 1), a bound"
    effect_name = "largest share of one gap value"

    def members(self, design: Design) -> int:
        return 1

    def min_effect(self, n: int, alpha: float, power: float = POWER) -> float:
        """Share of an atom found in float64 gaps, where almost no repeat is expected: some four repeats suffice."""
        return float(special.gammaincinv(4, power)) / n

    def evaluate(self, stream: PitStream, design: Design, alpha: float) -> list[Evidence]:
        gaps = stream.batch.gaps[:MAX_ATOM_VALUES]
        n = len(gaps)
        if n < 2:
            return []
        ordered = np.sort(gaps)
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        runs = np.diff(np.append(starts, n))
        top = int(np.argmax(runs))
        count, value = int(runs[top]), float(ordered[starts[top]])
        p = 1.0
        if count > 1:
            density = math.exp(min(700.0, float(stream.scores.log_density[:n][gaps == value].max())))
            step = float(np.spacing(np.float32(min(max(stream.batch.end_times.max(), value), 1e38))))
            mean = 4.0 * n * density * step
            p = min(1.0, n * float(special.gammainc(count - 1, mean))) if mean > 0 else 0.0
        detail = "" if count == 1 else f"The gap {value!r} occurs {count} times."
        return [
            Evidence(
                self.name,
                Axis.LAW,
                p_value=p,
                statistic=float(count),
                n=n,
                effect=count / n,
                effect_name=self.effect_name,
                interval=clopper_pearson(count, n),
                min_detectable=self.min_effect(n, alpha),
                null=self.null,
                method="union bound over values",
                detail=detail,
            )
        ]


class Impossible(Statistic):
    """Events to which the target gives probability 0: one is proof, no p-value is needed."""

    name = "tail.impossible"
    null = "never happens"
    effect_name = "share of impossible events"

    def members(self, design: Design) -> int:
        return 0

    def min_effect(self, n: int, alpha: float, power: float = POWER) -> float:
        """1 - (1 - power)^(1/n): the share of impossible events of which n events contain one."""
        return -math.expm1(math.log1p(-power) / n)

    def evaluate(self, stream: PitStream, design: Design, alpha: float) -> list[Evidence]:
        batch, scores = stream.batch, stream.scores
        n = batch.n_events
        gap = np.isneginf(scores.log_density)
        kind = scores.type_probs.ravel().take(np.arange(n) * scores.type_probs.shape[1] + batch.types) <= 0.0
        bad = np.flatnonzero(gap | kind)
        detail = ""
        if len(bad):
            i, j = batch.locate(int(bad[0]))
            what = f"gap {batch.gaps[bad[0]]:g}" if gap[bad[0]] else f"type {batch.types[bad[0]]}"
            detail = (
                f"Sequence {i}, event {j}: the target gives probability 0 to {what} ({len(bad)} such events); "
                "no exact sampler emits it: look at the acceptance of ratios 0/0 and at the residual draw."
            )
        return [
            Evidence(
                self.name,
                Axis.LAW,
                passed=not len(bad),
                statistic=float(len(bad)),
                n=n,
                effect=len(bad) / max(n, 1),
                effect_name=self.effect_name,
                null=self.null,
                method="deterministic",
                detail=detail,
            )
        ]


register(Tail())
register(Atoms())
register(Impossible())
