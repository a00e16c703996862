"""Causal convolution over events, dilated (van den Oord et al. 2016, arXiv 1609.03499), with residual layers.

x <- x + W_o relu(sum_j W_j x[i - j delta_l] + b) + b_o, j = 0 .. kernel - 1, dilation delta_l = kernel^l. A context sees the last
(kernel - 1) sum_l delta_l + 1 = kernel^layers events and nothing before them; earlier inputs count as zeros.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reference_impls.encoders.stepwise import Columns, Step, StepEncoder, Vector, as_numpy
from tppsd_bench.protocols import IntArray

_ZERO = np.float32(0.0)


class Convolution(StepEncoder):
    """State: the inputs of the layers; a step reads them at its dilations."""

    def __init__(self, n_types: int, n_layers: int = 4, d: int = 32, kernel: int = 3, **inputs: Any) -> None:
        super().__init__(n_types, n_layers, d, **inputs)
        self.kernel = kernel
        self.dilations = [kernel**i for i in range(n_layers)]
        self.width, self.reach = n_layers * d, (kernel - 1) * self.dilations[-1]
        self.taps = nn.ModuleList(nn.Conv1d(d, d, kernel, dilation=delta) for delta in self.dilations)
        self.out = nn.ModuleList(nn.Linear(d, d) for _ in self.dilations)
        with torch.no_grad():
            for layer in self.out:
                layer.weight *= 1.0 / n_layers**0.5

    @property
    def receptive_field(self) -> int:
        """Events that a context depends on, its own included."""
        return int(self.kernel**self.n_layers)

    def forward(self, x: Tensor) -> Tensor:
        for delta, taps, out in zip(self.dilations, self.taps, self.out, strict=True):
            padded = F.pad(x.transpose(1, 2), ((self.kernel - 1) * delta, 0))
            x = x + out(torch.relu(taps(padded)).transpose(1, 2))
        return x

    def stepper(self) -> Step:
        d, kernel = self.d, self.kernel
        identity = torch.eye(d, device=self.device)
        w_in, table = self.folded_input(identity, torch.zeros_like(identity[0]))
        parts = []
        for delta, taps, out in zip(self.dilations, self.taps, self.out, strict=True):
            weight = as_numpy(taps.weight.permute(2, 1, 0).reshape(kernel * d, d))  # type: ignore[operator]
            parts.append((delta, weight, as_numpy(taps.bias), as_numpy(out.weight.T), as_numpy(out.bias)))  # type: ignore[arg-type]

        def step(features: Vector, types: IntArray | int, columns: Columns) -> Vector:
            x = np.dot(features, w_in)
            x += table[types]
            for i, (delta, weight, b, w_out, b_out) in enumerate(parts):
                state = slice(i * d, (i + 1) * d)
                columns.write(state, x)
                seen = [columns.back(j * delta, state) for j in range(kernel - 1, 0, -1)]
                hidden = np.dot(np.concatenate((*seen, x), axis=-1), weight)
                hidden += b
                np.maximum(hidden, _ZERO, out=hidden)
                x = x + np.dot(hidden, w_out)
                x += b_out
            context: Vector = x
            return context

        return step
