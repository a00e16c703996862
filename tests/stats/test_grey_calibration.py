"""Second-level tests: under the null the p-values of every statistic are uniform (where counts are discrete: not too small).

Each comparison is made at 1e-6 divided by the number of names, so a correct tree fails one time in 1e6 (seeds are fixed by
names: it either always passes or always fails). That the comparison can fail is shown by shared random numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import numpy as np
import pytest
from grey_toys import Toy, exact, generator, uniform_case
from scipy import stats

from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import Scores
from tppsd_bench.stats.base import REGISTRY, Design
from tppsd_bench.stats.grey import family_size, grey_battery, infer_strata
from tppsd_bench.stats.pit import completed_pit
from tppsd_bench.stats.strata import standard_strata

LEVEL = 1e-6
N, LENGTH, K = 60, 40, 3
DISCRETE = ("tail.", "strata.tail")


def uniform_null(index: int) -> tuple[EventBatch, Scores]:
    rng = generator("null uniform", index)
    return uniform_case(rng.random((N, LENGTH)), rng.random((N, LENGTH)))


def toy_null(index: int) -> tuple[EventBatch, Scores]:
    return exact("null toy", N, LENGTH, index)


def horizon_null(index: int) -> tuple[EventBatch, Scores]:
    return exact("null horizon", N, 3 * LENGTH, index, horizon=float(LENGTH))


def p_values(
    null: Callable[[int], tuple[EventBatch, Scores]], repeats: int, m: int | None = None
) -> tuple[dict[str, list[float]], list[float]]:
    """p-values by name and stratum, and q = M min p of each repeat."""
    out: dict[str, list[float]] = defaultdict(list)
    family = []
    for index in range(repeats):
        batch, scores = null(index)
        position = k = row = None
        if batch.horizon is None:
            position, k = np.arange(batch.n_events) % (K + 1), np.full(batch.n_events, K)
            row = np.arange(len(batch)) % 16
        evidence = grey_battery(
            batch, scores, generator(f"xi {null.__name__}", index), position=position, k_round=k, batch_row=row, m=m
        )
        size = family_size(3, infer_strata(3, position, k, row), horizon=batch.horizon is not None)
        deciding = [e.p_value for e in evidence if e.p_value is not None and not e.display]
        assert len(deciding) <= size
        family.append(min(1.0, size * min(deciding)))
        assert all(e.passed for e in evidence if e.passed is not None)
        for e in evidence:
            if e.p_value is not None:
                out[" ".join([e.name, *e.where.values()])].append(e.p_value)
    return out, family


def check(found: dict[str, list[float]], family: list[float]) -> None:
    for name, values in found.items():
        level = LEVEL / len(found) / 2
        if not name.startswith(DISCRETE) and len(values) >= 30:
            assert stats.kstest(values, "uniform").pvalue > level, f"{name}: p-values are not uniform"
        for cut in (0.05, 0.01):
            hits = sum(p <= cut for p in values)
            assert stats.binom.sf(hits - 1, len(values), cut) > level / 2, f"{name}: {hits} of {len(values)} below {cut}"
    rejected = sum(q <= 0.05 for q in family)
    assert stats.binom.sf(rejected - 1, len(family), 0.05) > LEVEL, f"the family rejects {rejected} of {len(family)}"


@pytest.mark.parametrize("null", [uniform_null, toy_null, horizon_null])
def test_p_values_are_calibrated(null: Callable[[int], tuple[EventBatch, Scores]]) -> None:
    found, family = p_values(null, 100)
    check(found, family)
    design = Design(3, standard_strata(3, max_k=K), horizon=null is horizon_null)
    missing = {name for name, s in REGISTRY.items() if s.members(design) and not _seen(name, found)}
    assert not missing, f"never filled at this size, so never calibrated: {missing}"


@pytest.mark.slow
@pytest.mark.parametrize("null", [uniform_null, toy_null, horizon_null])
def test_p_values_are_calibrated_closely(null: Callable[[int], tuple[EventBatch, Scores]]) -> None:
    check(*p_values(null, 2_000, m=1_200 if null is horizon_null else None))


def test_the_second_level_sees_a_shared_stream() -> None:
    """The test's own uniforms reused from the sampler: each stays uniform alone, the pair does not."""

    def shared(index: int) -> tuple[EventBatch, Scores]:
        batch, _ = toy_null(index)
        rng = generator(f"xi {shared.__name__}", index)
        batch = Toy().draw(rng.random((N, LENGTH)), rng.random((N, LENGTH)))
        return batch, Toy().score(batch)

    found, family = p_values(shared, 30)
    with pytest.raises(AssertionError):
        check(found, family)


def test_pooling_finished_gaps_rejects_a_correct_sampler_and_completion_does_not() -> None:
    """The trap of the fixed horizon. False alarm rates: 1e-6 for the completed stream."""
    batch, scores = exact("trap", 3_000, 60, horizon=8.0)
    finished = stats.kstest(scores.cdf, "uniform").pvalue
    assert finished < 1e-12
    m = 12_000
    stream = completed_pit(batch, scores, generator("trap xi"), m)
    assert len(stream) == m
    assert stats.kstest(stream.u, "uniform").pvalue > 1e-6
    evidence = grey_battery(batch, scores, generator("trap xi"), m=m)
    deciding = [e.p_value for e in evidence if e.p_value is not None and not e.display]
    assert family_size(3, horizon=True) * min(deciding) > 1e-6


def _seen(name: str, found: dict[str, list[float]]) -> bool:
    return any(key.startswith(name) for key in found)
