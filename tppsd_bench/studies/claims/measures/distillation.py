"""What distillation adds to a draft's acceptance, on fresh histories of this run."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tppsd_bench.studies.base import StudyTable
from tppsd_bench.studies.claims.measures.base import Context, Measured, estimated
from tppsd_bench.studies.drafts.counted import Ground, acceptance
from tppsd_bench.studies.drafts.table import Drafts


class Settings(StudyTable):
    drafts: list[str] = ["gru-distilled", "lstm-distilled", "transformer-1-distilled", "convolution-distilled"]
    """Each beside its plain sibling: the same name without ``-distilled``."""
    sequences: Annotated[int, Field(ge=8)] = 64
    contexts: Annotated[int, Field(ge=1)] = 16


def measure(context: Context, settings: Settings) -> Measured:
    """Exact acceptance, distilled less plain, paired by event; 95 % over sequences."""
    table = Drafts(pairs=[context.name], sequences=settings.sequences, contexts=settings.contexts)
    ground = Ground(context.studied(table, "drafts"), context.pair)
    found = []
    for name in settings.drafts:
        gain = acceptance(ground, name)["acceptance_minus_plain"]
        where = f"{context.name}, {name.removesuffix('-distilled')}"
        found.append(estimated("gain", "acceptance, distilled less plain", gain, where, settings.sequences, "points", 100.0))
    return Measured(tuple(found))
