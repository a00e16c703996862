"""The wealth curve of a law cell: what it says in words, with and without proof."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tppsd_bench.report.canvas import open_canvas
from tppsd_bench.report.figures_wealth import wealth_pictures
from tppsd_bench.report.picture import Picture


def drawn(log10: list[float], **more: np.ndarray) -> list[Picture]:
    arrays = {
        "wealth_events": 100 * np.arange(1, len(log10) + 1), "wealth_log": np.array(log10) * math.log(10),
        "wealth_threshold": np.array([5 * math.log(10)]), **more,
    }  # fmt: skip
    with open_canvas() as canvas:
        return wealth_pictures(arrays, canvas)


@pytest.mark.parametrize(
    ("log10", "said"),
    [
        ([0.1, -0.2, -0.5], "it never reaches the line; the largest is 1.3"),
        ([0.1, 5.5, 6.0], "it reaches the line after 200 events; the largest is 1,000,000"),
        ([0.1, 30.0, 700.0], "the largest is 10⁷⁰⁰"),
        ([0.1, 0.2, math.inf], "it reaches the line after 300 events and, by an event that cannot be, every height"),
    ],
)
def test_the_curve_is_told_in_words(log10: list[float], said: str) -> None:
    (picture,) = drawn(log10)
    assert said in picture.caption
    assert said in picture.svg  # as the accessible name
    assert "one run of 100,000" in picture.caption
    assert "nan" not in picture.svg
    assert "inf" not in picture.svg.replace("infin", "")


def test_without_a_wealth_there_is_no_picture() -> None:
    assert drawn([]) == []
    assert drawn([0.0]) == []
    with open_canvas() as canvas:
        assert wealth_pictures({"u": np.zeros(3)}, canvas) == []
