"""Cells of a pair's drafts that need no clock: size, held-out likelihood, foresight, acceptance exact and measured, events a forward.

All drafts of a pair are looked at on the same sequences: the target's own for acceptance, the true process's for likelihood and foresight
(where there is none, the cards and the target's own). What a draft gains over another is therefore paired.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tppsd_bench import budget
from tppsd_bench.events import EventBatch
from tppsd_bench.measure.acceptance import ExactAcceptance, acceptance_by_position, exact_acceptance
from tppsd_bench.measure.counts import target_only_forwards
from tppsd_bench.measure.foresight import Foresight, foresight
from tppsd_bench.measure.histories import Histories, ratio_over_sequences
from tppsd_bench.measure.promise import N_LEVELS
from tppsd_bench.protocols import ROLE_ACCEPTED, SampleRequest, SampleRun, Stop
from tppsd_bench.results import Axis, CellResult, Outcome, Verdict
from tppsd_bench.runner.plan import Job, loader_module
from tppsd_bench.runner.rounds import sequence_log_likelihood
from tppsd_bench.stats.whitebox.acceptance import poisson_binomial_p
from tppsd_bench.streams import StreamKey
from tppsd_bench.studies.drafts.table import COUNTED, DISTILLED, Drafts

FloatArray = NDArray[np.float64]
Figures = dict[str, Any]
BATCH = 64


class Ground:
    """What the drafts of one pair are compared on; each part is made when first asked for."""

    def __init__(self, job: Job, pair: Any) -> None:
        assert isinstance(job.table, Drafts)
        self.job, self.pair, self.table = job, pair, job.table
        self.key = StreamKey(seed=job.seed, suite=job.suite, cell=f"{COUNTED}.{job.pair}")
        self._acceptance: dict[str, ExactAcceptance] = {}

    @cached_property
    def histories(self) -> Histories:
        """Of the target's own sequences."""
        request = self.request("target", "histories", trace=False)
        events = self.pair.sampler("target_only", batch_size=BATCH).sample(request).events
        return Histories.of(self.pair.target, events, self.table.contexts)

    @cached_property
    def held_out(self) -> EventBatch | None:
        """Fresh sequences of the true process, where it is known."""
        if self.pair.process is None:
            return None
        stop = Stop(n_events=self.job.length)
        found: EventBatch = self.pair.process.simulate(self.table.held_out, stop, self.key.replace(arm="held out"))
        return found

    @cached_property
    def seen(self) -> Histories:
        """Where the next event is foretold: on held-out sequences, else on the target's own."""
        if self.held_out is None:
            return self.histories
        return Histories.of(self.pair.target, self.held_out, self.table.contexts)

    @cached_property
    def target_nats(self) -> FloatArray:
        """(n,) negative log-likelihood of each held-out sequence."""
        assert self.held_out is not None
        return -sequence_log_likelihood(self.held_out, self.pair.target.score(self.held_out))

    @cached_property
    def target_foresight(self) -> Foresight:
        return foresight(self.seen.law, self.seen.events.gaps[self.seen.at], self.seen.events.types[self.seen.at])

    @cached_property
    def cards(self) -> dict[str, Any]:
        """What is known of the drafts since their training."""
        module = loader_module(self.job.loader)
        return dict(module.draft_cards(self.job.source)) if hasattr(module, "draft_cards") else {}

    def acceptance(self, draft: str) -> ExactAcceptance:
        if draft not in self._acceptance:
            self._acceptance[draft] = self.histories.acceptance(self.pair.drafts[draft])
        return self._acceptance[draft]

    def request(self, arm: str, purpose: str, *, trace: bool) -> SampleRequest:
        key = self.key.replace(arm=arm, purpose=purpose)
        return SampleRequest(
            self.table.sequences, Stop(n_events=self.job.length), key, device=self.job.device, want_trace=trace
        )


def run(job: Job, pair: Any) -> Iterator[tuple[CellResult, dict[str, NDArray[Any]]]]:
    """One cell a draft."""
    ground = Ground(job, pair)
    for cell in job.cells:
        begun = time.perf_counter()
        figures = size_of(pair, cell.draft) | likelihood(ground, cell.draft) | foreseen(ground, cell.draft)
        figures |= acceptance(ground, cell.draft)
        runs = {k: sampled(ground, cell.draft, k) for k in ground.table.k}
        figures["by_k"] = [counted(k, run, job.length) for k, run in runs.items()]
        k = max(runs)
        figures["identity"], judged = identity(ground, cell.draft, runs[k])
        arrays: dict[str, NDArray[Any]] = positions(runs[k])
        arrays["sequence_acceptance"] = ground.histories.by_sequence(_event(ground, cell.draft)).mean(axis=1)
        yield (
            CellResult(
                cell.id, cell.kind, job.pair, cell.draft, f"{pair.title}: draft {cell.draft}", "speculative", k,
                {"n_events": float(job.length)}, job.seed, n_sequences=ground.table.sequences,
                n_events=sum(r.events.n_events for r in runs.values()), verdicts=(judged,), figures=figures,
                arrays=tuple(arrays), seconds=time.perf_counter() - begun,
            ),
            arrays,
        )  # fmt: skip


def size_of(pair: Any, draft: str) -> Figures:
    """Numbers of parameters, and their ratio; nothing for models that have none."""
    mine, its = (getattr(model, "n_parameters", None) for model in (pair.drafts[draft], pair.target))
    if not (mine and its):
        return {}
    return {"parameters": int(mine), "target_parameters": int(its), "parameter_ratio": mine / its}


def likelihood(ground: Ground, draft: str) -> Figures:
    """Nats per held-out event of draft and target, and by how much the draft is behind; the cards' where the data do not ship.

    ``pointless``: the target is not shown to be better than the draft, so nothing is gained by imitating it.
    """
    out: Figures
    if ground.held_out is not None:
        lengths = ground.held_out.lengths
        nats = -sequence_log_likelihood(ground.held_out, ground.pair.drafts[draft].score(ground.held_out))
        out = {
            "nll_draft": ratio_over_sequences(nats, lengths),
            "nll_target": ratio_over_sequences(ground.target_nats, lengths),
        }
        out["nll_draft_minus_target"] = ratio_over_sequences(nats - ground.target_nats, lengths)
        out["nll_source"] = f"{ground.table.held_out} fresh sequences of the true process"
    else:
        of_pair, card = ground.pair.card.get("nll") or {}, ground.cards.get(draft) or {}
        shipped = {"nll": of_pair.get("draft"), "nll_minus_target": of_pair.get("draft_minus_target")}
        known = card or (shipped if draft == "shipped" else {})
        found = {"nll_draft": known.get("nll"), "nll_target": of_pair.get("target")}
        found["nll_draft_minus_target"] = known.get("nll_minus_target")
        out = {name: value for name, value in found.items() if value}
        out |= {"nll_source": "the cards: test sequences of the data, which do not ship"} if "nll_draft" in out else {}
    behind = out.get("nll_draft_minus_target")
    return {**out, "pointless": bool(behind["low"] <= 0)} if behind else out


def foreseen(ground: Ground, draft: str) -> Figures:
    """Next-event type accuracy and |log error| of the median gap, of draft, target and their difference."""
    seen, target = ground.seen, ground.target_foresight
    law = seen.law_of(ground.pair.drafts[draft])
    mine = foresight(law, seen.events.gaps[seen.at], seen.events.types[seen.at])
    values = {"gap_error": (mine.gap_error, target.gap_error)}
    if law.n_types > 1:
        values["type_accuracy"] = (mine.type_hit.astype(np.float64), target.type_hit.astype(np.float64))
    out: Figures = {}
    for name, (own, its) in values.items():
        out |= {f"{name}_draft": seen.mean(own), f"{name}_target": seen.mean(its), f"{name}_minus_target": seen.mean(own - its)}
    return {**out, "foresight_source": "the target's own sequences" if ground.held_out is None else "the true process"}


def acceptance(ground: Ground, draft: str) -> Figures:
    """Exact acceptance by quadrature: gap, type given an accepted gap, event in two steps, event jointly; less the plain sibling's."""
    found, mean = ground.acceptance(draft), ground.histories.mean
    out: Figures = {"acceptance_gap": mean(found.gap), "acceptance_type": mean(found.two_step, found.gap)}
    out |= {"acceptance_event": mean(found.two_step), "acceptance_joint": mean(found.joint)}
    plain = draft.removesuffix(DISTILLED)
    if plain != draft and plain in ground.pair.drafts:
        out["acceptance_minus_plain"] = mean(_event(ground, draft) - _event(ground, plain))
    return out


def _event(ground: Ground, draft: str) -> FloatArray:
    """Acceptance of the event under the rule that runs use."""
    found = ground.acceptance(draft)
    return found.joint if ground.table.rule == "leviathan_joint" else found.two_step


def sampled(ground: Ground, draft: str, k: int) -> SampleRun:
    """The speculative sampler's own sequences, with what it says it did."""
    sampler = ground.pair.sampler("speculative", draft=draft, k=k, rule=ground.table.rule, batch_size=BATCH)
    run: SampleRun = sampler.sample(ground.request(f"{draft}.k{k}", "sampler", trace=True))
    return run


def counted(k: int, run: SampleRun, length: int) -> Figures:
    """Rates of one run at one K, with intervals over sequences: a round is a target forward of one sequence.

    ``speedup_by_count``: forwards that target-only sampling needs over those that were made; what a free draft would gain.
    """
    assert run.trace is not None
    trace, events = run.trace, run.events
    verified, accepted = _of_events(run)
    n = len(events)

    def by_sequence(of: NDArray[Any], weights: NDArray[Any] | None = None) -> FloatArray:
        return np.bincount(of, weights=weights, minlength=n).astype(np.float64)

    rounds, drafted = by_sequence(trace.round_sequence), by_sequence(trace.round_sequence, trace.round_drafted)
    verified_by, accepted_by = (by_sequence(events.sequence_index, x) for x in (verified, accepted))
    needed = target_only_forwards(events.lengths, Stop(n_events=length)).astype(np.float64)
    return {
        "k": k, "n_events": events.n_events, "n_verified": int(verified.sum()), "n_drafted": int(drafted.sum()),
        "accepted_per_verified": ratio_over_sequences(accepted_by, verified_by),
        "accepted_per_drafted": ratio_over_sequences(accepted_by, drafted),
        "events_per_forward": ratio_over_sequences(events.lengths.astype(np.float64), rounds),
        "speedup_by_count": ratio_over_sequences(needed, rounds),
    }  # fmt: skip


def _of_events(run: SampleRun) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(N,) whether each event was verified (a round's last one may be the target's own), and whether it was accepted whole."""
    assert run.trace is not None
    t = run.trace
    verified = t.event_position < t.event_k
    return verified, verified & (t.gap_role == ROLE_ACCEPTED) & (t.type_role == ROLE_ACCEPTED)


def positions(run: SampleRun) -> dict[str, NDArray[Any]]:
    """Drafted, verified and accepted events by 0-based position in the round."""
    assert run.trace is not None
    found = acceptance_by_position(run.trace).event
    return {"position_drafted": found.drafted, "position_verified": found.verified, "position_accepted": found.accepted}


def identity(ground: Ground, draft: str, run: SampleRun) -> tuple[Figures, Verdict]:
    """Measured less exact acceptance on the same histories: zero in expectation for an exact sampler, whatever the draft.

    Given its history each verified event is accepted with 1 - TV of the two laws there, so that the differences are a martingale. Every
    s-th verified event of a sequence is taken, s fixed before the run.
    """
    verified, accepted = (np.flatnonzero(x) for x in _of_events(run))
    order = np.arange(len(verified)) - np.searchsorted(verified, run.events.offsets[:-1])[run.events.sequence_index[verified]]
    at = verified[order % max(1, ground.job.length // ground.table.contexts) == 0]
    p, q = (model.conditionals(run.events).take(at) for model in (ground.pair.target, ground.pair.drafts[draft]))
    exact = exact_acceptance(p, q, n_levels=N_LEVELS)
    a = exact.joint if ground.table.rule == "leviathan_joint" else exact.two_step
    hit = np.isin(at, accepted)
    excess, error = float((hit - a).mean()), float(np.sqrt((a * (1 - a)).sum())) / max(len(at), 1)
    cells = max(len(ground.table.pairs) * len(ground.job.cells), 1)
    p_value, level = poisson_binomial_p(a, int(hit.sum())), budget.MECHANISM_LEVEL / cells
    holds = p_value > level
    said = (
        f"{100 * hit.mean():.1f} % of {len(at):,} verified events were accepted, {100 * a.mean():.1f} % expected by quadrature."
    )
    figure = {"value": excess, "low": excess - 1.96 * error, "high": excess + 1.96 * error, "n": len(at), "p": p_value}
    return figure, Verdict(
        Axis.MECHANISM, Outcome.PASS if holds else Outcome.FAIL, said, q_value=p_value, level=level, n=len(at)
    )
