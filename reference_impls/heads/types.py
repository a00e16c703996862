"""The law of an event's type, given the history and perhaps the gap; float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from tppsd_bench.protocols import FloatArray, IntArray

GAP_FEATURES = 3


def gap_features(z: FloatArray) -> FloatArray:
    """Features of a standardised log gap: (z, z^2 / 4, tanh 2z), z clipped to [-6, 6]; shape ``z.shape + (3,)``."""
    z = np.clip(z, -6.0, 6.0)
    return np.stack([z, 0.25 * z * z, np.tanh(2.0 * z)], axis=-1)


class TypeLaw(Protocol):
    @property
    def n_types(self) -> int: ...
    def take(self, rows: IntArray | slice) -> TypeLaw: ...
    @classmethod
    def concat(cls, laws: Sequence[Any]) -> TypeLaw: ...
    def log_probs(self, z: FloatArray) -> FloatArray:
        """log p(k | H, z) for standardised log gaps ``(n,)`` or ``(n, g)``; one more axis of length M."""
        ...


def log_softmax(logits: FloatArray) -> FloatArray:
    """Over the last axis; scipy's costs ten times this on a handful of types."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    out: FloatArray = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return out


@dataclass(frozen=True, slots=True)
class OneType:
    """Univariate processes: the one type has probability 1."""

    n: int

    @property
    def n_types(self) -> int:
        return 1

    def take(self, rows: IntArray | slice) -> OneType:
        return OneType(len(range(self.n)[rows]) if isinstance(rows, slice) else len(rows))

    @classmethod
    def concat(cls, laws: Sequence[OneType]) -> OneType:
        return cls(sum(law.n for law in laws))

    def log_probs(self, z: FloatArray) -> FloatArray:
        return np.zeros((*z.shape, 1))


@dataclass(frozen=True, slots=True)
class TypesIndependent:
    """Types conditionally independent of the gap given the history: ``logits`` (n, M), unnormalised."""

    logits: FloatArray

    @property
    def log_p(self) -> FloatArray:
        """(n, M)"""
        return log_softmax(self.logits)

    @property
    def n_types(self) -> int:
        return int(self.logits.shape[-1])

    def take(self, rows: IntArray | slice) -> TypesIndependent:
        return TypesIndependent(self.logits[rows])

    @classmethod
    def concat(cls, laws: Sequence[TypesIndependent]) -> TypesIndependent:
        return cls(np.concatenate([law.logits for law in laws]))

    def log_probs(self, z: FloatArray) -> FloatArray:
        if z.ndim == 1:
            return self.log_p
        return np.broadcast_to(self.log_p[:, None, :], (*z.shape, self.n_types))


@dataclass(frozen=True, slots=True)
class TypesGivenGap:
    """Types conditioned on the gap: logits = W tanh(a + Phi(z) G) + b with a per-history vector ``hidden`` (n, h)."""

    hidden: FloatArray
    gap_weight: FloatArray
    """G, (3, h)."""
    out_weight: FloatArray
    """W, (h, M)."""
    out_bias: FloatArray
    """b, (M,)."""
    product: Callable[[FloatArray, FloatArray], FloatArray] = np.matmul
    """(..., a), (a, b) -> (..., b). BLAS is fast, but its last bits depend on the number of rows; toys hand in one whose do not."""

    @property
    def n_types(self) -> int:
        return int(self.out_weight.shape[1])

    def take(self, rows: IntArray | slice) -> TypesGivenGap:
        return replace(self, hidden=self.hidden[rows])

    @classmethod
    def concat(cls, laws: Sequence[TypesGivenGap]) -> TypesGivenGap:
        return replace(laws[0], hidden=np.concatenate([law.hidden for law in laws]))

    def log_probs(self, z: FloatArray) -> FloatArray:
        hidden = self.hidden if z.ndim == 1 else self.hidden[:, None, :]
        inner = np.tanh(hidden + self.product(gap_features(z), self.gap_weight))
        logits = self.product(inner, self.out_weight) + self.out_bias
        out: FloatArray = log_softmax(logits)
        return out


@dataclass(frozen=True, slots=True)
class TypesTempered:
    """Another type law, tempered and tilted: logits = log p / temperature + tilt (M,). The stress draft's."""

    base: TypeLaw
    temperature: float
    tilt: FloatArray

    @property
    def n_types(self) -> int:
        return self.base.n_types

    def take(self, rows: IntArray | slice) -> TypesTempered:
        return replace(self, base=self.base.take(rows))

    @classmethod
    def concat(cls, laws: Sequence[TypesTempered]) -> TypesTempered:
        return replace(laws[0], base=type(laws[0].base).concat([law.base for law in laws]))

    def log_probs(self, z: FloatArray) -> FloatArray:
        out: FloatArray = log_softmax(self.base.log_probs(z) / self.temperature + self.tilt)
        return out
