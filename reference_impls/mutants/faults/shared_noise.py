"""Random numbers used twice: draft and verification seed their generators alike, by sequence and position."""

from __future__ import annotations

from dataclasses import replace

from reference_impls.mutants.base import Mutant, remade
from reference_impls.samplers.round import Uniforms, Work
from reference_impls.samplers.speculative import Speculative


class SharedNoise(Speculative):
    """A proposal is judged by the numbers it was made of: the one that picked its component, the one behind its gap."""

    def uniforms(self, work: Work) -> Uniforms:
        u = super().uniforms(work)
        return replace(u, accept=u.draft[..., :2])


MUTANT = Mutant(
    name="shared_noise",
    broken="Acceptance is decided by the random numbers that the draft's proposals were drawn with.",
    precedent="vLLM issue 54282",
    change=lambda sampler, _: remade(SharedNoise, sampler),
    killers=("acceptance_identity.gap", "acceptance_identity.type", "pair.gap_type", "strata", "role_law.gap.accepted"),
    blessed_by=("draft_law", "density_agreement", "blackbox.gap_acf"),
)
