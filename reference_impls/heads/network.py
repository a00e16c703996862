"""The head as a network: context -> raw parameters (torch), raw parameters -> law (float64 numpy)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from reference_impls.heads.lognormal_mixture import LogNormalMixture
from reference_impls.heads.types import GAP_FEATURES, OneType, TypeLaw, TypesGivenGap, TypesIndependent

LOG_SCALE_RANGE = (-5.0, 3.0)


class MixtureHead(nn.Module):
    """Log-normal mixture over gaps x types; types independent of the gap, or conditioned on it (``types_given_gap``).

    ``forward`` maps contexts (..., d) to raw rows (..., P): C locations, C log scales, C logits, then type logits (M) or the
    per-history part of the type network (h). One matrix product, so that a step costs one call.
    """

    log_mean: Tensor
    log_std: Tensor

    def __init__(self, d: int, n_types: int, n_components: int = 16, types_given_gap: bool = False, hidden: int = 32) -> None:
        super().__init__()
        self.n_types, self.n_components, self.types_given_gap = n_types, n_components, types_given_gap
        type_rows = 0 if n_types == 1 else hidden if types_given_gap else n_types
        self.raw = nn.Linear(d, 3 * n_components + type_rows)
        with torch.no_grad():  # start with components spread over the standardised log gap
            self.raw.weight[: 3 * n_components] *= 0.1
            self.raw.bias.zero_()
            self.raw.bias[:n_components] = torch.linspace(-2.0, 2.0, n_components)
        if types_given_gap:
            self.gap_weight = nn.Parameter(0.3 * torch.randn(GAP_FEATURES, hidden))
            self.out = nn.Linear(hidden, n_types)
        self.register_buffer("log_mean", torch.zeros((), dtype=torch.float64))
        self.register_buffer("log_std", torch.ones((), dtype=torch.float64))

    def forward(self, context: Tensor) -> Tensor:
        out: Tensor = self.raw(context)
        return out

    def log_likelihood(self, raw: Tensor, gaps: Tensor, types: Tensor) -> Tensor:
        """log p(gap, type) of each row, differentiable; for training (the law itself is the numpy one)."""
        c = self.n_components
        z = (torch.log(gaps) - self.log_mean) / self.log_std
        z32 = z.to(raw.dtype)
        log_scale = raw[..., c : 2 * c].clamp(*LOG_SCALE_RANGE)
        log_weight = F.log_softmax(raw[..., 2 * c : 3 * c], dim=-1)
        s = (z32[..., None] - raw[..., :c]) * torch.exp(-log_scale)
        log_f = torch.logsumexp(log_weight - 0.5 * s * s - log_scale, dim=-1) - 0.9189385332046727
        log_f = log_f - (self.log_std.log() + torch.log(gaps)).to(raw.dtype)
        if self.n_types == 1:
            return log_f
        if self.types_given_gap:
            clipped = z32.clamp(-6.0, 6.0)
            features = torch.stack([clipped, 0.25 * clipped * clipped, torch.tanh(2.0 * clipped)], dim=-1)
            logits = self.out(torch.tanh(raw[..., 3 * c :] + features @ self.gap_weight))
        else:
            logits = raw[..., 3 * c :]
        return log_f + F.log_softmax(logits, dim=-1).gather(-1, types[..., None]).squeeze(-1)

    def log_survival(self, raw: Tensor, waits: Tensor) -> Tensor:
        """log P(gap > wait) of each row, differentiable; for training on sequences that are cut at a horizon."""
        c = self.n_components
        z = (torch.log(waits) - self.log_mean) / self.log_std
        log_scale = raw[..., c : 2 * c].clamp(*LOG_SCALE_RANGE)
        s = (z.to(raw.dtype)[..., None] - raw[..., :c]) * torch.exp(-log_scale)
        log_weight = F.log_softmax(raw[..., 2 * c : 3 * c], dim=-1)
        return torch.logsumexp(log_weight + torch.special.log_ndtr(-s), dim=-1)

    def law(self, raw: NDArray[np.float32]) -> LogNormalMixture:
        """The law of each raw row (n, P), in float64."""
        c = self.n_components
        r = raw.astype(np.float64)
        log_scale = np.minimum(np.maximum(r[:, c : 2 * c], LOG_SCALE_RANGE[0]), LOG_SCALE_RANGE[1])
        constants = self._constants()
        types: TypeLaw
        if self.n_types == 1:
            types = OneType(len(r))
        elif self.types_given_gap:
            types = TypesGivenGap(r[:, 3 * c :], constants["gap"], constants["out"], constants["bias"])
        else:
            types = TypesIndependent(r[:, 3 * c :])
        return LogNormalMixture(r[:, :c], log_scale, r[:, 2 * c : 3 * c], types, constants["a"], constants["b"])

    def _constants(self) -> dict[str, Any]:
        cached: dict[str, Any] | None = self.__dict__.get("_numpy")
        if cached is None:
            cached = {"a": float(self.log_std), "b": float(self.log_mean)}
            if self.types_given_gap:
                cached["gap"] = self.gap_weight.detach().cpu().numpy().astype(np.float64)
                cached["out"] = self.out.weight.detach().cpu().numpy().astype(np.float64).T
                cached["bias"] = self.out.bias.detach().cpu().numpy().astype(np.float64)
            if not self.training:
                self.__dict__["_numpy"] = cached
        return cached

    def train(self, mode: bool = True) -> MixtureHead:
        self.__dict__.pop("_numpy", None)
        super().train(mode)
        return self
