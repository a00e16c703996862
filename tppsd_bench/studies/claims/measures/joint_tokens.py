"""Must a token be verified jointly, and is a draft that factorises it accepted more? The study ``buckets`` asks at length."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tppsd_bench.runner.plan import CellSpec
from tppsd_bench.studies.base import StudyTable
from tppsd_bench.studies.buckets.contexts import Contexts, mean
from tppsd_bench.studies.buckets.table import Buckets
from tppsd_bench.studies.buckets.token_drafts import drafts_cell
from tppsd_bench.studies.buckets.verified_apart import apart_cell
from tppsd_bench.studies.claims.measures.base import Context, Measured, estimated


class Settings(StudyTable):
    contexts: Annotated[int, Field(ge=32)] = 512
    heads: dict[str, str] = {"transformer-1": "transformer-1-joint", "gru": "gru-joint"}
    """Drafts that factorise the token, each with its sibling of the same architecture over joint tokens."""


def measure(context: Context, settings: Settings) -> Measured:
    """Exact sums over tokens, one history of each sequence.

    ``apart_tv`` and ``redrawn_tv``: total variation between the target's law and what comes out where bucket and type are verified, or
    redrawn after joint verification, each on its own. ``joint_gain``: acceptance of the joint rule less that of bucket-then-type.
    """
    table = Buckets(pairs=[context.name], contexts=settings.contexts)
    contexts = Contexts(context.studied(table, "buckets"), context.pair)
    cell = CellSpec(f"buckets.apart.{context.name}", "buckets", context.name, table.draft)
    n, apart = settings.contexts, apart_cell(cell, contexts)[0].figures["drafts"]
    found = []
    for name, numbers in apart.items():
        where = f"{context.name}, {name} draft"
        found += [
            estimated("apart_tv", "TV from the target's law, verified apart", numbers["apart"], where, n),
            estimated("redrawn_tv", "TV from the target's law, redrawn apart", numbers["redrawn"], where, n),
            estimated("joint_gain", "acceptance of the joint rule less that of two exact steps", numbers["lost_two_step"], where, n,
                      "points", 100.0),
        ]  # fmt: skip
    arrays = drafts_cell(cell, contexts)[1]
    for factorised, joint in settings.heads.items():
        gain = mean(arrays[f"{factorised}_joint"] - arrays[f"{joint}_joint"])
        where, label = f"{context.name}, {factorised}", "acceptance with a factorised head less that with a joint one"
        found.append(estimated("factorised_gain", label, gain, where, n, "points", 100.0))
    return Measured(tuple(found))
