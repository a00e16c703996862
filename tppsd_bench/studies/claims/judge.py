"""From measured quantities and the claim's criteria to an outcome. Pure; nothing is fitted here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tppsd_bench.studies.outcomes import Found, agreed


@dataclass(frozen=True)
class Held:
    """One criterion and its quantities: where each interval lies."""

    quantity: str
    inside: tuple[Mapping[str, Any], ...]
    outside: tuple[Mapping[str, Any], ...]
    open: tuple[Mapping[str, Any], ...]

    @property
    def n(self) -> int:
        return len(self.inside) + len(self.outside) + len(self.open)


def hold(criterion: Mapping[str, Any], quantities: Sequence[Mapping[str, Any]]) -> Held:
    """Sort the quantities of this name: interval within the claimed range, disjoint from it, or neither."""
    low, high = (criterion.get(end) for end in ("at_least", "at_most"))
    least, most = (-float("inf") if low is None else low), (float("inf") if high is None else high)
    parts: dict[str, list[Mapping[str, Any]]] = {"inside": [], "outside": [], "open": []}
    for q in quantities:
        if q["name"] == criterion["quantity"]:
            where = (
                "inside"
                if least <= q["low"] and q["high"] <= most
                else "outside"
                if q["high"] < least or q["low"] > most
                else "open"
            )
            parts[where].append(q)
    return Held(criterion["quantity"], *(tuple(parts[w]) for w in ("inside", "outside", "open")))


def outcome(criteria: Sequence[Mapping[str, Any]], quantities: Sequence[Mapping[str, Any]]) -> Found:
    """Reproduced where all lies inside, refuted where all lies outside, else bounded; pending where no criterion has a quantity.

    A criterion without one, a rule of thumb that nowhere applied say, leaves its part of the claim open.
    """
    held = [hold(c, quantities) for c in criteria]
    if not any(h.n for h in held):
        return Found.PENDING
    if not all(h.n for h in held):
        return Found.BOUNDED
    return agreed([x for h in held for x in (*[True] * len(h.inside), *[False] * len(h.outside), *[None] * len(h.open))])
