"""The stress draft of a token model: buckets tilted upwards and flattened, types tempered and tilted; its probabilities known exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from reference_impls.base import Law
from reference_impls.heads.types import log_softmax
from reference_impls.stress import StressDraft
from reference_impls.tokens.law import FactorisedTokens, TokenLaw
from tppsd_bench.protocols import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class PoorTypes:
    """Another law's types given the bucket, tempered and tilted. Implements ``law.TokenTypes``."""

    base: TokenLaw
    temperature: float
    tilt: FloatArray

    @property
    def n_types(self) -> int:
        return self.base.n_types

    def take(self, rows: IntArray | slice) -> PoorTypes:
        return replace(self, base=self.base.take(rows))

    @classmethod
    def concat(cls, laws: Sequence[PoorTypes]) -> PoorTypes:
        return replace(laws[0], base=type(laws[0].base).concat([law.base for law in laws]))

    def log_probs(self, bucket: IntArray) -> FloatArray:
        if self.n_types == 1:
            return np.zeros((*bucket.shape, 1))
        return log_softmax(self.base.log_types(bucket) / self.temperature + self.tilt)


class TokenStress(StressDraft):
    """The same wrapper around a token model. Factorised, whatever the base is."""

    def _poor(self, law: Law) -> FactorisedTokens:
        """log q_b = log p_b / widen + 2 shift (2 F_b - 1), normalised, F_b the law's CDF in the middle of bucket b: TV about shift / 2."""
        if not isinstance(law, TokenLaw):
            raise TypeError(f"{self.base.name}: the stress draft of a token model cannot be made of {type(law).__name__}.")
        log_p = law.log_bucket_probs
        p = np.exp(log_p)
        middle = np.cumsum(p, axis=1) - 0.5 * p
        logits = np.maximum(log_p, -1e3) / self.widen + 2.0 * self.shift * (2.0 * middle - 1.0)
        tilt = self.tilt * np.cos(np.pi * np.arange(self.n_types))
        return FactorisedTokens(law.buckets, logits, PoorTypes(law, self.temperature, tilt))
