"""What a finished cell could have missed: the smallest effects its first look would have found, and what no n finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tppsd_bench import budget
from tppsd_bench.results import Axis, CellResult, Evidence
from tppsd_bench.stats.base import POWER, REGISTRY, Z95
from tppsd_bench.stats.planning import Look, Smallest, smallest
from tppsd_bench.stats.whitebox.draft_direction import smallest_lambda

LAW_KINDS = ("law", "horizon")
_NOT_ANALYTIC = ("blackbox.", "screen.", "eprocess", "e_process")


@dataclass(frozen=True)
class Missed:
    """The reach of one cell."""

    cell: str
    pair: str
    draft: str
    kind: str
    n: int
    """Events of the first look."""
    n_types: int
    look: Look
    access: str
    """black | grey | white A (a trace) | white B (the draft's law too)."""
    smallest: tuple[Smallest, ...]
    strata: dict[str, tuple[float, float]]
    """By stratum (position, previous gap, ...): smallest and largest shift theta that one of its values alone would show."""
    not_possible: tuple[str, ...]

    def of(self, key: str) -> Smallest | None:
        return next((s for s in self.smallest if s.key == key), None)


def missed(cell: CellResult, power: float = POWER) -> Missed | None:
    """The reach of a law or horizon cell; None for other cells, broken ones, and those whose target gave no scores.

    Level, looks, family size and n of the first look are those that the run fixed in advance (``figures["design"]``); a cell
    without that record is read by its verdict and its list of evidence, which may lack a few members.
    """
    law = [e for e in cell.evidence if e.axis is Axis.LAW]
    pits = [e for e in law if e.name.startswith("pit_time")]
    if cell.kind not in LAW_KINDS or cell.error or not pits or not max(e.n for e in pits):
        return None
    look, n, n_types = _design(cell, law, max(e.n for e in pits))
    found = smallest(n, look, n_types, power=power)
    return Missed(
        cell.id, cell.pair, cell.draft, cell.kind, n, n_types, look, _access(cell), (*found, *_draft(cell, law, look, power)),
        _strata(law, look, power), cell.not_possible,
    )  # fmt: skip


def _design(cell: CellResult, law: Sequence[Evidence], n: int) -> tuple[Look, int, int]:
    """(look, events of the first look, types)."""
    fixed = cell.figures.get("design")
    if isinstance(fixed, dict):
        n_first = int(fixed.get("n_events") or n)
        return Look(int(fixed["tests"]), float(fixed["level"]), int(fixed["rounds"])), n_first, int(fixed["n_types"])
    family = [e for e in law if not e.name.startswith(_NOT_ANALYTIC) and _decides(e)]
    verdict = cell.verdict(Axis.LAW)
    share = budget.LAW_ANALYTIC_LEVEL / (budget.LAW_ANALYTIC_LEVEL + budget.PERMUTATION_LEVEL)
    level = verdict.level * share if verdict is not None and verdict.level else budget.LAW_ANALYTIC_LEVEL
    constant = next((e for e in law if e.name == "score.type.constant" and e.null.startswith("chi2(")), None)
    df = int(constant.null[5:-1]) if constant is not None else int(any(e.name.startswith("pit_type") for e in law))
    return Look(max(1, len(family)), level), n, df + 1


def _decides(e: Evidence) -> bool:
    return (e.p_value is not None and not e.display) or e.detail.startswith("Undersized")


def _access(cell: CellResult) -> str:
    names = {e.name.partition(".")[0] for e in cell.evidence}
    if names & {"draft_direction", "role_law", "draft_law"}:
        return "white B"
    return "white A" if names & {"acceptance_identity", "accounting"} else "grey"


def _draft(cell: CellResult, law: Sequence[Evidence], look: Look, power: float) -> list[Smallest]:
    """lambda by its own standard error (about 1 over the root of the information), and with the draft's distance from the target
    the total variation that it means."""
    out: list[Smallest] = []
    for what in ("gap", "type"):
        name = f"draft_direction.{what}"
        found = next((e for e in law if e.name == name and not e.where and e.interval is not None), None)
        if found is None or found.interval is None:
            continue
        error = (found.interval[1] - found.interval[0]) / (2 * Z95)
        lam = smallest_lambda(error, look.alpha, power)
        shown = lam if lam <= 1 else None
        out.append(
            Smallest(f"lambda_{what}", "lambda", f"share of the draft's law in the {what}s", name, None, shown, "score test")
        )
        rate = cell.figures.get(f"acceptance_{what}")
        if shown is not None and isinstance(rate, float):
            label = f"the {what}s, toward the draft"
            why = "lambda TV(p, q), TV(p, q) = 1 - acceptance"
            out.append(Smallest(f"draft_{what}", "TV", label, name, None, shown * (1 - rate), why))
    return out


def _strata(law: Sequence[Evidence], look: Look, power: float) -> dict[str, tuple[float, float]]:
    reach: dict[str, list[float]] = {}
    for e in law:
        if e.name == "strata.pit_time" and e.where and e.p_value is not None and e.n:
            reach.setdefault(next(iter(e.where)), []).append(REGISTRY["strata"].min_effect(e.n, look.alpha, power))
    return {stratum: (min(sizes), max(sizes)) for stratum, sizes in reach.items()}


ALWAYS = (
    "departures finer than every cell and smooth score: a density of the PIT that oscillates within eighths has a total variation "
    "up to 1/2 and a KS distance near 0",
    "dependence on parts of the history that no statistic looks at (beyond the preceding gap and type, lags 1, 2, 3, 5 and 8, the rate "
    "so far and the event's index), as long as everything averaged over it is right",
    "faults in contexts rarer than about one event in n",
    "whether the target fits its data: the law certified is the target's",
)
_BLACK = "faults that the reference arm shares (one event of the history missing in both), for there is no likelihood to tell"
_NO_TRACE = (
    "faults at one position of the round, but diluted by that position's share: without a trace there are no strata by position",
    "mechanism faults that leave the law right or almost right (a capped residual loop, wrong counts of forwards)",
)
_NO_DRAFT = "residual draws outside the support of (p - q)+ and acceptance at the wrong q: the draft's law was not given"
_COUNT_STOPPED = "the handling of a horizon: these cells stop by event count"
_UNMARKED = "anything about types: the sequences have one"


def blind_spots(access: str, *, horizon: bool, n_types: int) -> tuple[str, ...]:
    """What no number of events shows at this level of access, one clause each."""
    out = list(ALWAYS)
    if access == "black":
        out.append(_BLACK)
    if access in ("black", "grey"):
        out += _NO_TRACE
    if access in ("grey", "white A"):
        out.append(_NO_DRAFT)
    if not horizon:
        out.append(_COUNT_STOPPED)
    return (*out, *((_UNMARKED,) if n_types < 2 else ()))
