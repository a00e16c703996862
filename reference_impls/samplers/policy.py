"""How many events to draft in a round. A policy sees the past of its sequence only; anything else would bias the law."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tppsd_bench.protocols import FloatArray, IntArray


class KPolicy(Protocol):
    @property
    def k_max(self) -> int: ...

    def start(self, n: int) -> FloatArray:
        """Per-sequence state (n, s)."""
        ...

    def choose(self, state: FloatArray, round_index: IntArray) -> IntArray:
        """K of the next round for each sequence, between 0 and ``k_max``."""
        ...

    def observe(self, state: FloatArray, drafted: IntArray, accepted: IntArray) -> FloatArray:
        """The state after a round."""
        ...


@dataclass(frozen=True)
class FixedK:
    k_max: int = 5

    def start(self, n: int) -> FloatArray:
        return np.empty((n, 0))

    def choose(self, state: FloatArray, round_index: IntArray) -> IntArray:
        return np.full(len(state), self.k_max, dtype=np.int64)

    def observe(self, state: FloatArray, drafted: IntArray, accepted: IntArray) -> FloatArray:
        return state


@dataclass(frozen=True)
class AdaptiveK:
    """K follows the running acceptance a: the K at which the chance a^K that a whole draft survives falls to ``survive``."""

    k_max: int = 16
    k_min: int = 1
    survive: float = 0.4
    memory: float = 0.9

    def start(self, n: int) -> FloatArray:
        return np.full((n, 1), 0.8)

    def choose(self, state: FloatArray, round_index: IntArray) -> IntArray:
        rate = np.clip(state[:, 0], 0.05, 0.995)
        k: IntArray = np.clip(np.round(np.log(self.survive) / np.log(rate)), self.k_min, self.k_max).astype(np.int64)
        return k

    def observe(self, state: FloatArray, drafted: IntArray, accepted: IntArray) -> FloatArray:
        tried = np.minimum(accepted + 1, drafted)
        rate = np.where(tried > 0, accepted / np.maximum(tried, 1), state[:, 0])
        return np.where(tried > 0, self.memory * state[:, 0] + (1 - self.memory) * rate, state[:, 0])[:, None]
