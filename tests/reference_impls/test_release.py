"""The public release's checkpoints: golden outputs reproduced, non-causal files refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from reference_impls.encoders.base import EventInputs
from reference_impls.release import CONSTANTS, load_release, release_files
from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch

PEER = Path(__file__).resolve().parents[3] / "shared" / "peer"
pytestmark = pytest.mark.skipif(not PEER.is_dir(), reason="the release's files (../shared/peer) are not here")
TOLERANCE = 1e-5
CAUSAL = [("thp", "hawkes", 20), ("thp", "hawkes", 1), ("thp", "poisson", 20), ("thp", "poisson", 1)] + [
    ("sahp", ds, n) for ds in CONSTANTS for n in ((20, 1) if ds != "multi" else (20, 6, 4, 1))
]
QUIRKS = [("thp", "multi", n) for n in (20, 6, 4, 1)] + [
    ("attnhp", ds, n) for ds in CONSTANTS for n in ((1,) if ds != "multi" else (6, 4, 1))
]


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    return dict(np.load(PEER / "golden" / "golden.npz"))


def batch_of(golden: dict[str, np.ndarray], ds: str) -> EventBatch:
    times = golden[f"{ds}/event_times"].astype(np.float64)
    types = golden.get(f"{ds}/marks", np.zeros(len(times), dtype=np.int64))
    return EventBatch.from_times([times], [types], n_types=2 if ds == "multi" else 1)


def contexts(model, batch: EventBatch) -> np.ndarray:
    gaps, types = batch.padded()
    with torch.inference_mode():
        return model._contexts(gaps, types)[0].numpy()


@pytest.mark.parametrize(("encoder", "ds", "layers"), CAUSAL)
def test_causal_files_reproduce_the_golden_arrays(golden, encoder, ds, layers):
    path = release_files(PEER / "checkpoints", encoder, ds)[layers]
    model, batch, at = (
        load_release(path, tuple(golden[f"{ds}/consts_seed0"].tolist())),
        batch_of(golden, ds),
        f"{ds}/{encoder}{layers}",
    )
    want = golden[f"{at}/context"]
    assert np.abs(contexts(model, batch) - want[1:]).max() < TOLERANCE
    assert np.abs(model.initial_context.detach().numpy() - want[0]).max() < TOLERANCE
    rows, after = model.raw_contexts(batch)
    law = model.head.law(np.concatenate([rows, after]))
    if f"{at}/locs" in golden:
        assert np.abs(law.loc - golden[f"{at}/locs"]).max() < TOLERANCE
        assert np.abs(law.scale - golden[f"{at}/scales"]).max() < TOLERANCE
        assert np.abs(np.log(law.weight) - golden[f"{at}/log_weights"]).max() < TOLERANCE
    gaps = golden[f"{ds}/inter_times"].astype(np.float64)[1:]
    if f"{at}/logp_time" in golden:
        got = law.take(slice(1, 50)).log_prob(gaps)
        assert np.abs(got - golden[f"{at}/logp_time"][1:]).max() < TOLERANCE
        survival = np.log(law.take(slice(1, 50)).sf(gaps))
        inside = golden[f"{at}/logsf_time"][1:] > -4  # the release clips each component's survival at 1e-7
        assert np.abs(survival - golden[f"{at}/logsf_time"][1:])[inside].max() < TOLERANCE
    if f"{at}/mark_logp_all" in golden:
        assert np.abs(law.types.log_p - golden[f"{at}/mark_logp_all"]).max() < TOLERANCE


@pytest.mark.parametrize(("encoder", "ds", "layers"), QUIRKS)
def test_noncausal_files_are_refused_and_load_with_quirks(golden, encoder, ds, layers):
    path = release_files(PEER / "checkpoints", encoder, ds)[layers]
    with pytest.raises(InputError, match="sees later events"):
        load_release(path, CONSTANTS[ds])
    model, batch, at = load_release(path, CONSTANTS[ds], quirks="release"), batch_of(golden, ds), f"{ds}/{encoder}{layers}"
    want = golden[f"{at}/context" if encoder == "thp" else f"{at}/context_allones"]
    assert np.abs(contexts(model, batch) - want[1:]).max() < TOLERANCE
    if f"{at}/context_onepad" in golden:
        gaps, types = batch.padded()
        times = np.concatenate([np.cumsum(gaps, axis=1), [[0.0]]], axis=1)
        types = torch.from_numpy(np.concatenate([types, [[0]]], axis=1))
        mask = torch.cat([torch.ones(1, 50), torch.zeros(1, 1)], dim=1)
        with torch.inference_mode():
            out = model._attnhp(EventInputs(times, times, types, np.zeros((1, 51), dtype=np.int64)), mask)[0].numpy()
        assert np.abs(out - golden[f"{at}/context_onepad"][1:]).max() < TOLERANCE


@pytest.mark.parametrize(("encoder", "ds", "layers"), [("thp", "multi", 20), ("attnhp", "multi", 6)])
def test_prefix_invariance_refuses_the_noncausal_files(golden, encoder, ds, layers):
    from tppsd_bench.stats.preconditions import check_target

    model = load_release(release_files(PEER / "checkpoints", encoder, ds)[layers], CONSTANTS[ds], quirks="release")
    evidence = {e.name: e for e in check_target(model, batch_of(golden, ds), np.random.default_rng(1))}
    refused = [e for name, e in evidence.items() if "prefix" in name]
    assert refused
    assert not any(e.passed for e in refused)
    assert any("later" in e.detail or "append" in e.detail for e in refused)
