"""The verifying pass has no causal mask over its block: a proposal is judged by a law that has seen it and the proposals after it.

Networks attend to the whole block (``block_attention``); toys smooth the memory backwards over it. A pass of one event is causal in
both, so that target-only sampling with a cache is right.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from reference_impls.base import Law, scores_from_conditionals
from reference_impls.mutants.around import Around
from reference_impls.mutants.base import Mutant
from reference_impls.samplers.speculative import Speculative
from reference_impls.toys import ToyCache, ToyModel
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import FloatArray, IntArray, Scores


class NonCausal(Around):
    """What a model without a mask says of a whole sequence that it sees at once, as when it is scored."""

    def conditionals(self, batch: EventBatch) -> Law:
        return self._laws(batch)[0]

    def score(self, batch: EventBatch) -> Scores:
        return scores_from_conditionals(batch, *self._laws(batch))

    def _laws(self, batch: EventBatch) -> tuple[Law, Law]:
        """The laws of every event, and of the one after the last."""
        gaps, types = batch.padded(fill_gap=1.0)
        n, m = gaps.shape
        law = self.extend(self.start(n, m), gaps, types, batch.lengths)
        every = type(law).concat([law, self.initial(1)])
        before = np.where(batch.event_index > 0, batch.sequence_index * m + batch.event_index - 1, n * m)
        after = np.where(batch.lengths > 0, np.arange(n) * m + batch.lengths - 1, n * m)
        return every.take(before), every.take(after)


class Smoothed(NonCausal):
    """A toy whose block encoding smooths the memory backwards: h_j <- (h_j + h_{j+1}) / 2, from the block's end to its beginning."""

    inner: ToyModel

    def extend(self, cache: ToyCache, gaps: FloatArray, types: IntArray, counts: IntArray) -> Law:
        n, m = gaps.shape
        first = cache.lengths[:, None]
        self.inner.extend(cache, gaps, types, counts)
        h = cache.states[np.arange(n)[:, None], first + 1 + np.arange(m)]
        for j in reversed(range(m - 1)):
            h[:, j] = np.where((j + 1 < counts)[:, None], 0.5 * (h[:, j] + h[:, j + 1]), h[:, j])
        return self.inner.law(h.reshape(n * m, -1))


def without_mask(model: Any) -> NonCausal:
    """The same model with a block encoding that is not causal."""
    if isinstance(model, ToyModel):
        return Smoothed(model)
    from reference_impls.mutants.block_attention import SeesWholeBlock  # networks need torch

    return SeesWholeBlock(model)


def unmasked(sampler: Speculative, _: float = 1.0) -> Speculative:
    return replace(sampler, target=without_mask(sampler.target))


MUTANT = Mutant(
    name="noncausal_verify",
    broken="The verifying pass has no causal mask over the block: laws have seen the proposal they judge and those after it.",
    precedent="one encoder of published code of speculative sampling for point processes; a mask the wrong way round: EasyTPP #59",
    change=unmasked,
    killers=(
        "density_agreement.p",
        "pit_time",
        "pair",
        "strata",
        "role_law",
    ),
    blessed_by=("counts in a window",),
)
