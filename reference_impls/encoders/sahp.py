"""Self-attentive Hawkes process encoder (Zhang et al. 2020, arXiv 1907.07561): time-shifted positional encoding, pre-norm blocks.

Phase of event k: index * w_i + gap_k * g_i with learned g; encoding [sin, cos] in two halves. Each block: x <- x + attention(LN x),
then, where ``d_inner`` is set, x <- x + W_2 gelu(W_1 LN x). A final LN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reference_impls.encoders.base import Attend, EventInputs, LayerWeights, Vector, Weights
from tppsd_bench.protocols import FloatArray

_EPS = 1e-5
_QUARTER = math.pi / 2


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
        fixed = inputs.index[..., None] * self._position_rates
        if self.training:
            phase = torch.from_numpy(fixed).to(at.device)
            phase = phase + torch.from_numpy(gaps).to(at.device)[..., None] * self.gap_rates.double()
            x = torch.cat([torch.sin(phase), torch.cos(phase)], dim=-1).to(at.dtype)
        else:
            phases = fixed + gaps[..., None] * self._rates_in_numpy()
            x = torch.from_numpy(np.sin(np.concatenate([phases, phases + _QUARTER], axis=-1))).to(at)
        if self.type_embedding is not None:
            x = x + self.type_embedding(inputs.types)
        return x, x

    def embed_one(self, time: float, gap: float, type_: int, index: int) -> tuple[Vector, Vector]:
        """``embed`` of a single event, as numpy vectors (d,)."""
        shown = gap / self.time_scale if self.first_gap or index else 0.0
        phases = index * self._position_rates + shown * self._rates_in_numpy()
        x = np.concatenate((np.sin(phases), np.cos(phases))).astype(np.float32)
        if self.type_embedding is not None:
            x += self.type_embedding.weight.detach().numpy()[type_]
        return x, x

    def _rates_in_numpy(self) -> FloatArray:
        rates: FloatArray | None = self.__dict__.get("_gap_rates")
        if rates is None:
            rates = self.__dict__["_gap_rates"] = self.gap_rates.detach().cpu().numpy().astype(np.float64)
        return rates

    def train(self, mode: bool = True) -> SAHP:
        self.__dict__.pop("_gap_rates", None)
        super().train(mode)
        return self

    def encode(self, x: Tensor, extra: Tensor, attend: Attend, layers: Sequence[Weights]) -> Tensor:
        d = (self.d,)
        drop = self.dropout if self.training else 0.0
        for i, w in enumerate(layers):
            y = torch.layer_norm(x, d, w["norm1_weight"], w["norm1_bias"], _EPS)
            a = attend(i, F.linear(y, w["qkv_weight"], w["qkv_bias"]))
            if self.output_projection:
                a = F.linear(a, w["out_weight"], w["out_bias"])
            x = x + (F.dropout(a, drop) if drop else a)
            if self.d_inner:
                y = torch.layer_norm(x, d, w["norm2_weight"], w["norm2_bias"], _EPS)
                z = F.linear(F.gelu(F.linear(y, w["inner_weight"], w["inner_bias"])), w["outer_weight"], w["outer_bias"])
                x = x + (F.dropout(z, drop) if drop else z)
        return torch.layer_norm(x, d, self.norm.weight, self.norm.bias, _EPS)
