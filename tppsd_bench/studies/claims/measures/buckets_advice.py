"""Must time be cut into buckets, by quantiles, into about a hundred? The study ``buckets`` asks at length; this is its core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from tppsd_bench.runner.plan import CellSpec
from tppsd_bench.studies.base import StudyTable
from tppsd_bench.studies.buckets.contexts import Contexts
from tppsd_bench.studies.buckets.maps import map_cell
from tppsd_bench.studies.buckets.ratios import ratio_cell
from tppsd_bench.studies.buckets.reading import point
from tppsd_bench.studies.buckets.table import Buckets
from tppsd_bench.studies.claims.measures.base import Context, Measured, Quantity, estimated, exactly


class Settings(StudyTable):
    few: Annotated[int, Field(ge=2)] = 10
    start: Annotated[int, Field(ge=2)] = 100
    """The number advised to start with."""
    many: Annotated[int, Field(ge=2)] = 500
    contexts: Annotated[int, Field(ge=32)] = 256


def measure(context: Context, settings: Settings) -> Measured:
    """Extreme density ratios in continuous time; nats lost by strategy; atoms and acceptance at few, the advised and many buckets."""
    numbers = [settings.few, settings.start, settings.many]
    table = Buckets(
        pairs=[context.name],
        strategies=["quantile", "equal_width"],
        buckets=numbers,
        within=["uniform"],
        contexts=settings.contexts,
    )
    contexts = Contexts(context.studied(table, "buckets"), context.pair)
    cell = CellSpec(f"buckets.map.{context.name}", "buckets", context.name, table.draft)
    mapped, (ratios, _) = map_cell(cell, contexts)[0], ratio_cell(cell, contexts)
    plain = ratios.figures["drafts"][table.draft]["continuous"]
    n = settings.contexts
    found = [
        estimated("extreme_ratios", "share of proposals with a ratio beyond 1,000 or its inverse", plain["beyond"], context.name,
                  n * table.proposals, "percent")
    ]  # fmt: skip
    for number in numbers:
        wide = point(mapped, "equal_width", number)
        if wide is not None and "less_quantile" in wide:
            label, where = "nats that equal width loses more than quantiles", f"{context.name}, {number} buckets"
            found.append(estimated("width_less_quantile", label, wide["less_quantile"]["information"], where, n))
    found += _by_number(context, settings, {m: p for m in numbers if (p := point(mapped, "quantile", m)) is not None})
    for other in mapped.figures.get("start", ()):
        if other["buckets"] == settings.many:
            fall = {"value": -other["joint"]["value"], "low": -other["joint"]["high"], "high": -other["joint"]["low"]}
            where = f"{context.name}, {settings.start} to {settings.many} quantile buckets"
            found.append(
                estimated("acceptance_lost", "acceptance that more buckets cost, points", fall, where, n, "points", 100.0)
            )
    return Measured(tuple(found))


def _by_number(context: Context, settings: Settings, points: Mapping[int, Mapping[str, Any]]) -> list[Quantity]:
    out: list[Quantity] = []
    for number, p in points.items():
        where = f"{context.name}, {number} quantile buckets"
        if number == settings.start:
            out.append(
                estimated("nats_lost", "nats an event lost at the advised number", p["information"], where, settings.contexts)
            )
        if number != settings.start:
            name = "tie_with_few" if number == settings.few else "tie_with_many"
            label = "events among which two of a decoder without a law inside buckets are tied (probability .95)"
            out.append(exactly(name, label, p["middles"]["tie"], where))
    return out
