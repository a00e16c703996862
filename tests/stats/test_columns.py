"""Columns of the kill matrix: every statistic has one, and a column's p-value is Bonferroni's over its own members."""

from __future__ import annotations

import pytest

from tppsd_bench.errors import InputError
from tppsd_bench.protocols import Stop
from tppsd_bench.results import Axis, Evidence
from tppsd_bench.stats.base import REGISTRY
from tppsd_bench.stats.columns import COLUMNS, KILL_LEVEL, column, column_p
from tppsd_bench.streams import StreamKey


def law(name: str, p: float | None = None, **more: object) -> Evidence:
    return Evidence(name, Axis.LAW, p_value=p, **more)  # type: ignore[arg-type]


def test_families_validity_and_first_events() -> None:
    assert column(law("pit_time.neyman")) == "pit_time"
    assert column(law("tail.high_1e-3")) == "tail"
    assert column(law("strata.pit_time", where={"event": "4-7"})) == "strata"
    assert column(law("strata.tail", where={"event": "2"})) == "first_events"
    assert column(law("strata.tail", where={"position": "2"})) == "strata"
    assert column(Evidence("validity.prefix", Axis.VALIDITY, passed=True)) == "preconditions"
    assert column(Evidence("blackbox.arms_independent", Axis.VALIDITY, passed=True)) == "preconditions"
    assert column(law("e_process.gap")) == "e_process"
    with pytest.raises(InputError, match=r"'tea_leaves\.one' belongs to no column"):
        column(law("tea_leaves.one"))


def test_every_registered_statistic_has_a_column() -> None:
    from tppsd_bench.stats import grey  # noqa: F401  (registers the statistics)

    assert REGISTRY
    assert {column(law(name)) for name in REGISTRY} <= set(COLUMNS)


def test_bonferroni_within_the_column_alone() -> None:
    found = column_p([
        law("score.time.a", 0.01), law("score.time.b", 0.5), law("score.type", 0.9),
        law("serial.time", 0.2), law("pit_time.neyman", 0.7), law("pit_time.ks", 1e-9, display=True),
        law("draft_law.gap"), law("tail.impossible", passed=True), law("pair.gap_gap", 0.8), law("pair.gap_type", 0.6),
    ])  # fmt: skip
    assert found == pytest.approx({"pit_time": 0.7, "tail": 1.0, "pair": 1.0, "score": 0.03, "serial": 0.2})
    assert [c for c in COLUMNS if c in found] == list(found)


def test_a_failed_check_is_certain_and_a_passed_one_is_no_test() -> None:
    assert column_p([law("tail.impossible", passed=False), law("tail.low_1e-3", 0.4)]) == {"tail": 0.0}
    assert column_p([law("tail.impossible", passed=True), law("tail.low_1e-3", 0.4)]) == {"tail": 0.4}
    assert KILL_LEVEL == 1e-4


def test_a_whole_examination_maps_to_columns() -> None:
    """All evidence of a real run, exact and broken: the exact one kills no column, all acceptance kills several."""
    from dataclasses import replace

    from reference_impls.pairs import load_pair
    from tppsd_bench.runner.design import Design, Subject
    from tppsd_bench.runner.rounds import Rounds

    pair = load_pair("toy-marked")
    design = Design(Stop(n_events=10), 200, StreamKey(seed=5, cell="columns"), pilot_sequences=20, batch_size=50)
    exact = pair.sampler("speculative", draft="stress")
    found = {}
    for name, sampler in (("exact", exact), ("broken", replace(exact, target=pair.drafts["stress"]))):
        rounds = Rounds(pair.target, {"s": Subject(sampler, pair.drafts["stress"])}, None, design)
        found[name] = column_p(rounds.arm("s", 1).evidence)
    assert set(found["exact"]) == set(COLUMNS) - {"preconditions", "counts", "blackbox", "e_process"}
    assert [
        c for c, p in found["exact"].items() if p <= KILL_LEVEL
    ] == []  # 17 columns at 1e-4: one seed in 500 kills one by chance
    assert {"pit_time", "pit_type", "density_agreement"} <= {c for c, p in found["broken"].items() if p <= KILL_LEVEL}
