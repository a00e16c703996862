"""Does a key/value cache matter more than padding, and does packing by length gain? The study ``speedup`` has the four arms."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tppsd_bench.runner.plan import CellSpec
from tppsd_bench.studies.base import StudyTable
from tppsd_bench.studies.claims.measures.base import Context, Measured, estimated, exactly
from tppsd_bench.studies.speedup.packing import run_packing
from tppsd_bench.studies.speedup.table import Grid, Packing, Speedup


class Settings(StudyTable):
    k: Annotated[int, Field(ge=1)] = 5
    sequences: Annotated[int, Field(ge=2)] = 32
    longest: Annotated[int, Field(ge=20)] = 400


def measure(context: Context, settings: Settings) -> Measured:
    """CPU time of recomputed over cached, and of requests as they come over requests sorted by length, in the same pairs.

    ``cache_over_packing``: least end of the cache's intervals over the largest end of packing's; above 1, caching gains more for sure.
    """
    packing = Packing(pairs=[context.name], k=settings.k, sequences=settings.sequences, longest=settings.longest)
    table = Speedup(grid=[Grid(pairs=[context.name], k=[1, 2])], packing=packing)
    cell = CellSpec(f"speedup-time.packing.{context.name}", "speedup-time", context.name, "shipped")
    figures = run_packing(context.studied(table, "speedup"), cell, context.pair)[0].figures
    n, cache, packed = figures["n_pairs"], figures["cache_gain"], figures["packing_gain"]
    found = [
        estimated("cache_gain", "speed with a cache over recomputing", g, f"{context.name}, {o}", n, "times")
        for o, g in cache.items()
    ]
    found += [
        estimated("packing_gain", "speed sorted by length over as they come", g, f"{context.name}, {c}", n, "times")
        for c, g in packed.items()
    ]
    apart = min(g["low"] for g in cache.values()) / max(g["high"] for g in packed.values())
    label = "gain of the cache over gain of packing, at the least"
    return Measured((*found, exactly("cache_over_packing", label, apart, context.name, n, "times")))
