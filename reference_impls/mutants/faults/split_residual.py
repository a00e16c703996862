"""A joint rejection, with gap and type redrawn independently of each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from reference_impls.base import Law
from reference_impls.mutants.base import Mutant, Witness, remade
from reference_impls.samplers.round import Draft, LastEvent, Work
from reference_impls.samplers.speculative import Speculative
from reference_impls.samplers.verification import Joint
from tppsd_bench.protocols import FloatArray, IntArray


class SplitResidual(Speculative):
    """Two draws from the joint residual: the gap of one goes with the type of the other. Both marginals are right."""

    def replace_event(self, work: Work, draft: Draft, p: Law, at: IntArray, u: FloatArray, last: LastEvent) -> IntArray:
        again = super().replace_event(work, draft, p, at, u, last)
        q = draft.laws_at(at, last.n_accepted[at])
        other = self.residual.draw(p, q, work.ids[at], work.streams.take, joint=True)
        last.type[at] = np.where(other.kept, last.type[at], other.type)
        return again


MUTANT = Mutant(
    name="split_residual",
    broken="A rejected event is replaced by a gap and a type of two independent draws from the joint residual.",
    precedent="vllm-ascend issue 7807; misaligned replacements as described in blog posts on point processes",
    change=lambda sampler, _: remade(SplitResidual, replace(sampler, rule=Joint())),
    killers=("support.event", "role_law.type.residual", "score.type.gap"),
    blessed_by=(
        "pit_time",
        "pit_type",
        "acceptance_identity",
        "blackbox.gap_ks",
        "blackbox.types_chi2",
        "blackbox.log_likelihood",
    ),
    witness=Witness(rule="leviathan_joint"),
)
