"""Ranking of known faults by their signatures: identities on hand-made evidence; the zoo itself is ranked by the power suite."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impls.mutants import mutant, names
from tppsd_bench.results import Axis, Evidence
from tppsd_bench.stats import signatures
from tppsd_bench.stats.signatures import Known, features, learn, rank


def seen(name: str, p: float | None = 0.0, effect: float | None = None, **where: str) -> Evidence:
    return Evidence(name, Axis.LAW, p_value=p, effect=effect, where=where)


TYPES = [seen("pit_type.neyman"), seen("pit_time.neyman", 0.4), seen("draft_direction.type", 0.0, 0.7)]
GAPS = [seen("pit_type.neyman", 0.3), seen("pit_time.neyman"), seen("draft_direction.gap", 0.0, 0.7)]
BONUS = [seen("strata.pit_time", 1e-9, 0.2, position="bonus"), seen("strata.pit_time", 0.5, 0.0, position="0")]
TABLE = {"types": Known("t", features(TYPES)), "gaps": Known("g", features(GAPS)), "bonus": Known("b", features(BONUS))}


def test_strength_has_three_steps_and_a_sign_where_the_effect_has_a_direction() -> None:
    assert features([seen("pit_time.neyman", 0.01)]) == {"pit_time.neyman": 0.0}
    assert features([seen("pit_time.neyman", 1e-5, -3.0)]) == {"pit_time.neyman": 1.0}
    assert features([seen("acceptance_identity.gap", 1e-30, -0.1)]) == {"acceptance_identity.gap": -2.0}
    assert features([seen("tail.high_1e-2", 1e-30, 0.2)]) == {"tail.high_1e-2": -2.0}
    assert features([Evidence("support.gap", Axis.MECHANISM, passed=False)]) == {"support.gap": 2.0}


def test_places_in_the_sampler_count_and_places_in_the_history_do_not() -> None:
    found = features([
        seen("strata.pit_time", 1e-9, 0.1, position="3"), seen("strata.pit_time", 0.2, 0.1, position="2"),
        seen("strata.pit_time", 0.0, 0.1, previous_gap="1st quarter"), seen("strata.pit_time", 1e-9, 0.1, event="1"),
        seen("strata.pit_time", 1e-9, 0.1, event="64+"),
    ])  # fmt: skip
    assert found == {"strata.pit_time@position=inner": 1.0, "strata.pit_time@event=1": 1.0}


@pytest.mark.parametrize(("evidence", "first"), [(TYPES, "types"), (GAPS, "gaps"), (BONUS, "bonus")])
def test_a_fault_is_most_like_itself(evidence: list[Evidence], first: str) -> None:
    ranked = rank(evidence, TABLE)
    assert ranked[0].name == first
    assert ranked[0].score == pytest.approx(1.0)
    assert ranked[1].score < 0.5


def test_nothing_to_see_gives_no_suspects() -> None:
    assert rank([seen("pit_time.neyman", 0.5)], TABLE) == []


def test_opposite_directions_are_no_likeness() -> None:
    table = {"more": Known("", {"draft_direction.gap": 2.0}), "less": Known("", {"draft_direction.gap": -2.0})}
    ranked = {s.name: s.score for s in rank([seen("draft_direction.gap", 0.0, -0.3)], table)}
    assert ranked == {"less": 1.0, "more": 0.0}


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.floats(0, 1)), max_size=12))
def test_scores_lie_between_zero_and_one_and_do_not_depend_on_order(found: list[tuple[str, float]]) -> None:
    evidence = [seen(name, p) for name, p in found]
    table = {"x": Known("", {"a": 1.0, "b": 2.0}), "y": Known("", {"c": 0.4, "a": 2.0})}
    ranked = rank(evidence, table)
    assert all(0.0 <= s.score <= 1.0 + 1e-12 for s in ranked)
    assert ranked == rank(evidence[::-1], table)


def test_what_is_learned_survives_the_file() -> None:
    table = learn({"types": ("t", [TYPES, TYPES]), "gaps": ("g", [GAPS])})
    assert table["types"].signature == {"draft_direction.type": 2.0, "pit_type.neyman": 2.0}
    plain = json.loads(signatures.to_json(table))
    assert {n: Known(e["what"], e["signature"]) for n, e in plain.items()} == table


def test_the_shipped_table_knows_every_fault_of_the_zoo() -> None:
    """Made by ``python -m reference_impls.signatures``; it is out of date where this fails."""
    assert sorted(signatures.known()) == names()
    for name, entry in signatures.known().items():
        assert entry.what == mutant(name).broken
        assert entry.signature
