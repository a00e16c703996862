"""Transformer Hawkes process encoder (Zuo et al. 2020, arXiv 2002.09291): post-norm blocks, time encoding re-added in each.

x <- x + e(t); y = LN(W_o attention(x) + x); x = LN(W_2 gelu(W_1 y) + y). Absolute time, divided by ``time_scale``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reference_impls.encoders.base import (
    Attend,
    EventInputs,
    LayerWeights,
    Vector,
    Weights,
    interleaved_encoding,
    sinusoid_rates,
    sinusoid_shifts,
)

_EPS = 1e-6


class THP(nn.Module):
    """``n_layers`` blocks of width ``d`` with ``n_heads`` heads; inner width ``d_inner`` of the feed-forward part."""

    strict = False

    def __init__(
        self, n_types: int, n_layers: int, n_heads: int, d: int = 64, d_inner: int | None = None, time_scale: float = 1.0,
        dropout: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.n_layers, self.n_heads, self.d, self.d_attention = n_layers, n_heads, d, d
        self.time_scale, self.dropout = time_scale, dropout
        self.d_inner = inner = d_inner or d // 2
        self.marked = n_types > 1
        self.type_embedding = nn.Embedding(n_types, d) if self.marked else None
        self.layers = nn.ModuleList(
            LayerWeights(
                qkv=nn.Linear(d, 3 * d, bias=False),
                out=nn.Linear(d, d),
                norm1=nn.LayerNorm(d, eps=_EPS),
                inner=nn.Linear(d, inner),
                outer=nn.Linear(inner, d),
                norm2=nn.LayerNorm(d, eps=_EPS),
            )
            for _ in range(n_layers)
        )
        self._rates = sinusoid_rates(d)
        self._shifts = sinusoid_shifts(d)
        self._zero = np.zeros(d, dtype=np.float32)
        with torch.no_grad():  # small residual branches: twenty post-norm layers train from the start
            for layer in self.layers:
                for name in ("out", "outer"):
                    getattr(layer, name).weight *= 0.5 / n_layers**0.5
            if self.type_embedding is not None:
                self.type_embedding.weight *= 0.5

    def embed(self, inputs: EventInputs) -> tuple[Tensor, Tensor]:
        phases = interleaved_encoding(inputs.times / self.time_scale, self._rates)
        time = torch.from_numpy(phases).to(next(self.parameters()))
        x = self.type_embedding(inputs.types) if self.type_embedding is not None else torch.zeros_like(time)
        return x, time

    def embed_one(self, time: float, gap: float, type_: int, index: int) -> tuple[Vector, Vector]:
        """``embed`` of a single event, as numpy vectors (d,)."""
        phases = self._rates * (time / self.time_scale)
        phases += self._shifts
        extra = np.sin(phases).astype(np.float32)
        if self.type_embedding is None:
            return self._zero, extra
        return self.type_embedding.weight.detach().numpy()[type_], extra

    def encode(self, x: Tensor, extra: Tensor, attend: Attend, layers: Sequence[Weights]) -> Tensor:
        d = (self.d,)
        drop = self.dropout if self.training else 0.0
        for i, w in enumerate(layers):
            x = x + extra
            a = F.linear(attend(i, F.linear(x, w["qkv_weight"])), w["out_weight"], w["out_bias"])
            y = torch.layer_norm((F.dropout(a, drop) if drop else a) + x, d, w["norm1_weight"], w["norm1_bias"], _EPS)
            z = F.linear(y, w["inner_weight"], w["inner_bias"])
            z = F.linear(F.gelu(z), w["outer_weight"], w["outer_bias"])
            x = torch.layer_norm((F.dropout(z, drop) if drop else z) + y, d, w["norm2_weight"], w["norm2_bias"], _EPS)
        return x
