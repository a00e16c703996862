"""An examination from preconditions to verdicts: what ``run``, ``certify`` and ``assert_exact`` have in common."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tppsd_bench import budget
from tppsd_bench.results import Axis, Evidence, Outcome, Verdict
from tppsd_bench.runner import monitor
from tppsd_bench.runner.design import REFERENCE, Arm
from tppsd_bench.runner.plan import Levels
from tppsd_bench.runner.rounds import Rounds
from tppsd_bench.runner.worker import describe
from tppsd_bench.stats.decide import (
    Confirmation,
    family_q,
    gandy_scott,
    law_verdict,
    mechanism_verdict,
    validity_verdict,
)
from tppsd_bench.stats.eprocess import Wealth

PRECONDITION_SEQUENCES = 8
LEAST_EVENTS, LEAST_SEQUENCES = 2_000, 10


@dataclass(frozen=True)
class Finding:
    """What an examination says about one sampler."""

    verdicts: tuple[Verdict, ...]
    evidence: tuple[Evidence, ...]
    arm: Arm | None
    """The deciding round's arm; None where the evidence was invalid before the first draw, or the cell broke."""
    reference: Arm | None
    not_possible: tuple[str, ...] = ()
    note: str = ""
    error: str = ""

    @property
    def failed(self) -> bool:
        """Whether law or mechanism were proven wrong, or the evidence was invalid."""
        return any(v.outcome in (Outcome.FAIL, Outcome.INVALID) for v in self.verdicts)

    @property
    def looks_like(self) -> str:
        """The known faults that a failure resembles, in one sentence; empty where nothing failed."""
        from tppsd_bench.stats.signatures import looks_like

        return looks_like(self.evidence) if self.failed else ""


def examine(rounds: Rounds, levels: Levels, *, known: Sequence[Evidence] | None = None) -> dict[str, Finding]:
    """Preconditions, reference arm, every subject, confirmation, verdicts. A subject that raises breaks only itself.

    ``known``: the preconditions of this target, where they have been checked before; they are not checked again.
    """
    labels = list(rounds.subjects)
    errors: dict[str, str] = {}
    validity = preconditions(rounds, labels, errors) if known is None else list(known)
    if any(e.passed is False for e in validity):
        return {label: _invalid(validity, rounds, errors.get(label, "")) for label in labels}
    reference = _reference(rounds, levels)
    validity += _reference_proofs(rounds)
    for label in labels:
        if label not in errors:
            _guarded(errors, label, lambda name: rounds.arm(name, 1))
    k = rounds.design.max_rounds
    analytic: dict[str, Confirmation] = {}
    for label in labels:
        if label not in errors and rounds.arm(label, 1).scores is not None and not rounds.stopped(label):
            _guarded(
                errors,
                label,
                lambda name: analytic.update({name: gandy_scott(lambda j: _q(rounds, name, Axis.LAW, j), levels.analytic, k)}),
            )
    healthy = [label for label in labels if label not in errors and not rounds.stopped(label)]
    permutation = _permutation(rounds, levels, healthy, [name for name, c in analytic.items() if c.outcome is Outcome.FAIL])
    return {
        label: _broken(errors[label]) if label in errors
        else _finding(rounds, levels, label, validity, reference, analytic.get(label), permutation.get(label))
        for label in labels
    }  # fmt: skip


def preconditions(rounds: Rounds, labels: Sequence[str], errors: dict[str, str]) -> list[Evidence]:
    """Check the target on the pilot of the reference, or of the first sampler that can be run."""
    if rounds.design.access == "black":
        return []
    from tppsd_bench.stats.preconditions import check_target

    for label in [REFERENCE] * (rounds.reference is not None) + list(labels):
        if label == REFERENCE or _guarded(errors, label, rounds.pilot):
            sample = rounds.pilot(label).events.select(slice(0, PRECONDITION_SEQUENCES))
            return check_target(rounds.target, sample, rounds.rng("", "pit", 1))
    return []


def _reference(rounds: Rounds, levels: Levels) -> Confirmation | None:
    """The target-only arm passes the battery it is a reference for, or nothing is judged by it."""
    if rounds.reference is None or rounds.design.access == "black":
        return None
    return gandy_scott(lambda j: _q(rounds, REFERENCE, Axis.LAW, j), levels.analytic, rounds.design.max_rounds)


def _reference_proofs(rounds: Rounds) -> list[Evidence]:
    """An impossible event or a repeated sequence in the reference arm: no judge of others."""
    if rounds.reference is None or rounds.design.access == "black":
        return []
    found = [e for e in (*rounds.last(REFERENCE).evidence, *rounds.proofs(REFERENCE)) if e.passed is False]
    return [replace(e, name=f"reference.{e.name}", axis=Axis.VALIDITY) for e in found]


@dataclass(frozen=True)
class TwoSample:
    """One cell's part in the permutation family."""

    decision: Confirmation | None
    """None where the analytic family had proven the cell wrong before this one came to an end."""
    evidence: tuple[Evidence, ...]
    """Of the last round it took part in; ``blackbox.maxT`` carries the cell's own adjusted p-value."""


def _permutation(rounds: Rounds, levels: Levels, labels: list[str], settled: list[str]) -> dict[str, TwoSample]:
    """Joint maxT over the cells; each cell is confirmed by its own adjusted p-value, on fresh seeds with those that caused it.

    Single-step maxT p-values (Westfall and Young 1993) hold for all exact cells together: in each round P(any of them is at or
    below t) <= t, so the confirmation's level is the family's, and a broken cell does not drag an exact one along. Cells that
    the analytic family has proven wrong (``settled``) take part in the first round alone.
    """
    if rounds.reference is None or not labels:
        return {}
    thresholds = budget.confirmation_thresholds(levels.permutation, rounds.design.max_rounds)
    values: dict[str, list[float]] = {name: [] for name in labels}
    evidence: dict[str, tuple[Evidence, ...]] = {}
    outcomes: dict[str, Outcome] = {}
    members = list(labels)
    for j, (fail_at, pass_above) in enumerate(thresholds, start=1):
        found = rounds.permutation_evidence(members, j)
        for name in members:
            evidence[name] = _of_cell(name, found)
            values[name].append(_own_p(name, found))
            if values[name][-1] <= fail_at:
                outcomes[name] = Outcome.FAIL
            elif values[name][-1] > pass_above or j == len(thresholds):
                outcomes[name] = Outcome.PASS
        members = [name for name in members if name not in outcomes and name not in settled]
        if not members:
            break
    return {
        name: TwoSample(
            Confirmation(outcomes[name], levels.permutation, tuple(values[name]), thresholds) if name in outcomes else None,
            evidence[name],
        )
        for name in labels
    }


def _own_p(label: str, evidence: Sequence[Evidence]) -> float:
    """Smallest adjusted p-value among a cell's own statistics."""
    return min(
        (e.p_value for e in evidence if e.display and e.p_value is not None and e.where.get("cell") == label), default=1.0
    )


def _of_cell(label: str, evidence: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """A cell's statistics, and the joint decision with the p-value that is the cell's own."""
    mine = [e for e in evidence if e.where.get("cell") == label]
    worst = max((e for e in mine if e.display and e.statistic is not None), key=lambda e: e.statistic or 0.0, default=None)
    if worst is not None:
        largest = f"Largest: {worst.name.rpartition('.')[2]}."
        joint = [
            replace(e, p_value=_own_p(label, mine), statistic=worst.statistic, detail=f"{largest} {e.detail.partition('. ')[2]}".strip())
            for e in evidence if not e.where
        ]  # fmt: skip
    else:
        joint = [e for e in evidence if not e.where]
    return (*joint, *mine)


def _finding(
    rounds: Rounds,
    levels: Levels,
    label: str,
    validity: list[Evidence],
    reference: Confirmation | None,
    analytic: Confirmation | None,
    permutation: TwoSample | None,
) -> Finding:
    wealth, base = rounds.wealth(label), rounds.last(REFERENCE) if rounds.reference is not None else None
    bets = [] if wealth is None else monitor.evidence(wealth, levels.eprocess)
    if wealth is not None and rounds.stopped(label):
        return _stopped(rounds, levels, label, wealth, (*validity, *bets), reference, base)
    families = monitor.families(wealth, levels.eprocess)
    if analytic is not None:
        families["analytic"] = analytic
    if permutation is not None and permutation.decision is not None:
        families["permutation"] = permutation.decision
    mechanism = None
    if any(e.axis is Axis.MECHANISM and e.p_value is not None for e in rounds.arm(label, 1).evidence):
        k = rounds.design.max_rounds
        mechanism = gandy_scott(lambda j: _q(rounds, label, Axis.MECHANISM, j), levels.mechanism, k)
    mechanism = monitor.with_rule(mechanism, wealth, levels.eprocess)
    arm = rounds.last(label)
    two_sample = permutation.evidence if permutation is not None else ()
    evidence = (*validity, *arm.evidence, *rounds.proofs(label), *two_sample, *bets)
    n = arm.run.events.n_events
    judged = validity_verdict(evidence, reference=reference, n=n)
    rule = rounds.subjects[label].sampler.declares.rule
    verdicts = (
        judged,
        _if_large_enough(law_verdict(families, evidence, n=n, validity=judged), n, len(arm.run.events)),
        mechanism_verdict(mechanism, _of_the_rule(evidence), rule=rule, n=n, not_possible=arm.not_possible),
    )
    return Finding(verdicts, evidence, arm, base, arm.not_possible, rounds.notes.get(label, ""))


def _stopped(
    rounds: Rounds, levels: Levels, label: str, wealth: Wealth, before: tuple[Evidence, ...], reference: Confirmation | None,
    base: Arm | None,
) -> Finding:  # fmt: skip
    """What the e-process ended: it alone decides, the battery on what was drawn is there to be read."""
    arm = rounds.arm(label, 1)
    evidence = (*before, *monitor.shown(arm.evidence))
    judged = validity_verdict(evidence, reference=reference, n=arm.run.events.n_events)
    rule = rounds.subjects[label].sampler.declares.rule
    law, mechanism = monitor.stopped_verdicts(wealth, levels.eprocess, evidence, judged, rule, arm.not_possible)
    drawn, planned = len(arm.run.events), rounds.design.n_sequences
    note = (
        f"The e-process ended this cell at {drawn} of {planned} sequences; the other tests saw what was drawn, a number that the data "
        "chose, and are shown without deciding."
    )
    return Finding((judged, law, mechanism), evidence, arm, base, arm.not_possible, note)


def _if_large_enough(verdict: Verdict, n_events: int, n_sequences: int) -> Verdict:
    """Margins grow as samples shrink, so that a handful of events would pass anything: below a floor there is no PASS."""
    enough = n_events >= LEAST_EVENTS and n_sequences >= LEAST_SEQUENCES
    if enough or verdict.outcome not in (Outcome.PASS, Outcome.INCONCLUSIVE):
        return verdict
    needed = max(LEAST_EVENTS, verdict.needed_n or 0, math.ceil(LEAST_SEQUENCES * n_events / max(n_sequences, 1)))
    sentence = (
        f"Undecided: {n_events:,} events in {n_sequences} sequences contradict nothing but show too little; "
        f"at least {needed:,} events in {LEAST_SEQUENCES} sequences are needed."
    )
    return replace(verdict, outcome=Outcome.INCONCLUSIVE, sentence=sentence, needed_n=needed)


def _of_the_rule(evidence: tuple[Evidence, ...]) -> list[Evidence]:
    """Without one look at the rule itself kept promises (same seed, same sequences) do not show that it is followed."""
    promised = [e for e in evidence if e.name.startswith("reproducible.")]
    others = [e for e in evidence if e not in promised]
    looked = any(e.axis is Axis.MECHANISM for e in others)
    return others + [e for e in promised if looked or e.passed is False]


def _q(rounds: Rounds, label: str, axis: Axis, j: int) -> float:
    """The analytic family's value for one arm and round; its size was fixed by the forecast."""
    forecast = rounds.forecast(label)
    m = forecast.law_tests if axis is Axis.LAW else forecast.mechanism_tests
    return family_q([e for e in rounds.arm(label, j).evidence if e.axis is axis], m).q


def _guarded(errors: dict[str, str], label: str, action: Callable[[str], object]) -> bool:
    """Run ``action(label)``; an exception marks the label as broken (hanging and memory concern the whole job)."""
    try:
        action(label)
    except (TimeoutError, MemoryError):
        raise
    except Exception as problem:
        errors[label] = describe(problem)
        return False
    return True


def _broken(error: str) -> Finding:
    return Finding((), (), None, None, error=error)


def _invalid(validity: list[Evidence], rounds: Rounds, error: str) -> Finding:
    if error:
        return _broken(error)
    judged = validity_verdict(validity)
    return Finding((judged, law_verdict({}, validity, n=0, validity=judged)), tuple(validity), None, None)
