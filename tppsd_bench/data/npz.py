"""Arrays: our own ``gaps, types, lengths[, horizon, n_types]``, and ``times, types, offsets[, split, split_names, t_max]``.

Our own files keep every gap bit for bit. No pickles: object arrays are refused.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.data.base import FloatArray, Format, IntArray, RawEvents, ReadOptions
from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch


def write_npz(batch: EventBatch, path: str | Path) -> Path:
    """Write a batch so that ``read_events`` gives it back exactly; the file appears whole or not at all."""
    path = Path(path)
    if path.suffix != ".npz":
        path = path.with_name(path.name + ".npz")
    arrays: dict[str, Any] = {
        "gaps": batch.gaps,
        "types": batch.types,
        "lengths": batch.lengths,
        "n_types": np.int64(batch.n_types),
    }
    if batch.horizon is not None:
        arrays["horizon"] = batch.horizon
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with partial.open("wb") as stream:
            np.savez_compressed(stream, **arrays)
        partial.replace(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error}); check the folder and the free space.") from error
    finally:
        partial.unlink(missing_ok=True)
    return path


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, KeyError) as error:
        mend = (
            "write plain number arrays" if "allow_pickle" in str(error) else "the file is truncated or damaged, write it again"
        )
        raise InputError(f"{path}: not a readable npz file ({error}); {mend}.") from error


def _numbers(array: NDArray[Any], path: Path, name: str) -> FloatArray:
    if array.dtype.kind not in "fiub":
        raise InputError(f"{path}: {name} has dtype {array.dtype}; expected numbers.")
    return array.astype(np.float64).reshape(-1)


def _whole(array: NDArray[Any], path: Path, name: str) -> IntArray:
    values = _numbers(array, path, name)
    if not (np.abs(values) < 2**53).all() or (values != np.floor(values)).any():
        raise InputError(f"{path}: {name} are not whole numbers; expected counts of events.")
    return values.astype(np.int64)


def _lengths(arrays: dict[str, NDArray[Any]], n_events: int, path: Path) -> IntArray:
    if "lengths" in arrays:
        lengths = _whole(arrays["lengths"], path, "lengths")
        name = "lengths"
    elif "offsets" in arrays:
        offsets = _whole(arrays["offsets"], path, "offsets")
        if not len(offsets) or offsets[0] != 0:
            raise InputError(
                f"{path}: offsets begin with {offsets[:1].tolist()}; expected 0 first, then the end of each sequence."
            )
        lengths, name = np.diff(offsets), "offsets"
    else:
        raise InputError(f"{path}: found {', '.join(arrays) or 'no arrays'}; expected lengths or offsets beside the events.")
    if (lengths < 0).any() or lengths.sum() != n_events:
        raise InputError(
            f"{path}: {name} cover {lengths.sum()} events in {len(lengths)} sequences, shortest {lengths.min(initial=0)}, "
            f"but {n_events} events are given; the counts must agree and be at least 0."
        )
    return lengths


def _splits(arrays: dict[str, NDArray[Any]], n: int, path: Path) -> tuple[str, ...]:
    if "split" not in arrays or "split_names" not in arrays:
        return ()
    ids, names = _numbers(arrays["split"], path, "split"), arrays["split_names"].reshape(-1)
    if len(ids) != n or not ((ids >= 0) & (ids < len(names))).all():
        raise InputError(
            f"{path}: split does not give each of {n} sequences one of the {len(names)} split_names; write it again."
        )
    return tuple(str(names[int(i)]) for i in ids)


def _count(array: NDArray[Any], path: Path) -> int:
    values = _numbers(array, path, "n_types")
    if len(values) != 1 or not values[0] >= 1:
        raise InputError(f"{path}: n_types is {values.tolist()}; expected one number of types, at least 1.")
    return int(values[0])


def _read(path: Path, options: ReadOptions) -> RawEvents:
    arrays = _arrays(path)
    found = {name: _numbers(arrays[name], path, name) for name in ("times", "gaps", "types") if name in arrays}
    if "times" not in found and "gaps" not in found:
        raise InputError(f"{path}: found {', '.join(arrays) or 'no arrays'}; expected times or gaps.")
    sizes = {name: len(values) for name, values in found.items()}
    if len(set(sizes.values())) > 1:
        raise InputError(f"{path}: {', '.join(f'{n} {k}' for k, n in sizes.items())}; every event needs one of each.")
    lengths = _lengths(arrays, next(iter(sizes.values())), path)
    end = next((_numbers(arrays[name], path, name) for name in ("horizon", "t_max") if name in arrays), None)
    if end is not None and len(end) not in (1, len(lengths)):
        raise InputError(f"{path}: {len(end)} horizons for {len(lengths)} sequences; give one for all or one for each.")
    return RawEvents(
        lengths=lengths,
        names=tuple(f"{path.name}: sequence {i}" for i in range(len(lengths))),
        times=found.get("times"),
        gaps=found.get("gaps"),
        types=found.get("types"),
        start=np.zeros(len(lengths)) if "times" not in found else None,
        end=None if end is None else np.broadcast_to(end, lengths.shape).copy(),
        splits=_splits(arrays, len(lengths), path),
        n_types=_count(arrays["n_types"], path) if "n_types" in arrays else None,
        files=(path,),
    )


NPZ = Format("npz", "numpy arrays (.npz)", lambda path, head: path.suffix.lower() == ".npz", (".npz",), _read)
