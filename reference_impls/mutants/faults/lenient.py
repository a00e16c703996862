"""A rule that is too generous by a constant factor."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from reference_impls.mutants.base import Mutant
from reference_impls.samplers.verification import TwoStep
from tppsd_bench.protocols import BoolArray, FloatArray


@dataclass(frozen=True)
class Lenient(TwoStep):
    """u < factor * p/q."""

    factor: float

    def accepts(self, log_p: FloatArray, log_q: FloatArray, u: FloatArray) -> BoolArray:
        out: BoolArray = np.log(u) < np.log(self.factor) + (log_p - log_q)
        return out


MUTANT = Mutant(
    name="lenient",
    broken="Proposals are accepted with probability min(1, dose p/q).",
    precedent="vllm-ascend issue 13730; relaxed acceptance as advised in blog posts",
    change=lambda sampler, dose: replace(sampler, rule=Lenient(dose)),
    killers=("acceptance_identity.gap", "acceptance_identity.type", "pit_time", "pit_type", "draft_direction.type"),
    blessed_by=("draft_law", "density_agreement", "blackbox.gap_acf"),
    doses=(1.005, 1.01, 1.02, 1.05, 1.1, 1.5, 4.0),
    dose=1.5,
)
