"""After a rejection the draft's following event is kept as well, unverified and drawn after an event that was refused."""

from __future__ import annotations

import numpy as np

from reference_impls.mutants.base import Mutant, remade
from reference_impls.samplers.round import Draft, LastEvent
from reference_impls.samplers.speculative import Speculative
from tppsd_bench.protocols import FloatArray, IntArray


class OneTooMany(Speculative):
    def compose(self, draft: Draft, last: LastEvent) -> tuple[FloatArray, IntArray, IntArray]:
        gaps, types, offered = super().compose(draft, last)
        return gaps, types, np.where(last.n_accepted + 1 < draft.k, offered + 1, offered)


MUTANT = Mutant(
    name="extra_event",
    broken="A round keeps one event too many: after a rejection the draft's next proposal is committed behind the replacement.",
    precedent="an off-by-one in the number of accepted tokens of a chain: flashinfer #879",
    change=lambda sampler, _: remade(OneTooMany, sampler),
    killers=(
        "accounting",
        "draft_direction",
        "pit_time",
        "pit_type",
        "strata",
    ),
)
