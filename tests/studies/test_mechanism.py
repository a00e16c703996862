"""Studies in a suite file: their tables are checked by the study, profiles are laid over, names are answered with the nearest."""

from __future__ import annotations

from pathlib import Path

import pytest

from tppsd_bench.errors import InputError
from tppsd_bench.report.section import shades
from tppsd_bench.studies import base
from tppsd_bench.suite import check_suite, load_suite

FILE = """
title = "Two profiles"
[study.claims]
only = ["3"]
[study.claims.claim.3]
source = "A"
text = "forwards fall"
hypothesis = "they do"
measure = "forwards"
pairs = ["toy-marked"]
criteria = [{ quantity = "share", at_least = 0.9 }]
[profile.full.study.claims]
only = []
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "two.toml"
    path.write_text(FILE, encoding="utf-8")
    return path


def test_a_profile_is_laid_over_the_file_and_quick_is_the_file(file: Path) -> None:
    plain, quick, full = (load_suite(str(file), profile=p) for p in ("", "quick", "full"))
    assert plain.study == quick.study
    assert plain.study["claims"].model_dump()["only"] == ["3"]
    assert full.study["claims"].model_dump()["only"] == []
    assert full.profile == "full"
    assert full.study["claims"].model_dump()["claim"] == plain.study["claims"].model_dump()["claim"]


def test_a_stored_suite_is_read_back_whole(file: Path) -> None:
    suite = load_suite(str(file), profile="full")
    assert check_suite(suite.model_dump(mode="json"), "run.json") == suite


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("study.claim.only=[]", "unknown study 'claim'; did you mean 'claims'"),
        ("study.claims.onyl=[]", "unknown key 'study.claims.onyl'; did you mean 'only'"),
        ("study.claims.only=3", "'study.claims.only' is 3"),
    ],
)
def test_wrong_words_are_answered_with_the_nearest(file: Path, setting: str, said: str) -> None:
    with pytest.raises(InputError, match=said.replace(".", r"\.")):
        load_suite(str(file), [setting])


def test_an_unknown_profile_is_named(file: Path) -> None:
    with pytest.raises(InputError, match="no profile 'ful'; did you mean 'full'"):
        load_suite(str(file), profile="ful")


def test_kinds_tell_study_and_silence() -> None:
    assert base.study_of("drafts-time") == base.study_of("drafts") == "drafts"
    assert base.study_of("law") == base.study_of("run-time") == ""
    assert base.needs_silence("drafts-time")
    assert base.needs_silence("speed")
    assert not base.needs_silence("drafts")
    assert not base.needs_silence("run-time")


def test_shades_are_dark_in_proportion_and_leave_gaps() -> None:
    low, none, high = shades([1.0, None, 3.0], ["1", "", "3"])
    assert (low.percent, high.percent) == (0.0, 100.0)
    assert none.text == ""
    assert shades([2.0], ["2"], low=0.0, high=8.0)[0].percent == 25.0
