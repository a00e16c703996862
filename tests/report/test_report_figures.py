"""Numbers as words, and the arithmetic behind the figures."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tppsd_bench.report import wording
from tppsd_bench.report.canvas import open_canvas
from tppsd_bench.report.figures import pit_pictures
from tppsd_bench.report.figures_work import work_pictures
from tppsd_bench.report.forest import forest_pictures
from tppsd_bench.report.picture import Picture, column, nice_ticks, together, wilson
from tppsd_bench.results import Axis, CellResult, Evidence
from tppsd_bench.streams import StreamKey


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.01134, "0.0113"),
        (-0.192, "−0.192"),
        (0, "0"),
        (32_000, "32,000"),
        (1234.5, "1,234"),
        (2.2e-4, "2.2 × 10⁻⁴"),
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "–"),
        (True, "–"),
        ("x", "–"),
        (5, "5"),
    ],
)
def test_number(value: object, said: str) -> None:
    assert wording.number(value) == said


def test_intervals_carry_the_decimals_their_width_supports() -> None:
    assert wording.effect(0.02213, (0.00022, 0.0440)) == ("0.022", "0.000 to 0.044")
    assert wording.effect(4.312, (4.2, 4.4)) == ("4.31", "4.20 to 4.40")
    assert wording.effect(0.5, (None, 1.0)) == ("0.50", "")
    assert wording.effect(0.5, None) == ("0.50", "")
    assert wording.p_value(3e-7) == "3 × 10⁻⁷"
    assert wording.p_value(0.0) == "< 10⁻³⁰⁰"
    assert wording.times(38.24) == "38.2×"


def test_effects_read_as_words() -> None:
    theta = Evidence("pit_time.theta_2", Axis.LAW, effect_name="theta_2 (scale)", where={"cell": "a"})
    assert wording.effect_label(theta) == "gap PIT θ₂ scale"
    assert wording.stratum(theta) == {}
    role = Evidence("role_law.type.after_residual_gap", Axis.MECHANISM, effect_name="theta_3")
    assert wording.effect_label(role) == "role law, type after residual gap θ₃ skew"
    length = Evidence("strata.pit_type", Axis.LAW, effect_name="length of (theta_1..theta_4)", where={"previous_type": "0"})
    assert wording.effect_label(length) == "type PIT |θ|"
    peak = Evidence("blackbox.gap_acf", Axis.LAW, effect_name="difference of autocorrelations", where={"cell": "a", "lag": "5"})
    assert (wording.effect_label(peak), wording.where(peak), wording.stratum(peak)) == (
        "against target-only, gap acf",
        "lag 5",
        {},
    )
    leak = Evidence("draft_direction.type", Axis.LAW, effect_name="lambda (0 = target, 1 = draft)", where={"position": "3"})
    assert wording.effect_label(leak) == "λ of the types"
    assert wording.where(leak) == "position 3"


@given(st.floats(-1e6, 1e6), st.floats(1e-9, 1e6))
def test_ticks_are_few_and_inside(low: float, width: float) -> None:
    high = low + width
    ticks = nice_ticks(low, high)
    slack = 1e-6 * width + 1e-9 * abs(low)
    assert all(low - slack <= at <= high + slack for at, _ in ticks)
    assert len(ticks) <= 7


@given(st.integers(1, 500), st.floats(0, 1))
def test_wilson_holds_the_share(n: int, share: float) -> None:
    hits = round(share * n)
    low, high = wilson(np.array([float(hits)]), np.array([float(n)]))
    assert -1e-12 <= low[0] <= hits / n + 1e-12
    assert hits / n - 1e-12 <= high[0] <= 1 + 1e-12


def test_columns_refuse_what_is_no_column() -> None:
    arrays = {
        "a": np.array([1.0, np.nan, 2.0]),
        "b": np.array(["x"]),
        "c": np.zeros((2, 2)),
        "e": np.empty(0),
        "d": np.arange(3),
    }
    assert column(arrays, "a") is not None
    assert len(column(arrays, "a")) == 2  # type: ignore[arg-type]
    assert all(column(arrays, name) is None for name in ("b", "c", "e", "missing"))
    assert together(arrays, "a", "e") is None
    assert [len(x) for x in together(arrays, "a", "d") or []] == [2, 2]


def _pit(u: np.ndarray, kind: str = "law") -> list[Picture]:
    cell = CellResult("c", kind, "p", "", "")
    with open_canvas() as canvas:
        return pit_pictures(cell, {"u": u, "types": np.zeros(4, int)}, canvas)


def test_the_curve_tells_an_exact_sampler_from_a_wrong_one() -> None:
    u = StreamKey(cell="test_the_curve_tells").generator().random(4_000)
    (exact,), (wrong,) = _pit(u), _pit(u**1.2)
    assert "stays in the 95 % band" in exact.caption
    assert "leaves the 95 % band" in wrong.caption


def test_gaps_cut_by_a_horizon_are_not_drawn_as_if_uniform() -> None:
    assert _pit(np.linspace(0.01, 0.99, 50), kind="horizon") == []


def test_acceptance_is_drawn_from_counts_or_from_the_list() -> None:
    with open_canvas() as canvas:
        counted = {"position_reached": np.array([100, 80, 0]), "position_accepted": np.array([80, 60, 0])}
        (one,) = work_pictures(CellResult("c", "law", "p", "", ""), counted, canvas)
        listed = CellResult(
            "c", "law", "p", "", "", figures={"acceptance_by_position": [0.8, None, 0.7], "forwards_per_event": 0.2}
        )
        two = work_pictures(listed, {}, canvas)
        nothing = work_pictures(CellResult("c", "law", "p", "", "", figures={"acceptance_by_position": [None]}), {}, canvas)
    assert "80.0 % at position 1 to 75.0 % at position 2" in one.svg
    assert [p.title for p in two] == ["Acceptance by position", "Target forwards per event"]
    assert nothing == []


def test_the_forest_names_the_intervals_that_exclude_zero() -> None:
    def theta(value: float, **where: str) -> Evidence:
        ends = (value - 0.1, value + 0.1)
        return Evidence(
            "pit_time.theta_1", Axis.LAW, effect=value, effect_name="theta_1", interval=ends, margin=0.3, where=where
        )

    cell = CellResult("c", "law", "p", "", "", evidence=(theta(0.02), theta(0.5, position="2"), theta(-0.01, position="3")))
    with open_canvas() as canvas:
        pooled, strata = forest_pictures(cell, canvas)
    assert "No interval of a signed effect excludes 0" in pooled.svg
    assert "exclude 0: position 2" in strata.svg
    assert "var(--fail)" not in pooled.svg
    assert "var(--fail)" in strata.svg
