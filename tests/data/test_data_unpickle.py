"""Pickles can only hold data: nothing that a pickle names is called, whatever container it hides in."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tppsd_bench.data import check_data
from tppsd_bench.data.unpickle import TORCH_LEGACY_MAGIC, load_pickle, load_torch
from tppsd_bench.errors import InputError

HERE = Path("file.pkl")


class Attack:
    """Runs a shell command on an ordinary ``pickle.load``."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


def payloads(command: str) -> dict[str, bytes]:
    attack = Attack(command)
    plain = pickle.dumps({"train": [[{"time_since_start": attack}]]})
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("release/data.pkl", plain)
    legacy = TORCH_LEGACY_MAGIC + pickle.dumps(1001, 2) + pickle.dumps({}, 2)
    return {
        "plain.pkl": plain,
        "protocol0.pkl": b"\x80\x02" + pickle.dumps(attack, 0),
        "object_array.pkl": pickle.dumps({"train": np.array([attack], dtype=object)}),
        "zip.pt": archive.getvalue(),
        "legacy.pt": legacy + plain,
        "legacy_header.pt": TORCH_LEGACY_MAGIC + pickle.dumps(attack, 2),
    }


@pytest.mark.parametrize("name", payloads("true"))
def test_a_malicious_pickle_is_refused_and_does_nothing(name: str, tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    data = payloads(f"touch {trace}")[name]
    path = tmp_path / name
    path.write_bytes(data)
    report = check_data(path)
    assert not report.usable
    assert name in report.reason
    assert "refused, because it asks to load" in report.reason
    assert not trace.exists()


def test_the_attack_is_real(tmp_path: Path) -> None:
    """The test above could not fail if the payload did nothing."""
    trace = tmp_path / "ran"
    pickle.loads(payloads(f"touch {trace}")["plain.pkl"])
    assert trace.exists()


@pytest.mark.parametrize(
    "name", ["builtins.eval", "builtins.getattr", "numpy.load", "torch.load", "torch._utils._rebuild_tensor"]
)
def test_only_listed_names_are_known(name: str) -> None:
    module, _, function = name.rpartition(".")
    with pytest.raises(InputError, match=f"asks to load {name}"):
        load_pickle(f"c{module}\n{function}\n.".encode(), HERE)


def test_stand_ins_cannot_be_written_into() -> None:
    """BUILD on a listed name would otherwise set attributes in this process."""
    with pytest.raises(InputError, match="modification of a function"):
        load_pickle(b"c_codecs\nencode\n}S'x'\nI1\nsb.", HERE)


def test_object_and_structured_arrays_are_refused() -> None:
    for array in (np.array([{}], dtype=object), np.zeros(2, dtype=[("a", "f8")])):
        with pytest.raises(InputError, match="refused"):
            load_pickle(pickle.dumps(array), HERE)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("dtype", ["f4", ">f8", "i8", "u1", "?", "U3"])
def test_numbers_survive_every_protocol(protocol: int, dtype: str) -> None:
    array = np.arange(6).astype(dtype).reshape(2, 3)
    for given_array in (array, np.asfortranarray(array), array[:0]):
        found = np.asarray(load_pickle(pickle.dumps(given_array, protocol), HERE))
        np.testing.assert_array_equal(found, given_array)
        assert found.shape == given_array.shape
    assert load_pickle(pickle.dumps(array[1, 2], protocol), HERE) == array[1, 2]


@pytest.mark.parametrize("zipped", [True, False])
def test_tensors_equal_torch(zipped: bool, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    base = torch.arange(12, dtype=torch.float64).reshape(3, 4)
    kinds = (torch.float32, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool)
    tensors = [base, base.t(), base[1:, ::2], base[:0], *(base.to(kind) for kind in kinds)]
    torch.save(tensors, tmp_path / "t.pt", _use_new_zipfile_serialization=zipped)
    found = load_torch((tmp_path / "t.pt").read_bytes(), HERE)
    for ours, theirs in zip(found, tensors, strict=True):
        np.testing.assert_array_equal(np.asarray(ours), theirs.numpy())


def test_a_tensor_cannot_reach_outside_its_storage(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save([torch.arange(4.0)], tmp_path / "t.pt")
    source = zipfile.ZipFile(tmp_path / "t.pt")
    forged = io.BytesIO()
    with zipfile.ZipFile(forged, "w") as file:
        for name in source.namelist():
            content = source.read(name)
            file.writestr(name, content[:4] if "/data/" in name else content)
    (tensor,) = load_torch(forged.getvalue(), HERE)
    with pytest.raises(InputError, match="outside its storage"):
        np.asarray(tensor)


def test_a_missing_storage_is_named(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save({"sequences": [{"arrival_times": torch.arange(1.0, 4.0)}]}, tmp_path / "whole.pt")
    source = zipfile.ZipFile(tmp_path / "whole.pt")
    with zipfile.ZipFile(tmp_path / "cut.pt", "w") as file:
        for name in source.namelist():
            if "/data/" not in name:
                file.writestr(name, source.read(name))
    assert check_data(tmp_path / "whole.pt").usable
    assert "cut.pt: sequence 0: the times are not numbers (an array cannot be read" in check_data(tmp_path / "cut.pt").reason


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 200), st.integers(0, 255))
def test_damage_never_raises_anything_else(noise: bytes, at: int, byte: int) -> None:
    good = pickle.dumps({"train": [[{"time_since_start": np.float64(1.5), "type_event": 1}]]})
    bad = good[: at % len(good)] + bytes([byte]) + good[at % len(good) + 1 :]
    for data in (noise, bad):
        with contextlib.suppress(InputError):  # some damage leaves a readable pickle
            load_pickle(data, HERE)
