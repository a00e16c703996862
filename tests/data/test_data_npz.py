"""Our own npz files give every batch back bit for bit; damaged arrays are named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tppsd_bench.data import check_data, read_events, write_npz
from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch

GAP = st.floats(1e-12, 1e6, allow_nan=False)
SEQUENCE = st.lists(st.tuples(GAP, st.integers(0, 4)), min_size=1, max_size=8)


@st.composite
def batches(draw: st.DrawFn) -> EventBatch:
    with_horizon = draw(st.booleans())
    rows = draw(st.lists(SEQUENCE if not with_horizon else st.one_of(SEQUENCE, st.just([])), min_size=1, max_size=6))
    horizon = [sum(g for g, _ in row) * 1.5 + 1 for row in rows] if with_horizon else None
    return EventBatch.from_gaps(
        [[g for g, _ in row] for row in rows], [[k for _, k in row] for row in rows], n_types=5, horizon=horizon
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches())
def test_round_trip_is_exact(tmp_path: Path, batch: EventBatch) -> None:
    if not batch.n_events:
        assert batch.horizon is not None
    path = write_npz(batch, tmp_path / "batch.npz")
    assert [p.name for p in tmp_path.iterdir()] == ["batch.npz"]  # no partial file stays behind
    found = read_events(path)
    np.testing.assert_array_equal(found.gaps, batch.gaps)
    np.testing.assert_array_equal(found.types, batch.types)
    np.testing.assert_array_equal(found.lengths, batch.lengths)
    assert found.n_types == batch.n_types
    assert (found.horizon is None) == (batch.horizon is None)
    if batch.horizon is not None:
        np.testing.assert_array_equal(found.horizon, batch.horizon)


def test_writing_into_no_folder_leaves_nothing(tmp_path: Path) -> None:
    batch = EventBatch.from_gaps([[1.0, 2.0]])
    with pytest.raises(InputError, match="cannot be written"):
        write_npz(batch, tmp_path / "none" / "a.npz")
    assert write_npz(batch, tmp_path / "a").name == "a.npz"


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"gaps": np.ones(3), "lengths": np.array([2, 2])}, "cover 4 events"),
        ({"gaps": np.ones(3), "types": np.zeros(2), "lengths": np.array([3])}, "every event needs one of each"),
        ({"gaps": np.ones(3)}, "expected lengths or offsets"),
        ({"lengths": np.array([3])}, "expected times or gaps"),
        ({"times": np.ones(3), "offsets": np.array([1, 3])}, "expected 0 first"),
        ({"times": np.ones(3), "offsets": np.array([0, 3, 1, 3])}, "shortest -2"),
        ({"gaps": np.array(["a"]), "lengths": np.array([1])}, "expected numbers"),
        ({"gaps": np.ones(3), "lengths": np.array([3]), "horizon": np.ones(2)}, "2 horizons for 1 sequences"),
        ({"gaps": np.ones(3), "lengths": np.array([1.5, 1.5])}, "not whole numbers"),
        ({"gaps": np.ones(3), "lengths": np.array([3]), "n_types": np.ones(2)}, "n_types is [1.0, 1.0]"),
        (
            {"gaps": np.ones(3), "lengths": np.array([3]), "split": np.array([4]), "split_names": np.array(["a"])},
            "split does not give",
        ),
        ({"gaps": np.array([{}], dtype=object), "lengths": np.array([1])}, "write plain number arrays"),
    ],
)
def test_damaged_arrays_are_named(arrays: dict[str, np.ndarray], sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.npz"
    np.savez(path, **arrays)
    report = check_data(path)
    assert not report.usable
    assert sentence in report.reason
