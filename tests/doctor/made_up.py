"""Made-up measurements: a healthy pair, of which a test changes one thing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tppsd_bench.doctor.base import REGISTRY, Estimate, Step
from tppsd_bench.doctor.diagnosis import diagnose
from tppsd_bench.doctor.measurements import Acceptance, Accuracy, Cache, Costs, HistoryPoint, Measurements, Speed
from tppsd_bench.measure.throughput import StepCosts

K_MAX = 16


def about(value: float, half: float = 0.01) -> Estimate:
    return Estimate(value, value - half, value + half)


def prices(c: float = 0.03, v: float = 0.02, r: float = 0.1, k_max: int = K_MAX) -> StepCosts:
    """A pass over K + 1 positions costs 1 + v K target steps."""
    return StepCosts(c, tuple(1 + v * k for k in range(k_max + 1)), r)


def costs(law: StepCosts, **more: Any) -> Costs:
    return Costs(Estimate.exact(2.0), about(law.draft, 0.001), about(law.rest, 0.001), law, **more)


def healthy(**changes: Any) -> Measurements:
    """K = 8, 85 % accepted, cheap draft; timed as the law says."""
    law = prices()
    m = Measurements(
        "some-pair", "shipped", 8, 40, 3, "made up",
        accuracy=Accuracy(about(0.6), about(0.59), Estimate(-0.01, -0.015, -0.005), about(1.0), about(1.01), about(0.01, 0.005),
                          about(1.5), about(1.52), about(0.02)),
        acceptance=Acceptance(about(0.85), about(0.9), about(0.944), about(0.86), about(0.84), about(0.02)),
        costs=costs(law, spread=Estimate(1.0, 0.98, 1.02), target_parameters=1000, draft_parameters=50),
        history=tuple(HistoryPoint(n, 2.0, 0.1, law) for n in (64, 256, 1024)),
        cache=Cache(about(5.0, 0.1), 32, 9.0, 0.9),
    )  # fmt: skip
    return retimed(replace(m, **changes)) if "speed" not in changes else replace(m, **changes)


def retimed(m: Measurements, share: float = 1.0) -> Measurements:
    """Timed at the K in use, at the law's best and at K = 1: ``share`` of what the law promises, within 2 %."""
    if not m.predicts:
        return m
    by_k = {k: share * m.predict(k).speedup for k in (1, m.best().k, m.k)}
    committed = {k: m.predict(k).expected_committed for k in by_k}
    return replace(m, speed=Speed({k: Estimate(s, 0.98 * s, 1.02 * s) for k, s in by_k.items()}, about(1.0), committed))


def look(number: int, m: Measurements) -> Step:
    diagnose(m)  # registers the steps
    return REGISTRY[number].at(m)
