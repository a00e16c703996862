"""What drafts of one target are worth: held-out likelihood, exact acceptance, size, time a step; their card.

Acceptance is exact for each history (quadrature of both laws, ``measure.acceptance``) and averaged over histories that the target itself
drew, on seeds of their own: what a sampler meets. All drafts are compared on the same histories, so that differences are paired;
intervals are over sequences.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from reference_impls.drafts.files import about_draft
from reference_impls.drafts.ngram import NGram
from reference_impls.heads.lognormal_mixture import sample_types
from reference_impls.network import NeuralModel
from reference_impls.samplers.target_only import TargetOnly
from reference_impls.training.draft_recipe import DraftsRecipe
from reference_impls.training.fit import sequence_nll
from reference_impls.training.pair import PairData
from tppsd_bench.events import EventBatch
from tppsd_bench.measure.acceptance import ExactAcceptance
from tppsd_bench.measure.histories import Histories, ratio_over_sequences
from tppsd_bench.protocols import FloatArray, SampleRequest, Stop
from tppsd_bench.results import to_json
from tppsd_bench.streams import StreamKey

SEQUENCES, CONTEXTS = 128, 16
"""Histories: this many sequences of the target's own, and this many events of each, at even distances from a shifted start."""
STEPS, WARM_UP, HISTORY = 1500, 200, 100


def histories_of(target: NeuralModel, n_events: int, seed: int, sequences: int, contexts: int) -> Histories:
    """Events of the target's own sequences, and its law of each."""
    key = StreamKey(seed=seed, suite="drafts", cell=target.name)
    events = TargetOnly(target, batch_size=64).sample(SampleRequest(sequences, Stop(n_events=n_events), key)).events
    return Histories.of(target, events, contexts)


def step_microseconds(model: Any, target: NeuralModel, seed: int = 1) -> float:
    """CPU time of one draft step at batch 1 (one event in, one gap and type out) after 100 events; median of 1,500."""
    rng = np.random.default_rng(seed)
    gaps = np.exp(float(target.head.log_mean) + float(target.head.log_std) * rng.normal(size=(1, HISTORY)))
    types = rng.integers(0, model.n_types, (1, HISTORY))
    cache, one, back = model.start(1, HISTORY + 2), np.array([1]), np.array([HISTORY])
    model.extend(cache, gaps, types, back)
    u, seconds = rng.random((WARM_UP + STEPS, 1, 3)), np.empty(WARM_UP + STEPS)
    for i in range(len(seconds)):
        begun = time.thread_time()
        law = model.extend(cache, gaps[:, :1], types[:, :1], one)
        gap = law.sample_gap(u[i, :, :2])
        if law.n_types > 1:
            sample_types(law.type_log_probs(gap), u[i, :, 2])
        seconds[i] = time.thread_time() - begun
        cache.rollback(back)
    return float(1e6 * np.median(seconds[WARM_UP:]))


def write_draft_card(
    recipe: DraftsRecipe, data: PairData, target: NeuralModel, drafts: dict[str, NeuralModel | NGram], folder: Path
) -> dict[str, Any]:
    """``card.json`` of a folder of drafts; returns it. ``drafts`` by name; the pair's own is called ``shipped``."""
    with torch.inference_mode():
        histories = histories_of(target, data.median_events, recipe.seed, SEQUENCES, CONTEXTS)
        found = {name: histories.acceptance(draft) for name, draft in drafts.items()}
        of_target = sequence_nll(target, data.test)
        nll = {name: _sequence_nll(draft, data.test) for name, draft in drafts.items()}
        worth = {
            name: _worth(draft, target, found[name], nll[name] - of_target, nll[name], histories, data)
            for name, draft in drafts.items()
        }
    for name, entry in worth.items():
        like = recipe.drafts[name].like if name in recipe.drafts else None
        if like in drafts:
            entry["minus_like"] = {
                "like": like,
                "nll": ratio_over_sequences(nll[name] - nll[str(like)], data.test.lengths),
                "event": histories.mean(found[name].two_step - found[str(like)].two_step),
                "joint": histories.mean(found[name].joint - found[str(like)].joint),
            }
    out = {
        "pair": recipe.pair,
        "recipe": recipe.model_dump(exclude={"only"}) | {"data": {k: v for k, v in recipe.data.items() if k != "file"}},
        "histories": {"sequences": SEQUENCES, "events": data.median_events, "each": CONTEXTS, "seed": recipe.seed},
        "test": {"sequences": len(data.test), "events": data.test.n_events},
        "target": {"parameters": target.n_parameters, "nll": ratio_over_sequences(of_target, data.test.lengths)},
        "shipped": worth.pop("shipped", None),
        "drafts": {name: _origin(folder / f"{name}.safetensors") | entry for name, entry in worth.items()},
        "torch": torch.__version__.split("+")[0],
    }
    temporary = folder / "card.json.part"
    temporary.write_text(json.dumps(to_json(out), indent=1), encoding="utf-8")
    os.replace(temporary, folder / "card.json")
    return out


def _sequence_nll(draft: NeuralModel | NGram, data: EventBatch) -> FloatArray:
    """As ``fit.sequence_nll``, of counts too."""
    if not isinstance(draft, NGram):
        return sequence_nll(draft, data)
    scores = draft.score(data)
    events = -(scores.log_density + np.log(scores.type_probs[np.arange(data.n_events), data.types]))
    total = np.bincount(data.sequence_index, weights=events, minlength=len(data)).astype(np.float64)
    return total if scores.crossing_cdf is None else total - np.log1p(-scores.crossing_cdf)


def _own_parameters(draft: NeuralModel | NGram) -> int:
    """Numbers in the draft's file; an early exit takes the others from its target."""
    if isinstance(draft, NGram):
        return draft.n_parameters
    own = getattr(draft, "is_own", lambda _name: True)
    return sum(w.numel() for key, w in draft.named_parameters() if own(key))


def _worth(
    draft: NeuralModel | NGram, target: NeuralModel, found: ExactAcceptance, behind: FloatArray, nll: FloatArray,
    histories: Histories, data: PairData,
) -> dict[str, Any]:  # fmt: skip
    return {
        "parameters": draft.n_parameters,
        "own_parameters": _own_parameters(draft),
        "nll": ratio_over_sequences(nll, data.test.lengths),
        "nll_minus_target": ratio_over_sequences(behind, data.test.lengths),
        "acceptance": {
            "event": histories.mean(found.two_step),
            "joint": histories.mean(found.joint),
            "gap": histories.mean(found.gap),
            "type": histories.mean(found.two_step, found.gap),  # a gap that is refused asks no type
        },
        "step_us": round(step_microseconds(draft, target), 1),
    }


def _origin(path: Path) -> dict[str, Any]:
    """Where a draft's file comes from, and which file it is."""
    about = about_draft(path)
    spec = about["recipe"]["spec"]
    return {
        "architecture": spec["architecture"],
        "distill": spec["distill"],
        "fit": {k: v for k, v in about["fit"].items() if k != "history"},
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }
