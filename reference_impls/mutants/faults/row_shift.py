"""The target's laws are read one row late: a proposal is judged by the law of the event after it, which has seen it."""

from __future__ import annotations

import numpy as np

from reference_impls.base import Law
from reference_impls.mutants.base import Mutant, remade
from reference_impls.samplers.round import Draft, Work
from reference_impls.samplers.speculative import Speculative
from tppsd_bench.protocols import BoolArray, IntArray


class RowsLate(Speculative):
    def target_pass(self, work: Work, draft: Draft, active: BoolArray) -> tuple[Law, IntArray]:
        p, rows = super().target_pass(work, draft, active)
        late = np.minimum(np.arange(rows.shape[1]) + 1, draft.k[:, None])
        return p, np.take_along_axis(rows, late, axis=1)


MUTANT = Mutant(
    name="row_shift",
    broken="Every proposal is judged, and replaced, by the target's law one position late, which has seen the proposal itself.",
    precedent="row indices of the target's pass in a small public speculative sampler: jaymody/speculative-sampling #3",
    change=lambda sampler, _: remade(RowsLate, sampler),
    killers=(
        "density_agreement.p",
        "acceptance_identity",
        "pit_time",
        "pair",
        "strata",
        "role_law",
    ),
)
