"""A site: one pair, draft, batch and length. Its K's share the baselines, and are timed side by side."""

from __future__ import annotations

from collections import ChainMap
from dataclasses import dataclass, replace
from typing import Any

from tppsd_bench.errors import InputError
from tppsd_bench.studies.speedup.table import Speedup

TARGET = "target"
"""Name of the draft that is the target itself: as expensive as can be, and never wrong."""
KIND = "speedup-time"


@dataclass(frozen=True)
class Site:
    pair: str
    draft: str
    batch: int
    length: int
    ks: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"{self.pair}.{self.draft.replace('/', '-')}.b{self.batch}.n{self.length}"

    @property
    def cell(self) -> str:
        """Id of the cell that is measured."""
        return f"{KIND}.{self.name}"

    @property
    def promise(self) -> str:
        """Id of the cell that holds the law's predictions, written before anything is timed."""
        return f"{KIND}.law.{self.name}"


def sites(table: Speedup) -> list[Site]:
    """The sites of all grids in their order; a site of several grids is timed once, at the K's of them all."""
    ks: dict[tuple[str, str, int, int], set[int]] = {}
    for grid in table.grid:
        for pair in grid.pairs:
            for draft in grid.drafts:
                for length in grid.length:
                    for batch in grid.batch:
                        ks.setdefault((pair, draft, batch, length), set()).update(grid.k)
    return [Site(*key, tuple(sorted(values))) for key, values in ks.items()]


def with_draft(pair: Any, draft: str, load: Any) -> Any:
    """The pair with ``draft`` among its drafts: one of its own, the target, or another pair's (``load(name)``).

    InputError where there is none of that name, or where its events are of other types than the target's.
    """
    if draft in pair.drafts:
        return pair
    if draft == TARGET:
        found = pair.target
    else:
        other, _, name = draft.partition("/")
        if not name:
            raise InputError(
                f"pair {pair.name!r} has no draft {draft!r}; its own are {', '.join(pair.drafts)}. Give one of them, {TARGET!r}, or "
                "PAIR/DRAFT for a draft of another pair."
            )
        drafts = load(other).drafts
        if name not in drafts:
            raise InputError(f"pair {other!r} has no draft {name!r}; its own are {', '.join(drafts)}.")
        found = drafts[name]
    if found.n_types != pair.target.n_types:
        raise InputError(
            f"draft {draft!r} knows {found.n_types} types of events, the target of {pair.name!r} {pair.target.n_types}; "
            "a draft proposes events of the target's types."
        )
    return replace(pair, drafts=ChainMap({draft: found}, pair.drafts))


def spread_over(ks: tuple[int, ...], n: int) -> tuple[int, ...]:
    """``n`` of the K's (all, where there are no more), evenly by rank, the first and the last among them."""
    if n >= len(ks):
        return ks
    return tuple(dict.fromkeys(ks[round(i * (len(ks) - 1) / (n - 1))] for i in range(n)))
