"""Fit cells: how far a model is from the law of its data, and whether its draft is any worse. No sampler is judged here."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import Scores, Stop
from tppsd_bench.results import Axis, CellResult, Evidence
from tppsd_bench.runner.law_cell import estimate
from tppsd_bench.runner.plan import Job
from tppsd_bench.runner.rounds import sequence_log_likelihood
from tppsd_bench.streams import StreamKey

FloatArray = NDArray[np.float64]
Z95 = 1.959963984540054
POINTLESS = "Speculation pointless: the draft is as good."
NEAR_TRUTH = 0.02


def run_fit_job(job: Job, pair: Any) -> list[tuple[CellResult, dict[str, NDArray[Any]]]]:
    """One cell: against the true process where there is one, else what the card says of the held-out data."""
    cell = job.cells[0]
    if pair.process is None:
        return [
            (CellResult(cell.id, "fit", job.pair, "", f"{pair.title}: fit", seed=job.seed, figures=_from_card(pair.card)), {})
        ]
    key = StreamKey(seed=job.seed, suite=job.suite, cell=cell.id)
    n = max(20, math.ceil(job.sections.fit.n_events / job.length))
    stop = Stop(n_events=job.length)
    held_out = pair.process.simulate(n, stop, key.replace(arm="held out"))
    train = pair.process.simulate(2 * n, stop, key.replace(arm="renewal fit"))
    scores = pair.target.score(held_out)
    figures = _with_card(
        {**likelihoods(pair, held_out, train, scores), "source": "fresh sequences of the true process"}, pair.card
    )
    evidence = [time_rescaling(held_out, scores, key.replace(purpose="pit").generator())]
    result = CellResult(
        cell.id, "fit", job.pair, "", f"{pair.title}: fit to the true process", seed=job.seed, n_sequences=n,
        n_events=held_out.n_events, evidence=tuple(evidence), figures=figures, arrays=("u",),
        stop={"n_events": float(job.length)},
    )  # fmt: skip
    return [(result, {"u": scores.cdf})]


def likelihoods(pair: Any, held_out: EventBatch, train: EventBatch, scores: Scores) -> dict[str, Any]:
    """Nats per event of target, draft, true process and an i.i.d. renewal fit, on the same held-out sequences.

    ``lead_share`` is (renewal - target) / (renewal - true): the share of the true process's lead over an i.i.d. renewal
    fit that the target keeps; left out for a process without memory.
    """
    from tppsd_bench.simulate import renewal_baseline

    per_event = {
        "target": _nats(held_out, scores),
        "draft": _nats(held_out, pair.drafts["shipped"].score(held_out)),
        "true": _nats(held_out, pair.process.score(held_out)),
        "renewal": _nats(held_out, renewal_baseline(train, types="iid").score(held_out)),
    }
    out: dict[str, Any] = {f"nll_{name}": float(v.mean()) for name, v in per_event.items()}
    advantage = _paired(per_event["target"] - per_event["draft"])
    out |= {"nll_target_minus_draft": advantage, "nll_target_minus_true": _paired(per_event["target"] - per_event["true"])}
    room, lead = out["nll_renewal"] - out["nll_true"], out["nll_renewal"] - out["nll_target"]
    if room > NEAR_TRUTH:
        out["lead_share"] = lead / room
    return {**out, **_sentences(out, advantage["high"])}


def time_rescaling(batch: EventBatch, scores: Scores, rng: np.random.Generator) -> Evidence:
    """Kolmogorov distance between the PITs of true events under the model and U(0, 1): the model's error, not the sampler's.

    With sequences of fixed length n values are independent only under the model itself, so no verdict hangs on it.
    """
    from scipy.stats import kstwo

    u = np.sort(scores.cdf)
    n = len(u)
    steps = np.arange(n + 1) / n
    distance = float(max((steps[1:] - u).max(), (u - steps[:-1]).max()))
    half = math.sqrt(math.log(2 / 0.05) / (2 * n))
    return Evidence(
        "fit.time_rescaling", Axis.LAW, p_value=float(kstwo.sf(distance, n)), statistic=distance * math.sqrt(n), n=n,
        effect=distance, effect_name="KS distance", interval=(max(0.0, distance - half), distance + half), display=True,
        null="Kolmogorov", method="time rescaling of true events under the model",
        detail="How far the model is from the process that made its data; speculative sampling neither causes nor mends it.",
    )  # fmt: skip


def _nats(batch: EventBatch, scores: Scores) -> FloatArray:
    """(n,) negative log-likelihood per event of each sequence."""
    return -sequence_log_likelihood(batch, scores) / np.maximum(batch.lengths, 1)


def _paired(values: FloatArray) -> dict[str, float]:
    """Mean of paired differences over sequences with its 95 % normal interval."""
    mean, half = float(values.mean()), Z95 * float(values.std(ddof=1)) / math.sqrt(len(values))
    return estimate(mean, mean - half, mean + half)


def _from_card(card: dict[str, Any]) -> dict[str, Any]:
    """A pair of real data: the data do not ship, the card's held-out likelihoods do."""
    nll: dict[str, Any] = card.get("nll") or {}
    out: dict[str, Any] = {}
    for name in ("target", "draft", "renewal", "true"):
        found = nll.get(name)
        if found is not None:
            out[f"nll_{name}"] = found["value"] if isinstance(found, dict) else found
    return _with_card({**out, "source": "the model card (held-out sequences of its training)"}, card)


def _with_card(figures: dict[str, Any], card: dict[str, Any]) -> dict[str, Any]:
    """Target against draft, and the share of the lead, from the card's held-out sequences where it has them: they are more."""
    nll: dict[str, Any] = card.get("nll") or {}
    out = {k: v for k, v in figures.items() if k not in ("pointless", "fit_sentence")}
    behind = nll.get("draft_minus_target")
    if behind is not None:
        out["nll_target_minus_draft"] = estimate(-behind["value"], -behind["high"], -behind["low"])
        out["source"] += (
            f"; target against draft: the card's {(card.get('test') or {}).get('sequences', 'held-out')} test sequences"
        )
    if nll.get("lead_share") is not None:
        out["lead_share"] = nll["lead_share"]
    advantage = out.get("nll_target_minus_draft")
    return {**out, **_sentences(out, None if advantage is None else float(advantage["high"]))}


def _sentences(figures: dict[str, Any], advantage_high: float | None) -> dict[str, Any]:
    """Nothing is gained by imitating a target that is not shown to be better than its draft (nats: lower is better)."""
    if advantage_high is not None and advantage_high >= 0:
        return {"pointless": True, "fit_sentence": POINTLESS}
    if "lead_share" in figures:
        return {"fit_sentence": f"The target keeps {figures['lead_share']:.0%} of the true process's lead over a renewal fit."}
    if "nll_true" in figures:
        loss = figures["nll_target"] - figures["nll_true"]
        return {"fit_sentence": f"The target loses {loss:.3f} nats an event to the true process."}
    return {}
