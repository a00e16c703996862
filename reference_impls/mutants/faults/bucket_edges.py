"""A token is decoded as the middle of its bucket: every gap of a bucket is one and the same number."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from reference_impls.base import Law
from reference_impls.mutants.around import Around
from reference_impls.mutants.base import Mutant, Witness
from reference_impls.samplers.residual import ResidualDraw, ResidualRule, Uniforms
from reference_impls.samplers.speculative import Speculative
from reference_impls.tokens.buckets import TimeBuckets
from reference_impls.tokens.discretise import DiscretisedLaw
from tppsd_bench.protocols import FloatArray, IntArray


def onto_middles(buckets: TimeBuckets, gap: FloatArray, share: float) -> FloatArray:
    """``share`` of the gaps moved to the median of their bucket; which ones, late digits of their place in it decide."""
    below, _ = buckets.shares(gap)
    return np.where(np.modf(below * 1e6)[0] < share, buckets.middles()[buckets.bucket_of(gap)], gap)


@dataclass(frozen=True, eq=False)
class MiddlesOnly(DiscretisedLaw):
    """Token probabilities as they should be, draws moved."""

    share: float = 1.0

    def sample_gap(self, u: FloatArray) -> FloatArray:
        return onto_middles(self.buckets, super().sample_gap(u), self.share)


@dataclass(frozen=True)
class Decoded(Around):
    """A token model whose decoder knows one gap a bucket."""

    share: float = 1.0

    def _decoded(self, law: Any) -> Law:
        return MiddlesOnly(law.base, law.buckets, self.share)

    def initial(self, n: int) -> Law:
        return self._decoded(self.inner.initial(n))

    def extend(self, cache: Any, gaps: FloatArray, types: IntArray, counts: IntArray) -> Law:
        return self._decoded(self.inner.extend(cache, gaps, types, counts))

    def law_after(self, gaps: FloatArray, types: IntArray, lengths: IntArray) -> Law:
        return self._decoded(self.inner.law_after(gaps, types, lengths))


@dataclass(frozen=True)
class DecodedResidual:
    """The right token, its gap moved."""

    inner: ResidualRule
    share: float

    def draw(self, p: Law, q: Law, rows: IntArray, uniforms: Uniforms, joint: bool) -> ResidualDraw:
        drawn = self.inner.draw(p, q, rows, uniforms, joint)
        assert isinstance(p, DiscretisedLaw)
        return replace(drawn, gap=onto_middles(p.buckets, drawn.gap, self.share))


def decode(sampler: Speculative, dose: float) -> Speculative:
    """``dose``: the share of tokens that are decoded so."""
    target, draft = Decoded(sampler.target, dose), Decoded(sampler.draft, dose)
    return replace(sampler, target=target, draft=draft, residual=DecodedResidual(sampler.residual, dose))


def decode_target_only(sampler: Any) -> Any:
    return replace(sampler, target=Decoded(sampler.target, DOSE))


DOSE = 0.3
"""Of a whole run on middles not even a law can be asked for: the evidence is refused, its clock being too coarse."""
MUTANT = Mutant(
    name="bucket_edges",
    broken="Gaps are put on the middle of their bucket.",
    precedent="time buckets without a law inside them, as blog posts on sampling point processes advise",
    change=decode,
    killers=("tail.atoms", "validity.clock"),
    blessed_by=("histograms over the same buckets", "types", "acceptance", "pit_time"),
    witness=Witness("toy-tokens"),
    shared=decode_target_only,
    doses=(0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
    dose=DOSE,
)
