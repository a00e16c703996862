"""Each kind of bad input has its sentence: what, where, what was expected, how to mend it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tppsd_bench.data import DataReport, check_data, read_events, read_with_report
from tppsd_bench.data.clock import find_step, jitter, read_clock
from tppsd_bench.errors import InputError
from tppsd_bench.streams import StreamKey

RNG = StreamKey(seed=1, cell="data faults").generator


def write(folder: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path = folder / "a.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def check(folder: Path, rows: Sequence[dict[str, Any]], **options: Any) -> DataReport:
    return check_data(write(folder, rows), **options)


def poisson(n: int = 30, length: int = 80, *, start: float = 0.0) -> list[dict[str, Any]]:
    """A clean set that every fault below is planted in."""
    rng = RNG()
    times = start + np.cumsum(rng.exponential(size=(n, length)), axis=1)
    return [{"times": t.tolist(), "types": rng.integers(0, 3, length).tolist()} for t in times]


def test_the_clean_set_passes(tmp_path: Path) -> None:
    report = check(tmp_path, poisson())
    assert report.usable
    assert report.codes() == {"no_horizon"}
    assert (report.n_sequences, report.n_events, report.n_types) == (30, 2400, 3)
    assert sum(report.type_counts) == 2400
    assert report.gap_quantiles[0.5] == pytest.approx(np.log(2), abs=0.1)
    assert report.resolution is None


def planted(name: str) -> list[dict[str, Any]]:
    """The clean set with one fault in sequence 2."""
    rows = poisson()
    row = rows[2]
    times, types = row["times"], row["types"]
    match name:
        case "padding":
            row |= {"times": times[:70] + [0.0] * 10, "types": types[:70] + [0] * 10}
        case "padding_one":
            row |= {"times": [*times[:79], 0.0], "types": [*types[:79], 0]}
        case "unsorted":
            times[5], times[6] = times[6], times[5]
        case "ties":
            times[7] = times[6]
        case "nan":
            times[4] = float("nan")
        case "infinite":
            times[4] = float("inf")
        case "none":
            times[4] = None
        case "nan_type":
            types[4] = float("nan")
        case "fraction":
            types[4] = 0.5
        case "zero":
            times[0] = 0.0
        case "before":
            times[0] = -1.0
        case "negative_type":
            types[3] = -1
        case "id_is_k":
            for r in rows:
                r["n_types"] = 3
            types[-1] = 3
        case "from_one":
            for r in rows:
                r["types"] = [k + 1 for k in r["types"]]
        case "from_one_declared":
            for r in rows:
                r["types"], r["n_types"] = [k + 1 for k in r["types"]], 3
        case "empty":
            row |= {"times": [], "types": []}
        case "beyond":
            for r in rows:
                r["horizon"] = 1000.0
            row["horizon"] = times[-1]
        case "beyond_ms":
            for r in rows:
                r["times"], r["horizon"] = [1000 * t for t in r["times"]], 150.0
        case "coarse":
            for r in rows:
                r["times"] = (np.cumsum(1 + np.arange(80) % 4) / 2).tolist()
    return rows


@pytest.mark.parametrize(
    ("fault", "code", "sentence"),
    [
        ("padding", "padding", "line 3 (sequence 2), event 70: the time falls to 0 and stays there"),
        ("padding_one", "padding", "event 79: the time falls to 0"),
        ("unsorted", "unsorted", "line 3 (sequence 2), event 6: the time goes back"),
        ("ties", "ties", "line 3 (sequence 2), event 7: at the same time as the event before, one of 1"),
        ("nan", "not_finite", "line 3 (sequence 2), event 4: times is nan"),
        ("infinite", "not_finite", "times is inf"),
        ("none", "not_finite", "times is nan"),
        ("nan_type", "not_finite", "types is nan"),
        ("fraction", "type_fraction", "event 4: the type is 0.5"),
        ("zero", "first_event_at_zero", "line 3 (sequence 2), event 0: the first event is at exactly the start"),
        ("before", "before_start", "lies 1 before the start"),
        ("negative_type", "type_outside", "event 3: type -1, one of 1 outside 0..2. A negative id is usually padding"),
        ("id_is_k", "type_outside", "type 3, one of 1 outside 0..2. An id equal to the number of types"),
        ("from_one", "types_from_one", "If they run 1..3 pass first_type=1"),
        ("from_one_declared", "type_outside", "The ids run from 1: pass first_type=1"),
        ("empty", "empty_sequence", "line 3 (sequence 2): no events and no end of observation"),
        ("beyond", "beyond_horizon", "line 3 (sequence 2): the last event is at"),
        ("beyond_ms", "beyond_horizon", "Are the times in milliseconds and the horizon in seconds?"),
        ("coarse", "coarse_clock", "99.8% of gaps fall on the 10 commonest values (a clock of step 0.5)"),
    ],
)
def test_planted_faults_are_named(fault: str, code: str, sentence: str, tmp_path: Path) -> None:
    report = check(tmp_path, planted(fault))
    assert report.verdict == "refused"
    assert report.codes("error") == {code}
    assert sentence in report.reason
    with pytest.raises(InputError) as caught:
        read_events(tmp_path / "a.jsonl")
    assert str(caught.value).startswith(report.reason)


@pytest.mark.parametrize(
    ("fault", "options"),
    [
        ("unsorted", {"sort": True}),
        ("ties", {"ties": "drop"}),
        ("ties", {"ties": "jitter", "rng": RNG(1)}),
        ("coarse", {"ties": "jitter", "rng": RNG(1)}),
        ("zero", {"origin": "first_event"}),
        ("before", {"origin": -2}),
        ("from_one", {"first_type": 1}),
        ("from_one", {"n_types": 4}),
        ("from_one_declared", {"first_type": 1}),
        ("empty", {"horizon": 1000.0}),
        ("beyond", {"horizon": 1000.0}),
    ],
)
def test_the_mend_mends(fault: str, options: dict[str, Any], tmp_path: Path) -> None:
    batch, report = read_with_report(write(tmp_path, planted(fault)), **options)
    assert report.usable
    batch.validate()


def test_sorting_keeps_each_type_with_its_time(tmp_path: Path) -> None:
    batch = read_events(write(tmp_path, [{"times": [2.0, 1.0, 3.5], "types": [2, 1, 0]}]), sort=True)
    assert batch.gaps.tolist() == [1.0, 1.0, 1.5]
    assert batch.types.tolist() == [1, 2, 0]


# -- origin and horizon ------------------------------------------------------------------------------------------------
def test_every_first_event_at_zero_is_an_origin(tmp_path: Path) -> None:
    rows = [
        {"times": [0.0, 1.0, 2.5], "types": [0, 1, 0]},
        {"times": [0.0, 0.5], "types": [1, 1]},
        {"times": [0.0], "types": [0]},
    ]
    batch, report = read_with_report(write(tmp_path, rows))
    assert batch.gaps.tolist() == [1.0, 1.5, 0.5]
    assert batch.types.tolist() == [1, 0, 1]
    assert {"origin", "single_events"} <= report.codes("note")
    assert check_data(tmp_path / "a.jsonl", origin="start").codes("error") == {"first_event_at_zero"}
    with_end = read_events(tmp_path / "a.jsonl", horizon=4.0)
    assert with_end.lengths.tolist() == [2, 1, 0]  # an empty sequence with a horizon is an observation


def test_an_absolute_clock_starts_at_the_first_event(tmp_path: Path) -> None:
    rows = [{"times": [1e9, 1e9 + 2, 1e9 + 5]}, {"times": [1e9 + 100, 1e9 + 101]}]
    batch, report = read_with_report(write(tmp_path, rows), horizon=1e9 + 200)
    assert batch.gaps.tolist() == [2.0, 3.0, 1.0]
    assert batch.horizon is not None
    assert batch.horizon.tolist() == [200.0, 100.0]
    assert "clock is absolute" in next(f.sentence for f in report.findings if f.code == "origin")
    known = read_events(tmp_path / "a.jsonl", origin=1e9 - 1)
    assert known.gaps.tolist() == [1.0, 2.0, 3.0, 101.0, 1.0]


def test_a_stated_start_is_used(tmp_path: Path) -> None:
    rows = [{"times": [11.0, 12.5], "t_start": 10.0, "t_end": 20.0}, {"times": [], "t_start": 5.0, "t_end": 25.0}]
    batch = read_events(write(tmp_path, rows))
    assert batch.gaps.tolist() == [1.0, 1.5]
    assert batch.horizon is not None
    assert batch.horizon.tolist() == [10.0, 20.0]


def test_a_zero_first_gap_beside_a_later_time_marks_the_origin(tmp_path: Path) -> None:
    rows = [
        {"time_since_start": [3.0, 4.0], "time_since_last_event": [0.0, 1.0]},
        {"time_since_start": [2.0, 2.5], "time_since_last_event": [0.0, 0.5]},
    ]
    batch, report = read_with_report(write(tmp_path, rows))
    assert batch.gaps.tolist() == [1.0, 0.5]
    assert "time_since_last_event is 0 for every first event" in " ".join(f.sentence for f in report.of("note"))


def test_a_far_horizon_is_questioned(tmp_path: Path) -> None:
    assert "far_horizon" in check(tmp_path, poisson(), horizon=100_000.0).codes("warning")


# -- two columns, units, precision -------------------------------------------------------------------------------------
def two_columns(scale: float, at: int | None = None) -> list[dict[str, Any]]:
    rows = [{"time_since_start": r["times"], "time_since_last_event": np.diff(r["times"], prepend=0)} for r in poisson()]
    for row in rows:
        row["time_since_last_event"] = (scale * row["time_since_last_event"]).tolist()
    if at is not None:
        rows[1]["time_since_last_event"][at] += 0.5
    return rows


def test_columns_that_agree_are_silent(tmp_path: Path) -> None:
    report = check(tmp_path, two_columns(1.0))
    assert report.codes() == {"no_horizon"}
    assert report.time_column == "time_since_last_event"


def test_columns_that_disagree_are_named_and_either_can_be_chosen(tmp_path: Path) -> None:
    path = write(tmp_path, two_columns(1.0, at=9))
    times, report = read_with_report(path)
    sentence = next(f.sentence for f in report.findings if f.code == "columns_disagree")
    assert "line 2 (sequence 1), event 9" in sentence
    assert "one of 1 events" in sentence
    assert "time_since_start was used" in sentence
    gaps, report = read_with_report(path, time_column="time_since_last_event")
    assert report.time_column == "time_since_last_event"
    assert "columns_disagree" in report.codes("warning")
    assert float((gaps.gaps - times.gaps).sum()) == pytest.approx(0.5)
    with pytest.raises(InputError, match="no time column 'clock'; the file has time_since_start and time_since_last_event"):
        read_events(path, time_column="clock")


def test_a_factor_of_a_thousand_is_recognised(tmp_path: Path) -> None:
    report = check(tmp_path, two_columns(1000.0))
    assert "one is in milliseconds, the other in seconds" in " ".join(f.sentence for f in report.of("warning"))
    rows = poisson()
    for row in rows[10:15]:
        row["times"] = [1000 * t for t in row["times"]]
    mixed = check(tmp_path, rows)
    assert "line 11 (sequence 10)" in next(f.sentence for f in mixed.findings if f.code == "mixed_units")
    epoch = check(tmp_path, [{"times": [1.43e12 + 1000 * t for t in r["times"]]} for r in poisson()])
    assert {"milliseconds", "origin"} <= epoch.codes("note")


def test_float32_epoch_seconds(tmp_path: Path) -> None:
    rows = [{"times": np.float32(1.4e9 + np.array(r["times"])).astype(float).tolist()} for r in poisson()]
    report = check(tmp_path, rows)
    assert {"ties", "coarse_clock"} <= report.codes("error")
    assert "float32 numbers lie 128 apart" in next(f.sentence for f in report.findings if f.code == "precision")
    assert report.resolution == 128


def test_ties_that_rounding_explains_are_reported_not_refused(tmp_path: Path) -> None:
    rows = poisson(40, 80)
    base = 1e5
    times = [base + t for t in rows[0]["times"]]
    times[10] = times[9] + 2 * np.spacing(base)  # a distinct time two digits away
    times[11] = times[10]
    rows[0]["times"] = times
    report = check(tmp_path, rows, origin="start")
    assert report.usable
    assert "rounded_ties" in report.codes("warning")
    rows[0]["times"][10] = rows[0]["times"][11] = 0.5 * (times[9] + times[12])
    assert check(tmp_path, rows, origin="start").codes("error") == {"ties"}


def test_padded_gaps_are_padding_not_ties(tmp_path: Path) -> None:
    rows = [{"gaps": np.diff(r["times"], prepend=0).tolist()} for r in poisson()]
    for i, row in enumerate(rows):
        row["gaps"][80 - i :] = [0.0] * i
    report = check(tmp_path, rows)
    assert report.codes("error") == {"padding"}
    assert "cut each row at its length" in report.reason


# -- anything at all ---------------------------------------------------------------------------------------------------
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 30)
    | st.floats(-2, 30)
    | st.just(float("nan"))
    | st.just(10**400)
    | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=6,
)
KEYS = st.sampled_from(
    [
        "time_since_start",
        "time_since_last_event",
        "times",
        "gaps",
        "types",
        "type_event",
        "t_start",
        "t_end",
        "seq_len",
        "n_types",
        "x",
    ]
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.dictionaries(KEYS, VALUES, max_size=5) | VALUES, max_size=4))
def test_no_content_raises_anything_but_a_sentence(rows: list[Any], tmp_path: Path) -> None:
    report = check(tmp_path, rows)
    assert report.usable or report.reason.endswith((".", "?", "error"))
    if report.usable:
        read_events(tmp_path / "a.jsonl").validate()


# -- size --------------------------------------------------------------------------------------------------------------
def test_three_sequences_are_usable_but_inconclusive(tmp_path: Path) -> None:
    report = check(tmp_path, poisson(3))
    assert report.usable
    sentence = next(f.sentence for f in report.findings if f.code == "few")
    assert "3 sequences with 240 events" in sentence
    assert "inconclusive" in sentence


def test_copies_are_named(tmp_path: Path) -> None:
    rows = poisson()
    assert "1 of 31 sequences" in next(f.sentence for f in check(tmp_path, [*rows, rows[4]]).findings if f.code == "copies")


def test_a_very_long_sequence_is_noted(tmp_path: Path) -> None:
    report = check(tmp_path, poisson(1, 9000))
    assert "long_sequence" in report.codes("warning")
    assert report.memory_mib["attention map of the longest, one head"] == pytest.approx(4 * 9000**2 / 2**20)


# -- the clock ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("step", [1e-3, 1 / 3600, 1.0, 0.37])
def test_find_step(step: float) -> None:
    gaps = step * RNG().integers(1, 500, 400)
    assert find_step(gaps, 1e-13) == pytest.approx(step)
    assert find_step(RNG().exponential(size=400), 1e-13) is None


def test_jitter_is_uniform_keeps_order_and_is_repeatable() -> None:
    """Times floor to the old ones, ties included, and the moves are uniform (mean within 5 standard errors: 1 in 1.7e6)."""
    steps = RNG().integers(0, 4, 20_000).astype(float)
    inner = np.ones(len(steps), dtype=bool)
    inner[0] = False
    moved = jitter(steps, inner, 1.0, RNG(2))
    assert (moved[1:] > 0).all()
    times, old = np.cumsum(moved), np.cumsum(steps)
    np.testing.assert_array_equal(np.floor(times), old)
    offsets = times - old
    assert abs(offsets.mean() - 0.5) < 5 * np.sqrt(1 / 12 / len(offsets))
    np.testing.assert_array_equal(moved, jitter(steps, inner, 1.0, RNG(2)))


def test_jitter_without_a_step_moves_only_ties() -> None:
    gaps = np.array([0.5, 0.0, 0.0, 0.3, 0.7])
    inner = np.array([False, True, True, True, True])
    moved = jitter(gaps, inner, None, RNG(3))
    assert (moved > 0).all()
    assert moved[4] == pytest.approx(0.7)
    assert moved.sum() == pytest.approx(gaps.sum())


def test_jitter_needs_its_generator(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="pass rng"):
        check(tmp_path, poisson(), ties="jitter")
    with pytest.raises(InputError, match="expected one of refuse"):
        check(tmp_path, poisson(), ties="ignore")
    with pytest.raises(InputError, match="expected one of auto"):
        check(tmp_path, poisson(), origin="middle")


def test_reading_a_clock_of_no_gaps() -> None:
    clock = read_clock(np.array([1.0]), np.array([False]), np.array([1.0]))
    assert (clock.step, clock.tie_share, clock.distinct_share) == (None, 0.0, 1.0)
