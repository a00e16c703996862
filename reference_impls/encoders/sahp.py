"""Self-attentive Hawkes process encoder (Zhang et al. 2020, arXiv 1907.07561): time-shifted positional encoding, pre-norm blocks.

Phase of event k: index * w_i + gap_k * g_i with learned g; encoding [sin, cos] in two halves. Each block: x <- x + attention(LN x),
then, where ``d_inner`` is set, x <- x + W_2 gelu(W_1 LN x). A final LN.
"""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reference_impls.encoders.base import Attend, EventInputs, LayerWeights
from reference_impls.encoders.thp import plain_layers

_EPS = 1e-5


class SAHP(nn.Module):
    """``d_inner = 0`` leaves the feed-forward part out; ``first_gap=False`` hides the first event's gap, ``output_projection`` adds
    W_o after attention (the public release has neither a feed-forward part, nor the first gap, nor W_o)."""

    strict = False

    def __init__(
        self, n_types: int, n_layers: int, n_heads: int, d: int = 64, d_inner: int = 64, time_scale: float = 1.0,
        dropout: float = 0.0, first_gap: bool = True, output_projection: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.n_layers, self.n_heads, self.d, self.d_attention = n_layers, n_heads, d, d
        self.time_scale, self.dropout, self.first_gap = time_scale, dropout, first_gap
        self.d_inner, self.output_projection = d_inner, output_projection
        self.type_embedding = nn.Embedding(n_types, d) if n_types > 1 else None
        half = d // 2
        self._position_rates = np.exp(-2.0 * np.arange(half) * math.log(10000.0) / d)
        self.gap_rates = nn.Parameter(torch.rand(half) * torch.logspace(0.5, -2.0, half))
        self.layers = nn.ModuleList(self._layer() for _ in range(n_layers))
        self.norm = nn.LayerNorm(d, eps=_EPS)
        with torch.no_grad():
            for layer in self.layers:
                for name in ("out", "outer"):
                    if hasattr(layer, name):
                        getattr(layer, name).weight *= 0.7 / n_layers**0.5
            if self.type_embedding is not None:
                self.type_embedding.weight *= 0.5

    def _layer(self) -> LayerWeights:
        d = self.d
        parts: dict[str, nn.Module] = {"norm1": nn.LayerNorm(d, eps=_EPS), "qkv": nn.Linear(d, 3 * d)}
        if self.output_projection:
            parts["out"] = nn.Linear(d, d)
        if self.d_inner:
            parts["norm2"] = nn.LayerNorm(d, eps=_EPS)
            parts["inner"] = nn.Linear(d, self.d_inner)
            parts["outer"] = nn.Linear(self.d_inner, d)
        return LayerWeights(**parts)

    def embed(self, inputs: EventInputs) -> tuple[Tensor, Tensor]:
        gaps = inputs.gaps / self.time_scale
        if not self.first_gap:
            gaps = np.where(inputs.index == 0, 0.0, gaps)
        at = self.norm.weight
        fixed = torch.from_numpy(inputs.index[..., None] * self._position_rates).to(at.device)
        phase = fixed + torch.from_numpy(gaps).to(at.device)[..., None] * self.gap_rates.double()
        x = torch.cat([torch.sin(phase), torch.cos(phase)], dim=-1).to(at.dtype)
        if self.type_embedding is not None:
            x = x + self.type_embedding(inputs.types)
        return x, x

    def encode(self, x: Tensor, extra: Tensor, attend: Attend) -> Tensor:
        d = (self.d,)
        drop = self.dropout if self.training else 0.0
        for i, w in enumerate(plain_layers(self)):
            y = F.layer_norm(x, d, w["norm1_weight"], w["norm1_bias"], _EPS)
            q, k, v = F.linear(y, w["qkv_weight"], w["qkv_bias"]).chunk(3, dim=-1)
            a = attend(i, q, k, v)
            if self.output_projection:
                a = F.linear(a, w["out_weight"], w["out_bias"])
            x = x + (F.dropout(a, drop) if drop else a)
            if self.d_inner:
                y = F.layer_norm(x, d, w["norm2_weight"], w["norm2_bias"], _EPS)
                z = F.linear(F.gelu(F.linear(y, w["inner_weight"], w["inner_bias"])), w["outer_weight"], w["outer_bias"])
                x = x + (F.dropout(z, drop) if drop else z)
        return F.layer_norm(x, d, self.norm.weight, self.norm.bias, _EPS)
