"""K follows the acceptance seen so far: it depends on the past alone, and the law does not notice."""

from __future__ import annotations

from dataclasses import replace

from reference_impls.mutants.base import Mutant
from reference_impls.samplers.policy import AdaptiveK

MUTANT = Mutant(
    name="k_varies",
    broken="Nothing; each round's K is chosen from the acceptance of earlier rounds.",
    precedent="adaptive draft lengths of many speculative decoders",
    change=lambda sampler, _: replace(sampler, policy=AdaptiveK(k_max=8)),
    control=True,
)
