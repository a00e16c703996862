"""Does the right K grow with the sequence, does a high acceptance ask for a larger K, and how many sequences verify best together?"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from tppsd_bench.measure.promise import alpha_by_quadrature
from tppsd_bench.protocols import SampleRequest, Stop
from tppsd_bench.studies.base import StudyTable
from tppsd_bench.studies.claims.measures.base import Context, Measured, Quantity, contenders, exactly, fastest, timed
from tppsd_bench.studies.claims.measures.choice_of_k import best_k

_HIGH = 0.9


class Settings(StudyTable):
    k: list[Annotated[int, Field(ge=1)]] = [2, 3, 5, 8, 10, 16]
    short: Annotated[int, Field(ge=10)] = 50
    long: Annotated[int, Field(ge=100)] = 1000
    batches: list[Annotated[int, Field(ge=1)]] = [1, 4, 8, 32]
    usual_k: Annotated[int, Field(ge=1)] = 5
    pairs: Annotated[int, Field(ge=12)] = 12


def measure(context: Context, settings: Settings) -> Measured:
    """The fastest K on short and on long sequences, with every K that is not shown slower; the fastest batch, likewise.

    ``raise_over_ninety``: where quadrature gives an acceptance above 90 %, whether some K above the usual one is fastest.
    """
    ks = sorted(settings.k)
    samplers = {str(k): context.pair.sampler("speculative", k=k) for k in ks}
    found = []
    for name, length in (("best_k_short", settings.short), ("best_k_long", settings.long)):
        timing = timed(context, dict(samplers), str(ks[0]), Stop(n_events=length), stage=name, pairs=settings.pairs)
        q = best_k(timing, ks, f"{context.name}, {length} events")
        found.append(Quantity(name, q.label, q.value, q.low, q.high, q.where, q.n))
    found.append(_batch(context, settings))
    alpha = _acceptance(context, settings.short)
    if alpha > _HIGH:
        where = f"{context.name}, acceptance {alpha:.1%}"
        found.append(
            exactly(
                "raise_over_ninety",
                "a larger K than usual is fastest (1) or not (0)",
                float(found[0].low > settings.usual_k),
                where,
            )
        )
    return Measured(tuple(found))


def _batch(context: Context, settings: Settings) -> Quantity:
    """Sequences verified together, by CPU time per event."""
    sizes = {f"batch {b}": b for b in sorted(settings.batches)}
    samplers = {name: context.pair.sampler("speculative", k=settings.usual_k) for name in sizes}
    names = list(sizes)
    timing = timed(
        context, samplers, names[0], Stop(n_events=settings.short), stage="batch", pairs=settings.pairs, n_sequences=sizes
    )
    best = sizes[fastest(timing, names, slice(0, timing.n_pairs // 2))]
    kept = [sizes[name] for name in contenders(timing, names)]
    where = f"{context.name}, K = {settings.usual_k}"
    return Quantity(
        "best_batch", "fastest batch (and those not shown slower)", best, min(kept), max(kept), where, timing.n_pairs
    )


def _acceptance(context: Context, length: int) -> float:
    """Event acceptance of the shipped draft by quadrature, on the target's own histories."""
    key = context.key.replace(stage="acceptance")
    request = SampleRequest(32, Stop(n_events=length), key, device=context.device, want_trace=False)
    histories = context.pair.sampler("target_only").sample(request).events
    rng: np.random.Generator = key.replace(purpose="quadrature").generator()
    return alpha_by_quadrature(context.pair.target, context.pair.drafts["shipped"], histories, "leviathan_two_step", rng).value
