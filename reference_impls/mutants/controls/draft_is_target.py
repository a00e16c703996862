"""The target drafts for itself: every proposal must be accepted."""

from __future__ import annotations

from dataclasses import replace

from reference_impls.mutants.base import Mutant

MUTANT = Mutant(
    name="draft_is_target",
    broken="Nothing; the draft is the target, so that p / q is 1 everywhere.",
    precedent="the usual smoke test of speculative decoders",
    change=lambda sampler, _: replace(sampler, draft=sampler.target),
    control=True,
)
