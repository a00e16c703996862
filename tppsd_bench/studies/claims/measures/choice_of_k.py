"""Which K? The best one by CPU time, what K = 1 gains, and whether the rules of thumb point the right way."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tppsd_bench.measure.timing import PairedTiming
from tppsd_bench.protocols import SampleRequest, Stop
from tppsd_bench.studies.base import StudyTable
from tppsd_bench.studies.claims.measures.base import Context, Measured, Quantity, contenders, exactly, fastest, of_ratio, timed

CACHED = "target-only, cached"


class Settings(StudyTable):
    k: list[Annotated[int, Field(ge=1)]] = [1, 2, 3, 4, 6, 8, 12, 16]
    """In rising order."""
    length: Annotated[int, Field(ge=20)] = 100
    pairs: Annotated[int, Field(ge=12)] = 16


def measure(context: Context, settings: Settings) -> Measured:
    """Every K against cached target-only in interleaved pairs.

    The best K is chosen on one half of the pairs; its interval holds every K that the other half does not show to be slower.
    """
    ks, stop = sorted(settings.k), Stop(n_events=settings.length)
    samplers = {str(k): context.pair.sampler("speculative", k=k) for k in ks}
    timing = timed(
        context, {CACHED: context.pair.sampler("target_only"), **samplers}, CACHED, stop, stage="judged", pairs=settings.pairs
    )  # fmt: skip
    key = context.key.replace(stage="acceptance")
    accepted = {}
    for k in ks:
        counts = samplers[str(k)].sample(SampleRequest(16, stop, key, device=context.device, want_trace=False)).counts
        accepted[k] = counts.accepted / max(counts.rounds, 1)
    where = f"{context.name}, {settings.length} events"
    found = [best_k(timing, ks, where)]
    found += [of_ratio("speed_at_k_one", "speed at K = 1 over target-only", timing.ratio("1"), where)] * (1 in ks)
    return Measured((*found, *_advice(timing, ks, accepted, where)))


def best_k(timing: PairedTiming, ks: list[int], where: str) -> Quantity:
    names = [str(k) for k in ks]
    best = int(fastest(timing, names, slice(0, timing.n_pairs // 2)))
    kept = [int(name) for name in contenders(timing, names)]
    return Quantity("best_k", "fastest K (and those not shown slower)", best, min(kept), max(kept), where, timing.n_pairs)


def _advice(timing: PairedTiming, ks: list[int], accepted: dict[int, float], where: str) -> list[Quantity]:
    """Where a rule of thumb applies: did the K it points to turn out faster? 1 it did, 0 it did not; neighbours in the grid.

    Below K / 2 accepted: shorten. Above .9 K: enlarge. Steps whose interval holds "no difference" are left out.
    """
    out = []
    for k, shorter, longer in zip(ks, [None, *ks], [*ks[1:], None], strict=False):
        other = shorter if accepted[k] < k / 2 else longer if accepted[k] > 0.9 * k else None
        if other is None or k == 1:
            continue
        gain = timing.ratio(str(other)).median / timing.ratio(str(k)).median
        if str(k) not in contenders(timing, [str(k), str(other)]) or str(other) not in contenders(timing, [str(k), str(other)]):
            rule, label = ("shorten_right", "shortening K gained") if other < k else ("enlarge_right", "enlarging K gained")
            out.append(
                exactly(rule, f"{label} (1) or not (0)", float(gain > 1), f"{where}, K = {k} to {other}", timing.n_pairs)
            )
    return out
