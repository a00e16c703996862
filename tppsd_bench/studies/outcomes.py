"""What became of a published claim, from where the intervals of its measurements lie. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum


class Found(StrEnum):
    """What became of a claim."""

    REPRODUCED = "reproduced"
    """Every quantity's interval lies where the claim says."""
    BOUNDED = "bounded"
    """It holds under some of the conditions, or an interval reaches over a limit: the numbers say how far it carries."""
    REFUTED = "refuted"
    """Every quantity's interval lies wholly elsewhere."""
    NOT_TESTABLE = "not testable here"
    PENDING = "pending"


def agreed(inside: Sequence[bool | None]) -> Found:
    """Of one part or more, each wholly where the claim says (True), wholly elsewhere (False), or reaching over a limit (None)."""
    if all(x is True for x in inside):
        return Found.REPRODUCED
    return Found.REFUTED if all(x is False for x in inside) else Found.BOUNDED
