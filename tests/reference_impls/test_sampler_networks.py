"""Samplers on small random float32 networks: counters, mechanism, cached against recomputed, and batch against single sequences."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch
from sampler_runs import check_run

from reference_impls.encoders.lean import CompiledNetwork
from reference_impls.network import NeuralModel
from reference_impls.samplers.policy import FixedK
from reference_impls.samplers.speculative import Speculative
from reference_impls.samplers.target_only import TargetOnly
from reference_impls.samplers.verification import Joint, TwoStep
from reference_impls.stress import StressDraft
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import SampleRequest, Stop
from tppsd_bench.stats.whitebox import inspect_run
from tppsd_bench.streams import StreamKey

RTOL = 1e-4
N_TYPES = 3


def network(encoder: str, layers: int, heads: int, seed: int, n_types: int = N_TYPES, given_gap: bool = False) -> NeuralModel:
    torch.manual_seed(seed)
    extra = {"d_time": 8} if encoder == "attnhp" else {}
    model = NeuralModel(
        {
            "encoder": encoder,
            "n_types": n_types,
            "encoder_args": {"n_layers": layers, "n_heads": heads, "d": 16, "time_scale": 10.0, **extra},
            "head_args": {"n_components": 4, "types_given_gap": given_gap, "hidden": 8},
        }
    )
    with torch.no_grad():  # history matters, and small gaps keep float32 from smearing the clock
        model.head.raw.weight *= 3.0
        model.head.raw.bias[4:8] = -0.5
    return model.eval()


PAIRS = {
    "thp": (network("thp", 3, 2, 1), network("thp", 1, 1, 2)),
    "sahp": (network("sahp", 3, 1, 1), network("sahp", 1, 2, 2)),
    "attnhp": (network("attnhp", 3, 2, 1, given_gap=True), network("attnhp", 1, 1, 2, given_gap=True)),
    "mixed": (network("attnhp", 3, 1, 1, n_types=1), network("thp", 2, 1, 2, n_types=1)),
}


@pytest.fixture(params=sorted(PAIRS))
def pair(request) -> tuple[NeuralModel, NeuralModel]:
    return PAIRS[request.param]


def prompts(n: int, n_types: int) -> EventBatch:
    rng = StreamKey(cell="network prompts").generator()
    lengths = [1 + i % 3 for i in range(n)]
    return EventBatch.from_gaps(
        [np.exp(rng.normal(size=m)) for m in lengths], [rng.integers(0, n_types, m) for m in lengths], n_types=n_types
    )


@pytest.mark.parametrize("rule", [TwoStep(), Joint()], ids=lambda r: r.rule)
@pytest.mark.parametrize("n", [1, 5])
def test_the_contract_holds_on_networks(pair, rule, n):
    for draft in (pair[1], StressDraft(pair[1])):
        sampler = Speculative(pair[0], draft, FixedK(4), rule)
        for stop, prompt in (
            (Stop(n_events=15), None),
            (Stop(horizon=5.0), None),
            (Stop(n_events=7), prompts(n, pair[0].n_types)),
        ):
            request = SampleRequest(n, stop, StreamKey(cell="networks"), prompt=prompt)
            check_run(sampler.sample(request), sampler, request, RTOL)


@pytest.mark.parametrize("rule", [TwoStep(), Joint()], ids=lambda r: r.rule)
def test_whitebox_checks_pass_on_networks(pair, rule):
    """No deterministic check fails; p-values at M min p > 1e-6 are the toys' business, here each is above 1e-6 / 100."""
    sampler = Speculative(pair[0], pair[1], FixedK(3), rule)
    run = sampler.sample(SampleRequest(12, Stop(n_events=25), StreamKey(cell="networks white")))
    rng = StreamKey(cell="networks white", purpose="pit").generator()
    found = list(inspect_run(run, *pair, rule.rule, rng, tol=RTOL, max_rows=128).evidence)
    assert not [e.name + ": " + e.detail for e in found if e.passed is False]
    assert min(e.p_value for e in found if e.p_value is not None) > 1e-8


# -- counts ----------------------------------------------------------------------------------------------------------------
@contextmanager
def pass_counter(model: NeuralModel) -> Iterator[dict[str, int]]:
    """A second, independent counter of passes, at the head's module (single events in torch) and in front of compiled networks."""
    seen, whole = {"calls": 0, "positions": 0}, CompiledNetwork.__call__

    def count(positions: int) -> None:
        seen["calls"] += 1
        seen["positions"] += positions

    def compiled(self, cache, x, *rest):
        if self is model.__dict__.get("_compiled_network"):
            count(len(x))
        return whole(self, cache, x, *rest)

    handle = model.head.register_forward_hook(lambda _module, inputs, _output: count(inputs[0].numel() // inputs[0].shape[-1]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CompiledNetwork, "__call__", compiled)
        try:
            yield seen
        finally:
            handle.remove()


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize("prompted", [False, True])
@pytest.mark.parametrize("stop", [Stop(n_events=12), Stop(horizon=4.0)], ids=["events", "horizon"])
def test_two_counters_agree(pair, n, prompted, stop):
    """The sampler's counts and those at the models see the same calls and positions (the initial law is no pass)."""
    target, draft = pair
    request = SampleRequest(n, stop, StreamKey(cell="counters"), prompt=prompts(n, target.n_types) if prompted else None)
    for sampler in (Speculative(target, draft, FixedK(3)), TargetOnly(target)):
        with pass_counter(target) as of_target, pass_counter(draft) as of_draft:
            counts = sampler.sample(request).counts
        assert counts.target_calls > 0
        assert of_target == {"calls": counts.target_calls, "positions": counts.target_positions}
        assert of_draft == {"calls": counts.draft_calls, "positions": counts.draft_positions}
    with pass_counter(target) as seen:
        Speculative(target, draft, FixedK(3)).sample(replace(request, n_sequences=0, prompt=None))
    assert seen == {"calls": 0, "positions": 0}


# -- the same sequences ----------------------------------------------------------------------------------------------------
def diverging(a: EventBatch, b: EventBatch) -> int:
    """Sequences that part at some event; up to there gaps agree to RTOL and types exactly, by definition of the parting."""
    apart = 0
    for i in range(len(a)):
        x, y = a.select(slice(i, i + 1)), b.select(slice(i, i + 1))
        m = min(x.n_events, y.n_events)
        same = np.isclose(x.gaps[:m], y.gaps[:m], rtol=RTOL, atol=0.0) & (x.types[:m] == y.types[:m])
        apart += not (same.all() and x.n_events == y.n_events)
    return apart


@pytest.mark.parametrize("prompted", [False, True])
def test_target_only_cached_is_recomputed(pair, prompted):
    n = 6
    request = SampleRequest(
        n, Stop(n_events=30), StreamKey(cell="cached"), prompt=prompts(n, pair[0].n_types) if prompted else None
    )
    cached, recomputed = TargetOnly(pair[0]).sample(request), TargetOnly(pair[0], recompute=True).sample(request)
    assert diverging(cached.events, recomputed.events) == 0
    np.testing.assert_allclose(cached.events.gaps, recomputed.events.gaps, rtol=RTOL)
    assert cached.counts.target_row_forwards == recomputed.counts.target_row_forwards == n * (30 if prompted else 29)
    assert recomputed.counts.target_positions > 10 * cached.counts.target_positions


@pytest.mark.parametrize("rule", [TwoStep(), Joint()], ids=lambda r: r.rule)
def test_single_sequences_are_the_batch_up_to_a_flipped_decision(pair, rule):
    """About 1e-5 of 2000 decisions may flip where |log u - log ratio| is within float32: one parting sequence is allowed."""
    request = SampleRequest(12, Stop(n_events=30), StreamKey(cell="batches"))
    whole = Speculative(*pair, FixedK(4), rule).sample(request).events
    assert diverging(whole, Speculative(*pair, FixedK(4), rule, batch_size=8).sample(request).events) <= 1
    assert diverging(whole, Speculative(*pair, FixedK(4), rule, batch_size=1).sample(request).events) <= 1
    other = Speculative(*pair, FixedK(4), rule).sample(replace(request, first_sequence=12)).events
    assert diverging(whole, other) == 12, "the comparison sees different sequences"


def test_a_draft_equal_to_the_target_is_accepted_up_to_rounding(pair):
    """Block and single-event passes differ by 1e-6 in log density: a rejection has that probability."""
    run = Speculative(pair[0], pair[0], FixedK(5)).sample(SampleRequest(4, Stop(n_events=36), StreamKey(cell="itself")))
    assert run.counts.accepted >= run.counts.drafted - 1
    assert run.counts.rounds <= 4 * 6 + 1
