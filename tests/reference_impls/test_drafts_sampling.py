"""Exactness does not depend on the draft: every architecture, untrained, as the draft of a small target passes the law and mechanism checks.

False alarms: q = M min p > 1e-6 per battery, seeds fixed by names, so each assertion fails one exact tree in 1e6; a sampler that keeps every
proposal of the same draft is refused at the same size.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sampler_runs import check_run

from reference_impls.drafts.files import network_of
from reference_impls.network import NeuralModel
from reference_impls.samplers.policy import FixedK
from reference_impls.samplers.speculative import Speculative
from reference_impls.samplers.verification import TwoStep
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import BoolArray, FloatArray, SampleRequest, SampleRun, Stop
from tppsd_bench.results import Evidence
from tppsd_bench.stats.grey import family_size, grey_battery
from tppsd_bench.stats.strata import standard_strata
from tppsd_bench.stats.whitebox import family_size as white_family_size
from tppsd_bench.stats.whitebox import inspect_run
from tppsd_bench.streams import StreamKey

FALSE_ALARM, CAUGHT, RTOL = 1e-6, 1e-9, 1e-4
N_TYPES, K = 2, 4
HEAD = {"n_components": 4, "types_given_gap": True, "hidden": 6}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "lstm": {"encoder": "lstm", "encoder_args": {"d": 8}},
    "gru": {"encoder": "gru", "encoder_args": {"d": 8, "d_time": 4, "time_scale": 10.0}},
    "convolution": {"encoder": "convolution", "encoder_args": {"d": 8, "n_layers": 2}},
    "renewal": {"encoder": "renewal", "encoder_args": {}},
    "transformer": {"encoder": "sahp", "encoder_args": {"n_layers": 1, "n_heads": 1, "d": 8, "time_scale": 10.0}},
    "early_exit": {"exit_after": 1},
}


def small_target() -> NeuralModel:
    torch.manual_seed(1)
    args = {"n_layers": 2, "n_heads": 2, "d": 16, "time_scale": 10.0}
    model = NeuralModel({"encoder": "thp", "n_types": N_TYPES, "encoder_args": args, "head_args": HEAD})
    with torch.no_grad():  # history matters, and small gaps keep float32 from smearing the clock
        model.head.raw.weight *= 3.0
        model.head.raw.bias[4:8] = -0.5
    return model.eval()


TARGET = small_target()


def draft_of(name: str) -> NeuralModel:
    torch.manual_seed(2)
    model = network_of({"name": name, "n_types": N_TYPES, "head_args": HEAD, **ARCHITECTURES[name]}, TARGET)
    with torch.no_grad():
        model.head.raw.weight *= 3.0
        model.head.raw.bias[:4] += 0.3
    return model.eval()


@pytest.fixture(params=ARCHITECTURES, scope="module")
def draft(request) -> NeuralModel:
    return draft_of(request.param)


def prompts(n: int) -> EventBatch:
    rng = StreamKey(cell="draft prompts").generator()
    lengths = [1 + i % 3 for i in range(n)]
    return EventBatch.from_gaps(
        [np.exp(rng.normal(size=m)) for m in lengths], [rng.integers(0, N_TYPES, m) for m in lengths], n_types=N_TYPES
    )


@pytest.mark.parametrize("n", [1, 5])
def test_the_contract_holds_with_every_draft(draft, n):
    sampler = Speculative(TARGET, draft, FixedK(K))
    for stop, prompt in ((Stop(n_events=15), None), (Stop(horizon=5.0), None), (Stop(n_events=7), prompts(n))):
        request = SampleRequest(n, stop, StreamKey(cell="draft contract"), prompt=prompt)
        check_run(sampler.sample(request), sampler, request, RTOL)


def worst(found: list[Evidence], family: int) -> float:
    """M min p over what decides; 0 where a deterministic check failed."""
    if any(e.passed is False for e in found):
        return 0.0
    return min(1.0, family * min(e.p_value for e in found if e.p_value is not None and not e.display))


def law_q(run: SampleRun, name: str) -> float:
    assert run.trace is not None
    declared = standard_strata(N_TYPES, max_k=K, k_values=tuple(range(1, K + 1)))
    found = grey_battery(
        run.events, TARGET.score(run.events), StreamKey(cell=name, purpose="pit").generator(), position=run.trace.event_position,
        k_round=run.trace.event_k, strata=declared,
    )  # fmt: skip
    return worst(found, family_size(N_TYPES, declared))


def mechanism_q(run: SampleRun, draft: NeuralModel, name: str) -> float:
    rng = StreamKey(cell=name, purpose="white").generator()
    found = list(inspect_run(run, TARGET, draft, "leviathan_two_step", rng, tol=RTOL, max_rows=500).evidence)
    return worst(found, white_family_size("leviathan_two_step", N_TYPES, True))


def draw(sampler: Speculative, name: str) -> SampleRun:
    return sampler.sample(SampleRequest(60, Stop(n_events=40), StreamKey(cell=name)))


def test_every_draft_leaves_the_targets_law(draft):
    name = f"draft law {draft.name}"
    run = draw(Speculative(TARGET, draft, FixedK(K)), name)
    assert law_q(run, name) > FALSE_ALARM
    assert mechanism_q(run, draft, name) > FALSE_ALARM


class KeepAll(TwoStep):
    """Accepts every proposal, whatever the laws say."""

    def accepts(self, log_p: FloatArray, log_q: FloatArray, u: FloatArray) -> BoolArray:
        return np.ones(u.shape, dtype=bool)


def test_a_sampler_that_keeps_every_proposal_is_caught(draft):
    name = f"draft kept {draft.name}"
    run = draw(Speculative(TARGET, draft, FixedK(K), KeepAll()), name)
    assert law_q(run, name) < CAUGHT
