"""LSTM or Transformer, by length of history? The study ``drafts`` asks at length; this is its core."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tppsd_bench.studies.base import StudyTable
from tppsd_bench.studies.claims.measures.base import Context, Measured, estimated
from tppsd_bench.studies.drafts.over_history import counted
from tppsd_bench.studies.drafts.table import Drafts, History


class Settings(StudyTable):
    length: Annotated[int, Field(ge=20)] = 1000
    sequences: Annotated[int, Field(ge=4)] = 8
    transformer: str = "transformer-1"
    recurrent: str = "lstm"


def measure(context: Context, settings: Settings) -> Measured:
    """Exact acceptance of the small Transformer less that of the LSTM, on the same events, by how many events came before."""
    drafts = [settings.recurrent, settings.transformer]
    history = History(
        drafts=drafts, transformer=settings.transformer, recurrent=settings.recurrent, length=settings.length,
        sequences=settings.sequences,
    )  # fmt: skip
    table = Drafts(history={context.name: history})
    figures = counted(context.studied(table, "drafts"), context.pair)[0].figures
    found = []
    for name, scale in figures["scales"].items():
        where = f"{context.name}, {scale['first']:,} to {scale['end']:,} events before"
        label = f"acceptance, {settings.transformer} less {settings.recurrent}, histories of {name}"
        gap = scale["transformer_minus_recurrent"]
        found.append(estimated(f"after_{name}", label, gap, where, settings.sequences, "points", 100.0))
    trained = figures["trained_events"]
    return Measured(tuple(found), f"Trained on sequences of {trained:,} events." if trained else "")
