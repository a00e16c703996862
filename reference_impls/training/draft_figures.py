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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from reference_impls.drafts.files import about_draft
from reference_impls.heads.lognormal_mixture import sample_types
from reference_impls.network import NeuralModel
from reference_impls.samplers.target_only import TargetOnly
from reference_impls.training.draft_recipe import DraftsRecipe
from reference_impls.training.fit import sequence_nll
from reference_impls.training.pair import PairData, ratio_interval
from tppsd_bench.events import EventBatch
from tppsd_bench.measure.acceptance import ExactAcceptance, exact_acceptance
from tppsd_bench.protocols import FloatArray, IntArray, SampleRequest, Stop
from tppsd_bench.results import to_json
from tppsd_bench.streams import StreamKey

SEQUENCES, CONTEXTS = 128, 16
"""Histories: this many sequences of the target's own, and this many events of each, at even distances from a shifted start."""
N_LEVELS = 128
STEPS, WARM_UP, HISTORY = 1500, 200, 100


@dataclass(frozen=True)
class Histories:
    """Where acceptance is looked at: events of the target's own sequences, and its law of each."""

    events: EventBatch
    at: IntArray
    """Global indices of the chosen events."""
    law: Any

    @classmethod
    def of(cls, target: NeuralModel, n_events: int, seed: int, sequences: int, contexts: int) -> Histories:
        key = StreamKey(seed=seed, suite="drafts", cell=target.name)
        events = TargetOnly(target, batch_size=64).sample(SampleRequest(sequences, Stop(n_events=n_events), key)).events
        each = min(contexts, n_events)
        shift = (
            np.arange(sequences) + 0.5
        ) / sequences  # every position of a sequence gets its due weight, the first event's too
        inside = np.floor((np.arange(each) + shift[:, None]) * n_events / each).astype(np.int64)
        at = (events.offsets[:-1, None] + inside).ravel()
        return cls(events, at, target.conditionals(events).take(at))

    def acceptance(self, draft: Any) -> ExactAcceptance:
        return exact_acceptance(self.law, draft.conditionals(self.events).take(self.at), n_levels=N_LEVELS)

    def mean(self, values: FloatArray) -> dict[str, float]:
        """Mean over histories with its 95 % interval over sequences."""
        each = values.reshape(len(self.events), -1)
        return ratio_interval(each.sum(axis=1), np.full(len(each), each.shape[1]))


def step_microseconds(model: NeuralModel, seed: int = 1) -> float:
    """CPU time of one draft step at batch 1 (one event in, one gap and type out) after 100 events; median of 1,500."""
    rng = np.random.default_rng(seed)
    gaps = np.exp(float(model.head.log_mean) + float(model.head.log_std) * rng.normal(size=(1, HISTORY)))
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
    recipe: DraftsRecipe, data: PairData, target: NeuralModel, drafts: dict[str, NeuralModel], folder: Path
) -> dict[str, Any]:
    """``card.json`` of a folder of drafts; returns it. ``drafts`` by name; the pair's own is called ``shipped``."""
    with torch.inference_mode():
        histories = Histories.of(target, data.median_events, recipe.seed, SEQUENCES, CONTEXTS)
        found = {name: histories.acceptance(draft) for name, draft in drafts.items()}
        of_target = sequence_nll(target, data.test)
        nll = {name: sequence_nll(draft, data.test) for name, draft in drafts.items()}
        worth = {name: _worth(draft, found[name], nll[name], of_target, histories, data) for name, draft in drafts.items()}
    for name, entry in worth.items():
        like = recipe.drafts[name].like if name in recipe.drafts else None
        if like in drafts:
            entry["minus_like"] = {
                "like": like,
                "nll": ratio_interval(nll[name] - nll[str(like)], data.test.lengths),
                "event": histories.mean(found[name].two_step - found[str(like)].two_step),
            }
    out = {
        "pair": recipe.pair,
        "recipe": recipe.model_dump(exclude={"only"}) | {"data": {k: v for k, v in recipe.data.items() if k != "file"}},
        "histories": {"sequences": SEQUENCES, "events": data.median_events, "each": CONTEXTS, "seed": recipe.seed},
        "test": {"sequences": len(data.test), "events": data.test.n_events},
        "target": {"parameters": target.n_parameters, "nll": ratio_interval(of_target, data.test.lengths)},
        "shipped": worth.pop("shipped", None),
        "drafts": {name: _origin(folder / f"{name}.safetensors") | entry for name, entry in worth.items()},
        "torch": torch.__version__.split("+")[0],
    }
    temporary = folder / "card.json.part"
    temporary.write_text(json.dumps(to_json(out), indent=1), encoding="utf-8")
    os.replace(temporary, folder / "card.json")
    return out


def _worth(
    draft: NeuralModel, found: ExactAcceptance, nll: FloatArray, of_target: FloatArray, histories: Histories, data: PairData
) -> dict[str, Any]:
    own = getattr(draft, "is_own", lambda _name: True)
    return {
        "parameters": draft.n_parameters,
        "own_parameters": sum(w.numel() for key, w in draft.named_parameters() if own(key)),
        "nll": ratio_interval(nll, data.test.lengths),
        "nll_minus_target": ratio_interval(nll - of_target, data.test.lengths),
        "acceptance": {
            "event": histories.mean(found.two_step),
            "joint": histories.mean(found.joint),
            "gap": histories.mean(found.gap),
            "type": _of_types(found, histories),
        },
        "step_us": round(step_microseconds(draft), 1),
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


def _of_types(found: ExactAcceptance, histories: Histories) -> dict[str, float]:
    """Types accepted once their gap is: a ratio of means, for a gap that is refused asks no type."""
    event, gap = (v.reshape(len(histories.events), -1).sum(axis=1) for v in (found.two_step, found.gap))
    return ratio_interval(event, gap)
