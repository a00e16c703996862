"""The ratio is taken between float32 densities; where both underflow it is 0/0, and a NaN refuses nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from reference_impls.mutants.base import Mutant, Witness
from reference_impls.samplers.verification import TwoStep
from tppsd_bench.protocols import BoolArray, FloatArray


class NanAccepts(TwoStep):
    """exp(log p) / exp(log q) in single precision, and a proposal is refused if u is greater: never, of a NaN."""

    def accepts(self, log_p: FloatArray, log_q: FloatArray, u: FloatArray) -> BoolArray:
        with np.errstate(all="ignore"):
            ratio = np.exp(log_p.astype(np.float32)) / np.exp(log_q.astype(np.float32))
            out: BoolArray = ~(u > ratio)
        return out


MUTANT = Mutant(
    name="nan_accept",
    broken="Where both float32 densities underflow, their ratio is not a number and the proposal is accepted.",
    precedent="published code of speculative sampling for point processes; vLLM issue 41834",
    change=lambda sampler, _: replace(sampler, rule=NanAccepts()),
    killers=("acceptance_identity.gap", "tail.high", "pit_time", "strata.tail", "role_law.gap.accepted", "draft_direction.gap"),
    blessed_by=("pit_type", "acceptance_identity.type", "density_agreement"),
    witness=Witness("toy-slow-clock"),
)
