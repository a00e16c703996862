"""Verification that refuses nothing: the output is the draft's, but for the bonus events."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from reference_impls.mutants.base import Mutant
from reference_impls.samplers.verification import TwoStep
from tppsd_bench.protocols import BoolArray, FloatArray


class AlwaysAccept(TwoStep):
    """Every proposal is kept."""

    def accepts(self, log_p: FloatArray, log_q: FloatArray, u: FloatArray) -> BoolArray:
        return np.ones(u.shape, dtype=bool)


MUTANT = Mutant(
    name="always_accept",
    broken="Every proposal is accepted.",
    precedent="vllm-ascend issue 13730; advice in blog posts on sampling point processes fast",
    change=lambda sampler, _: replace(sampler, rule=AlwaysAccept()),
    killers=("acceptance_identity.gap", "acceptance_identity.type", "pit_time", "pit_type", "draft_direction"),
    blessed_by=("draft_law", "density_agreement", "blackbox.gap_acf"),
)
