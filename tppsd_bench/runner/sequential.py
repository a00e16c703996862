"""Watching a sampler: draw, score, bet, and stop at proof or at the budget. Valid whenever and however often one looks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tppsd_bench import budget
from tppsd_bench.joining import join_runs
from tppsd_bench.protocols import (
    Conditional,
    ConditionalTarget,
    FloatArray,
    IntArray,
    Rule,
    SampleRequest,
    SampleRun,
    SamplerUnderTest,
    Scores,
    Stop,
    Target,
)
from tppsd_bench.results import Axis
from tppsd_bench.runner.answers import ask
from tppsd_bench.stats.eprocess import ROUNDING, Design, EProcess, UnsettledBet, Wealth
from tppsd_bench.stats.scored import scored
from tppsd_bench.streams import StreamKey

CHUNK = 64
"""Sequences a request. It decides how much is drawn beyond the proof, not when the proof comes: sequences enter in index order."""


@dataclass(frozen=True)
class Watched:
    """What was drawn and how the e-process went."""

    wealth: Wealth
    run: SampleRun
    """All that was drawn, to the end of the chunk in which it stopped."""
    alpha: float
    detected_at: int | None
    """Events up to the end of the sequence after which the wealth reached 1/alpha; None: it never did."""
    problem: str = ""
    """Why it ended early without a decision: a score that is no number. Bets on it, and on what follows, were not settled."""

    @property
    def log_wealth(self) -> FloatArray:
        """(S,) after each sequence."""
        return self.wealth.log_wealth

    @property
    def events(self) -> IntArray:
        """(S,) events drawn up to the end of each sequence."""
        return self.wealth.events

    @property
    def leading(self) -> str:
        """The bet family that earned most."""
        return self.wealth.leading

    @property
    def phrase(self) -> str:
        """Its best bet, in words."""
        return self.wealth.phrase

    @property
    def law_detected_at(self) -> int | None:
        """Events after which the bets on the law proved their part; None: they did not, as far as it was followed."""
        at = self.wealth.detection(self.alpha, Axis.LAW)
        return None if at is None else int(self.events[at])

    @property
    def threshold(self) -> float:
        """log(1/alpha)."""
        return -math.log(self.alpha)


def watch(
    sampler: SamplerUnderTest,
    target: Target,
    draft: ConditionalTarget | None,
    stop: Stop,
    key: StreamKey,
    *,
    max_events: int,
    alpha: float = budget.EPROCESS_LEVEL,
    chunk: int = CHUNK,
    rule: Rule | None = None,
    max_sequences: int | None = None,
    patience: float = 1.0,
    tol: float = ROUNDING,
    want_trace: bool = True,
    device: str = "cpu",
    call_seconds: float | None = None,
) -> Watched:
    """Draw sequences 0, 1, 2, ... of ``key`` in chunks and bet against exactness until the wealth reaches 1/``alpha``.

    Stops at the first chunk that reaches it, or that ends at or beyond ``max_events`` events (or holds ``max_sequences``
    sequences). An exact sampler that follows its rule is detected with probability at most ``alpha`` (Ville's inequality).

    Args:
        target: ``score`` suffices; ``conditionals`` opens the bets on the law one event behind and on the support of residuals.
        draft: the draft's conditional law, for the bets in its direction; None without.
        chunk: sequences a request. rule: instead of the declared one.
        patience: after a detection go on, to at most this many times the events it took, until the bets on the law alone
            suffice: proof against the rule often comes first. 1: stop at once.
        tol: rounding of log densities allowed before a residual draw or a decision counts as impossible.
        want_trace: False: grey box, no bets by position or on the rule. call_seconds: as in ``answers.ask``.

    A score that is not a number ends it (``Watched.problem``).

    Raises InputError where an answer is none, TimeoutError where a call hangs; what the sampler raises passes through.
    """
    process: EProcess | None = None
    runs: list[SampleRun] = []
    drawn, events, limit = 0, 0, float(max_events)
    detected: int | None = None
    while True:
        n = chunk if max_sequences is None else min(chunk, max_sequences - drawn)
        request = SampleRequest(n, stop, key, first_sequence=drawn, device=device, want_trace=want_trace)
        run = ask(sampler, request, target.n_types, seconds=call_seconds)
        if process is None:
            design = design_of(run if want_trace else SampleRun(run.events), target, draft, rule or sampler.declares.rule)
            process = EProcess(design, key.replace(purpose="eprocess").generator(), tol)
        runs.append(run)
        try:
            feed(process, run, target, draft)
        except UnsettledBet as problem:
            return Watched(process.wealth, join_runs(runs), alpha, detected, str(problem))
        drawn, events = drawn + n, events + run.events.n_events
        wealth = process.wealth
        at = wealth.detection(alpha)
        if at is not None and detected is None:
            detected = int(wealth.events[at])
            limit = min(limit, patience * detected)
        proven = at is not None and (patience <= 1.0 or wealth.detection(alpha, Axis.LAW) is not None)
        if proven or events >= limit or (max_sequences is not None and drawn >= max_sequences):
            return Watched(wealth, join_runs(runs), alpha, detected)


def follow(
    run: SampleRun,
    target: Target,
    draft: ConditionalTarget | None,
    rule: Rule,
    rng: np.random.Generator,
    *,
    tol: float = ROUNDING,
    scores: Scores | None = None,
    laws: Conditional | None = None,
) -> Wealth:
    """The e-process over the sequences of a finished run, in index order. ``scores`` and ``laws`` of the target where known."""
    process = EProcess(design_of(run, target, draft, rule), rng, tol)
    feed(process, run, target, draft, scores, laws)
    return process.wealth


def design_of(run: SampleRun, target: Target, draft: ConditionalTarget | None, rule: Rule) -> Design:
    """What the access allows, as the first answer shows it."""
    trace = run.trace
    positions = trace is not None and (run.events.horizon is None or trace.crossing_position is not None)
    return Design(
        target.n_types, positions=positions, laws=isinstance(target, ConditionalTarget), draft=draft is not None,
        trace=trace is not None, horizon=run.events.horizon is not None, rule=rule,
    )  # fmt: skip


def feed(
    process: EProcess,
    run: SampleRun,
    target: Target,
    draft: ConditionalTarget | None,
    scores: Scores | None = None,
    laws: Conditional | None = None,
) -> None:
    """One chunk: laws and scores of the target in one pass where there is no horizon."""
    events = run.events
    if laws is None and process.design.laws and isinstance(target, ConditionalTarget):
        laws = target.conditionals(events)
    if scores is None and laws is not None and events.horizon is None:
        gaps = events.gaps
        scores = Scores(laws.log_prob(gaps), laws.cdf(gaps), laws.sf(gaps), np.exp(laws.type_log_probs(gaps)))
    process.feed(run, scores or scored(target, events), target_laws=laws, draft=draft)
