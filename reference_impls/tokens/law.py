"""The law of the next event over tokens, a bucket of the gap and a type, as a ``base.Law``: float64, in log space.

log f(gap, k | H) = log P(b) + log P(k | b) + log w_b(gap), b the bucket of gap. The last term belongs to the buckets and is common to target
and draft, so every rule that compares densities compares token probabilities, and every test of the gap's law applies as it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from reference_impls.heads.types import TypeLaw, log_softmax
from reference_impls.tokens.buckets import TimeBuckets
from tppsd_bench.protocols import Conditional, FloatArray, IntArray

_DEEPEST = 1e-16
"""Share of the outer buckets that ``log_gap_bumps`` leaves out."""


def pick(table: NDArray[np.floating[Any]], bucket: IntArray) -> FloatArray:
    """Entries of a (n, B, ...) table at buckets (n,) or (n, g), in float64."""
    rows = np.arange(len(table))
    out: NDArray[np.floating[Any]] = table[rows if bucket.ndim == 1 else rows[:, None], bucket]
    return out.astype(np.float64, copy=False)


class TokenLaw(ABC):
    """Laws of the next token for ``n`` histories. Implements ``base.Law``, and ``BucketedConditional`` for exact integrals.

    What members differ in is where the probabilities come from.
    """

    buckets: TimeBuckets

    # -- what a member states -----------------------------------------------------------------------------------------------
    @property
    @abstractmethod
    def n_types(self) -> int: ...
    @abstractmethod
    def __len__(self) -> int: ...
    @abstractmethod
    def take(self, rows: IntArray | slice) -> TokenLaw: ...
    @classmethod
    @abstractmethod
    def concat(cls, laws: Sequence[Any]) -> TokenLaw: ...
    @property
    @abstractmethod
    def log_bucket_probs(self) -> FloatArray:
        """(n, B) log P(b | H), normalised."""
        ...

    @abstractmethod
    def log_types(self, bucket: IntArray) -> FloatArray:
        """log P(k | H, bucket), normalised; one more axis of length M."""
        ...

    def log_token_probs(self) -> FloatArray:
        """(n, B, M) log P(b, k | H), normalised. The whole table: for a rejected position, not for every one."""
        every = np.broadcast_to(np.arange(len(self.buckets)), (len(self), len(self.buckets)))
        out: FloatArray = self.log_bucket_probs[..., None] + self.log_types(every)
        return out

    def log_bucket(self, bucket: IntArray) -> FloatArray:
        """log P(bucket | H) of the named buckets, (n,) or (n, g)."""
        return pick(self.log_bucket_probs, bucket)

    @property
    def gap_breaks(self) -> FloatArray:
        """(B - 1,) gaps at which the density jumps. With ``shares_buckets`` this is a ``BucketedConditional``."""
        return self.buckets.edges[1:-1]

    def shares_buckets(self, other: Conditional) -> bool:
        return isinstance(other, TokenLaw) and self.buckets.same_as(other.buckets)

    # -- the Conditional --------------------------------------------------------------------------------------------------
    def log_prob(self, gap: FloatArray) -> FloatArray:
        return self.log_bucket(self.buckets.bucket_of(gap)) + self.buckets.log_density(gap)

    def type_log_probs(self, gap: FloatArray) -> FloatArray:
        return self.log_types(self.buckets.bucket_of(gap))

    @cached_property
    def _probs(self) -> FloatArray:
        out: FloatArray = np.exp(self.log_bucket_probs)
        return out

    @cached_property
    def _below(self) -> FloatArray:
        """(n, B) mass of the buckets before each."""
        return np.cumsum(self._probs, axis=1) - self._probs

    @cached_property
    def _above(self) -> FloatArray:
        """(n, B) mass of the buckets after each, accurate where it is small."""
        shifted = np.zeros_like(self._probs)
        shifted[:, :-1] = self._probs[:, :0:-1].cumsum(axis=1)[:, ::-1]
        return shifted

    def cdf(self, gap: FloatArray) -> FloatArray:
        bucket, (below, _) = self.buckets.bucket_of(gap), self.buckets.shares(gap)
        return np.minimum(pick(self._below, bucket) + pick(self._probs, bucket) * below, 1.0)

    def sf(self, gap: FloatArray) -> FloatArray:
        bucket, (_, above) = self.buckets.bucket_of(gap), self.buckets.shares(gap)
        return np.minimum(pick(self._above, bucket) + pick(self._probs, bucket) * above, 1.0)

    def quantile(self, u: FloatArray) -> FloatArray:
        ends, wanted = np.cumsum(self._probs, axis=1), u if u.ndim == 2 else u[:, None]
        rows = zip(ends, wanted, strict=True)
        bucket = np.stack([np.minimum(e.searchsorted(w, side="right"), len(e) - 1) for e, w in rows]).reshape(u.shape)
        mass = np.maximum(pick(self._probs, bucket), np.finfo(np.float64).tiny)
        return self.buckets.gap_at(bucket, (u - pick(self._below, bucket)) / mass, (1.0 - u - pick(self._above, bucket)) / mass)

    def sample_gap(self, u: FloatArray) -> FloatArray:
        """``u[..., 0]`` picks the bucket by inverse CDF, ``u[..., 1]`` the gap in it."""
        ends = np.cumsum(self._probs, axis=1)
        wanted = (u[..., 0] if u.ndim == 3 else u[:, :1]) * ends[:, -1:]
        bucket = np.stack([e.searchsorted(w, side="right") for e, w in zip(ends, wanted, strict=True)])
        bucket = np.minimum(bucket, len(self.buckets) - 1).reshape(u.shape[:-1])
        return self.buckets.gap_at(bucket, u[..., 1])

    def log_gap_bumps(self) -> tuple[FloatArray, FloatArray]:
        """One bump a bucket, 8 widths to either edge, so that quadrature never steps across one."""
        inner = np.log(self.buckets.edges[1:-1])
        last = len(self.buckets) - 1
        ends = np.log(self.buckets.gap_at(np.array([0, last]), np.array([_DEEPEST, 1.0 - _DEEPEST]), np.array([1.0, _DEEPEST])))
        edges = np.concatenate([ends[:1], inner, ends[1:]])
        shape = (len(self), len(self.buckets))
        return np.broadcast_to(0.5 * (edges[:-1] + edges[1:]), shape), np.broadcast_to(np.diff(edges) / 16.0, shape)


class TokenTypes(Protocol):
    """The law of the type given history and bucket, for ``n`` histories."""

    @property
    def n_types(self) -> int: ...
    def take(self, rows: IntArray | slice) -> TokenTypes: ...
    @classmethod
    def concat(cls, laws: Sequence[Any]) -> TokenTypes: ...
    def log_probs(self, bucket: IntArray) -> FloatArray:
        """log P(k | H, bucket): (n,) or (n, g), one more axis of length M."""
        ...


@dataclass(frozen=True, slots=True)
class TypesWhateverTheBucket:
    """A type law that does not look at the gap."""

    base: TypeLaw

    @property
    def n_types(self) -> int:
        return self.base.n_types

    def take(self, rows: IntArray | slice) -> TypesWhateverTheBucket:
        return TypesWhateverTheBucket(self.base.take(rows))

    @classmethod
    def concat(cls, laws: Sequence[TypesWhateverTheBucket]) -> TypesWhateverTheBucket:
        return cls(type(laws[0].base).concat([law.base for law in laws]))

    def log_probs(self, bucket: IntArray) -> FloatArray:
        return self.base.log_probs(np.broadcast_to(0.0, bucket.shape))


@dataclass(frozen=True, slots=True)
class TypesGivenBucket:
    """logits = W tanh(a + G_b) + c with a per-history vector ``hidden`` (n, h): only the rows of the buckets asked for are computed."""

    hidden: FloatArray
    bucket_weight: FloatArray
    """G, (B, h)."""
    out_weight: FloatArray
    """W, (h, M)."""
    out_bias: FloatArray
    """c, (M,)."""

    @property
    def n_types(self) -> int:
        return int(self.out_weight.shape[1])

    def take(self, rows: IntArray | slice) -> TypesGivenBucket:
        return replace(self, hidden=self.hidden[rows])

    @classmethod
    def concat(cls, laws: Sequence[TypesGivenBucket]) -> TypesGivenBucket:
        return replace(laws[0], hidden=np.concatenate([law.hidden for law in laws]))

    def log_probs(self, bucket: IntArray) -> FloatArray:
        hidden = self.hidden if bucket.ndim == 1 else self.hidden[:, None, :]
        return log_softmax(np.tanh(hidden + self.bucket_weight[bucket]) @ self.out_weight + self.out_bias)


@dataclass(frozen=True)
class FactorisedTokens(TokenLaw):
    """P(b | H) P(k | H, b): bucket logits (n, B), unnormalised, in any float type, and a law of types given the bucket."""

    buckets: TimeBuckets
    logits: NDArray[np.floating[Any]]
    types: TokenTypes

    @property
    def n_types(self) -> int:
        return self.types.n_types

    def __len__(self) -> int:
        return len(self.logits)

    def take(self, rows: IntArray | slice) -> FactorisedTokens:
        return replace(self, logits=self.logits[rows], types=self.types.take(rows))

    @classmethod
    def concat(cls, laws: Sequence[FactorisedTokens]) -> FactorisedTokens:
        if len(laws) == 1:
            return laws[0]
        types = type(laws[0].types).concat([law.types for law in laws])
        return replace(laws[0], logits=np.concatenate([law.logits for law in laws]), types=types)

    @cached_property
    def log_bucket_probs(self) -> FloatArray:
        return log_softmax(self.logits.astype(np.float64))

    def log_types(self, bucket: IntArray) -> FloatArray:
        return self.types.log_probs(bucket)


@dataclass(frozen=True)
class JointTokens(TokenLaw):
    """One softmax over B x M tokens: logits (n, B * M), bucket-major, unnormalised, in any float type."""

    buckets: TimeBuckets
    logits: NDArray[np.floating[Any]]
    size: int
    """M."""

    @property
    def n_types(self) -> int:
        return self.size

    def __len__(self) -> int:
        return len(self.logits)

    def take(self, rows: IntArray | slice) -> JointTokens:
        return replace(self, logits=self.logits[rows])

    @classmethod
    def concat(cls, laws: Sequence[JointTokens]) -> JointTokens:
        return laws[0] if len(laws) == 1 else replace(laws[0], logits=np.concatenate([law.logits for law in laws]))

    @cached_property
    def _table(self) -> NDArray[np.floating[Any]]:
        return self.logits.reshape(len(self), len(self.buckets), self.size)

    @cached_property
    def _bucket_logits(self) -> FloatArray:
        """(n, B) log of the sum over types of exp(logit), in float64."""
        table = self._table.astype(np.float64)
        top = table.max(axis=-1, keepdims=True)
        table -= top
        np.exp(table, out=table)
        out: FloatArray = np.log(table.sum(axis=-1)) + top[..., 0]
        return out

    @cached_property
    def log_bucket_probs(self) -> FloatArray:
        return log_softmax(self._bucket_logits)

    def log_types(self, bucket: IntArray) -> FloatArray:
        return log_softmax(pick(self._table, bucket))

    def log_token_probs(self) -> FloatArray:
        table = self._table.astype(np.float64)
        flat = log_softmax(table.reshape(len(self), -1))
        return flat.reshape(table.shape)
