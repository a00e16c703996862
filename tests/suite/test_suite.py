"""Suite files: every wrong key, value and combination gets its sentence, and nothing else is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tppsd_bench import resources
from tppsd_bench.errors import InputError
from tppsd_bench.suite import Suite, check_suite, load_suite, nearest

BASE: dict[str, Any] = {"name": "small", "pairs": ["one", "two"]}


def sentence(**extra: Any) -> str:
    with pytest.raises(InputError) as caught:
        check_suite({**BASE, **extra}, "file.toml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("extra", "parts"),
    [
        ({"lwa": {}}, ["unknown key 'lwa'", "did you mean 'law'?"]),
        ({"law": {"n_event": 3}}, ["unknown key 'law.n_event'", "'n_events'"]),
        ({"pair": {"one": {"law": {"n_event": 3}}}}, ["'pair.one.law.n_event'", "'n_events'"]),
        ({"pair": {"one": {"lwa": {}}}}, ["'pair.one.lwa'", "'law'"]),
        ({"pair": {"on": {}}}, ["[pair.on]", "did you mean 'one'?"]),
        ({"law": {"n_events": -3}}, ["'law.n_events' is -3", "greater than or equal to 1"]),
        ({"law": {"n_events": "many"}}, ["'law.n_events' is 'many'", "integer"]),
        ({"law": {"n_events": 10.5}}, ["10.5", "integer"]),
        ({"law": {"rule": "leviathan"}}, ["'leviathan'", "leviathan_two_step", "did you mean"]),
        ({"law": {"k": [0]}}, ["'law.k.0' is 0"]),
        ({"law": {"k": [3, 3]}}, ["pair 'one'", "law.k", "twice"]),
        ({"law": {"n_events": 10, "length": 20}}, ["law.length = 20", "at least 40"]),
        ({"speed": {"k": [60]}}, ["speed.k = 60", "speed.length = 48"]),
        ({"law": 5}, ["'law' is 5"]),
        ({"pairs": ["one", "one"]}, ["'one' is listed twice"]),
        ({"pairs": []}, ["'pairs'"]),
        ({"loader": "nothing"}, ["'loader' is 'nothing'"]),
        ({"law": {"enabled": False}, "fit": {"enabled": False}, "speed": {"enabled": False}}, ["every kind of cell disabled"]),
    ],
)
def test_what_is_wrong_is_named(extra: dict[str, Any], parts: list[str]) -> None:
    said = sentence(**extra)
    assert said.startswith("file.toml: ")
    assert [p for p in parts if p not in said] == []
    assert "\n" not in said


def test_a_missing_key_is_named() -> None:
    with pytest.raises(InputError, match="'pairs' is missing"):
        check_suite({"name": "x"}, "file.toml")


def test_overrides_lie_over_the_suite_and_touch_no_other_pair() -> None:
    suite = check_suite({**BASE, "law": {"n_events": 9000, "k": [3]}, "pair": {"two": {"law": {"n_events": 100}}}}, "file.toml")
    assert (suite.sections("one").law.n_events, suite.sections("one").law.k) == (9000, [3])
    assert (suite.sections("two").law.n_events, suite.sections("two").law.k) == (100, [3])


def test_a_file_and_settings(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('pairs = ["one"]\n[law]\nn_events = 4000\n')
    suite = load_suite(str(file), ["law.n_events=500", "law.k=[2, 4]", "title=hello"])
    assert (suite.name, suite.title, suite.law.n_events, suite.law.k) == ("mine", "hello", 500, [2, 4])
    for setting, part in (
        ("law", "expected key=value"),
        ("law.n_evnts=3", "did you mean 'n_events'?"),
        ("title.x=3", "not a table"),
    ):
        with pytest.raises(InputError, match=part.replace("?", r"\?")):
            load_suite(str(file), ["title=x", setting])


def test_what_is_no_suite(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'smoke'"):
        load_suite("smok")
    broken = tmp_path / "broken.toml"
    broken.write_text("pairs = [")
    with pytest.raises(InputError, match=r"broken\.toml is not TOML"):
        load_suite(str(broken))


@pytest.mark.parametrize("name", sorted(resources.suite_files()))
def test_shipped_suites_are_valid(name: str) -> None:
    suite = load_suite(name)
    assert isinstance(suite, Suite)
    assert suite.name == name
    assert suite.title


def test_nearest_ends_a_sentence() -> None:
    assert nearest("smok", ["smoke", "calibration"]) == " did you mean 'smoke'?"
    assert nearest("zzz", ["smoke", "calibration"]) == " valid are smoke, calibration."
