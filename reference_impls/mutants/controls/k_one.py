"""One proposal a round: the smallest round there is, and the one where the bonus follows every acceptance."""

from __future__ import annotations

from dataclasses import replace

from reference_impls.mutants.base import Mutant
from reference_impls.samplers.policy import FixedK

MUTANT = Mutant(
    name="k_one",
    broken="Nothing; one event is drafted a round.",
    precedent="the smallest setting of every speculative sampler",
    change=lambda sampler, _: replace(sampler, policy=FixedK(1)),
    control=True,
)
