"""The run folder: one JSON and one npz a cell, each written whole; results.json at the end; interrupted runs go on.

While it runs a folder is called ``NAME.partial``; it takes its name when every cell has been tried. A finished run is never
changed. A run in which a cell broke is ``incomplete``: its name is final too, but ``--resume`` may still mend it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tppsd_bench.errors import InputError, RunBroken
from tppsd_bench.results import CellResult, cell_from_json, to_json

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

PARTIAL = ".partial"
FINISHED, INCOMPLETE, RUNNING = "finished", "incomplete", "running"


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file so that it is there completely or not at all: temporary name, fsync, rename.

    Raises RunBroken with one sentence where the disk refuses (full, read-only, ...).
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as problem:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise RunBroken(
            f"{path} could not be written ({problem.strerror or problem}); nothing half-written is left. "
            "Free space or choose another --out, then go on with --resume."
        ) from problem


def write_json(path: Path, record: Any) -> None:
    """A record as JSON, atomically; NaN becomes null."""
    text = json.dumps(to_json(record), indent=1, allow_nan=False, ensure_ascii=False)
    write_whole(path, lambda file: file.write(text.encode()))


def write_cell(folder: Path, cell: CellResult, arrays: Mapping[str, NDArray[Any]]) -> None:
    """One finished cell. The JSON comes last: where it is, the arrays are too."""
    import numpy as np

    if arrays:
        # A file object would satisfy savez too, but the stubs read **arrays as its keyword options.
        write_whole(folder / "cells" / f"{cell.id}.npz", lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]
    write_json(folder / "cells" / f"{cell.id}.json", cell)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a run folder; InputError names the file where it is missing or damaged."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path} is missing; expected a run folder written by 'run'.") from None
    except (OSError, ValueError) as problem:
        raise InputError(f"{path} cannot be read as JSON ({problem}); the file is damaged, run again.") from None
    if not isinstance(record, dict):
        raise InputError(f"{path} holds a {type(record).__name__}; expected a JSON object.")
    return record


def read_cells(folder: Path) -> dict[str, CellResult]:
    """Id -> result of every cell in the folder, broken ones included."""
    return {p.stem: cell_from_json(read_json(p)) for p in sorted((folder / "cells").glob("*.json"))}


class RunFolder:
    """A run being written. ``open`` it, write cells, ``finish``; killed at any moment it can be opened again with resume."""

    def __init__(self, name: Path, folder: Path, run: dict[str, Any]) -> None:
        self.name, self.folder, self.run = name, folder, run
        self._lock: IO[str] | None = None

    @classmethod
    def open(cls, name: Path, run: dict[str, Any], *, resume: bool) -> RunFolder:
        """Start ``name`` or, with ``resume``, go on with it. ``run["digest"]`` must agree: another plan is another run."""
        partial = name.with_name(name.name + PARTIAL)
        if name.exists():
            status = read_json(name / "run.json").get("status") if (name / "run.json").is_file() else None
            if status is None:
                raise InputError(f"{name} exists and is not a run folder; choose another --out.")
            if status == FINISHED or not resume:
                more = " or add --resume to run its broken cells again" if status == INCOMPLETE else ""
                raise InputError(f"{name} holds a run that is {status} and is never changed; choose another --out{more}.")
            os.replace(name, partial)
        elif partial.exists() and not resume:
            raise InputError(f"{partial} holds an interrupted run; add --resume to go on with it, or choose another --out.")
        elif resume and not partial.exists():
            raise InputError(f"There is no interrupted run at {partial}; leave --resume away, or name the run with --out.")
        opened = cls(name, partial, run)
        opened._acquire()
        opened._sweep()
        before = partial / "run.json"
        if before.is_file():
            opened._continue(read_json(before))
        write_json(before, opened.run)
        return opened

    def _continue(self, before: dict[str, Any]) -> None:
        if before.get("digest") != self.run["digest"]:
            self.close()
            raise InputError(
                f"{self.folder} was started with another suite, seed, pairs or settings; "
                "resume with the same ones, or choose another --out."
            )
        again = [*before.get("resumed", ()), self.run["provenance"]["started"]]
        self.run = {**self.run, "provenance": before["provenance"], "resumed": again}

    def _acquire(self) -> None:
        """One process a folder: the lock goes when the process does, however it ends."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            import fcntl
        except ImportError:  # no such locks on Windows: the folder's name alone guards it there
            return
        self._lock = (self.folder / ".lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"Another process is writing {self.folder}; wait for it, or choose another --out.") from None

    def _sweep(self) -> None:
        """Remove temporary files of a killed process (the lock is ours, so nobody is writing them)."""
        for stale in [
            *self.folder.glob(".*.json.*"),
            *(self.folder / "cells").glob(".*.np*"),
            *(self.folder / "cells").glob(".*.json.*"),
        ]:
            stale.unlink(missing_ok=True)

    def finished_cells(self) -> dict[str, CellResult]:
        """Cells that need not run again: those written without an error."""
        return {i: c for i, c in read_cells(self.folder).items() if not c.error}

    def summarise(self, order: list[str]) -> list[CellResult]:
        """Write results.json from the cells on disk, in plan order, and the run's status; gives the cells."""
        found = read_cells(self.folder)
        cells = [found[i] for i in order if i in found]
        whole = len(cells) == len(order) and not any(c.error for c in cells)
        self.run = {**self.run, "status": FINISHED if whole else INCOMPLETE}
        write_json(self.folder / "results.json", {"run": self.run, "cells": cells})
        write_json(self.folder / "run.json", self.run)
        return cells

    def finish(self) -> Path:
        """Give the folder its final name."""
        self.close()
        (self.folder / ".lock").unlink(missing_ok=True)
        os.replace(self.folder, self.name)
        return self.name

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def locate(folder: str | Path) -> Path:
    """The folder of a run, finished or still partial."""
    path = Path(folder)
    for candidate in (path, path.with_name(path.name + PARTIAL)):
        if (candidate / "run.json").is_file():
            return candidate
    raise InputError(f"{path} is not a run folder (no run.json in it); name the folder that 'run' wrote.")


def load_run(folder: str | Path) -> pd.DataFrame:
    """A run as a table, one row a cell.

    Columns: id, kind, pair, draft, k, n_sequences, n_events, seconds, error, one ``verdict.AXIS`` per axis, and the scalars
    of ``counts.*`` and ``figures.*``. ``table.attrs["run"]`` holds suite and provenance, ``table.attrs["folder"]`` the path.
    """
    import pandas as pd

    where = locate(folder)
    table = pd.DataFrame([_row(c) for c in read_cells(where).values()])
    table.attrs = {"run": read_json(where / "run.json"), "folder": str(where)}
    return table


def _row(cell: CellResult) -> dict[str, Any]:
    plain = ("id", "kind", "pair", "draft", "sampler", "k", "seed", "n_sequences", "n_events", "seconds", "error")
    row: dict[str, Any] = {name: getattr(cell, name) for name in plain}
    row |= {f"verdict.{v.axis.value}": v.outcome.value for v in cell.verdicts}
    row |= {f"counts.{name}": value for name, value in cell.counts.items()}
    row |= {f"figures.{k}": v for k, v in cell.figures.items() if isinstance(v, (int, float, str, bool))}
    return row
