"""The ratio the wrong way round: q/p."""

from __future__ import annotations

from dataclasses import replace

from reference_impls.mutants.base import Mutant
from reference_impls.samplers.verification import TwoStep
from tppsd_bench.protocols import BoolArray, FloatArray


class Inverted(TwoStep):
    """u < q/p."""

    def accepts(self, log_p: FloatArray, log_q: FloatArray, u: FloatArray) -> BoolArray:
        return super().accepts(log_q, log_p, u)


MUTANT = Mutant(
    name="ratio_inverted",
    broken="Proposals are accepted with probability min(1, q/p).",
    precedent="a slip described in blog posts on speculative sampling of point processes",
    change=lambda sampler, _: replace(sampler, rule=Inverted()),
    killers=("acceptance_identity.gap", "acceptance_identity.type", "role_law.gap.accepted", "pit_time", "pit_type"),
    blessed_by=("draft_law", "density_agreement", "blackbox.intensity_acf"),
)
