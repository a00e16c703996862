"""The section "What this suite would have noticed", put together. No HTML here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tppsd_bench.report.cells import CellView, Fact
from tppsd_bench.report.kill_matrix import Matrix, matrix
from tppsd_bench.report.power import faults_of, proof_cells, sentence, summary_facts
from tppsd_bench.report.power_members import confused, hidden, member_views
from tppsd_bench.report.power_tables import Table, tables
from tppsd_bench.results import CellResult


@dataclass(frozen=True)
class Proof:
    """The section and its first screen."""

    sentence: str
    facts: tuple[Fact, ...]
    matrix: Matrix | None
    tables: Mapping[str, Table]
    hidden: tuple[str, ...]
    members: tuple[CellView, ...]
    confused: tuple[str, ...]
    n_faults: int


def proof(cells: Sequence[CellResult], run: Mapping[str, Any]) -> Proof | None:
    """The section's content, or None for a run without cells of a proof."""
    mine = proof_cells(cells)
    if not mine:
        return None
    return Proof(
        sentence(mine),
        summary_facts(mine),
        matrix(mine),
        tables(mine),
        hidden(mine),
        member_views(mine, run),
        confused(mine),
        len(faults_of(mine)),
    )
