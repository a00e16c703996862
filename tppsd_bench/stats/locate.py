"""Where a departure shows: one sentence from the stratified evidence of a run that failed.

Of every way of cutting the events (position in round, previous gap, previous type, event index, batch row, ...) the one is named along
which the departure differs most: where it is seen, and where as many events show nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tppsd_bench.results import Evidence

_SEEN, _NOTHING = 1e-4, 1e-2
"""p-values below which a stratum shows the departure, above which it does not (after multiplying by the strata of its cut)."""

_COMPONENTS = {
    "pit_time": "gaps",
    "pit_type": "types",
    "tail": "tails of the gaps",
    "gap_gap": "dependence of successive gaps",
    "gap_type": "dependence of gap and type",
}
_CUTS = {
    "position": "position in round",
    "k": "K of the round",
    "event": "event index",
    "previous_gap": "previous gap",
    "previous_type": "previous type",
    "batch_row": "batch row",
}


@dataclass(frozen=True)
class _Cut:
    component: str
    key: str
    seen: tuple[str, ...]
    nothing: tuple[str, ...]
    strongest: Evidence


def locate(evidence: Sequence[Evidence]) -> str:
    """A sentence or two: which component is off, and where; empty where nothing shows on its own."""
    return " ".join(filter(None, (_components(evidence), _strata(evidence))))


def _components(evidence: Sequence[Evidence]) -> str:
    """Which of gaps and types, pooled, are off and which are not."""
    pooled = {e.name: e.p_value for e in evidence if not e.where and e.p_value is not None}
    known = {"gaps": pooled.get("pit_time.neyman"), "types": pooled.get("pit_type.neyman")}
    off = [name for name, p in known.items() if p is not None and p < _SEEN]
    fine = [name for name, p in known.items() if p is not None and p > _NOTHING]
    if not off:
        return ""
    return f"The {' and the '.join(off)} are off" + (f", the {fine[0]} by themselves are not." if fine else ".")


def _strata(evidence: Sequence[Evidence]) -> str:
    cuts = [cut for cut in (_cut(group) for group in _groups(evidence)) if cut is not None]
    if not cuts:
        return ""
    sharp = [cut for cut in cuts if cut.nothing]
    if sharp:
        best = min(sharp, key=lambda cut: (cut.strongest.p_value or 0.0, -(cut.strongest.effect or 0.0)))
        return (
            f"It shows in the {best.component} at {_name(best.key)} {_values(best.seen)}, "
            f"and not at {_name(best.key)} {_values(best.nothing)}."
        )
    best = min(cuts, key=lambda cut: (cut.strongest.p_value or 0.0, -(cut.strongest.effect or 0.0)))
    return f"It shows in the {best.component} in every stratum, most at {_name(best.key)} {next(iter(best.strongest.where.values()))}."


def _groups(evidence: Sequence[Evidence]) -> list[list[Evidence]]:
    """Stratified evidence with p-values, by statistic and by the one key it is cut along."""
    found: dict[tuple[str, str], list[Evidence]] = {}
    for item in evidence:
        if item.p_value is not None and len(item.where) == 1 and item.name.startswith("strata."):
            found.setdefault((item.name, next(iter(item.where))), []).append(item)
    return [group for group in found.values() if len(group) > 1]


def _cut(group: list[Evidence]) -> _Cut | None:
    values = [(next(iter(item.where.values())), min(1.0, len(group) * (item.p_value or 0.0)), item) for item in group]
    seen = tuple(value for value, p, _ in values if p < _SEEN)
    if not seen:
        return None
    strongest = min((item for _, _, item in values), key=lambda item: (item.p_value or 0.0, -(item.effect or 0.0)))
    # a stratum clears itself only if its effect is far below the strongest, not merely for want of events
    nothing = tuple(
        value for value, p, item in values
        if p > _NOTHING and item.min_detectable is not None and item.min_detectable < (strongest.effect or 0.0)
    )  # fmt: skip
    component = _COMPONENTS.get(group[0].name.removeprefix("strata."), group[0].name)
    return _Cut(component, next(iter(strongest.where)), seen, nothing, strongest)


def _name(key: str) -> str:
    return _CUTS.get(key, key.replace("_", " "))


def _values(values: tuple[str, ...]) -> str:
    return " or ".join([", ".join(values[:-1]), values[-1]] if len(values) > 1 else values)
