"""The draft's cache keeps refused proposals, but q is the law that proposals were really drawn from: exact, and accepted less often."""

from __future__ import annotations

from dataclasses import replace

from reference_impls.mutants.base import Mutant
from reference_impls.mutants.faults.stale_history import Stale

MUTANT = Mutant(
    name="stale_draft_consistent",
    broken="Nothing; the draft conditions on proposals that were refused, and q says so.",
    precedent="draft caches that are never rolled back, a saving some speculative decoders make on purpose",
    change=lambda sampler, _: replace(sampler, draft=Stale(sampler.draft)),
    control=True,
)
