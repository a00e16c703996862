"""More sequences than memory holds: drawn chunk by chunk, each chunk written whole, read back chunk by chunk.

A folder of events is a run folder without cells: ``run.json`` (what was asked, provenance) and ``chunk-00000.npz``, ... in the order of the
sequences. While it grows it is called ``NAME.partial``; killed at any moment it goes on with the first chunk that is missing. Sequence i
is drawn from its own stream, so neither the size of a chunk nor an interruption shows in the events. ``data.read_events`` takes the
folder as it takes any other; ``read_chunks`` holds one chunk at a time.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tppsd_bench import provenance, store
from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import Counts, SampleRequest, SampleRun, SamplerUnderTest

CHUNK = 64
"""Sequences drawn and written at a time: a batch large enough to be fast, small enough for any machine."""
Say = Callable[[str, float], None]


@dataclass(frozen=True)
class Totals:
    """What a folder of events holds so far."""

    n_sequences: int
    n_events: int
    counts: Counts


def stream_events(
    sampler: SamplerUnderTest, request: SampleRequest, name: Path, *, about: dict[str, Any], chunk: int = CHUNK,
    resume: bool = False, say: Say = lambda _text, _done: None,
) -> Path:  # fmt: skip
    """Draw a request (without prompts) into the folder ``name``, ``chunk`` sequences at a time; gives the folder.

    ``about`` says in JSON values what the sampler is: with the request and the size of the chunks it must be the same for ``resume``.
    Memory: one chunk's work and output. Raises InputError where the folder is taken or holds something else, RunBroken where the disk
    refuses; finished chunks stay.
    """
    asked = {"about": about, "chunk": chunk, **_asked(request)}
    digest = hashlib.blake2b(json.dumps(asked, sort_keys=True).encode(), digest_size=12).hexdigest()
    record = {**asked, "digest": digest, "status": store.RUNNING}
    record["provenance"] = provenance.collect(request.key.seed, 1, request.device)
    folder = store.RunFolder.open(name, record, resume=resume)
    try:
        for stale in folder.folder.glob(".chunk-*"):  # of a killed process; the folder's lock is ours
            stale.unlink()
        n = request.n_sequences
        for i, begin in enumerate(range(0, n, chunk)):
            path = folder.folder / f"chunk-{i:05d}.npz"
            if path.is_file():
                continue
            say(f"{begin:,} of {n:,} sequences", begin / n)
            first, size = request.first_sequence + begin, min(chunk, n - begin)
            run = sampler.sample(replace(request, n_sequences=size, first_sequence=first, want_trace=False))
            if len(run.events) != size:
                raise InputError(
                    f"The sampler gave {len(run.events)} sequences where {size} were asked for (from number {first} on)."
                )
            _write(path, run)
        folder.run = {**folder.run, "status": store.FINISHED}
        folder.run["provenance"] = {**folder.run["provenance"], "finished": provenance.now()}
        store.write_json(folder.folder / "run.json", folder.run)
        return folder.finish()
    finally:
        folder.close()


def read_chunks(folder: str | Path) -> Iterator[EventBatch]:
    """The events of a folder, finished or not, one chunk at a time and in the order of the sequences; each gap bit for bit."""
    for path in _chunks(folder):
        with np.load(path, allow_pickle=False) as file:
            horizon = file["horizon"] if "horizon" in file.files else None
            yield EventBatch(file["gaps"], file["types"], file["lengths"], int(file["n_types"]), horizon)


def totals(folder: str | Path) -> Totals:
    """Sequences, events and counts of work of all chunks; the events themselves are not read."""
    n_sequences, n_events, counts = 0, 0, Counts()
    for path in _chunks(folder):
        with np.load(path, allow_pickle=False) as file:
            n_sequences, n_events = n_sequences + len(file["lengths"]), n_events + int(file["lengths"].sum())
            counts = counts + Counts(**dict(zip(file["count_names"].tolist(), file["counts"].tolist(), strict=True)))
    return Totals(n_sequences, n_events, counts)


def _chunks(folder: str | Path) -> list[Path]:
    where = store.locate(folder)
    found = sorted(where.glob("chunk-*.npz"))
    if not found:
        raise InputError(f"{where} holds no chunk of events; expected a folder written by 'sample'.")
    return found


def _asked(request: SampleRequest) -> dict[str, Any]:
    fields = ("n_sequences", "first_sequence", "device")
    return {
        **{name: getattr(request, name) for name in fields},
        "stop": dataclasses.asdict(request.stop),
        "key": dataclasses.asdict(request.key),
    }


def _write(path: Path, run: SampleRun) -> None:
    """One chunk in the project's own format for events, and beside them the counts of the work they took."""
    batch, counts = run.events, dataclasses.asdict(run.counts)
    arrays: dict[str, Any] = {
        "gaps": batch.gaps,
        "types": batch.types,
        "lengths": batch.lengths,
        "n_types": np.int64(batch.n_types),
    }
    if batch.horizon is not None:
        arrays["horizon"] = batch.horizon
    arrays |= {"count_names": np.array(list(counts)), "counts": np.array(list(counts.values()), dtype=np.int64)}
    store.write_whole(path, lambda file: np.savez(file, **arrays))
