"""The efficiency verdict: exact counts against target-only sampling and against what acceptance allows."""

from __future__ import annotations

import numpy as np
import pytest

from tppsd_bench.events import EventBatch
from tppsd_bench.measure.promise import Alpha
from tppsd_bench.measure.throughput import finite_rounds
from tppsd_bench.protocols import Counts, SampleRun
from tppsd_bench.results import Outcome
from tppsd_bench.runner.efficiency import efficiency

M, K, N = 100, 5, 50
ALPHA = Alpha(0.9, 0.002, 128)
REFERENCE = Counts(target_row_forwards=N * (M - 1), committed=N * M)


def run(forwards: float) -> SampleRun:
    batch = EventBatch.from_gaps([np.ones(M)] * N)
    counts = Counts(target_row_forwards=round(N * forwards), committed=N * M, drafted=4000, verified=3000, accepted=2700)
    return SampleRun(batch, counts)


@pytest.mark.parametrize(
    ("forwards", "outcome", "said"),
    [
        (finite_rounds(M, K, 0.9), Outcome.PASS, "100% of what the two laws allow"),
        (1.5 * finite_rounds(M, K, 0.9), Outcome.FAIL, "67% of what the two laws allow: accepted events are thrown away"),
        (M - 1, Outcome.FAIL, "nothing is saved"),
        (M / (K + 1) - 2, Outcome.FAIL, "The counts contradict each other"),
    ],
)
def test_forwards_are_judged_by_what_they_could_be(forwards: float, outcome: Outcome, said: str) -> None:
    found = efficiency(run(forwards), REFERENCE, K, ALPHA, M)
    assert found.outcome is outcome
    assert said in found.sentence
    assert len(found.sentence) < 200


def test_without_laws_or_counts_less_is_said() -> None:
    assert efficiency(run(20), REFERENCE, None, None, M).outcome is Outcome.PASS
    assert efficiency(run(20), None, K, ALPHA, M).outcome is Outcome.NOT_APPLICABLE
