"""Training: one network, a stream of batches, early stopping on the held-out objective (likelihood, unless told); resumable, seeded.

Data order, initial weights and dropout depend on (seed, epoch) alone, so a run that was killed and resumed ends where an
uninterrupted one does (up to the machine's float32 sums).
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from reference_impls.network import NeuralModel
from tppsd_bench.errors import RunBroken
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import IntArray

Progress = Callable[[str, float], None]
"""(what is going on, fraction done)."""


@dataclass(frozen=True)
class FitPlan:
    """How long and how fast to train. ``epochs`` of whatever the data give per epoch; the rate warms up, then falls as a cosine."""

    epochs: int
    batch_sequences: int = 16
    learning_rate: float = 1e-3
    warmup_steps: int = 100
    weight_decay: float = 1e-4
    patience: int = 10
    clip: float = 1.0
    validate_every: int = 1
    """Epochs between looks at the held-out data; the last epoch is always looked at."""
    average_from: float = 0.75
    """From this fraction of the run on, keep the running mean of the weights and ship it where it validates better."""


@dataclass(frozen=True)
class FitResult:
    best_epoch: int
    best_validation_nll: float
    epochs_run: int
    seconds: float
    history: tuple[tuple[int, float, float], ...]
    """(epoch, training objective, validation objective); by maximum likelihood, NLL in nats per event."""


EpochData = Callable[[int], EventBatch]


class Objective(Protocol):
    """What is minimised, in nats per event or so."""

    def loss(self, model: NeuralModel, part: EventBatch, epoch: int, rows: IntArray) -> torch.Tensor:
        """Of a batch, which is ``rows`` of the data of ``epoch``; differentiable."""
        ...

    def held_out(self, model: NeuralModel, validation: EventBatch) -> float: ...


def batches(data: EventBatch, size: int, rng: np.random.Generator) -> Iterator[EventBatch]:
    """Random batches of whole sequences; sequences of similar length go together, so that little is padding."""
    yield from (data.select(rows) for rows in batch_rows(data, size, rng))


def batch_rows(data: EventBatch, size: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """Which sequences make up each of the ``batches``."""
    usable = np.flatnonzero(data.lengths > 0)
    noisy_length = data.lengths[usable] + rng.uniform(0.0, 0.1 * data.lengths[usable].mean() + 1.0, len(usable))
    order = usable[np.argsort(noisy_length, kind="stable")]
    starts = np.arange(0, len(order), size)
    for begin in rng.permutation(starts):
        yield order[begin : begin + size]


def sequence_nll(model: NeuralModel, data: EventBatch) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Negative log-likelihood of every sequence (n,) in nats, by the float64 law; with a horizon, the wait up to it included."""
    raw, raw_after = model.raw_contexts(data)
    laws, rows = model.head.law(raw), np.arange(data.n_events)
    events = -(laws.log_prob(data.gaps) + laws.type_log_probs(data.gaps)[rows, data.types])
    total = np.asarray(np.bincount(data.sequence_index, weights=events, minlength=len(data)), dtype=np.float64)
    if data.horizon is not None:
        after = model.head.law(raw_after).sf(data.horizon - data.end_times)
        total = total - np.log(np.maximum(after, np.finfo(np.float64).tiny))
    return total


def _loss(model: NeuralModel, part: EventBatch) -> torch.Tensor:
    gaps, types = part.padded(fill_gap=1.0)
    keep = torch.from_numpy(np.arange(gaps.shape[1]) < part.lengths[:, None]).to(model.device)
    if part.horizon is None:
        return -(model.log_likelihood(gaps, types) * keep).sum() / int(part.lengths.sum())
    events, wait = model.censored_log_likelihood(gaps, types, part.lengths, part.horizon - part.end_times)
    return -((events * keep).sum() + wait.sum()) / int(part.lengths.sum())


class Likelihood:
    """Maximum likelihood: negative log-likelihood in nats per event."""

    def loss(self, model: NeuralModel, part: EventBatch, epoch: int, rows: IntArray) -> torch.Tensor:
        return _loss(model, part)

    def held_out(self, model: NeuralModel, validation: EventBatch) -> float:
        return float(sequence_nll(model, validation).sum() / validation.n_events)


def fit(
    model: NeuralModel,
    train: EpochData,
    validation: EventBatch,
    plan: FitPlan,
    *,
    seed: int,
    state_path: Path | None = None,
    progress: Progress | None = None,
    objective: Objective | None = None,
) -> FitResult:
    """Train in place; the model ends with its best validated weights, in evaluation mode.

    ``state_path`` holds the state after each epoch; where it exists, training goes on from it.
    """
    objective = objective or Likelihood()
    optimiser = torch.optim.AdamW(model.parameters(), lr=plan.learning_rate, weight_decay=plan.weight_decay)
    state: dict[str, Any] = {"epoch": 0, "best": math.inf, "best_epoch": 0, "best_weights": None, "history": [], "step": 0,
                             "mean": None, "mean_count": 0, "seconds": 0.0}  # fmt: skip
    if state_path is not None and state_path.exists():
        loaded = torch.load(state_path, weights_only=True)
        model.load_state_dict(loaded["weights"])
        optimiser.load_state_dict(loaded["optimiser"])
        state = loaded["state"]
    while state["epoch"] < plan.epochs and state["epoch"] - state["best_epoch"] < plan.patience:
        started = time.perf_counter()
        torch.manual_seed(seed * 1_000_003 + state["epoch"])
        train_nll = _one_epoch(model, optimiser, objective, train(state["epoch"]), plan, seed, state)
        if state["epoch"] % plan.validate_every == 0 or state["epoch"] == plan.epochs:
            _validate(model, objective, validation, train_nll, state)
        state["seconds"] += time.perf_counter() - started
        if state_path is not None:
            _save_state(state_path, model, optimiser, state)
        if progress is not None and state["history"]:
            said = f"epoch {state['epoch']}: train {train_nll:.4f}, held out {state['history'][-1][2]:.4f} nats/event"
            progress(said, state["epoch"] / plan.epochs)
    if state["best_weights"] is None:
        raise RunBroken(
            f"Training gave no finite held-out likelihood in {state['epoch']} epochs; lower the learning rate "
            "(--set target.fit.learning_rate=3e-4, or draft.fit), or look for gaps that are extreme with data check."
        )
    model.load_state_dict(state["best_weights"])
    model.eval()
    return FitResult(state["best_epoch"], state["best"], state["epoch"], state["seconds"], tuple(map(tuple, state["history"])))


def _one_epoch(
    model: NeuralModel,
    optimiser: torch.optim.Optimizer,
    objective: Objective,
    data: EventBatch,
    plan: FitPlan,
    seed: int,
    state: dict[str, Any],
) -> float:
    rng = np.random.default_rng([seed, state["epoch"], 7])
    model.train()
    losses, weights = [], []
    parts = list(batch_rows(data, plan.batch_sequences, rng))
    for done, rows in enumerate(parts):
        part = data.select(rows)
        fraction = (state["epoch"] + done / len(parts)) / plan.epochs
        rate = plan.learning_rate * (0.01 + 0.99 * 0.5 * (1.0 + math.cos(math.pi * fraction)))
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1.0, (state["step"] + 1) / plan.warmup_steps)
        optimiser.zero_grad(set_to_none=True)
        loss = objective.loss(model, part, state["epoch"], rows)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), plan.clip)
        optimiser.step()
        state["step"] += 1
        losses.append(float(loss.detach()))
        weights.append(int(part.lengths.sum()))
        if fraction >= plan.average_from:
            _accumulate(model, state)
    state["epoch"] += 1
    return float(np.average(losses, weights=weights))


def _accumulate(model: NeuralModel, state: dict[str, Any]) -> None:
    state["mean_count"] += 1
    if state["mean"] is None:
        state["mean"] = {k: v.detach().clone() for k, v in model.state_dict().items()}
        return
    step = 1.0 / state["mean_count"]
    for name, value in model.state_dict().items():
        state["mean"][name].lerp_(value, step)


def _validate(
    model: NeuralModel, objective: Objective, validation: EventBatch, train_nll: float, state: dict[str, Any]
) -> None:
    model.eval()
    now = {k: v.detach().clone() for k, v in model.state_dict().items()}
    best_here = math.inf
    for weights in filter(None, (now, state["mean"])):
        model.load_state_dict(weights)
        model.eval()
        nll = objective.held_out(model, validation)
        best_here = min(best_here, nll)
        if nll < state["best"] - 1e-5:
            state.update(best=nll, best_epoch=state["epoch"], best_weights={k: v.clone() for k, v in weights.items()})
    model.load_state_dict(now)
    state["history"].append((state["epoch"], train_nll, best_here))


def _save_state(path: Path, model: NeuralModel, optimiser: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    temporary = path.with_suffix(".part")
    torch.save({"weights": model.state_dict(), "optimiser": optimiser.state_dict(), "state": state}, temporary)
    os.replace(temporary, path)
