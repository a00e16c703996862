"""The section of drafts from cells made by hand: what is marked, what is called slow, what the claim about histories comes to."""

from __future__ import annotations

from typing import Any

import pytest

from reference_impls.pairs import draft_cards, drafts_of
from tppsd_bench.results import CellResult
from tppsd_bench.studies.drafts import maps, pictures, said
from tppsd_bench.studies.drafts.reading import Results


def span(value: float, half: float = 0.05) -> dict[str, float]:
    return {"value": value, "low": value - half, "high": value + half}


def timed(pair: str, draft: str, speed: float, calibrated: float) -> CellResult:
    row = {"k": 3, **span(speed), "draft_share": 0.2, "predicted": speed}
    figures = {"best_k": 3, "calibrated_ms": calibrated, "speedup_cpu": span(speed), "speedup_by_k": [row], "draft_share": 0.2,
               "draft_step": 0.1, "verify_step": {"3": 1.0}, "rest_step": 0.2}  # fmt: skip
    return CellResult(f"drafts-time.{pair}.{draft}", "drafts-time", pair, draft, "", k=3, figures=figures)


def counted(pair: str, draft: str, accepted: float, gain: dict[str, float] | None = None) -> CellResult:
    figures: dict[str, Any] = {"acceptance_event": span(accepted, 0.01)}
    figures |= {"acceptance_minus_plain": gain} if gain else {}
    return CellResult(f"drafts.{pair}.{draft}", "drafts", pair, draft, "", figures=figures)


CELLS = [
    counted("a", "gru", 0.9), counted("a", "gru-distilled", 0.95, span(0.05, 0.01)), counted("a", "renewal", 0.7),
    counted("b", "gru-distilled", 0.8, span(0.002, 0.01)), timed("a", "gru", 2.0, 0.5), timed("a", "gru-distilled", 2.2, 0.6),
    timed("a", "renewal", 0.9, 0.9), timed("b", "gru-distilled", 1.0, 0.4),
]  # fmt: skip


def test_the_draft_chosen_on_calibration_seeds_is_marked_not_the_fastest_of_the_judged_ones() -> None:
    shown = dict(maps.speed_map(Results.of(CELLS)).rows)
    assert [s.best for s in shown["gru"]] == [True, False]
    assert not any(s.best for s in shown["gru-distilled"])  # faster here, and the only one of its pair there
    assert [s.fail for s in shown["renewal"]] == [True, False]
    assert not shown["gru-distilled"][1].fail  # 0.95 to 1.05 is not slower
    assert shown["gru"][1].text == ""


def test_the_headline_is_of_the_chosen_drafts() -> None:
    assert said.fastest(Results.of(CELLS)) == (
        "Draft and K chosen on calibration seeds, speculation runs at 1.00× (b) to 2.00× (a) the speed of cached target-only sampling. "
        "Of several drafts, the choice fell on gru on 1 of 1 pairs."
    )


def test_the_highest_acceptance_of_a_pair_is_marked_and_floors_come_last() -> None:
    rows = maps.acceptance_map(Results.of(CELLS)).rows
    assert [name for name, _ in rows] == ["gru", "gru-distilled", "renewal"]
    assert [[s.best for s in row] for _, row in rows] == [[False, False], [True, False], [False, False]]


def test_gains_are_told_by_data_set() -> None:
    found = Results.of(CELLS)
    assert said.distilled(found) == "Distilled less plain, points of acceptance: +5.0 on a, +0.2 on b."
    first = maps.gain_table(found).rows[0]
    assert (first.head, first.cells[0], first.cells[3]) == ("a", "gru", "+5.00 (+4.00 to +6.00)")


def test_every_picture_draws_the_same_drafts() -> None:
    many = [timed(p, d, 1.0 + i / 10, 1.0) for p in "ab" for i, d in enumerate("cdefghi")]
    assert pictures.drawn_drafts(Results.of([*many, timed("a", "only-here", 9.0, 1.0)])) == ["c", "f", "g", "h", "i"]
    assert pictures.drawn_drafts(Results.of(many)) == ["c", "f", "g", "h", "i"]


def history(gaps: dict[str, tuple[int, int, dict[str, float]]], trained: int) -> CellResult:
    scales = {
        name: {"first": first, "end": end, "acceptance": {}, "transformer_minus_recurrent": gap}
        for name, (first, end, gap) in gaps.items()
    }
    figures = {"scales": scales, "transformer": "tr", "recurrent": "lstm", "trained_events": trained}
    return CellResult("drafts.history.a", "drafts", "a", "", "", figures=figures)


def test_the_claim_about_histories_is_held_to_each_scale() -> None:
    cell = history(
        {
            "tens": (10, 100, span(-0.02, 0.01)),
            "hundreds": (100, 1000, span(0.03, 0.04)),
            "thousands": (1000, 2000, span(-0.3)),
        },
        400,
    )
    assert said.history(cell) == (
        "a, histories of tens: lstm ahead of tr by 2.0 points (1.0 to 3.0); hundreds: tr and lstm not told apart (−1.0 to +7.0 points); "
        "thousands: lstm ahead of tr by 30.0 points (25.0 to 35.0). "
        "Its sequences had 400 events in training; beyond, target and drafts extrapolate."
    )
    assert said.verdict([cell]) == (
        "tens: as claimed on a; hundreds: open on a (extrapolating); thousands: against the claim on a (extrapolating)."
    )


@pytest.mark.parametrize(("value", "scale", "word"), [(-0.1, "tens", "as claimed"), (0.1, "tens", "against the claim"),
                                                      (0.1, "hundreds", "as claimed"), (-0.1, "hundreds", "against the claim")])  # fmt: skip
def test_the_claim_is_lstm_at_tens_and_transformer_beyond(value: float, scale: str, word: str) -> None:
    assert said.verdict([history({scale: (10, 20, span(value))}, 0)]) == f"{scale}: {word} on a."


def test_the_loader_names_drafts_and_their_cards_without_opening_them() -> None:
    assert drafts_of("thp-poisson") == ["shipped", "stress"]
    assert {"shipped", "stress", "gru", "gru-distilled", "renewal"} <= set(drafts_of("sahp-earthquake"))
    cards = draft_cards("sahp-earthquake")
    assert cards["gru"]["nll_minus_target"]["value"] < 0
    assert "nll" in cards["shipped"]
    assert draft_cards("thp-poisson") == draft_cards("toy-marked") == {}
