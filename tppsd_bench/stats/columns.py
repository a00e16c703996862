"""The columns of the kill matrix: which family of statistics a piece of evidence belongs to, and one p-value a family and run."""

from __future__ import annotations

from collections.abc import Iterable

from tppsd_bench.errors import InputError
from tppsd_bench.results import Axis, Evidence

COLUMNS = (
    "preconditions", "pit_time", "pit_type", "tail", "pair", "strata", "score", "serial", "first_events", "cross_sequence", "counts",
    "draft_direction", "blackbox", "density_agreement", "draft_law", "acceptance_identity", "role_law", "support", "accounting",
    "reproducible", "e_process",
)  # fmt: skip
"""In the order in which people read them: the evidence's validity, the law (grey box, then black box), the mechanism, the monitor."""
KILL_LEVEL = 1e-4
"""A column kills a run where its p-value, adjusted for the column's own members, is at most this."""
_FIRST_EVENTS = frozenset({"1", "2", "3"})


def column(evidence: Evidence) -> str:
    """The column of one piece of evidence: its axis where it is about validity, else its family.

    The stratum of the first, second or third event alone is a column of its own. Raises InputError for a family without a column.
    """
    if evidence.axis is Axis.VALIDITY:
        return "preconditions"
    family = evidence.name.partition(".")[0]
    if family == "strata" and len(evidence.where) == 1 and evidence.where.get("event") in _FIRST_EVENTS:
        return "first_events"
    if family not in COLUMNS:
        raise InputError(
            f"The statistic {evidence.name!r} belongs to no column of the kill matrix; its family must be one of {', '.join(COLUMNS)}, "
            "or get a column in tppsd_bench.stats.columns."
        )
    return family


def column_p(evidence: Iterable[Evidence]) -> dict[str, float]:
    """Column -> p-value of one run: min(1, m min p) over the column's m p-values (Bonferroni); 0 where a deterministic check failed.

    Only what can decide counts (evidence marked ``display`` is for people). A column that was run and is silent has p = 1 at most; one
    of which nothing was run is absent. Valid: P(p <= a | exact) <= a for every column.
    """
    values: dict[str, list[float]] = {}
    proven: set[str] = set()
    for e in evidence:
        if e.display or (e.p_value is None and e.passed is None):
            continue
        found = values.setdefault(column(e), [])
        if e.passed is False:
            proven.add(column(e))
        elif e.p_value is not None:
            found.append(e.p_value)
    return {
        name: 0.0 if name in proven else min([1.0, *(len(values[name]) * p for p in values[name])])
        for name in COLUMNS if name in values
    }  # fmt: skip
