"""Recurrent encoders, LSTM (Hochreiter and Schmidhuber 1997) and GRU (Cho et al. 2014): the state after an event is its context.

Gates' logistic function is written (1 + tanh(v / 2)) / 2, the halves folded into the weights: one tanh for all gates.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from reference_impls.encoders.stepwise import Columns, Step, StepEncoder, Vector, as_numpy
from tppsd_bench.protocols import IntArray

_ONE, _HALF = np.float32(1.0), np.float32(0.5)


class GRU(StepEncoder):
    """r, u = logistic(W x + V h); n = tanh(W_n x + b + r (V_n h + c)); h' = n + u (h - n). State: h of each layer."""

    reach = 1

    def __init__(self, n_types: int, n_layers: int = 1, d: int = 32, **inputs: Any) -> None:
        super().__init__(n_types, n_layers, d, **inputs)
        self.width = n_layers * d
        self.layers = nn.GRU(d, d, n_layers, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)[0]
        return out

    def stepper(self) -> Step:
        d = self.d
        halves = torch.ones(3 * d, device=self.device)
        halves[: 2 * d] = 0.5
        parts = []
        for i in range(self.n_layers):
            w, v, b, c = (getattr(self.layers, f"{name}_l{i}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
            known = torch.cat([b[: 2 * d] + c[: 2 * d], b[2 * d :]]) * halves
            w = w * halves[:, None]
            first = self.folded_input(w, known) if i == 0 else (as_numpy(w.T), as_numpy(known))
            parts.append((*first, as_numpy(0.5 * v.T), as_numpy(0.5 * c[2 * d :])))  # 0.5 of V_n: r is kept as 1 + tanh

        def step(features: Vector, types: IntArray | int, columns: Columns) -> Vector:
            x = features
            for i, (w, b, v, c) in enumerate(parts):
                state = slice(i * d, (i + 1) * d)
                h = columns.back(1, state)
                given = np.dot(x, w)
                given += b[types] if i == 0 else b
                past = np.dot(h, v)
                gates = np.tanh(given[..., : 2 * d] + past[..., : 2 * d])
                gates += _ONE
                inner = past[..., 2 * d :]
                inner += c
                inner *= gates[..., :d]
                inner += given[..., 2 * d :]
                x = np.tanh(inner)
                update = h - x
                update *= gates[..., d:]
                update *= _HALF
                x += update
                columns.write(state, x)
            return x

        return step


class LSTM(StepEncoder):
    """i, f, o = logistic, g = tanh of W x + V h + b; c' = f c + i g; h' = o tanh c'. State: h and c of each layer."""

    reach = 1

    def __init__(self, n_types: int, n_layers: int = 1, d: int = 32, **inputs: Any) -> None:
        super().__init__(n_types, n_layers, d, **inputs)
        self.width = 2 * n_layers * d
        self.layers = nn.LSTM(d, d, n_layers, batch_first=True)
        with torch.no_grad():  # remember at first: forget gates start near logistic(1)
            for i in range(n_layers):
                getattr(self.layers, f"bias_ih_l{i}")[d : 2 * d] += 1.0

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)[0]
        return out

    def stepper(self) -> Step:
        d = self.d
        i_f_o_g = [torch.arange(2 * d), torch.arange(3 * d, 4 * d), torch.arange(2 * d, 3 * d)]
        order = torch.cat(i_f_o_g).to(self.device)
        halves = torch.ones(4 * d, device=self.device)
        halves[: 3 * d] = 0.5
        parts = []
        for i in range(self.n_layers):
            w, v = (getattr(self.layers, f"weight_{name}_l{i}")[order] * halves[:, None] for name in ("ih", "hh"))
            b = (getattr(self.layers, f"bias_ih_l{i}") + getattr(self.layers, f"bias_hh_l{i}"))[order] * halves
            first = self.folded_input(w, b) if i == 0 else (as_numpy(w.T), as_numpy(b))
            parts.append((*first, as_numpy(v.T)))

        def step(features: Vector, types: IntArray | int, columns: Columns) -> Vector:
            x = features
            for i, (w, b, v) in enumerate(parts):
                state = slice(2 * i * d, 2 * (i + 1) * d)
                before = columns.back(1, state)
                gates = np.dot(x, w)
                gates += b[types] if i == 0 else b
                gates += np.dot(before[..., :d], v)
                np.tanh(gates, out=gates)
                shares = gates[..., : 3 * d]
                shares += _ONE
                shares *= _HALF
                cell = shares[..., d : 2 * d] * before[..., d:]
                cell += shares[..., :d] * gates[..., 3 * d :]
                x = np.tanh(cell)
                x *= shares[..., 2 * d :]
                columns.write(state, np.concatenate((x, cell), axis=-1))
            return x

        return step
