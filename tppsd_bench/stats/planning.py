"""What a sample can find, and what a fault costs to be found: total variation, KS distance, shift theta, departure lambda.

Two different things can happen to a fault. It is *refused* when the cell can no longer PASS: a primary effect of the size of its
margin keeps its 95 % bound above it. It is *proven* when a deciding test rejects at the first look: FAIL. The first needs fewer
events, the second is what ``min_n`` and ``min_effect`` of the statistics speak about. KS is a primary effect and refuses; it has
no vote on FAIL, so a KS distance is proven only through what it implies for the tests that do.

Total variation says how much of the law is wrong, not in which direction, and power depends on the direction. With h the density of
the PIT u less 1, TV = 1/2 int |h|, H(u) = int_0^u h and theta_1 = -2 sqrt(3) int H:

* linear tilt h = c (2u - 1): TV = c/4, theta_1 = c / sqrt(3) = 4 TV / sqrt(3);
* h monotone: H is convex (or concave), max |H| = TV = KS, so int |H| >= TV / 2 and |theta_1| >= sqrt(3) TV; sharp for theta_1
  alone (the vector of four is at least 1.84 TV, by quadratic programming);
* h of one sign change: KS = TV still, but as h >= -1 only int |H| >= TV^2 / 2 is left: |theta_1| >= sqrt(3) TV^2;
* any h that a partition sees: Cauchy-Schwarz gives w = sqrt(sum (P - P0)^2 / P0) >= 2 TV on the cells of the partition;
* (1 - lambda) p + lambda q: TV = lambda TV(p, q), and sqrt(E_p (q/p - 1)^2) >= 2 TV(p, q) by the same inequality. The terms are
  as skewed as q/p, so the critical value is that of Freedman's inequality.

What oscillates faster than every cell has a total variation up to 1/2 and effects near 0: no n finds it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tppsd_bench import budget
from tppsd_bench.errors import InputError
from tppsd_bench.results import Axis
from tppsd_bench.stats import grey, whitebox
from tppsd_bench.stats.base import POWER, REGISTRY, noncentrality
from tppsd_bench.stats.neyman import MIN_VALUES, ORDER
from tppsd_bench.stats.pairs import GRID, type_cells
from tppsd_bench.stats.strata import standard_strata
from tppsd_bench.stats.whitebox.draft_direction import smallest_lambda

DIRECTION_GAPS = 8192
"""Gaps that draft_direction integrates: more events do not sharpen it (``inspect_run`` with its default ``max_rows``)."""
_NEYMAN = "pit_time.neyman"


@dataclass(frozen=True)
class Look:
    """A cell's first look: one of ``tests`` p-values has to reach ``alpha`` for the cell to FAIL there (later looks only add)."""

    tests: int
    level: float = budget.LAW_ANALYTIC_LEVEL
    """The cell's share of the run's error level."""
    rounds: int = budget.CONFIRMATION_ROUNDS

    @property
    def alpha(self) -> float:
        """Level of one single test: the first threshold of the confirmation rule over the number of tests."""
        return budget.confirmation_thresholds(self.level, self.rounds)[0][0] / self.tests


def standard_look(
    n_types: int, k: int, *, white: bool, level: float = budget.LAW_ANALYTIC_LEVEL, rounds: int = budget.CONFIRMATION_ROUNDS
) -> Look:
    """The look of a cell with ``n_types`` types and rounds of ``k`` events; ``white``: the draft's law is there too."""
    tests = grey.family_size(n_types, standard_strata(n_types, max_k=k, batch_row=True))
    if white:
        tests += whitebox.family_size("leviathan_two_step", n_types, has_draft=True, axis=Axis.LAW)
    return Look(tests, level, rounds)


@dataclass(frozen=True)
class Direction:
    """A kind of departure: its test has an effect of (at least) ``slope`` TV^``exponent``."""

    key: str
    label: str
    statistic: str
    """The deciding test that finds it."""
    df: int
    """Degrees of freedom of that test's chi-square (1: a normal test)."""
    slope: float
    why: str
    exponent: int = 1
    refusal: float | None = None
    """From (refusal / TV)^2 events on the cell cannot PASS; None: no primary effect is bound to show it."""
    largest: float = 1.0
    """The total variation that this kind of departure can reach."""
    least_n: int = MIN_VALUES
    """Events below which the test is not made."""
    most_n: int | None = None
    """Events that the test uses at most."""

    def proven_n(self, tv: float, alpha: float, power: float = POWER) -> int | None:
        """Events after which TV ``tv`` in this direction is proven with this power; None where no number of events does it."""
        if not 0 < tv <= self.largest:
            return None
        n = math.ceil(noncentrality(self.df, alpha, power) / (self.slope * tv**self.exponent) ** 2)
        return None if self.most_n is not None and n > self.most_n else max(n, self.least_n)

    def refused_n(self, tv: float) -> int | None:
        """Events from which a cell with this departure cannot PASS."""
        return math.ceil((self.refusal / tv) ** 2) if self.refusal is not None and 0 < tv <= self.largest else None

    def proven_tv(self, n: int, alpha: float, power: float = POWER) -> float | None:
        """Smallest TV that ``n`` events prove; None where they prove none."""
        if n < self.least_n:
            return None
        used = n if self.most_n is None else min(n, self.most_n)
        tv = float((math.sqrt(noncentrality(self.df, alpha, power) / used) / self.slope) ** (1 / self.exponent))
        return tv if tv <= self.largest else None

    def refused_tv(self, n: int) -> float | None:
        """TV above which ``n`` events leave no PASS."""
        tv = None if self.refusal is None else self.refusal / math.sqrt(n)
        return tv if tv is not None and tv <= self.largest else None


def directions(n_types: int, *, draft_tv: float | None = None) -> tuple[Direction, ...]:
    """The kinds of departure that planning knows: gaps, then types, then (with the draft's law at hand) toward the draft."""
    root, shift, ks = math.sqrt(3), budget.THETA_MARGIN_SCALE, budget.KS_MARGIN_SCALE
    tilt = Direction(
        "tilt", "a smooth tilt of the gaps", _NEYMAN, ORDER, 4 / root, "density of the PIT 1 + c(2u - 1): theta_1 = 4 TV / sqrt 3",
        refusal=shift * root / 4, largest=0.25,
    )  # fmt: skip
    monotone = Direction(
        "monotone", "a departure of the gaps that only rises or only falls", _NEYMAN, ORDER, root,
        "guaranteed: theta_1 >= sqrt 3 TV", refusal=min(shift / root, ks),
    )  # fmt: skip
    crossing = Direction(
        "crossing", "a departure of the gaps with one crossing, however sharp", _NEYMAN, ORDER, root,
        "guaranteed: KS = TV refuses, theta_1 >= sqrt 3 TV^2 proves", exponent=2, refusal=ks,
    )  # fmt: skip
    out = [tilt, monotone, crossing]
    if n_types > 1:
        columns = type_cells(n_types)
        out += [
            Direction(
                "grid", f"gap and type together, any shape that {GRID} x {columns} cells see", "pair.gap_type",
                GRID * columns - 1, 2.0, "guaranteed: w >= 2 TV on the cells",
                least_n=math.ceil(budget.MIN_EXPECTED_SMALL_P * GRID * columns),
            ),
            Direction(
                "types", "a shift of the types' frequencies", "score.type", n_types - 1, 2.0,
                "guaranteed: w >= 2 TV; types expected under 100 times are taken together",
            ),
        ]  # fmt: skip
    return (*out, *(() if draft_tv is None else toward_draft(draft_tv, n_types)))


@dataclass(frozen=True)
class TowardDraft(Direction):
    """(1 - lambda) p + lambda q with TV(p, q) = ``draft_tv``: what most faults leave in the output.

    The score has information sigma^2 >= 4 n TV(p, q)^2 and mean lambda sigma; its terms are bounded, but may be as skewed as they
    like (``smallest_lambda``).
    """

    draft_tv: float = 0.3

    def proven_tv(self, n: int, alpha: float, power: float = POWER) -> float | None:
        sigma = self.slope * self.draft_tv * math.sqrt(n if self.most_n is None else min(n, self.most_n))
        lam = smallest_lambda(1 / sigma, alpha, power)
        return lam * self.draft_tv if lam <= 1 else None

    def proven_n(self, tv: float, alpha: float, power: float = POWER) -> int | None:
        if not 0 < tv <= self.draft_tv:
            return None
        low, high = 0, 2
        while not self._finds(tv, high, alpha, power):
            if high > (self.most_n or 10**15):
                return None
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._finds(tv, middle, alpha, power) else (middle, high)
        return None if self.most_n is not None and high > self.most_n else high

    def _finds(self, tv: float, n: int, alpha: float, power: float) -> bool:
        found = self.proven_tv(n, alpha, power)
        return found is not None and found <= tv


def toward_draft(draft_tv: float, n_types: int) -> tuple[Direction, ...]:
    """Gaps (the draft's ``draft_tv`` taken as that of the gaps) and, where there are any, types (taken as that of the types)."""
    why = "guaranteed while q/p <= 21: score of mean at least 2 lambda TV(p, q) sqrt n"
    gap = TowardDraft(
        "draft_gap", f"the gaps, toward a draft of TV {draft_tv:g}", "draft_direction.gap", 1, 2.0, why, largest=draft_tv,
        most_n=DIRECTION_GAPS, draft_tv=draft_tv,
    )  # fmt: skip
    if n_types < 2:
        return (gap,)
    of_types = f"the types, toward a draft of TV {draft_tv:g}"
    return gap, replace(gap, key="draft_type", label=of_types, statistic="draft_direction.type", most_n=None)


# -- how many events does it take ---------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Need:
    """Events until a departure can no longer pass, and until it is proven; None: no number of events is sure to do it."""

    key: str
    label: str
    statistic: str
    refused: int | None
    proven: int | None
    why: str


NEVER = Need(
    "hidden", "any direction, however fine", "", None, None,
    "a density that oscillates within every cell has a total variation up to 1/2 and shows nowhere",
)  # fmt: skip


def need_tv(tv: float, look: Look, n_types: int, *, draft_tv: float | None = None, power: float = POWER) -> tuple[Need, ...]:
    """Events until a total variation of ``tv`` is found, by direction."""
    _positive("total variation", tv, 1.0)
    return (*(_need(d, tv, look, power) for d in directions(n_types, draft_tv=draft_tv) if tv <= d.largest), NEVER)


def _need(d: Direction, tv: float, look: Look, power: float, prefix: str = "") -> Need:
    proven = d.proven_n(tv, look.alpha, power)
    capped = f"; reads {d.most_n:,} of them at most, more do not help" if d.most_n is not None and proven is None else ""
    return Need(d.key, prefix + d.label, d.statistic, d.refused_n(tv), proven, d.why + capped)


def need_ks(ks: float, look: Look, *, power: float = POWER) -> tuple[Need, ...]:
    """Events until a Kolmogorov-Smirnov distance ``ks`` of the PIT is found: refused in any shape, proven in some."""
    _positive("KS distance", ks, 1.0)
    any_shape = Need(
        "ks", "any shape", "pit_time.ks", math.ceil((budget.KS_MARGIN_SCALE / ks) ** 2), None,
        "guaranteed: no PASS while the KS distance is at its margin; KS itself proves nothing, it has no vote on FAIL",
    )  # fmt: skip
    shown = Need(
        "ks_shown", "any shape, by the p-value of KS that is shown", "", None,
        REGISTRY["pit_time.ks"].min_n(ks, look.alpha, power), "DKW, sufficient; for people, decides nothing",
    )  # fmt: skip
    shapes = [d for d in directions(1) if ks <= d.largest]
    return (any_shape, *(_need(d, ks, look, power) for d in shapes), shown)


def need_theta(theta: float, look: Look, *, power: float = POWER) -> tuple[Need, ...]:
    """Events until a shift theta (any theta_k of the gap or type PIT, or the length of the four) is found."""
    _positive("shift theta", theta, math.sqrt(3))
    refused = math.ceil((budget.THETA_MARGIN_SCALE / theta) ** 2)
    proven = max(MIN_VALUES, REGISTRY[_NEYMAN].min_n(theta, look.alpha, power))
    return (
        Need("theta", "a shift theta of the gap or type PIT", _NEYMAN, refused, proven, "chi2(4), noncentrality n theta^2"),
    )


def need_lambda(lam: float, draft_tv: float, look: Look, n_types: int, *, power: float = POWER) -> tuple[Need, ...]:
    """Events until the draft's law is found in the output with weight ``lam``, TV(p, q) = ``draft_tv``."""
    _positive("departure lambda", lam, 1.0)
    _positive("draft's total variation", draft_tv, 1.0)
    tv = lam * draft_tv
    without = [d for d in directions(n_types) if d.key in ("tilt", "monotone", "types") and tv <= d.largest]
    return (
        *(_need(d, tv, look, power) for d in toward_draft(draft_tv, n_types)),
        *(_need(d, tv, look, power, "without the draft's law, as ") for d in without),
    )


def _positive(what: str, value: float, largest: float) -> None:
    if not 0 < value <= largest:
        raise InputError(f"The {what} is {value:g}; expected a number above 0 and at most {largest:.3g}.")


# -- what do so many events find ----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Smallest:
    """The smallest effect that ``n`` events refuse and prove; smaller ones escape more often than the power allows."""

    key: str
    unit: str
    """theta | KS | TV | lambda | w | ratio."""
    label: str
    statistic: str
    refused: float | None
    proven: float | None
    why: str


def smallest(n: int, look: Look, n_types: int, *, draft_tv: float | None = None, power: float = POWER) -> tuple[Smallest, ...]:
    """What ``n`` events find, in every direction that planning knows."""
    if n < 1:
        raise InputError(f"The number of events is {n}; expected at least 1.")
    alpha, enough = look.alpha, n >= MIN_VALUES
    theta, tail, pair = (REGISTRY[name].min_effect(n, alpha, power) for name in (_NEYMAN, "tail", "pair.gap_gap"))
    scales = (
        Smallest("theta", "theta", "shift theta of the gap or type PIT", _NEYMAN, budget.delta_theta(n),
                 theta if enough else None, "chi2(4)"),
        Smallest("ks", "KS", "KS distance of the PIT, any shape", "pit_time.ks", budget.delta_ks(n), None,
                 "at its margin nothing passes; KS has no vote on FAIL"),
    )  # fmt: skip
    kinds = [
        Smallest(d.key, "TV", d.label, d.statistic, d.refused_tv(n), d.proven_tv(n, alpha, power), d.why)
        for d in directions(n_types, draft_tv=draft_tv)
    ]
    others = (
        Smallest("tail", "ratio", "mass beyond a 1 % cut of the gaps, as a multiple", "tail", None, 1 + tail, "exact binomial"),
        Smallest("pair", "w", "dependence of neighbouring gaps on 8 x 8 cells, w", "pair.gap_gap", None,
                 pair if math.isfinite(pair) else None, "chi2(49)"),
    )  # fmt: skip
    return (*scales, *kinds, *others)
