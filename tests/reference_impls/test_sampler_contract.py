"""The samplers' contract on float64 toys: whatever is asked, sequences do not depend on batching and the trace tells the truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sampler_runs import PastK, check_run, same_events, same_trace, same_work

from reference_impls.samplers.policy import AdaptiveK, FixedK
from reference_impls.samplers.speculative import Speculative
from reference_impls.samplers.target_only import TargetOnly
from reference_impls.samplers.verification import Joint, TwoStep
from reference_impls.stress import StressDraft
from reference_impls.toys import ToyModel, toy_draft, toy_target
from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import SampleRequest, SamplerUnderTest, Stop
from tppsd_bench.stats.whitebox import reproducible
from tppsd_bench.streams import StreamKey

TOLERANCE = 1e-9
TARGETS = {"marked": toy_target(3), "gap types": toy_target(3, types_given_gap=True), "univariate": toy_target(1)}


def poor(target: ToyModel) -> StressDraft:
    return StressDraft(toy_draft(target))


def prompt_of(kind: str, n: int, n_types: int) -> EventBatch | None:
    lengths = {"none": [], "shared": [4], "each": [3] * n, "ragged": [1 + i % 4 for i in range(n)],
               "some empty": [i % 3 for i in range(n)], "all empty": [0] * n}[kind]  # fmt: skip
    if kind == "none":
        return None
    rng = StreamKey(cell=f"prompt {kind}").generator()
    return EventBatch.from_gaps(
        [np.exp(rng.normal(size=m)) for m in lengths], [rng.integers(0, n_types, m) for m in lengths], n_types=n_types
    )


PROMPTS = ("none", "shared", "each", "ragged", "some empty", "all empty")


@st.composite
def cases(draw):
    target = TARGETS[draw(st.sampled_from(sorted(TARGETS)))]
    draft = draw(st.sampled_from([toy_draft, poor]))(target)
    policies = st.one_of(
        st.integers(0, 6).map(FixedK), st.just(AdaptiveK(k_max=5)), st.integers(1, 4).map(PastK)
    )  # fmt: skip
    stop = draw(
        st.one_of(
            st.integers(1, 14).map(lambda n: Stop(n_events=n)),
            st.floats(0.01, 8.0).map(lambda t: Stop(horizon=t)),
        )
    )
    n = draw(st.integers(1, 6))
    sampler = Speculative(target, draft, draw(policies), draw(st.sampled_from([TwoStep(), Joint()])))
    prompt = prompt_of(draw(st.sampled_from(PROMPTS)), n, target.n_types)
    return sampler, SampleRequest(n, stop, StreamKey(seed=draw(st.integers(0, 2**32)), cell="contract"), prompt=prompt)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases(), st.integers(1, 6))
def test_any_request_keeps_the_contract(case, batch_size):
    sampler, request = case
    run = sampler.sample(request)
    check_run(run, sampler, request, TOLERANCE)
    again = replace(sampler, batch_size=batch_size).sample(request)
    assert same_events(run.events, again.events), "sequences depend on the batch size"
    assert same_trace(run.trace, again.trace)
    assert same_work(run.counts, again.counts)
    assert same_events(run.events, sampler.sample(replace(request, want_trace=False)).events)


@pytest.mark.parametrize("stop", [Stop(n_events=12), Stop(horizon=6.0)], ids=["events", "horizon"])
@pytest.mark.parametrize("name", sorted(TARGETS))
def test_reproducible_and_independent_of_the_batch(name, stop):
    target = TARGETS[name]
    for sampler in (Speculative(target, poor(target)), TargetOnly(target), TargetOnly(target, recompute=True)):
        assert isinstance(sampler, SamplerUnderTest)
        request = SampleRequest(9, stop, StreamKey(cell="reproducible"), first_sequence=3)
        evidence = reproducible(sampler, request)
        assert len(evidence) == 3
        assert all(e.passed for e in evidence), [e.detail for e in evidence if not e.passed]


@pytest.mark.parametrize("name", sorted(TARGETS))
@pytest.mark.parametrize("kind", PROMPTS)
@pytest.mark.parametrize("stop", [Stop(n_events=9), Stop(horizon=5.0)], ids=["events", "horizon"])
def test_target_only_cached_and_recomputed_are_one_sampler(name, kind, stop):
    target, n = TARGETS[name], 5
    request = SampleRequest(n, stop, StreamKey(cell="target only"), prompt=prompt_of(kind, n, target.n_types))
    cached, recomputed = TargetOnly(target).sample(request), TargetOnly(target, recompute=True).sample(request)
    apart = TargetOnly(target, batch_size=2).sample(request)
    assert same_events(cached.events, recomputed.events)
    assert same_events(cached.events, apart.events)
    cached.events.validate()
    prompted = 0 if request.prompt is None else int((np.resize(request.prompt.lengths, n) > 0).sum())
    crossing = n if stop.horizon is not None else 0
    for run in (cached, recomputed, apart):  # one forward an event, but for one drawn from the initial law
        assert run.counts.target_row_forwards == run.events.n_events + crossing - (n - prompted)
        assert run.counts.committed == run.events.n_events
    lengths = np.zeros(n, dtype=np.int64) if not prompted else np.resize(request.prompt.lengths, n)
    assert cached.counts.target_positions == lengths.sum() + cached.counts.target_row_forwards - prompted


def test_a_prompt_is_a_history_and_no_output():
    """Sequences after a prompt have the law given the prompt: the first gap is the target's own draw from that law."""
    target = TARGETS["marked"]
    prompt = prompt_of("ragged", 4, 3)
    request = SampleRequest(4, Stop(n_events=1), StreamKey(cell="prompt"), prompt=prompt)
    run = TargetOnly(target).sample(request)
    gaps, types = prompt.padded()
    law = target.law_after(gaps, types, prompt.lengths)
    u = np.stack([request.key.generator(i).random(1024)[:2] for i in range(4)])
    np.testing.assert_array_equal(run.events.gaps, law.sample_gap(u))


def test_a_draft_equal_to_the_target_is_always_accepted():
    for target in TARGETS.values():
        for rule in (TwoStep(), Joint()):
            run = Speculative(target, toy_draft(target, 0.0), FixedK(4), rule).sample(
                SampleRequest(20, Stop(n_events=50), StreamKey(cell="draft is target"))
            )
            assert run.counts.accepted == run.counts.drafted == run.counts.verified
            assert run.counts.residual_draws == run.counts.residual_kept == 0
            assert run.counts.rounds == 20 * 10


@pytest.mark.parametrize("perturbation", [1e-15, 1e-13])
def test_a_draft_equal_up_to_rounding_terminates_and_counts(perturbation):
    """Rejections of probability 1e-15 are provoked by hand: the law is left alone, the proposal kept, the count says so."""
    for target in TARGETS.values():
        draft = replace(target, location=target.location * (1 + perturbation), type_logit=target.type_logit + perturbation)
        for rule in (TwoStep(), Joint()):
            sampler = Speculative(target, draft, FixedK(3), RefuseEverything(rule))
            run = sampler.sample(SampleRequest(3, Stop(n_events=12), StreamKey(cell="rounding")))
            assert (run.events.lengths == 12).all()
            assert run.counts.accepted == run.counts.drafted == run.counts.verified
            assert run.counts.residual_kept >= run.counts.drafted
            assert run.counts.residual_draws == run.counts.residual_give_ups == 0
            check_run(run, replace(sampler, rule=rule), SampleRequest(3, Stop(n_events=12), StreamKey(cell="rounding")), 1e-6)


class RefuseEverything:
    """A rule whose every decision is no: what a run of unlucky uniforms would do."""

    def __init__(self, rule):
        self.rule, self.joint, self._inner = rule.rule, rule.joint, rule

    def verify(self, p, q, gaps, types, u_gap, u_type):
        verified = self._inner.verify(p, q, gaps, types, u_gap, u_type)
        verified.gap_accepted[:] = False
        if p.n_types > 1:
            verified.type_accepted[:] = False
        return verified


@pytest.mark.parametrize("rule", [TwoStep(), Joint()], ids=lambda r: r.rule)
def test_a_draft_that_is_nowhere_near_is_refused_and_replaced(rule):
    """Locations 40 apart, densities e^-3000: every round rejects its first proposal and draws from (p - q)+ = p."""
    for target in TARGETS.values():
        for away in (40.0, -40.0, 700.0):
            draft = replace(target, location=target.location + away)
            request = SampleRequest(6, Stop(n_events=20), StreamKey(cell="disjoint"))
            sampler = Speculative(target, draft, FixedK(3), rule)
            run = sampler.sample(request)
            check_run(run, sampler, request, 1e-9)
            assert run.counts.accepted == 0
            assert run.counts.residual_switches == run.counts.residual_kept == 0
            assert run.counts.rounds == run.events.n_events


# -- bad requests ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("batch_size", [None, 2])
@pytest.mark.parametrize("n_prompts", [2, 5])
def test_a_wrong_number_of_prompts_is_one_sentence(batch_size, n_prompts):
    target = TARGETS["marked"]
    request = SampleRequest(3, Stop(n_events=2), StreamKey(), prompt=prompt_of("each", n_prompts, 3))
    for sampler in (
        TargetOnly(target, batch_size=batch_size),
        Speculative(target, toy_draft(target), batch_size=batch_size),
    ):
        with pytest.raises(InputError, match=rf"{n_prompts} prompts for 3 sequences"):
            sampler.sample(request)


def test_a_prompt_with_a_type_the_model_lacks_is_one_sentence():
    request = SampleRequest(3, Stop(n_events=2), StreamKey(), prompt=EventBatch.from_gaps([[1.0, 0.5]], [[0, 4]]))
    with pytest.raises(InputError, match=r"type 4.*0\.\.2"):
        TargetOnly(TARGETS["marked"]).sample(request)


def test_no_sequences_is_an_empty_run():
    target = TARGETS["marked"]
    for sampler in (TargetOnly(target), Speculative(target, toy_draft(target))):
        for stop in (Stop(n_events=2), Stop(horizon=1.0)):
            run = sampler.sample(SampleRequest(0, stop, StreamKey()))
            assert (len(run.events), run.events.n_events, run.counts.committed) == (0, 0, 0)


# -- the stop --------------------------------------------------------------------------------------------------------------
def test_the_horizon_is_measured_as_the_batch_measures_it():
    """A round's events are summed onto the elapsed time one by one, as EventBatch sums: the same event is the last whatever K."""
    target = TARGETS["univariate"]
    free = TargetOnly(target).sample(SampleRequest(40, Stop(n_events=30), StreamKey(cell="sums"))).events
    gaps, _ = free.padded()
    for k in (1, 4, 7):
        ends = []
        for row in gaps:
            histories_end = row_end(row, k)
            ends.append(histories_end)
        np.testing.assert_array_equal(ends, np.cumsum(gaps, axis=1)[:, -1])


def row_end(row: np.ndarray, k: int) -> float:
    """Elapsed time after committing ``row`` in rounds of ``k`` events."""
    from reference_impls.samplers.history import Histories

    histories = Histories(SampleRequest(1, Stop(horizon=1e9), StreamKey()), 1, None, slack=2)
    for begin in range(0, len(row), k):
        block = row[None, begin : begin + k]
        kept = histories.commit(block, np.zeros(block.shape, dtype=np.int64), np.array([block.shape[1]]))
        assert kept[0] == block.shape[1]
    return float(histories.elapsed[0])


def test_an_event_exactly_at_the_horizon_is_not_before_it():
    from reference_impls.samplers.history import Histories

    histories = Histories(SampleRequest(2, Stop(horizon=1.0), StreamKey()), 1, None, slack=2)
    gaps = np.array([[0.25, 0.75, 1e-9], [0.25, 0.5, 1e-9]])
    kept = histories.commit(gaps, np.zeros((2, 3), dtype=np.int64), np.array([3, 3]))
    assert kept.tolist() == [1, 3]
    assert histories.finished.tolist() == [True, False]
    assert histories.elapsed[0] == 0.25
