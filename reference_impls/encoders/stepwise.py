"""Encoders that move event by event: what they see of an event, and a cache of one state per position.

A recurrent network keeps its state after every event, a convolution the inputs of its layers; either way rolling back is a change of
length. The cached path is numpy on the host whatever the device of the weights: such a network is a draft, it is called with one
event at a time, and there a torch operation costs ten times its arithmetic. Tests hold it to the torch form, which trains, at 1e-5.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from reference_impls.encoders.base import sinusoid_rates, sinusoid_shifts
from reference_impls.heads.types import GAP_FEATURES, gap_features
from tppsd_bench.protocols import FloatArray, IntArray

Vector = NDArray[np.float32]
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(slots=True)
class Columns:
    """Where one step reads and writes: each row's own column; with ``rows`` and ``at`` integers, vectors without a batch axis."""

    store: Vector
    """(n, columns, width)"""
    rows: IntArray | int
    at: IntArray | int

    def back(self, distance: int, part: slice) -> Vector:
        """What was written ``distance`` events ago, (n, part) or (part,); zeros before the first event."""
        out: Vector = self.store[self.rows, self.at - distance, part]
        return out

    def write(self, part: slice, value: Vector) -> None:
        self.store[self.rows, self.at, part] = value


Step = Callable[[Vector, IntArray | int, Columns], Vector]
"""(features (n, F) or (F,), types, columns) -> contexts (n, d) or (d,); writes the state of the event it is given."""


class StepEncoder(nn.Module):
    """Base: the event's input x = W f(gap[, time]) + b + embedding(type), f = (z, z^2 / 4, tanh 2z) of the standardised log gap z.

    ``log_gap``: mean and standard deviation of ln gap. ``d_time`` > 0 appends that many sines of the absolute time, phases in
    float64, for processes whose law depends on the clock. ``width``: numbers kept per position; ``reach``: how many positions back
    a step reads.
    """

    n_heads = 1
    width: int
    reach: int

    def __init__(
        self, n_types: int, n_layers: int, d: int, log_gap: tuple[float, float] = (0.0, 1.0), d_time: int = 0, time_scale: float = 1.0
    ) -> None:  # fmt: skip
        super().__init__()
        self.n_layers, self.d, self.d_time, self.time_scale = n_layers, d, d_time, time_scale
        self._mean, self._std = float(log_gap[0]), float(log_gap[1])
        self._rates, self._shifts = sinusoid_rates(d_time), sinusoid_shifts(d_time)
        self.input = nn.Linear(GAP_FEATURES + d_time, d) if d else None
        self.type_embedding = nn.Embedding(n_types, d) if n_types > 1 and d else None
        if self.type_embedding is not None:
            with torch.no_grad():
                self.type_embedding.weight *= 0.5

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    # -- what an event looks like ------------------------------------------------------------------------------------------
    def features(self, gaps: FloatArray, times: FloatArray | None) -> Vector:
        """(..., F) float32; ``times`` may be None without ``d_time``."""
        out = gap_features((np.log(np.maximum(gaps, _TINY)) - self._mean) / self._std)  # padding may hold zeros
        if self.d_time and times is not None:
            phases = (times / self.time_scale)[..., None] * self._rates + self._shifts
            out = np.concatenate([out, np.sin(phases)], axis=-1)
        single: Vector = out.astype(np.float32)
        return single

    def features_one(self, gap: float, time: float) -> Vector:
        """The same for one event, (F,), without array overhead."""
        z = min(max((math.log(gap) - self._mean) / self._std, -6.0), 6.0)
        out = np.array((z, 0.25 * z * z, math.tanh(2.0 * z)), dtype=np.float32)
        if self.d_time:
            phases = np.sin(self._rates * (time / self.time_scale) + self._shifts)
            out = np.concatenate((out, phases.astype(np.float32)))
        return out

    def embed(self, features: Tensor, types: Tensor) -> Tensor:
        """(n, m, d) inputs of the first layer."""
        assert self.input is not None
        x: Tensor = self.input(features)
        return x if self.type_embedding is None else x + self.type_embedding(types)

    def folded_input(self, weight: Tensor, bias: Tensor) -> tuple[Vector, Vector]:
        """The input and a linear layer behind it as one: (F, out) and one row of biases for each type, (M, out)."""
        assert self.input is not None
        shift = self.input.bias[None] if self.type_embedding is None else self.type_embedding.weight + self.input.bias
        return as_numpy((weight @ self.input.weight).T), as_numpy(shift @ weight.T + bias)

    # -- what a member states ----------------------------------------------------------------------------------------------
    def forward(self, x: Tensor) -> Tensor:
        """Contexts (n, m, d) of whole sequences of inputs, differentiable."""
        raise NotImplementedError

    def stepper(self) -> Step:
        """The same one event at a time, with numpy copies of the weights."""
        raise NotImplementedError


def as_numpy(weight: Tensor) -> Vector:
    out: Vector = np.ascontiguousarray(weight.detach().cpu().numpy(), dtype=np.float32)
    return out


class StepCache:
    """States of ``n`` histories by position, each history with its own length. Implements ``base.Cache``."""

    def __init__(self, encoder: StepEncoder, n: int, capacity: int) -> None:
        self.lengths = np.zeros(n, dtype=np.int64)
        self._reach = encoder.reach
        self.store = np.zeros((n, encoder.reach + capacity, encoder.width), dtype=np.float32)
        """(sequence, column, width); the first ``reach`` columns are the zeros before the first event."""
        self.times = np.zeros((n, capacity + 1 if encoder.d_time else 0))
        """Event times with a leading 0; kept only where the encoder looks at the clock."""

    def rollback(self, lengths: IntArray) -> None:
        self.lengths = np.asarray(lengths, dtype=np.int64).copy()

    def keep(self, rows: IntArray) -> None:
        self.lengths, self.store, self.times = self.lengths[rows], self.store[rows], self.times[rows]

    def reserve(self, events: int) -> None:
        """Room for ``events`` events a sequence; at least twofold growth, so that appending stays linear."""
        capacity = self.store.shape[1] - self._reach
        if events > capacity:
            extra = max(events, 2 * capacity) - capacity
            self.store = np.pad(self.store, ((0, 0), (0, extra), (0, 0)))
            if self.times.shape[1]:
                self.times = np.pad(self.times, ((0, 0), (0, extra)))

    def columns(self, rows: IntArray | int, positions: IntArray | int) -> Columns:
        return Columns(self.store, rows, positions + self._reach)

    def clock(self, gaps: FloatArray) -> FloatArray | None:
        """Times (n, m) of new events with these gaps, remembered; None where nobody asks."""
        if not self.times.shape[1]:
            return None
        n, m = gaps.shape
        rows = np.arange(n)[:, None]
        times: FloatArray = self.times[rows, self.lengths[:, None]] + np.cumsum(gaps, axis=1)
        self.times[rows, self.lengths[:, None] + 1 + np.arange(m)] = times
        return times
