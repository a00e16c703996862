"""The token head as a network: context -> logits over time buckets and types (torch), logits -> law (float64 numpy).

The encoder stays a function of the continuous history: it sees the gap itself, not its bucket. Only what comes next is a token.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from reference_impls.heads.types import OneType
from reference_impls.tokens.buckets import TimeBuckets
from reference_impls.tokens.law import (
    FactorisedTokens,
    JointTokens,
    TokenLaw,
    TokenTypes,
    TypesGivenBucket,
    TypesWhateverTheBucket,
)
from tppsd_bench.protocols import FloatArray


class TokenHead(nn.Module):
    """One softmax over B x M tokens (``joint``), or p(bucket) p(type | bucket). ``forward``: contexts (..., d) to raw rows (..., P).

    Joint: P = B M logits, bucket-major. Factorised: B bucket logits, then h numbers a of the type network
    logits = W tanh(a + G_b) + c, so that types cost one row of G a position. One matrix product either way.
    """

    log_mean: Tensor
    log_std: Tensor

    def __init__(self, d: int, n_types: int, buckets: Mapping[str, Any], joint: bool, hidden: int = 32) -> None:
        """``buckets``: ``TimeBuckets.to_json``."""
        super().__init__()
        self.n_types, self.joint, self.buckets = n_types, joint or n_types == 1, TimeBuckets.from_json(buckets)
        b = len(self.buckets)
        self.raw = nn.Linear(d, b * n_types if self.joint else b + hidden)
        with torch.no_grad():
            self.raw.weight *= 0.1
            self.raw.bias.zero_()
        if not self.joint:
            self.bucket_weight = nn.Parameter(0.3 * torch.randn(b, hidden))
            self.out = nn.Linear(hidden, n_types)
        # the scale of gaps, as every head knows it; a softmax over buckets has no use for it
        self.register_buffer("log_mean", torch.zeros((), dtype=torch.float64))
        self.register_buffer("log_std", torch.ones((), dtype=torch.float64))

    def forward(self, context: Tensor) -> Tensor:
        out: Tensor = self.raw(context)
        return out

    def _log_buckets(self, raw: Tensor) -> Tensor:
        """(..., B) log P(bucket)."""
        if self.joint:
            table = F.log_softmax(raw, dim=-1).view(*raw.shape[:-1], len(self.buckets), self.n_types)
            return torch.logsumexp(table, dim=-1)
        return F.log_softmax(raw[..., : len(self.buckets)], dim=-1)

    def log_likelihood(self, raw: Tensor, gaps: Tensor, types: Tensor) -> Tensor:
        """log p(gap, type) of each row, differentiable: the token's, and the density inside its bucket, which nothing trains."""
        at = gaps.cpu().numpy()
        bucket = torch.from_numpy(self.buckets.bucket_of(at)).to(raw.device)
        within = torch.from_numpy(self.buckets.log_density(at)).to(raw)
        if self.joint:
            token = (bucket * self.n_types + types)[..., None]
            return F.log_softmax(raw, dim=-1).gather(-1, token).squeeze(-1) + within
        log_b = self._log_buckets(raw).gather(-1, bucket[..., None]).squeeze(-1)
        inner = torch.tanh(raw[..., len(self.buckets) :] + self.bucket_weight[bucket])
        log_k = F.log_softmax(self.out(inner), dim=-1).gather(-1, types[..., None]).squeeze(-1)
        return log_b + log_k + within

    def log_survival(self, raw: Tensor, waits: Tensor) -> Tensor:
        """log P(gap > wait) of each row, differentiable; for training on sequences that are cut at a horizon."""
        at = waits.cpu().numpy()
        bucket, (_, above) = self.buckets.bucket_of(at), self.buckets.shares(at)
        every = np.arange(len(self.buckets))
        with np.errstate(divide="ignore"):
            share = np.where(
                every == bucket[..., None], np.log(above)[..., None], np.where(every > bucket[..., None], 0.0, -np.inf)
            )
        kept = torch.from_numpy(np.maximum(share, -700.0)).to(raw)
        return torch.logsumexp(self._log_buckets(raw) + kept, dim=-1)

    def law(self, raw: NDArray[np.float32]) -> TokenLaw:
        """The law of each raw row (n, P); logits are normalised in float64, and only when asked for."""
        if self.n_types == 1:
            return FactorisedTokens(self.buckets, raw, TypesWhateverTheBucket(OneType(len(raw))))
        if self.joint:
            return JointTokens(self.buckets, raw, self.n_types)
        b = len(self.buckets)
        types: TokenTypes = TypesGivenBucket(raw[:, b:].astype(np.float64), *self._constants())
        return FactorisedTokens(self.buckets, raw[:, :b], types)

    def _constants(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        cached: tuple[FloatArray, FloatArray, FloatArray] | None = self.__dict__.get("_numpy")
        if cached is None:
            bucket, out, bias = (
                w.detach().cpu().numpy().astype(np.float64) for w in (self.bucket_weight, self.out.weight, self.out.bias)
            )
            cached = bucket, np.ascontiguousarray(out.T), bias
            if not self.training:
                self.__dict__["_numpy"] = cached
        return cached

    def train(self, mode: bool = True) -> TokenHead:
        self.__dict__.pop("_numpy", None)
        super().train(mode)
        return self
