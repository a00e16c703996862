"""Forwards fall from T to T / (mean accepted)? Counted exactly; the bonus event is what the sentence leaves out."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from tppsd_bench.protocols import SampleRequest, Stop
from tppsd_bench.studies.base import StudyTable
from tppsd_bench.studies.claims.measures.base import Context, Measured, Quantity, ratio_of_sums


class Settings(StudyTable):
    k: list[Annotated[int, Field(ge=1)]] = [3, 5, 10]
    n_sequences: Annotated[int, Field(ge=8)] = 32
    length: Annotated[int, Field(ge=20)] = 200


def measure(context: Context, settings: Settings) -> Measured:
    """F (mean accepted) / T and F (mean accepted + 1) / T, by K.

    F counts target row forwards, T committed events; a round is one forward, so that both are ratios of sums over sequences:
    accepted / committed and (accepted + rounds) / committed.
    """
    quantities = []
    for k in settings.k:
        key = context.key.replace(arm=f"k{k}")
        request = SampleRequest(settings.n_sequences, Stop(n_events=settings.length), key, device=context.device)
        run = context.pair.sampler("speculative", k=k).sample(request)
        trace, counts = run.trace, run.counts
        rounds = np.bincount(trace.round_sequence, minlength=settings.n_sequences)
        accepted = np.bincount(trace.round_sequence, trace.round_accepted, settings.n_sequences)
        where = f"{context.name}, K = {k}: {counts.accepted / counts.rounds:.2f} accepted a round"
        for name, label, above in (
            ("as_claimed", "forwards over T / (mean accepted)", accepted),
            ("with_bonus", "forwards over T / (mean accepted + 1)", accepted + rounds),
        ):
            per_round = counts.target_row_forwards / counts.rounds  # forwards a round: 1, less the first, which needs none
            value, low, high = (per_round * x for x in ratio_of_sums(above, run.events.lengths))
            quantities.append(Quantity(name, label, value, low, high, where, settings.n_sequences))
    return Measured(
        tuple(quantities),
        "Every round commits one event more than it accepts, so the count is T / (mean accepted + 1): fewer forwards than claimed.",
    )
