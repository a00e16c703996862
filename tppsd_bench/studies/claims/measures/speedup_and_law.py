"""So many times faster than target-only sampling, with the same law? Paired CPU times, and a certificate."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tppsd_bench.certificate import certify
from tppsd_bench.protocols import Stop
from tppsd_bench.results import Outcome
from tppsd_bench.studies.base import StudyTable
from tppsd_bench.studies.claims.measures.base import Context, Measured, exactly, fastest, of_ratio, timed

CACHED, RECOMPUTING = "target-only, cached", "target-only, recomputing"


class Settings(StudyTable):
    k: list[Annotated[int, Field(ge=1)]] = [5, 10, 16]
    length: Annotated[int, Field(ge=20)] = 100
    pairs: Annotated[int, Field(ge=12)] = 15
    law_events: Annotated[int, Field(ge=1000)] = 8192
    recompute_length: Annotated[int, Field(ge=10)] = 50


def measure(context: Context, settings: Settings) -> Measured:
    """K is chosen on calibration seeds; its speed over both baselines and its law are judged on others."""
    pair, samplers = context.pair, {str(k): context.pair.sampler("speculative", k=k) for k in settings.k}
    stop = Stop(n_events=settings.length)
    trial = timed(context, samplers, str(settings.k[0]), stop, stage="calibration", pairs=12, min_seconds=0.01)
    best = fastest(trial, list(samplers), slice(None))
    cached = timed(
        context, {CACHED: pair.sampler("target_only"), best: samplers[best]}, CACHED, stop, stage="judged", pairs=settings.pairs
    )
    recomputed = timed(
        context, {RECOMPUTING: pair.sampler("target_only_recompute"), best: samplers[best]}, RECOMPUTING,
        Stop(n_events=settings.recompute_length), stage="recomputing", pairs=6, min_seconds=0.001,
    )  # fmt: skip
    found = certify(
        samplers[best], pair.target, draft=pair.drafts["shipped"], n_events=settings.law_events, seed=context.key.seed,
        stop=stop, reference=pair.sampler("target_only"),
    )  # fmt: skip
    law = float(all(v.outcome is Outcome.PASS for v in found.verdicts))
    where = f"{context.name}, K = {best}, {settings.length} events"
    return Measured(
        (
            of_ratio("over_cached", "speed over cached target-only", cached.ratio(best), where),
            of_ratio("over_recomputing", "speed over recomputing target-only", recomputed.ratio(best),
                     f"{context.name}, K = {best}, {settings.recompute_length} events"),
            exactly("exact", "certificate: law and mechanism pass (1) or not (0)", law, where, found.cell.n_events),
        ),
        found.sentence,
    )  # fmt: skip
