"""Attentive neural Hawkes process encoder (Yang, Mei, Eisner 2022, arXiv 2201.00044): time-aware attention over past events.

Queries, keys and values of a layer are linear in [1; z(t); h], z(t) the time encoding *concatenated* in every layer. An event attends to
the events strictly before it with weights f(q, k) / (1 + sum f), written here as a softmax with one null key of logit 0 and value 0:
h <- h + tanh(W_o sum_j w_j v_j), on a layer-normed h. No feed-forward part. The contexts are read off at the events.
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

_EPS = 1e-5


class AttNHP(nn.Module):
    """``d_time`` is the width of the time encoding; the last event itself reaches its context through the residual path."""

    strict = True

    def __init__(
        self, n_types: int, n_layers: int, n_heads: int, d: int = 64, d_time: int = 32, time_scale: float = 1.0,
        dropout: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.n_layers, self.n_heads, self.d, self.d_attention = n_layers, n_heads, d, d
        self.d_time, self.time_scale, self.dropout = d_time, time_scale, dropout
        self.type_embedding = nn.Embedding(n_types, d) if n_types > 1 else None
        self.gap_embedding = nn.Linear(d_time, d)
        self.layers = nn.ModuleList(
            LayerWeights(norm=nn.LayerNorm(d, eps=_EPS), qkv=nn.Linear(d + d_time, 3 * d), out=nn.Linear(d, d))
            for _ in range(n_layers)
        )
        self.norm = nn.LayerNorm(d, eps=_EPS)
        self._rates, self._shifts = sinusoid_rates(d_time), sinusoid_shifts(d_time)

    def embed(self, inputs: EventInputs) -> tuple[Tensor, Tensor]:
        at = self.norm.weight
        time = torch.from_numpy(interleaved_encoding(inputs.times / self.time_scale, self._rates)).to(at)
        gap = torch.from_numpy(interleaved_encoding(inputs.gaps / self.time_scale, self._rates)).to(at)
        x = self.gap_embedding(gap)
        if self.type_embedding is not None:
            x = x + self.type_embedding(inputs.types)
        return x, time

    def embed_one(self, time: float, gap: float, type_: int, index: int) -> tuple[Vector, Vector]:
        """``embed`` of a single event, as numpy vectors (d,) and (d_time,)."""
        extra = np.sin(self._rates * (time / self.time_scale) + self._shifts).astype(np.float32)
        encoded = np.sin(self._rates * (gap / self.time_scale) + self._shifts).astype(np.float32)
        x = np.dot(self.gap_embedding.weight.detach().numpy(), encoded) + self.gap_embedding.bias.detach().numpy()
        if self.type_embedding is not None:
            x += self.type_embedding.weight.detach().numpy()[type_]
        return x, extra

    def encode(self, x: Tensor, extra: Tensor, attend: Attend, layers: Sequence[Weights]) -> Tensor:
        d = (self.d,)
        drop = self.dropout if self.training else 0.0
        for i, w in enumerate(layers):
            y = torch.cat([torch.layer_norm(x, d, w["norm_weight"], w["norm_bias"], _EPS), extra], dim=-1)
            a = attend(i, F.linear(y, w["qkv_weight"], w["qkv_bias"]))
            a = torch.tanh(F.linear(a, w["out_weight"], w["out_bias"]))
            x = x + (F.dropout(a, drop) if drop else a)
        return torch.layer_norm(x, d, self.norm.weight, self.norm.bias, _EPS)
