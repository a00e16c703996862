"""Pickles that cannot run code: numbers, text, builtin containers, numpy arrays and torch tensors, nothing else.

No class or function of the pickle's choosing is ever called. The few names that data files need are answered with inert
stand-ins that parse bytes; neither numpy's nor torch's own reconstruction code is reached, and torch is not imported.
"""

from __future__ import annotations

import io
import math
import pickle
import re
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.errors import InputError

TORCH_LEGACY_MAGIC = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_PLAIN_DTYPE = re.compile(r"[fiu][1248]|b1|[SU]\d{1,4}")
_STORAGES = {
    "FloatStorage": "f4", "DoubleStorage": "f8", "HalfStorage": "f2", "LongStorage": "i8", "IntStorage": "i4",
    "ShortStorage": "i2", "CharStorage": "i1", "ByteStorage": "u1", "BoolStorage": "b1",
}  # fmt: skip


class _Refused(Exception):
    """A pickle asked for something outside the list."""


class _Maker:
    """A callable stand-in without attributes, so that a pickle cannot write into it (the BUILD instruction)."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make

    def __call__(self, *args: Any) -> Any:
        return self._make(*args)

    def __setstate__(self, state: object) -> None:
        raise _Refused("the modification of a function")


class _Dtype:
    __slots__ = ("dtype",)

    def __init__(self, code: str, *_: object) -> None:
        if not isinstance(code, str) or not _PLAIN_DTYPE.fullmatch(code):
            raise _Refused(f"a numpy array of dtype {code!r}; only numbers and text are read")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if any(part is not None for part in state[2:5]):
            raise _Refused("a structured numpy array")
        self.dtype = self.dtype.newbyteorder(state[1])


class LazyArray:
    """An array whose bytes may lie further down the file; ``numpy.asarray`` reads them."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[], NDArray[Any]]) -> None:
        self._make = make

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        try:
            array = self._make()
        except InputError:
            raise
        except Exception as error:  # a damaged archive can raise nearly anything
            raise InputError(f"an array cannot be read ({error}); the file is damaged, save it again.") from error
        return array if dtype is None else array.astype(dtype)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, fortran, raw = state
        array = np.frombuffer(_raw(raw), dtype.dtype).reshape(shape, order="F" if fortran else "C")
        self._make = lambda: array


def _raw(data: bytes | bytearray | str) -> bytes:
    return data.encode("latin1") if isinstance(data, str) else bytes(data)


def _encode(text: str, encoding: str = "latin1", *_: object) -> bytes:
    if encoding not in ("latin1", "latin-1"):
        raise _Refused(f"the codec {encoding!r}")
    return text.encode("latin1")


def _scalar(dtype: _Dtype, raw: bytes | str) -> Any:
    return np.frombuffer(_raw(raw), dtype.dtype, count=1)[0].item()


def _tensor(
    storage: Callable[[], NDArray[Any]], offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: object
) -> LazyArray:
    def make() -> NDArray[Any]:
        data, count = storage(), math.prod(int(n) for n in size)
        last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        if min((offset, *size, *stride)) < 0 or count > len(data) or (count and last >= len(data)):
            raise InputError("a tensor points outside its storage; the file is damaged, save it again.")
        return np.lib.stride_tricks.as_strided(data[offset:], size, [s * data.itemsize for s in stride]).copy()

    return LazyArray(make)


_NUMPY: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "dtype"): _Dtype,
    ("numpy", "ndarray"): lambda *_: None,
    ("_codecs", "encode"): _encode,
    ("__builtin__", "bytes"): lambda *_: b"",  # protocol 2 writes the empty byte string so
    ("collections", "OrderedDict"): lambda *_: {},
}
for _core in ("numpy.core", "numpy._core"):
    _NUMPY[_core + ".multiarray", "scalar"] = _scalar
    _NUMPY[_core + ".multiarray", "_reconstruct"] = lambda *_: LazyArray(lambda: np.empty(0))
    _NUMPY[_core + ".numeric", "_frombuffer"] = lambda raw, dtype, shape, order: LazyArray(
        lambda: np.frombuffer(_raw(raw), dtype.dtype).reshape(shape, order=order)
    )


class _Unpickler(pickle.Unpickler):
    """``storages`` (torch files only) answers persistent ids with something that yields the storage's numbers when asked."""

    def __init__(self, stream: io.BytesIO, storages: Callable[[str, str], Callable[[], NDArray[Any]]] | None = None) -> None:
        super().__init__(stream, encoding="latin1")
        self._storages = storages

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _NUMPY:
            return _Maker(_NUMPY[module, name])
        if self._storages is not None:
            if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
                return _Maker(_tensor)
            if module == "torch" and name in _STORAGES:
                return _STORAGES[name]
        raise _Refused(f"{module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        if self._storages is None:
            raise _Refused("a persistent object")
        kind, dtype, key = pid[0], pid[1], str(pid[2])
        if kind != "storage" or dtype not in _STORAGES.values():
            raise _Refused(f"a torch storage of kind {dtype!r}")
        return self._storages(key, dtype)


def _guarded(load: Callable[[], Any], path: Path, what: str) -> Any:
    try:
        return load()
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except _Refused as error:
        raise InputError(
            f"{path}: refused, because it asks to load {error}, and a pickle that loads code can run anything. Expected "
            "numbers, text, lists, dicts and numpy arrays only; if you trust the file, write it out as npz or JSON lines first."
        ) from error
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise InputError(
            f"{path}: not a readable {what} ({error}); the file is truncated or damaged, copy it again."
        ) from error


def load_pickle(data: bytes, path: Path) -> Any:
    """The plain data of a pickle; InputError where it holds anything else. ``path`` is for the sentence only."""
    return _guarded(lambda: _Unpickler(io.BytesIO(data)).load(), path, "pickle")


def load_torch(data: bytes, path: Path) -> Any:
    """The plain data of a ``torch.save`` file (zip or the older layout), tensors as ``LazyArray``; without torch."""
    read = _load_legacy if data.startswith(TORCH_LEGACY_MAGIC) else _load_zip
    return _guarded(lambda: read(data), path, "torch file")


def _load_zip(data: bytes) -> Any:
    archive = zipfile.ZipFile(io.BytesIO(data))
    main = next((n for n in archive.namelist() if n.endswith("/data.pkl") or n == "data.pkl"), None)
    if main is None:
        raise InputError("the archive has no data.pkl, so torch.save did not write it.")
    folder = main[: -len("data.pkl")]
    big = folder + "byteorder" in archive.namelist() and archive.read(folder + "byteorder") == b"big"

    def storage(key: str, dtype: str) -> Callable[[], NDArray[Any]]:
        return lambda: np.frombuffer(archive.read(f"{folder}data/{key}"), np.dtype(dtype).newbyteorder(">" if big else "<"))

    return _Unpickler(io.BytesIO(archive.read(main)), storage).load()


def _load_legacy(data: bytes) -> Any:
    """Magic number, protocol, system information, the object, the list of storage keys; then each storage: count, bytes."""
    stream = io.BytesIO(data)
    dtypes: dict[str, str] = {}
    storages: dict[str, NDArray[Any]] = {}

    def storage(key: str, dtype: str) -> Callable[[], NDArray[Any]]:
        dtypes[key] = dtype
        return lambda: storages[key]

    for _ in range(3):
        _Unpickler(stream).load()
    found = _Unpickler(stream, storage).load()
    for key in _Unpickler(stream).load():
        dtype = np.dtype(dtypes[str(key)]).newbyteorder("<")
        (count,) = struct.unpack("<q", stream.read(8))
        storages[str(key)] = np.frombuffer(stream.read(count * dtype.itemsize), dtype, count=count)
    return found
