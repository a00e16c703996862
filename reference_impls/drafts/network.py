"""StepNetwork: a ``StepEncoder`` and a head as a ``base.Model``; and the early exit of a target."""

from __future__ import annotations

import warnings
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reference_impls.encoders.stepwise import Step, StepCache, StepEncoder, Vector, as_numpy
from reference_impls.heads.lognormal_mixture import LogNormalMixture
from reference_impls.network import NeuralModel
from tppsd_bench.errors import InputError
from tppsd_bench.protocols import FloatArray, IntArray


class StepNetwork(NeuralModel):
    """LSTM, GRU, convolution, or no history at all. Trains and scores in torch; samples event by event in numpy."""

    encoder: StepEncoder

    def __init__(self, config: dict[str, Any]) -> None:
        with warnings.catch_warnings():  # without history the head has no weights, only biases: that is meant
            warnings.filterwarnings("ignore", message="Initializing zero-element tensors", category=UserWarning)
            super().__init__(config)

    def start(self, n: int, capacity: int) -> StepCache:  # type: ignore[override]
        return StepCache(self.encoder, n, capacity)

    def extend(self, cache: StepCache, gaps: FloatArray, types: IntArray, counts: IntArray) -> LogNormalMixture:  # type: ignore[override]
        n, m = gaps.shape
        cache.reserve((int(cache.lengths[0]) if n == 1 else int(cache.lengths.max(initial=0))) + m)
        contexts = self._one_by_one(cache, gaps, types) if n == 1 else self._side_by_side(cache, gaps, types)
        cache.lengths = cache.lengths + counts
        _, weight, bias = self._steps()
        raw = np.dot(contexts, weight)
        raw += bias
        return self.head.law(raw)

    def _one_by_one(self, cache: StepCache, gaps: FloatArray, types: IntArray) -> Vector:
        """Contexts (m, d) of one sequence's new events; padding beyond its count is overwritten by the next."""
        step, encoder, first = self._steps()[0], self.encoder, int(cache.lengths[0])
        times = cache.clock(gaps)
        if len(gaps[0]) == 1:
            features = encoder.features_one(float(gaps[0, 0]), 0.0 if times is None else float(times[0, 0]))
            return step(features, int(types[0, 0]), cache.columns(0, first))[None]
        out = np.empty((gaps.shape[1], encoder.d), dtype=np.float32)
        for j in range(len(out)):
            features = encoder.features_one(float(gaps[0, j]), 0.0 if times is None else float(times[0, j]))
            out[j] = step(features, int(types[0, j]), cache.columns(0, first + j))
        return out

    def _side_by_side(self, cache: StepCache, gaps: FloatArray, types: IntArray) -> Vector:
        """Contexts (n * m, d) of a batch, each row at its own position."""
        step, rows = self._steps()[0], np.arange(len(gaps))
        features = self.encoder.features(gaps, cache.clock(gaps))
        out = np.empty((*gaps.shape, self.encoder.d), dtype=np.float32)
        for j in range(gaps.shape[1]):
            out[:, j] = step(features[:, j], types[:, j], cache.columns(rows, cache.lengths + j))
        return out.reshape(gaps.size, self.encoder.d)

    def _steps(self) -> tuple[Step, Vector, Vector]:
        """The encoder's step and the head's weights (d, P) and biases (P,), as numpy copies."""
        kept: tuple[Step, Vector, Vector] | None = self.__dict__.get("_stepper")
        if kept is None:
            with torch.no_grad():
                kept = self.encoder.stepper(), as_numpy(self.head.raw.weight.T), as_numpy(self.head.raw.bias)
            if not self.training:
                self.__dict__["_stepper"] = kept
        return kept

    def _forget_copies(self) -> None:
        super()._forget_copies()
        self.__dict__.pop("_stepper", None)

    def _contexts(self, gaps: FloatArray, types: IntArray) -> Tensor:
        features = torch.from_numpy(self.encoder.features(gaps, np.cumsum(gaps, axis=1))).to(self.device)
        out: Tensor = self.encoder(self.encoder.embed(features, torch.from_numpy(types).to(self.device)))
        return out


class EarlyExit(NeuralModel):
    """The first ``n`` layers of a target, by its own weights and frozen, under a head of its own.

    What it learns: the head, the context of the first event, and the final norm where the encoder has one.
    """

    def __init__(self, target: NeuralModel, config: dict[str, Any]) -> None:
        """``config``: {"exit_after": n, "head_args": {...}} and the target's own entries, which are filled in."""
        after, deep = int(config["exit_after"]), int(target.encoder.n_layers)
        if not 0 < after <= deep:
            raise InputError(
                f"{config.get('name', 'draft')}: an exit after {after} layers of a target of {deep}; expected 1..{deep}."
            )
        of = deepcopy(target.config)
        own = {
            "encoder": of["encoder"],
            "n_types": of["n_types"],
            "encoder_args": {**of["encoder_args"], "n_layers": after, "dropout": 0.0},
        }
        super().__init__({**config, **own})
        mine = self.encoder.state_dict()
        self.encoder.load_state_dict({name: w.clone() for name, w in target.encoder.state_dict().items() if name in mine})
        for name, weight in self.encoder.named_parameters():
            weight.requires_grad_(name.startswith("norm."))
        self.to(target.device)

    def is_own(self, name: str) -> bool:
        """Whether a weight of this name is the draft's own, not the target's."""
        return not name.startswith("encoder.") or name.startswith("encoder.norm.")
