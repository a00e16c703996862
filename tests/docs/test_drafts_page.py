"""The tables of docs/drafts.md are those of the cards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reference_impls.drafts.table import HEADER, cards, points, table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "drafts.md"


@pytest.mark.parametrize("path", cards(), ids=lambda p: p.parts[-3])
def test_every_row_is_the_cards(path: Path) -> None:
    card = json.loads(path.read_text(encoding="utf-8"))
    text = PAGE.read_text(encoding="utf-8")
    assert HEADER in text
    assert (
        f"**{card['pair']}**: target {card['target']['parameters']:,} parameters, {card['target']['nll']['value']:.4f}" in text
    )
    missing = [line for line in table(card) if line not in text]
    assert not missing, "\n".join(missing)


def test_at_least_three_targets_have_a_zoo() -> None:
    assert len(cards()) >= 3


def test_points_are_written_with_a_true_minus_sign() -> None:
    assert points({"value": 0.0123, "low": -0.004, "high": 0.02}) == "+1.23 (−0.40 to +2.00)"
