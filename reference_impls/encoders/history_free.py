"""No history at all: an empty context, so that a head's biases are one law for every event. A fitted renewal process with i.i.d. types."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from reference_impls.encoders.stepwise import Columns, Step, StepEncoder, Vector
from tppsd_bench.protocols import IntArray


class HistoryFree(StepEncoder):
    """The floor of every draft zoo: d = 0, nothing kept."""

    width = reach = 0

    def __init__(self, n_types: int, **inputs: Any) -> None:
        super().__init__(n_types, 0, 0, **inputs)

    def embed(self, features: Tensor, types: Tensor) -> Tensor:
        return features[..., :0]

    def forward(self, x: Tensor) -> Tensor:
        return x

    def stepper(self) -> Step:
        def step(features: Vector, types: IntArray | int, columns: Columns) -> Vector:
            return features[..., :0]

        return step
