"""No gap that a model's head draws, for draft, residual or target, is longer than a maximum: what is beyond it is put exactly there."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from reference_impls.base import Law
from reference_impls.heads.lognormal_mixture import LogNormalMixture
from reference_impls.mutants.around import Around
from reference_impls.mutants.base import Mutant
from reference_impls.samplers.speculative import Speculative
from tppsd_bench.protocols import FloatArray, IntArray


@dataclass(frozen=True)
class ClippedMixture(LogNormalMixture):
    """The density of the mixture, draws of which none exceeds ``maximum``."""

    maximum: float = np.inf

    def sample_gap(self, u: FloatArray) -> FloatArray:
        return np.minimum(super().sample_gap(u), self.maximum)


@dataclass(frozen=True)
class Clipped(Around):
    """A model whose head clips the gaps that it draws."""

    maximum: float = np.inf

    def _clipped(self, law: Any) -> Law:
        return ClippedMixture(**{f.name: getattr(law, f.name) for f in fields(LogNormalMixture)}, maximum=self.maximum)

    def initial(self, n: int) -> Law:
        return self._clipped(self.inner.initial(n))

    def extend(self, cache: Any, gaps: FloatArray, types: IntArray, counts: IntArray) -> Law:
        return self._clipped(self.inner.extend(cache, gaps, types, counts))

    def law_after(self, gaps: FloatArray, types: IntArray, lengths: IntArray) -> Law:
        return self._clipped(self.inner.law_after(gaps, types, lengths))


def clip(sampler: Speculative, dose: float) -> Speculative:
    """``dose``: the share of first gaps beyond the maximum."""
    maximum = _maximum(sampler.target, dose)
    return replace(sampler, target=Clipped(sampler.target, maximum), draft=Clipped(sampler.draft, maximum))


def clip_target_only(sampler: Any, dose: float) -> Any:
    return replace(sampler, target=Clipped(sampler.target, _maximum(sampler.target, dose)))


def _maximum(target: Any, dose: float) -> float:
    return float(target.initial(1).quantile(np.array([1.0 - dose]))[0])


DOSE = 0.1
MUTANT = Mutant(
    name="clip_gap",
    broken="Gaps beyond a maximum are put exactly at it, wherever they are drawn.",
    precedent="a largest time step that draws are cut at (EasyTPP #55); gaps in buckets with a last one, as blog posts advise",
    change=clip,
    killers=("tail", "pit_time", "draft_law"),
    blessed_by=("KS of conditional PITs, up to a dose of 3e-3",),
    shared=lambda sampler: clip_target_only(sampler, DOSE),
    doses=(3e-5, 1e-4, 1e-3, 1e-2, 0.1),
    dose=DOSE,
)
