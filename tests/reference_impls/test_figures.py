"""The command that prints the project's figures, on a toy pair: lines, intervals and verdicts."""

from __future__ import annotations

import pytest

from reference_impls import figures
from reference_impls.pairs import load_pair


def test_a_figure_is_one_line_with_its_interval_and_verdict() -> None:
    assert "MISSED" in figures.at_most("time", (4.0, 3.0, 5.0), 3.0).line()
    line = figures.at_least("ratio", (4.5, 4.2, 4.9), 4.0, "12 pairs").line()
    assert "4.5 (4.2 to 4.9)" in line
    assert "reached" in line
    assert line.endswith("12 pairs")
    assert "MISSED" in figures.at_least("ratio", (4.1, 3.8, 4.5), 4.0).line(), "a bound that the interval reaches below"
    assert "MISSED" in figures.at_most("time", (2.9, 2.8, 3.1), 3.0).line()


def test_forwards_of_a_toy_pair_meet_the_promise() -> None:
    """Share of m/R(m) within 5 % of 1: its interval of both errors is about 1 % wide."""
    lines = list(figures.forwards(load_pair("toy-marked"), 1, k=5, m=100, n=64))
    share = lines[-1].value
    assert isinstance(share, tuple)
    assert 95 < share[0] < 105
    assert share[1] < share[0] < share[2]


def test_it_needs_to_be_told_what_to_measure(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        figures.main([])
    assert "--release FOLDER" in capsys.readouterr().err
