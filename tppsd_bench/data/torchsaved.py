"""Sets written by ``torch.save``, read without torch: the TPP-SD release's and triangular-tpp's dictionaries.

``{"sequences": [{"arrival_times", "marks"?, "t_start"?, "t_end"?}, ...], "num_marks"?, "t_max"?}``; lists, arrays or tensors.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from tppsd_bench.data.base import Format, RawEvents, ReadOptions, read_bytes
from tppsd_bench.data.easytpp import split_rows
from tppsd_bench.data.rows import Row, key_of, raw_of, row_of
from tppsd_bench.data.unpickle import TORCH_LEGACY_MAGIC, load_torch


def _claims(path: Path, head: bytes) -> bool:
    if head.startswith(TORCH_LEGACY_MAGIC):
        return True
    if not head.startswith(b"PK"):
        return False
    try:
        with zipfile.ZipFile(io.BytesIO(read_bytes(path))) as archive:
            return any(n.endswith("data.pkl") for n in archive.namelist())
    except zipfile.BadZipFile:
        return path.suffix.lower() in (".pt", ".pth", ".pkl")  # damaged: the reader says so


def _read(path: Path, options: ReadOptions) -> RawEvents:
    splits, facts = split_rows(load_torch(read_bytes(path), path), path)
    # Without a stated start, a file that states its end counts from 0: both are on one clock.
    if key_of(facts, ("t_max", "t_end")) is not None:
        facts.setdefault("t_start", 0.0)
    rows: list[Row] = []
    names: list[str] = []
    for split, sequences in splits.items():
        rows += [row_of(s, f"{path.name}: sequence {len(rows) + i}") for i, s in enumerate(sequences)]
        names += ["" if split == "sequences" else split] * len(sequences)
    return raw_of(rows, path, splits=names if any(names) else (), shared=facts)


TORCH = Format("torch", "torch-saved dictionary (TPP-SD release, triangular-tpp)", _claims, (".pt", ".pth"), _read)
