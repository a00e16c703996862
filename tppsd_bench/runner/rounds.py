"""Rounds of one examination: arms drawn on demand, each round on seeds of its own, tests run once per arm and round.

The reference arm and every sampler under test have streams of their own. Round j > 1 happens only for the arms that caused it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tppsd_bench import budget
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import (
    Conditional,
    ConditionalTarget,
    Rule,
    SampleRequest,
    SampleRun,
    SamplerUnderTest,
    Scores,
    Stop,
    Target,
)
from tppsd_bench.results import Axis, Evidence
from tppsd_bench.runner import tolerance
from tppsd_bench.runner.answers import ask, ask_reference, fresh_seeds
from tppsd_bench.runner.design import REFERENCE, Arm, Design, Subject
from tppsd_bench.runner.forecast import Expected, Forecast, expected_strata, policy_k
from tppsd_bench.runner.sequential import CHUNK, Watched, follow, watch
from tppsd_bench.stats.eprocess import Wealth
from tppsd_bench.stats.scored import scored
from tppsd_bench.streams import StreamKey

PROMISE_SEQUENCES = 8
PATIENCE = 4.0
"""A sequential round goes on to this many times the events of the first proof, for the bets on the law alone to suffice."""


@dataclass
class Rounds:
    """Draws and tests arms, once each. ``arm(label, 1)`` is the main round, later ones are confirmation."""

    target: Target
    subjects: Mapping[str, Subject]
    reference: SamplerUnderTest | None
    design: Design
    notes: dict[str, str] = field(default_factory=dict)
    problems: dict[str, Exception] = field(default_factory=dict)
    """What a sampler under test raised, or what was wrong with its answer."""
    _arms: dict[tuple[str, int], Arm] = field(default_factory=dict)
    _pilots: dict[str, SampleRun] = field(default_factory=dict)
    _wealth: dict[str, Wealth] = field(default_factory=dict)
    _stopped: set[str] = field(default_factory=set)
    _forecasts: dict[str, Forecast] = field(default_factory=dict)
    _tolerances: dict[str, tolerance.Tolerance] = field(default_factory=dict)

    def arm(self, label: str, j: int) -> Arm:
        if (label, j) not in self._arms:
            started = time.perf_counter()
            watched = self._watch(label) if j == 1 and self._sequential(label) else None
            run = self._draw(label, self._size(label, j), self.design.stop, "law", j) if watched is None else watched.run
            laws = self._laws(label, run)
            scores = None if self.design.access == "black" else self._scores(run, laws)
            invalid = self._invalid(label, j, run, scores)
            if invalid:
                scores, evidence, missing = None, invalid, ["every test: the evidence is invalid"]
            else:
                evidence, missing = self._tests(label, j, run, scores, laws)
                if j == 1 and label != REFERENCE and scores is not None:
                    self._wealth[label] = self._follow(label, run, scores, laws) if watched is None else watched.wealth
                if watched is not None and watched.detected_at is not None:
                    self._stopped.add(label)
            self._arms[label, j] = Arm(run, scores, tuple(evidence), tuple(missing), time.perf_counter() - started)
        return self._arms[label, j]

    def wealth(self, label: str) -> Wealth | None:
        """The e-process over the sequences of the main round, in index order; None where they could not be scored."""
        self.arm(label, 1)
        return self._wealth.get(label)

    def stopped(self, label: str) -> bool:
        """Whether the e-process ended the main round before its planned size: nothing but the e-process decides then."""
        self.arm(label, 1)
        return label in self._stopped

    def _sequential(self, label: str) -> bool:
        return self.design.watch_level is not None and label != REFERENCE and self.design.access != "black"

    def _watch(self, label: str) -> Watched:
        d, subject = self.design, self.subjects[label]
        assert d.watch_level is not None
        white = d.access == "white"
        try:
            return watch(
                subject.sampler, self.target, subject.draft if white else None, d.stop, self._key(label, "law", 1),
                max_events=sys.maxsize, max_sequences=d.n_sequences, alpha=d.watch_level, patience=PATIENCE,
                tol=self.tolerance(label).log_density, want_trace=white, device=d.device, call_seconds=d.call_seconds,
            )  # fmt: skip
        except Exception as problem:
            self.problems[label] = problem
            raise

    def _follow(self, label: str, run: SampleRun, scores: Scores, laws: Conditional | None) -> Wealth:
        subject, white = self.subjects[label], self.design.access == "white"
        draft = subject.draft if white else None
        rng, tol = self.rng(label, "eprocess", 1), self.tolerance(label).log_density
        return follow(run, self.target, draft, subject.sampler.declares.rule, rng, tol=tol, scores=scores, laws=laws)

    def proofs(self, label: str) -> list[Evidence]:
        """Deterministic failures of rounds before the deciding one: fresh seeds do not take a proof back."""
        last = self.last(label)
        earlier = [arm for (name, _), arm in self._arms.items() if name == label and arm is not last]
        return [e for arm in earlier for e in arm.evidence if e.passed is False]

    def last(self, label: str) -> Arm:
        """The arm of the deciding round."""
        return self._arms[label, max(j for name, j in self._arms if name == label)]

    def pilot(self, label: str) -> SampleRun:
        """The short sequences of fixed seeds: range screen, and prediction of what the main round will hold."""
        if label not in self._pilots:
            self._pilots[label] = self._draw(label, self.design.pilot_sequences, self.design.pilot_stop, "screen", 1)
        return self._pilots[label]

    def rng(self, label: str, purpose: str, j: int) -> np.random.Generator:
        """Randomness of the tests themselves, apart from every sampler's."""
        return self._key(label, "law", j).replace(purpose=purpose).generator()

    def permutation_evidence(self, labels: list[str], j: int) -> list[Evidence]:
        """The joint two-sample battery of round j; empty without a reference."""
        if self.reference is None or not labels:
            return []
        from tppsd_bench.stats.blackbox import blackbox_battery

        reference = self.arm(REFERENCE, j)
        cells = {label: (self.arm(label, j).run.events, reference.run.events) for label in labels}
        likelihood: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
        for label in labels:
            mine = self.arm(label, j)
            if mine.scores is not None and reference.scores is not None:
                sides = (
                    sequence_log_likelihood(mine.run.events, mine.scores),
                    sequence_log_likelihood(reference.run.events, reference.scores),
                )
                likelihood[label] = sides
        return blackbox_battery(
            cells, self.rng("", "permutation", j), n_permutations=self.design.n_permutations,
            log_likelihood=likelihood or None, shared_reference=True,
        )  # fmt: skip

    def _key(self, label: str, stage: str, j: int) -> StreamKey:
        key = self.design.key
        return key.replace(stage=stage, arm=label, seed_epoch=key.seed_epoch + j - 1)

    def _draw(self, label: str, n: int, stop: Stop, stage: str, j: int) -> SampleRun:
        sampler = self.reference if label == REFERENCE else self.subjects[label].sampler
        assert sampler is not None
        want_trace = label != REFERENCE and self.design.access == "white"
        request = SampleRequest(n, stop, self._key(label, stage, j), device=self.design.device, want_trace=want_trace)
        if label == REFERENCE:
            return ask_reference(sampler, request, self.target.n_types, seconds=self.design.call_seconds)
        try:
            run = ask(sampler, request, self.target.n_types, seconds=self.design.call_seconds)
        except Exception as problem:
            self.problems[label] = problem
            raise
        return run if self.design.access == "white" else replace(run, trace=None)

    def _size(self, label: str, j: int) -> int:
        if j == 1:
            return self.design.n_sequences
        growth = self.design.growth
        if self.design.round_seconds is not None:
            affordable = int(self.design.round_seconds / max(self.arm(label, 1).seconds, 1e-3))
            growth = max(1, min(growth, affordable))
            if growth < self.design.growth:
                self.notes[label] = (
                    f"The confirmation used {growth} times the first round's events instead of {self.design.growth}, "
                    "for want of time; its error rate is unchanged, its power is less."
                )
        return self.design.n_sequences * growth

    def _invalid(self, label: str, j: int, run: SampleRun, scores: Scores | None) -> list[Evidence]:
        """What makes this round's evidence invalid: broken scores, or sequences of an earlier key once more."""
        from tppsd_bench.stats.preconditions import check_batch, check_scores

        earlier = [self.pilot(label).events, *(self.arm(label, i).run.events for i in range(1, j))]
        found = check_batch(run.events) if self.design.refuse_repeats else []
        found += [fresh_seeds(run.events, earlier), *(check_scores(run.events, scores) if scores is not None else ())]
        return [e for e in found if e.passed is False]

    def _laws(self, label: str, run: SampleRun) -> Conditional | None:
        """The target's laws of all events where the white box needs them anyway: scores then cost no second pass."""
        wanted = self.design.access == "white" and label != REFERENCE and run.trace is not None and run.events.horizon is None
        return self.target.conditionals(run.events) if wanted and isinstance(self.target, ConditionalTarget) else None

    def _scores(self, run: SampleRun, laws: Conditional | None) -> Scores:
        if laws is None:
            return scored(self.target, run.events)
        gaps = run.events.gaps
        return Scores(laws.log_prob(gaps), laws.cdf(gaps), laws.sf(gaps), np.exp(laws.type_log_probs(gaps)))

    def _tests(
        self, label: str, j: int, run: SampleRun, scores: Scores | None, laws: Conditional | None
    ) -> tuple[list[Evidence], list[str]]:
        if scores is None:
            return [], ["conditional PIT and all grey-box tests: access is black box, no target scores"]
        from tppsd_bench.stats.grey import grey_battery

        trace, forecast, rng = run.trace, self.forecast(label), self.rng(label, "pit", j)
        has_positions = trace is not None and len(trace.event_position) == run.events.n_events
        growth = len(run.events) / self.design.n_sequences
        evidence = grey_battery(
            run.events, scores, rng,
            position=trace.event_position if trace is not None and has_positions else None,
            k_round=trace.event_k if trace is not None and has_positions else None,
            batch_row=self._batch_row(run.events, cut=j == 1 and self._sequential(label)),
            expected={s: {v: growth * x for v, x in sizes.items()} for s, sizes in forecast.expected.items()},
            strata=forecast.strata, m=None if forecast.m is None else int(growth * forecast.m),
            crossing_position=trace.crossing_position if trace is not None else None,
            crossing_k=trace.crossing_k if trace is not None else None,
        )  # fmt: skip
        if label == REFERENCE:
            return evidence, []
        more, missing = self._whitebox(label, run, rng, laws)
        return evidence + more + (self._promises(label) if j == 1 else []), missing

    def _batch_row(self, batch: EventBatch, *, cut: bool = False) -> NDArray[np.int64] | None:
        """(n,) row of each sequence in its batch; None where batches are not known. ``cut``: it was asked for in chunks."""
        index = np.arange(len(batch))
        return (index % CHUNK if cut else index) % self.design.batch_size if self.design.batch_size else None

    def forecast(self, label: str) -> Forecast:
        """Everything that must be fixed before the main round, from the pilot."""
        if label not in self._forecasts:
            self._forecasts[label] = self._forecast(label)
        return self._forecasts[label]

    def _forecast(self, label: str) -> Forecast:
        from tppsd_bench.stats import grey, whitebox
        from tppsd_bench.stats.strata import standard_strata

        pilot, d, n_types = self.pilot(label), self.design, self.target.n_types
        trace = pilot.trace if label != REFERENCE and pilot.events.n_events else None
        max_k, k_values = policy_k(trace, d.pilot_stop) if trace is not None else (None, ())
        strata = standard_strata(n_types, max_k=max_k, k_values=k_values, batch_row=d.batch_size is not None)
        expected: Expected = {}
        if trace is not None and d.stop.n_events is not None and len(k_values) == 1:
            expected = expected_strata(trace, d.pilot_stop, d.n_sequences * d.stop.n_events)
        m = None
        if d.stop.horizon is not None:
            m = int(budget.STRATUM_FRACTION * d.n_sequences * (pilot.events.n_events / max(len(pilot.events), 1) + 1))
        law_tests = grey.family_size(n_types, strata, horizon=d.stop.horizon is not None)
        if label == REFERENCE:
            return Forecast(strata, expected, m, law_tests, 1)
        subject = self.subjects[label]
        rule, has_draft, has_laws = (
            subject.sampler.declares.rule,
            subject.draft is not None,
            hasattr(self.target, "conditionals"),
        )
        law_tests += whitebox.family_size(rule, n_types, has_draft, axis=Axis.LAW, has_conditionals=has_laws)
        return Forecast(
            strata, expected, m, law_tests, whitebox.family_size(rule, n_types, has_draft, has_conditionals=has_laws)
        )

    def tolerance(self, label: str) -> tolerance.Tolerance:
        """What rounding may do, measured on the pilot."""
        if label not in self._tolerances:
            subject = self.subjects[label]
            self._tolerances[label] = tolerance.measure(
                self.pilot(label), self.target, subject.draft, subject.sampler.declares.rule
            )
        return self._tolerances[label]

    def _whitebox(
        self, label: str, run: SampleRun, rng: np.random.Generator, laws: Conditional | None
    ) -> tuple[list[Evidence], list[str]]:
        subject = self.subjects[label]
        rule: Rule = subject.sampler.declares.rule
        if self.design.access != "white" or run.trace is None:
            why = "access is grey box" if self.design.access != "white" else "the sampler gave no trace"
            return [], [f"acceptance identity, role laws and all white-box tests: {why}"]
        from tppsd_bench.stats.whitebox import inspect_run

        tol = self.tolerance(label).log_density
        found = inspect_run(run, self.target, subject.draft, rule, rng, tol=tol, laws=laws)
        return list(found.evidence), list(found.not_possible)

    def _promises(self, label: str) -> list[Evidence]:
        """Reproducibility and batch independence, where the sampler declares them: some of the pilot's sequences once more.

        Its last but one and those before, for in the smaller request they must stand in other rows of their batch: a leak between
        rows moves with its row.
        """
        from tppsd_bench.stats.whitebox.reproducible import reproducible

        d = self.design
        n = min(PROMISE_SEQUENCES, d.pilot_sequences)
        at = max(0, d.pilot_sequences - n - 1)
        request = SampleRequest(n, d.pilot_stop, self._key(label, "screen", 1), first_sequence=at, device=d.device)
        whole = self.pilot(label).events.select(slice(at, at + n)) if d.pilot_sequences > n else None
        return reproducible(self.subjects[label].sampler, request, rtol=self.tolerance(label).batch_rtol, whole=whole)


def sequence_log_likelihood(batch: EventBatch, scores: Scores) -> NDArray[np.float64]:
    """(n,) log-likelihood of each sequence under the target: gaps, types and, with a horizon, the wait after the last event."""
    with np.errstate(divide="ignore"):
        types = np.log(scores.type_probs[np.arange(batch.n_events), batch.types])
        total = np.bincount(batch.sequence_index, scores.log_density + types, len(batch))
        if scores.crossing_cdf is not None:
            total = total + np.log1p(-scores.crossing_cdf)
    return np.asarray(total, dtype=np.float64)
