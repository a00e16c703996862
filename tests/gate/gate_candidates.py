"""What a gate is shown: the reference sampler, and the same with one change, chosen by the variable GATE_CHANGE when it draws.

wasteful: a target forward too many in 5 % of rounds. busy: a fifth more CPU time. tilted: a linear tilt of u of total variation .02
before the quantile, in a target wrapped around the real one (the trace is withheld, as it would say so). untraced: tilted by nothing.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from reference_impls.mutants.around import Around
from reference_impls.pairs import load_pair
from tppsd_bench.protocols import SampleRequest, SampleRun, SamplerUnderTest

WASTE, BUSY, TV = 0.05, 0.2, 0.02
PAIR, K, BATCH = "toy-marked", 5, 256


@dataclass(frozen=True)
class TiltedLaw:
    """f(gap) g(F(gap)) with g(u) = 1 + e (2u - 1): total variation e/4 from f."""

    inner: Any
    e: float

    @property
    def n_types(self) -> int:
        return int(self.inner.n_types)

    def __len__(self) -> int:
        return len(self.inner)

    def take(self, rows: Any) -> TiltedLaw:
        return replace(self, inner=self.inner.take(rows))

    @classmethod
    def concat(cls, laws: Any) -> TiltedLaw:
        return cls(type(laws[0].inner).concat([law.inner for law in laws]), laws[0].e)

    def log_gap_bumps(self) -> Any:
        return self.inner.log_gap_bumps()

    def log_prob(self, gap: Any) -> Any:
        return self.inner.log_prob(gap) + np.log1p(self.e * (2 * self.inner.cdf(gap) - 1))

    def cdf(self, gap: Any) -> Any:
        return self.inner.cdf(gap) * (1 - self.e * self.inner.sf(gap))

    def sf(self, gap: Any) -> Any:
        return self.inner.sf(gap) * (1 + self.e * self.inner.cdf(gap))

    def quantile(self, u: Any) -> Any:
        b = 1 - self.e
        return self.inner.quantile((np.sqrt(b * b + 4 * self.e * u) - b) / (2 * self.e))

    def sample_gap(self, u: Any) -> Any:
        return self.quantile(u[..., 0])

    def type_log_probs(self, gap: Any) -> Any:
        return self.inner.type_log_probs(gap)


@dataclass(frozen=True)
class TiltedModel(Around):
    e: float = 4 * TV

    def initial(self, n: int) -> Any:
        return TiltedLaw(self.inner.initial(n), self.e)

    def extend(self, cache: Any, gaps: Any, types: Any, counts: Any) -> Any:
        return TiltedLaw(self.inner.extend(cache, gaps, types, counts), self.e)


@dataclass(frozen=True)
class Changed:
    """The sampler around which the change is laid."""

    inner: Any

    @property
    def declares(self) -> Any:
        return self.inner.declares

    def sample(self, request: SampleRequest) -> SampleRun:
        change = os.environ.get("GATE_CHANGE", "")
        if change == "tilted":
            tilted = replace(self.inner, target=TiltedModel(self.inner.target))
            return replace(tilted.sample(request), trace=None)
        begun = time.process_time()
        run: SampleRun = self.inner.sample(request)
        if change == "untraced":
            return replace(run, trace=None)
        if change == "wasteful":
            rng = request.key.replace(purpose="waste").generator(request.first_sequence)
            run.counts.target_row_forwards += int(rng.binomial(run.counts.rounds, WASTE))
        if change == "busy":
            enough = begun + (1 + BUSY) * (time.process_time() - begun)
            while time.process_time() < enough:
                pass
        return run


def make() -> tuple[SamplerUnderTest, Any, Any, SamplerUnderTest]:
    """A factory as a suite names it."""
    pair = load_pair(PAIR)
    sampler = Changed(pair.sampler("speculative", k=K, batch_size=BATCH))
    return sampler, pair.target, pair.drafts["shipped"], pair.sampler("target_only")
