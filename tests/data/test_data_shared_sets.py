"""Real sets: each loads, or is refused for the reason that is true of it. They live beside the repository, not in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tppsd_bench.data import check_data, read_events, read_with_report
from tppsd_bench.streams import StreamKey

SHARED = (Path(__file__).resolve().parents[2] / ".." / "shared").resolve()
pytestmark = pytest.mark.skipif(
    not (SHARED / "data").is_dir(), reason="the shared folder of real sets is not beside the repository"
)

EASYTPP = {"format": "easytpp"}
CASES: list[tuple[str, dict[str, Any], set[str], set[str]]] = [
    # path, options, codes of the errors (none: usable), codes that must be among the other findings
    ("data/amazon", EASYTPP, set(), {"columns_disagree", "origin"}),
    ("data/amazon/events.npz", {}, set(), set()),
    ("data/bitstamp_lob/events.npz", {}, {"ties"}, {"coarse_clock", "few", "long_sequence"}),
    ("data/bitstamp_lob/orders.csv.xz", {"type_column": ("action", "direction")}, {"ties"}, {"milliseconds", "columns"}),
    ("data/bitstamp_lob/events.npz", {"ties": "drop"}, set(), {"dropped_ties"}),
    ("data/cdnow/events.npz", {}, {"ties", "coarse_clock", "first_event_at_zero"}, set()),
    ("data/earthquake", EASYTPP, {"ties"}, {"origin"}),
    ("data/earthquake", {**EASYTPP, "ties": "drop"}, set(), {"dropped_ties", "origin"}),
    ("data/earthquake/dev.pkl", {}, set(), {"origin"}),
    ("data/earthquake/events.npz", {}, {"ties"}, set()),
    ("data/ett/ETTh1.csv", {}, {"coarse_clock"}, set()),
    ("data/git_commits/events.npz", {}, {"ties"}, {"few"}),
    ("data/loghub_openssh/events.npz", {}, {"ties", "coarse_clock"}, set()),
    ("data/nymvc", EASYTPP, set(), {"coarse_clock"}),
    ("data/nymvc/events.npz", {}, set(), set()),
    ("data/receipt_process/events.npz", {}, set(), {"origin", "single_events"}),
    ("data/receipt_process/receipt.csv.gz", {}, set(), {"columns", "origin"}),
    ("data/stackoverflow_fold1_test", {"format": "rmtpp"}, set(), {"types_shifted", "origin"}),
    ("data/stackoverflow_fold1_test/events.npz", {}, {"types_from_one"}, set()),
    ("data/stackoverflow_fold1_test/events.npz", {"first_type": 1}, set(), {"types_shifted"}),
    ("data/taobao", EASYTPP, {"ties"}, {"columns_disagree", "coarse_clock", "origin"}),
    ("data/taobao/events.npz", {}, {"ties"}, {"coarse_clock"}),
    ("data/taxi", EASYTPP, set(), {"origin"}),
    ("data/taxi/events.npz", {}, set(), {"origin"}),
    ("data/ttpp_twitter/twitter.pkl", {}, set(), set()),
    ("data/ttpp_twitter/events.npz", {}, set(), set()),
    ("data/usgs_week/events.npz", {}, set(), {"origin", "few"}),
    ("data/usgs_week/earthquakes.json.gz", {}, {"unreadable"}, set()),
    ("peer/data/hawkes_2.5_1.0_2.0_100.0.pkl", {}, set(), set()),
    ("peer/data/inhomogeneous_poisson_10.pkl", {}, set(), set()),
    ("peer/data/multi_hawkes_(0.5, 0.5)_([1, 0.5], [0.1, 1])_([2, 2], [2, 2])_100.pkl", {}, set(), set()),
]


@pytest.mark.parametrize(("path", "options", "errors", "others"), CASES, ids=[f"{c[0]}-{sorted(c[1])}" for c in CASES])
def test_loads_or_is_refused_for_the_true_reason(
    path: str, options: dict[str, Any], errors: set[str], others: set[str]
) -> None:
    report = check_data(SHARED / path, **options)
    assert report.codes("error") == errors
    assert report.usable == (not errors)
    assert others <= report.codes()


def test_every_set_is_tried() -> None:
    tried = {Path(case[0]).parts[1] for case in CASES if case[0].startswith("data/")}
    assert tried == {folder.name for folder in (SHARED / "data").iterdir() if folder.is_dir()}


def test_reasons_lead_with_what_is_most_wrong() -> None:
    assert "a continuous density is the wrong model" in check_data(SHARED / "data/cdnow/events.npz").reason
    assert "one of 1188 such events (59.43% of gaps)" in check_data(SHARED / "data/loghub_openssh/events.npz").reason


@pytest.mark.parametrize("name", ["cdnow", "earthquake", "git_commits", "loghub_openssh"])
def test_jitter_mends_every_tie(name: str) -> None:
    rng = StreamKey(seed=1, cell=f"jitter {name}").generator()
    batch, report = read_with_report(SHARED / f"data/{name}/events.npz", ties="jitter", rng=rng)
    assert report.usable
    assert (batch.gaps > 0).all()


@pytest.mark.parametrize("name", ["amazon", "nymvc", "taxi", "taobao"])
def test_pickles_equal_the_arrays_made_from_them(name: str) -> None:
    """Two independent readers of one set: ours, and the one that wrote the folder's npz file."""
    ties: dict[str, Any] = {"ties": "drop"}
    arrays = read_events(SHARED / f"data/{name}/events.npz", split="test", origin="first_event", **ties)
    pickled = read_events(SHARED / f"data/{name}", format="easytpp", split="test", origin="first_event", **ties)
    np.testing.assert_allclose(pickled.gaps, arrays.gaps, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(pickled.types, arrays.types)
    np.testing.assert_array_equal(pickled.lengths, arrays.lengths)


def test_twitter_and_release_have_their_horizons() -> None:
    twitter = check_data(SHARED / "data/ttpp_twitter/twitter.pkl")
    assert (twitter.n_sequences, twitter.n_events, twitter.horizon) == (2019, 30077, (24.0, 24.0))
    release = check_data(SHARED / "peer/data/hawkes_2.5_1.0_2.0_100.0.pkl")
    assert (release.n_sequences, release.horizon) == (100, (100.0, 100.0))


def test_folder_with_two_formats_asks_which() -> None:
    with pytest.raises(ValueError, match="event files of one format"):
        check_data(SHARED / "data/taxi")
