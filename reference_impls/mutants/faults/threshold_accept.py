"""Acceptance without a lottery: what the target finds nearly as likely as the draft does is kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from reference_impls.mutants.base import Mutant
from reference_impls.samplers.verification import TwoStep
from tppsd_bench.protocols import BoolArray, FloatArray


class Threshold(TwoStep):
    """p/q >= 0.8, whatever u is."""

    threshold = 0.8

    def accepts(self, log_p: FloatArray, log_q: FloatArray, u: FloatArray) -> BoolArray:
        out: BoolArray = log_p - log_q >= np.log(self.threshold)
        return out


MUTANT = Mutant(
    name="threshold_accept",
    broken="A proposal is accepted if and only if p/q is at least 0.8.",
    precedent="typical acceptance of speculative decoders; advice in blog posts on sampling point processes fast",
    change=lambda sampler, _: replace(sampler, rule=Threshold()),
    killers=(
        "acceptance_identity.gap",
        "acceptance_identity.type",
        "role_law.gap.accepted",
        "pit_time",
        "pit_type",
        "pair.gap_gap",
    ),
    blessed_by=("draft_law", "density_agreement", "blackbox.gap_acf"),
)
