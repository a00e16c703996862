"""Distillation of a draft from its target: L = a D + (1 - a) NLL, the divergence D in continuous time by quadrature on log gap.

D compares the two laws of the next (gap, type) after every history of the data, not one event drawn from the target's:
    target_draft   KL(p || q) = int p log(p / q),    p the target, q the draft
    draft_target   KL(q || p)
    acceptance     1 - int min(p, q)(gap) sum_k min(p, q)(k | gap): what two-step verification rejects, itself
Types enter both divergences by the chain rule, KL(gap) + E KL(type | gap). The trapezoidal sum over an even grid in log gap is exact
to rounding for bumps not narrower than its step. Between laws over tokens the sum over buckets is exact, and no grid is needed.
Of p only the gradient-free head rows are needed; they are computed once.

Why ``target_draft`` is the default of the two divergences: both bound what is rejected alike (Pinsker, TV <= sqrt(KL / 2)), but KL(q || p)
forgives a draft that misses a part of p, while every such part is a rejection; and KL(p || q) is what maximum likelihood estimates
from one event a history, here without that noise. ``docs/drafts.md`` has the measurements; ``acceptance`` was at least as good as both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from reference_impls.heads.network import LOG_SCALE_RANGE, MixtureHead
from reference_impls.network import NeuralModel
from reference_impls.tokens.head import TokenHead
from reference_impls.training.fit import EpochData
from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import FloatArray, IntArray

Head = MixtureHead | TokenHead
Direction = Literal["target_draft", "draft_target", "acceptance"]
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_BEYOND = 1.5
"""Standard deviations of log gap by which the grid goes beyond the shortest and the longest gap of the data."""
HISTORIES = 256
"""Histories of a batch on which the laws are compared, by chance: neighbours differ little, and each compares whole laws."""
_EVENTS, _STRIDE = 8192, 7
"""On validation data, which are taken in parts of this many events: every seventh history (sequences' lengths are rarely sevens)."""


@dataclass(frozen=True)
class Grid:
    """Even nodes in log gap, and their distance."""

    x: Tensor
    """(G,) float64"""
    step: float

    @classmethod
    def over(cls, gaps: FloatArray, n_nodes: int) -> Grid:
        """Nodes from beyond the shortest to beyond the longest of ``gaps``."""
        logs = np.log(gaps)
        margin = _BEYOND * float(logs.std())
        return cls.between(float(logs.min()) - margin, float(logs.max()) + margin, n_nodes)

    @classmethod
    def between(cls, low: float, high: float, n_nodes: int) -> Grid:
        return cls(torch.linspace(low, high, n_nodes, dtype=torch.float64), (high - low) / (n_nodes - 1))


def gap_log_density(head: MixtureHead, raw: Tensor, grid: Grid) -> Tensor:
    """log density per unit of log gap of each raw row's law at the nodes: (N, P) -> (N, G), differentiable."""
    c = head.n_components
    z = ((grid.x - head.log_mean) / head.log_std).to(raw.dtype)
    log_scale = raw[:, c : 2 * c].clamp(*LOG_SCALE_RANGE)
    peak = F.log_softmax(raw[:, 2 * c : 3 * c], dim=-1) - log_scale
    s = (z[:, None] - raw[:, None, :c]) * torch.exp(-log_scale)[:, None]
    return torch.logsumexp(peak[:, None] - 0.5 * s * s, dim=-1) - (_LOG_SQRT_2PI + float(head.log_std.log()))


def type_log_probs(head: MixtureHead, raw: Tensor, grid: Grid) -> Tensor:
    """log p(k | gap) of each raw row at the nodes, (N, G, M); with one node's axis, (N, 1, M), where types ignore the gap."""
    rest = raw[:, 3 * head.n_components :]
    if not head.types_given_gap:
        return F.log_softmax(rest, dim=-1)[:, None]
    z = ((grid.x - head.log_mean) / head.log_std).to(raw.dtype).clamp(-6.0, 6.0)
    features = torch.stack([z, 0.25 * z * z, torch.tanh(2.0 * z)], dim=-1)
    hidden = torch.tanh(rest[:, None] + (features @ head.gap_weight)[None])
    return F.log_softmax(head.out(hidden), dim=-1)


def token_log_probs(head: TokenHead, raw: Tensor) -> tuple[Tensor, Tensor]:
    """log P(bucket), (N, B), and log P(k | bucket), (N, B, M), of each raw row, differentiable."""
    n_buckets = len(head.buckets)
    if head.joint:
        table = F.log_softmax(raw, dim=-1).view(len(raw), n_buckets, head.n_types)
        buckets = torch.logsumexp(table, dim=-1)
        return buckets, table - buckets[..., None]
    hidden = torch.tanh(raw[:, None, n_buckets:] + head.bucket_weight)
    return F.log_softmax(raw[:, :n_buckets], dim=-1), F.log_softmax(head.out(hidden), dim=-1)


def _on_nodes(head: Head, raw: Tensor, grid: Grid) -> tuple[Tensor, Tensor, float]:
    """Log densities at the nodes, log type probabilities there, and the nodes' weight; of tokens, the buckets are the nodes."""
    if isinstance(head, TokenHead):
        return *token_log_probs(head, raw), 1.0
    density = gap_log_density(head, raw, grid)
    return density, type_log_probs(head, raw, grid) if head.n_types > 1 else density[..., None], grid.step


def divergence(p: tuple[Head, Tensor], q: tuple[Head, Tensor], grid: Grid, direction: Direction) -> Tensor:
    """D of each row, (N,); ``p`` and ``q`` are a head and raw rows (N, P) of it, both over tokens or neither. Differentiable in both.

    The KLs are those of unnormalised measures, int f log(f / g) - f + g: equal to KL where the grid holds both laws, and never
    negative, so that a draft gains nothing by putting its mass off the grid.
    """
    many = p[0].n_types > 1
    (log_p, types_p, step), (log_q, types_q, _) = _on_nodes(*p, grid), _on_nodes(*q, grid)
    if direction == "acceptance":
        common = torch.exp(torch.minimum(log_p, log_q))
        if many:
            common = common * torch.exp(torch.minimum(types_p, types_q)).sum(dim=-1)
        return 1.0 - step * common.sum(dim=-1)
    if direction == "draft_target":
        log_p, log_q, types_p, types_q = log_q, log_p, types_q, types_p
    density = torch.exp(log_p)
    of_types = (torch.exp(types_p) * (types_p - types_q)).sum(dim=-1) if many else 0.0
    return step * (density * (log_p - log_q + of_types) - density + torch.exp(log_q)).sum(dim=-1)


@dataclass(frozen=True)
class Distillation:
    """The objective ``a D + (1 - a) NLL`` for ``training.fit``; ``weight`` is a."""

    target: NeuralModel
    weight: float
    direction: Direction
    grid: Grid
    data: EpochData
    """The training data by epoch, over and over the same few epochs: what the target says of them is kept."""
    key: Callable[[int], int] = lambda epoch: epoch
    """Epoch -> which of the few."""
    rows: dict[int, Tensor] = field(default_factory=dict)
    """The target's raw head rows (N, P), by key; -1 for the validation data. May be shared by several drafts of one target."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.weight <= 1.0:
            raise InputError(
                f"distill.weight = {self.weight:g}: expected a share between 0 (likelihood) and 1 (the target alone)."
            )
        if self.direction not in get_args(Direction):
            raise InputError(f"distill.direction = {self.direction!r}: expected one of {', '.join(get_args(Direction))}.")

    def _target_rows(self, key: int, data: EventBatch) -> Tensor:
        if key not in self.rows:
            self.rows[key] = torch.from_numpy(self.target.raw_contexts(data)[0])
        return self.rows[key]

    def loss(self, model: NeuralModel, part: EventBatch, epoch: int, rows: IntArray) -> Tensor:
        data = self.data(epoch)
        of = self._target_rows(self.key(epoch), data)
        at = np.concatenate([np.arange(data.offsets[i], data.offsets[i + 1]) for i in rows])
        some = torch.randperm(len(at))[:HISTORIES].sort().values
        return self._mean(model, part, of[torch.from_numpy(at)[some]], some)

    @torch.no_grad()
    def held_out(self, model: NeuralModel, validation: EventBatch) -> float:
        of, total = self._target_rows(-1, validation), 0.0
        each = max(1, _EVENTS * len(validation) // validation.n_events)
        for begin in range(0, len(validation), each):
            part = validation.select(slice(begin, begin + each))
            if part.n_events:
                some = torch.arange(0, part.n_events, _STRIDE)
                mine = of[int(validation.offsets[begin]) + some]
                total += float(self._mean(model, part, mine, some)) * part.n_events
        return total / validation.n_events

    def _mean(self, model: NeuralModel, part: EventBatch, of: Tensor, some: Tensor) -> Tensor:
        """NLL over the events of a batch, D over ``some`` of them, for which ``of`` are the target's rows."""
        gaps, types = part.padded(fill_gap=1.0)
        keep = torch.from_numpy(np.arange(gaps.shape[1]) < part.lengths[:, None])
        raw = model.raw_rows(gaps, types)[keep.to(model.device)]
        out = torch.zeros((), device=model.device)
        if self.weight < 1.0:
            events = torch.from_numpy(part.gaps).to(model.device), torch.from_numpy(part.types).to(model.device)
            out = out - (1.0 - self.weight) * model.head.log_likelihood(raw, *events).mean()
        if self.weight > 0.0:
            mine = (model.head, raw[some.to(model.device)])
            out = out + self.weight * divergence((self.target.head, of), mine, self.grid, self.direction).mean()
        return out
