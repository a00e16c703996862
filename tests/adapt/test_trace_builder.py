"""TraceBuilder against the reference sampler's own trace: the same rounds give the same records, column by column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from reference_impls.pairs import load_pair
from tppsd_bench import EventBatch, SampleRequest, SampleRun, Stop, StreamKey, Trace, TraceBuilder
from tppsd_bench.errors import InputError
from tppsd_bench.protocols import COMPONENT_GAP, COMPONENT_TYPE
from tppsd_bench.stats.whitebox import inspect_run

KEY = StreamKey(seed=3, cell="tests/adapt")


def drawn(name: str, stop: Stop, rule: str = "leviathan_two_step", n: int = 30) -> tuple[SampleRun, Any]:
    pair = load_pair(name)
    return pair.sampler("speculative", draft="stress", k=4, rule=rule).sample(SampleRequest(n, stop, KEY)), pair


def replayed(run: SampleRun, joint: bool = False) -> SampleRun:
    """The run's rounds, told to a builder one sequence and round at a time."""
    t = run.trace
    assert t is not None
    builder = TraceBuilder(joint=joint)
    for i, j, k in zip(t.round_sequence, t.round_index, t.round_drafted, strict=True):
        mine = (t.sequence == i) & (t.round == j)
        tables: dict[str, Any] = {
            name: np.zeros((1, k)) for name in ("gaps", "log_p", "log_q", "types", "type_log_p", "type_log_q")
        }
        ok, type_ok = np.ones((1, k), dtype=bool), np.ones((1, k), dtype=bool)
        first, second = mine & (t.component != COMPONENT_TYPE), mine & (t.component != COMPONENT_GAP)
        at, of_type = t.position[first], t.position[second]
        for name, values in (("gaps", t.gap), ("log_p", t.log_p), ("log_q", t.log_q)):
            tables[name][0, at] = values[first]
        ok[0, at] = t.accepted[first]
        tables["types"][0, of_type] = t.type[second]
        if not joint:
            tables["type_log_p"][0, of_type], tables["type_log_q"][0, of_type] = t.log_p[second], t.log_q[second]
            type_ok[0, of_type] = t.accepted[second]
        builder.round([i], **tables, accepted=ok, type_accepted=type_ok if run.events.n_types > 1 and not joint else None)
    return builder.run(run.events)


CASES = [
    ("toy-marked", Stop(n_events=25), "leviathan_two_step"),
    ("toy-gap-types", Stop(horizon=12.0), "leviathan_two_step"),
    ("toy-univariate", Stop(n_events=25), "leviathan_two_step"),
    ("toy-marked", Stop(n_events=25), "leviathan_joint"),
    ("toy-marked", Stop(horizon=12.0), "leviathan_joint"),
]


@pytest.mark.parametrize(("name", "stop", "rule"), CASES)
def test_it_builds_what_the_reference_sampler_records(name: str, stop: Stop, rule: str) -> None:
    run, _ = drawn(name, stop, rule)
    made = replayed(run, joint=rule == "leviathan_joint").trace
    assert made is not None
    for column in Trace.__slots__:
        expected, found = getattr(run.trace, column), getattr(made, column)
        if column == "round_discarded" and stop.horizon is not None:
            np.testing.assert_array_equal(found > 0, expected > 0)  # a trace does not say what lay beyond the crossing event
        elif expected is None:
            assert found is None
        elif column in ("log_p", "log_q"):
            np.testing.assert_allclose(found, expected)
        else:
            np.testing.assert_array_equal(found, expected, err_msg=column)


def test_counts_are_the_reference_samplers() -> None:
    run, _ = drawn("toy-marked", Stop(n_events=25))
    made = replayed(run).counts
    for name in ("rounds", "drafted", "verified", "accepted", "committed", "discarded"):
        assert getattr(made, name) == getattr(run.counts, name), name


def test_the_battery_takes_a_batched_trace_that_runs_beyond_the_stop() -> None:
    """Rounds of all sequences at once, cut at a stop that the sampler did not look at: nothing deterministic fails."""
    run, pair = drawn("toy-marked", Stop(n_events=40))
    t = run.trace
    assert t is not None
    short = run.events.prefix(23)
    builder = TraceBuilder()
    for j in range(int(t.round_index.max()) + 1):
        rows = t.round_sequence[t.round_index == j]
        k = t.round_drafted[t.round_index == j]
        shape = (len(rows), int(k.max(initial=0)))
        columns: dict[str, Any] = {
            name: np.zeros(shape) for name in ("gaps", "log_p", "log_q", "types", "type_log_p", "type_log_q")
        }
        ok, type_ok = np.ones(shape, dtype=bool), np.ones(shape, dtype=bool)
        for component, p, q, accepted in ((0, "log_p", "log_q", ok), (1, "type_log_p", "type_log_q", type_ok)):
            mine = np.flatnonzero((t.round == j) & (t.component == component))
            at = np.searchsorted(rows, t.sequence[mine]), t.position[mine]
            columns[p][at], columns[q][at], accepted[at] = t.log_p[mine], t.log_q[mine], t.accepted[mine]
            columns["gaps"][at], columns["types"][at] = t.gap[mine], np.maximum(t.type[mine], 0)
        builder.round(rows, **columns, accepted=ok, type_accepted=type_ok, drafted=k)
    made = builder.run(short)
    rng = np.random.default_rng(0)
    evidence = list(inspect_run(made, pair.target, pair.drafts["stress"], "leviathan_two_step", rng, tol=1e-6).evidence)
    assert [e.detail for e in evidence if e.passed is False] == []
    assert made.counts.discarded > 0


def test_rounds_that_do_not_add_up_are_named() -> None:
    builder = TraceBuilder()
    builder.round([0], [[1.0, 2.0]], [[0.0, 0.0]], [[0.0, 0.0]], [[True, False]])
    events = EventBatch.from_gaps([[1.0, 1.5, 1.0]])
    with pytest.raises(InputError, match="Sequence 0 has 3 events but its rounds produced 2"):
        builder.run(events)
    builder.round([1], [[1.0]], [[0.0]], [[0.0]], [[True]])
    with pytest.raises(InputError, match=r"names sequence 1; the run has sequences 0\.\.0"):
        builder.run(events)
