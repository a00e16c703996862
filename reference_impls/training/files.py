"""A user's own sequences as training data: read with the choices said, split as the file says or by seeded shuffle, cut in windows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference_impls.training.pair import PairData
from reference_impls.training.recipe import Recipe
from tppsd_bench.data import ReadOptions, read_with_report
from tppsd_bench.data.report import DataReport
from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch

HELD_OUT = 0.15
"""Share of validation and of test sequences, each, where the file has no splits of its own."""
FEW_SEQUENCES, WINDOWS_WANTED, SHORTEST_WINDOW = 10, 40, 16
_SPLITS = {"train": "train", "dev": "validation", "val": "validation", "valid": "validation", "validation": "validation",
           "test": "test"}  # fmt: skip
_UNCENSORED = 1e-9
"""Wait after a window's last event, in mean gaps, that stands for "no wait": its survival is 1."""

Parts = dict[str, EventBatch]
IntArray = NDArray[np.int64]


def file_data(recipe: Recipe, path: str) -> PairData:
    """Training, validation and test sequences of ``path`` (a file, or a folder of split files), and what was chosen on the way.

    ``data.read`` of the recipe holds arguments of ``read_events``; ``read.splits`` names one file of the folder for each part.
    """
    options = _options(recipe)
    named = options.pop("splits", None)
    notes: list[str] = []
    if named:
        read = [read_with_report(Path(path) / name, **_with_rng(options, recipe.seed)) for name in named]
        parts: Parts = {part: batch for part, (batch, _) in zip(("train", "validation", "test"), read, strict=True)}
        for _, report in read:
            notes += _said(report)
    else:
        everything, report = read_with_report(path, **_with_rng(options, recipe.seed))
        notes += _said(report)
        parts = _split(recipe, path, options, everything, report, notes)
    return _pair_data(recipe, path, parts, notes)


def _pair_data(recipe: Recipe, path: str, parts: Parts, notes: list[str]) -> PairData:
    spec = recipe.data
    n_types = max(batch.n_types for batch in parts.values())
    empty = sum(int((batch.lengths == 0).sum()) for batch in parts.values())
    if empty:
        notes.append(f"{path}: {empty} sequences without events were left out of training.")
    horizon = parts["train"].horizon
    if horizon is not None and not spec.censored:
        notes.append(f"{path}: the end of observation is not used; data.censored=true puts the last wait into the likelihood.")
    ready = {}
    for part, batch in parts.items():
        cut = windows(batch, spec.max_events, censored=spec.censored)
        ready[part] = replace(cut, n_types=n_types)
    for part, least in (("train", 1), ("validation", 1), ("test", 2)):
        if len(ready[part]) < least:
            raise InputError(
                f"{path}: the {part} part has {len(ready[part])} sequences with events; expected at least {least}. "
                "Give more sequences, or one file instead of splits."
            )
    train = ready["train"]
    return PairData(
        lambda _epoch: train, ready["validation"], ready["test"], None, int(np.median(train.lengths)),
        None if horizon is None else float(np.median(horizon)), tuple(_without_folder(note, path) for note in notes),
    )  # fmt: skip


def _without_folder(note: str, path: str) -> str:
    """Files by their names: where they lay means nothing in a card."""
    folder = str(Path(path).parent)
    return note if folder == "." else note.replace(folder.rstrip("/") + "/", "")


# -- parts ----------------------------------------------------------------------------------------------------------------
def _split(
    recipe: Recipe, path: str, options: dict[str, Any], everything: EventBatch, report: DataReport, notes: list[str]
) -> Parts:
    """By the file's own splits where it has train and another one, by time where it has few sequences, else by shuffle."""
    own = {_SPLITS[name]: name for name in report.splits if name in _SPLITS}
    if "train" in own and len(own) > 1 and options.get("split") is None:
        pinned = {**options, "origin": _origin(report), "time_column": report.time_column, "n_types": report.n_types}
        parts = {part: read_with_report(path, **_with_rng(pinned, recipe.seed), split=name)[0] for part, name in own.items()}
        said = ", ".join(f"{name} {len(parts[part])}" for part, name in own.items())
        notes.append(f"{path}: its own splits are used (sequences: {said}).")
        return _complete(parts, recipe.seed)
    beside = [p.name for p in Path(path).parent.glob("*") if p.is_file() and _SPLITS.get(p.stem) in ("validation", "test")]
    if Path(path).is_file() and _SPLITS.get(Path(path).stem) == "train" and beside:
        notes.append(f"{path}: {' and '.join(sorted(beside))} beside it are not used; give the folder to hold those out.")
    if len(everything) < FEW_SEQUENCES:
        return _by_time(recipe, path, everything, notes)
    return _complete({"train": everything}, recipe.seed)


def _complete(parts: Parts, seed: int) -> Parts:
    """Parts that are missing are taken from the training sequences, by seeded shuffle."""
    train = parts["train"]
    order = np.random.default_rng([seed, 11]).permutation(len(train))
    size = max(1, round(HELD_OUT * len(order)))
    out = dict(parts)
    for part in ("validation", "test"):
        if part not in out:
            out[part], order = train.select(order[:size]), order[size:]
    return {**out, "train": train.select(order)}


def _by_time(recipe: Recipe, path: str, everything: EventBatch, notes: list[str]) -> Parts:
    """Few long sequences: windows of each, the early ones to train on, the late ones to hold out (a shuffle would leak)."""
    length = min(recipe.data.max_events, max(SHORTEST_WINDOW, everything.n_events // WINDOWS_WANTED))
    cut = windows(everything, length, censored=recipe.data.censored)
    owner = np.searchsorted(everything.offsets[1:], cut.offsets[:-1], side="right")
    place = (cut.offsets[:-1] - everything.offsets[owner]) / everything.lengths[owner]
    if len(cut) < FEW_SEQUENCES:
        raise InputError(
            f"{path}: {len(everything)} sequences with {everything.n_events} events are too few to train and hold out; "
            f"expected at least {FEW_SEQUENCES} sequences, or {FEW_SEQUENCES * SHORTEST_WINDOW} events."
        )
    notes.append(
        f"{path}: few sequences ({len(everything)}), so they were cut into {len(cut)} windows of at most {length} events; the "
        "first 70 % of each trains, the rest is held out."
    )
    bounds = {"train": place < 1 - 2 * HELD_OUT, "test": place >= 1 - HELD_OUT}
    bounds["validation"] = ~(bounds["train"] | bounds["test"])
    return {part: cut.select(np.flatnonzero(rows)) for part, rows in bounds.items()}


def windows(batch: EventBatch, max_events: int, *, censored: bool = False) -> EventBatch:
    """Sequences longer than ``max_events`` cut into consecutive windows; each window starts its own clock at its first gap.

    ``censored``: a sequence's last window ends at its horizon, the others with their last event (a wait of about 0).
    """
    pieces = -(-batch.lengths // max_events)
    lengths = np.full(int(pieces.sum()), max_events, dtype=np.int64)
    last, some = (np.cumsum(pieces) - 1)[pieces > 0], pieces > 0
    lengths[last] = batch.lengths[some] - (pieces[some] - 1) * max_events
    out = EventBatch(batch.gaps, batch.types, lengths, batch.n_types, None)
    if not censored or batch.horizon is None:
        return out
    wait = np.full(len(lengths), _UNCENSORED * float(batch.gaps.mean()))
    wait[last] = (batch.horizon - batch.end_times)[some]
    return replace(out, horizon=out.end_times + wait)


# -- reading --------------------------------------------------------------------------------------------------------------
def _options(recipe: Recipe) -> dict[str, Any]:
    options = dict(recipe.data.read)
    known = [*ReadOptions.__dataclass_fields__, "splits"]
    for name in options:
        if name not in known:
            raise InputError(f"data.read.{name} is no option of the reader; expected one of {', '.join(known)}.")
    return options


def _with_rng(options: dict[str, Any], seed: int) -> dict[str, Any]:
    """Jitter draws random numbers: those of the recipe's seed."""
    return {**options, "rng": np.random.default_rng([seed, 13])} if options.get("ties") == "jitter" else options


def _origin(report: DataReport) -> Any:
    """The origin chosen for the whole file, so that its splits are read alike."""
    return report.origin if report.origin in ("start", "first_event") else float(report.origin)


def _said(report: DataReport) -> list[str]:
    return [finding.sentence for finding in (*report.of("warning"), *report.of("note"))]
