"""The stress draft: a draft made poor on purpose, its density still known exactly.

Exactness may not depend on the draft, but the power to see a fault does, about as TV(p, q)^2: a good draft blinds the suite. So the
law is also checked with a proposal whose log-gap locations are shifted and scales widened, whose types are tempered and tilted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from reference_impls.base import Law, Model, scores_from_conditionals
from reference_impls.heads.lognormal_mixture import LogNormalMixture
from reference_impls.heads.types import TypesTempered
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import FloatArray, IntArray, Scores


@dataclass(frozen=True)
class StressDraft:
    """Wraps a model whose laws are log-normal mixtures; ``shift`` and ``widen`` act on the standardised log gap."""

    base: Model
    shift: float = 0.5
    widen: float = 1.3
    temperature: float = 2.0
    tilt: float = 0.8

    @property
    def name(self) -> str:
        return f"{self.base.name}-stress"

    @property
    def n_types(self) -> int:
        return self.base.n_types

    def _poor(self, law: Law) -> Law:
        if not isinstance(law, LogNormalMixture):
            raise TypeError(f"{self.base.name}: a stress draft is made of log-normal mixtures, not of {type(law).__name__}.")
        types = law.types
        if self.n_types > 1:
            tilt = self.tilt * np.cos(np.pi * np.arange(self.n_types))
            types = TypesTempered(law.types, self.temperature, tilt)
        return replace(law, loc=law.loc + self.shift, log_scale=law.log_scale + np.log(self.widen), types=types)

    def start(self, n: int, capacity: int) -> Any:
        return self.base.start(n, capacity)

    def initial(self, n: int) -> Law:
        return self._poor(self.base.initial(n))

    def extend(self, cache: Any, gaps: FloatArray, types: IntArray, counts: IntArray) -> Law:
        return self._poor(self.base.extend(cache, gaps, types, counts))

    def law_after(self, gaps: FloatArray, types: IntArray, lengths: IntArray) -> Law:
        return self._poor(self.base.law_after(gaps, types, lengths))

    def conditionals(self, batch: EventBatch) -> Law:
        return self._poor(self.base.conditionals(batch))

    def score(self, batch: EventBatch) -> Scores:
        if batch.horizon is not None:
            batch = EventBatch(batch.gaps, batch.types, batch.lengths, batch.n_types)
        return scores_from_conditionals(batch, self.conditionals(batch), None)
