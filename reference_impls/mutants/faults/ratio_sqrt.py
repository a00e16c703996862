"""The square root of the ratio, as if it tempered the rule."""

from __future__ import annotations

from dataclasses import replace

from reference_impls.mutants.base import Mutant
from reference_impls.samplers.verification import TwoStep
from tppsd_bench.protocols import BoolArray, FloatArray


class Tempered(TwoStep):
    """u < sqrt(p/q)."""

    def accepts(self, log_p: FloatArray, log_q: FloatArray, u: FloatArray) -> BoolArray:
        return super().accepts(0.5 * log_p, 0.5 * log_q, u)


MUTANT = Mutant(
    name="ratio_sqrt",
    broken="Proposals are accepted with probability min(1, sqrt(p/q)).",
    precedent="advice in blog posts on speculative sampling of point processes",
    change=lambda sampler, _: replace(sampler, rule=Tempered()),
    killers=(
        "acceptance_identity.gap",
        "acceptance_identity.type",
        "role_law.gap.accepted",
        "pit_time",
        "pit_type",
        "draft_direction",
    ),
    blessed_by=("draft_law", "density_agreement", "blackbox.gap_acf"),
)
