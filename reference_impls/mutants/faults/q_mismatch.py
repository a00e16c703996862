"""The draft samples colder than the q that enters the ratio."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from reference_impls.base import Law
from reference_impls.heads.lognormal_mixture import LogNormalMixture
from reference_impls.heads.types import TypesTempered
from reference_impls.mutants.base import Mutant, remade
from reference_impls.samplers.speculative import Speculative
from tppsd_bench.protocols import FloatArray, IntArray


@dataclass(frozen=True)
class ColdDraft(Speculative):
    """Proposals come from the draft at a temperature: scales times its root, type probabilities to the power of its inverse."""

    temperature: float = 1.0

    def draw_proposal(self, law: Law, u: FloatArray) -> tuple[FloatArray, IntArray]:
        if not isinstance(law, LogNormalMixture):
            raise TypeError(f"{type(law).__name__} has no temperature; expected a LogNormalMixture.")
        types = law.types
        if law.n_types > 1:
            types = TypesTempered(law.types, self.temperature, np.zeros(law.n_types))
        return super().draw_proposal(replace(law, log_scale=law.log_scale + 0.5 * np.log(self.temperature), types=types), u)


MUTANT = Mutant(
    name="q_mismatch",
    broken="The draft is sampled at a lower temperature than the q that its proposals are judged by.",
    precedent="transformers issues 32867 and 47932",
    change=lambda sampler, temperature: remade(ColdDraft, sampler, temperature=temperature),
    killers=("draft_law.gap", "pit_time", "pair.gap_type"),
    blessed_by=("acceptance_identity", "density_agreement", "blackbox.gap_acf", "blackbox.count_fano"),
    gross=False,
    doses=(0.98, 0.95, 0.9, 0.85, 0.8, 0.65, 0.5),
    dose=0.8,
)
