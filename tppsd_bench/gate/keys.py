"""The random streams of a gate's cells: a run, and both sides of a comparison of revisions, draw the same sequences from them."""

from __future__ import annotations

from tppsd_bench.streams import StreamKey

EVENTS = "gate"
"""Arm of the events of a law cell."""


def counts_key(suite: str, cell: str, seed: int) -> StreamKey:
    """Of the sequences whose forwards are counted."""
    return StreamKey(seed=seed, suite=suite, cell=cell, stage="counts")


def law_key(suite: str, cell: str, seed: int) -> StreamKey:
    """What an examination derives its streams from."""
    return StreamKey(seed=seed, suite=suite, cell=cell)


def drawn_key(suite: str, cell: str, seed: int) -> StreamKey:
    """The streams of the examined events themselves: the examination's main round."""
    return law_key(suite, cell, seed).replace(stage="law", arm=EVENTS)


def effects_key(suite: str, cell: str, seed: int) -> StreamKey:
    """Randomises the PIT of types, alike on both sides."""
    return law_key(suite, cell, seed).replace(stage="effects", purpose="pit")
