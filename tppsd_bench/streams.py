"""Random streams: one per sequence, so that sequence i does not depend on batch size, workers or the other sequences.

Independence of arms and purposes comes from the key; reproducibility from hashing its words into a ``SeedSequence``.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

_SMALLEST = 2.0**-54  # Generator.random() can be exactly 0; inverse CDFs want the open interval


@dataclass(frozen=True, slots=True)
class StreamKey:
    """Names a family of streams. ``purpose`` separates sampling from the test's own randomisation."""

    seed: int = 0
    suite: str = ""
    cell: str = ""
    stage: str = ""
    arm: str = ""
    purpose: str = "sampler"
    seed_epoch: int = 0

    def replace(self, **changes: str | int) -> StreamKey:
        return replace(self, **changes)  # type: ignore[arg-type]

    def _words(self) -> list[int]:
        text = "\x1f".join((self.suite, self.cell, self.stage, self.arm, self.purpose))
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        return [int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4)] + [self.seed_epoch]

    def sequence(self, index: int) -> np.random.SeedSequence:
        """The seed of sequence ``index``."""
        return np.random.SeedSequence(self.seed, spawn_key=(*self._words(), index))

    def generator(self, index: int = 0) -> np.random.Generator:
        """A generator for uses that are not per sequence (permutations, randomised PIT, ...)."""
        return np.random.Generator(np.random.PCG64(self.sequence(index)))


class UniformStreams:
    """Float64 uniforms in (0, 1), one independent stream per sequence, consumed row by row in blocks.

    ``take(rows, m)`` returns ``(len(rows), m)`` uniforms, the next m of each named row; what a row receives depends only on how
    much that row has taken before.
    """

    def __init__(self, key: StreamKey, n: int, first_sequence: int = 0, block: int = 1024) -> None:
        self._key, self._first = key, first_sequence
        self._generators: list[np.random.Generator | None] = [None] * n
        self._buffer = np.empty((n, block))
        self._used = np.full(n, block, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._used)

    def _refill(self, row: int) -> None:
        generator = self._generators[row]
        if generator is None:
            generator = self._key.generator(self._first + row)
            self._generators[row] = generator
        block = self._buffer.shape[1]
        left = block - self._used[row]
        self._buffer[row, :left] = self._buffer[row, self._used[row] :]
        fresh = generator.random(block - left)
        np.maximum(fresh, _SMALLEST, out=fresh)
        self._buffer[row, left:] = fresh
        self._used[row] = 0

    def take(self, rows: NDArray[np.int64], m: int) -> NDArray[np.float64]:
        block = self._buffer.shape[1]
        if m > block:
            return np.concatenate([self.take(rows, block), self.take(rows, m - block)], axis=1)
        used = self._used[rows]
        if (used + m > block).any():
            for row in rows[used + m > block]:
                self._refill(int(row))
            used = self._used[rows]
        self._used[rows] = used + m
        if len(rows) == 1:
            return self._buffer[rows[0], used[0] : used[0] + m][None, :].copy()
        out: NDArray[np.float64] = self._buffer[rows[:, None], used[:, None] + np.arange(m)]
        return out
