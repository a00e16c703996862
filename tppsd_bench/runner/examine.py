"""An examination from preconditions to verdicts: what ``run``, ``certify`` and ``assert_exact`` have in common."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tppsd_bench import budget
from tppsd_bench.results import Axis, Evidence, Outcome, Verdict
from tppsd_bench.runner.plan import Levels
from tppsd_bench.runner.rounds import REFERENCE, Arm, Rounds
from tppsd_bench.runner.worker import describe
from tppsd_bench.stats.decide import (
    Confirmation,
    family_q,
    gandy_scott,
    law_verdict,
    mechanism_verdict,
    validity_verdict,
)

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


def examine(rounds: Rounds, levels: Levels) -> dict[str, Finding]:
    """Preconditions, reference arm, every subject, confirmation, verdicts. A subject that raises breaks only itself."""
    labels = list(rounds.subjects)
    errors: dict[str, str] = {}
    validity = preconditions(rounds, labels, errors)
    if any(e.passed is False for e in validity):
        return {label: _invalid(validity, rounds, errors.get(label, "")) for label in labels}
    reference = _reference(rounds, levels)
    for label in labels:
        if label not in errors:
            _guarded(errors, label, lambda name: rounds.arm(name, 1))
    healthy = [label for label in labels if label not in errors]
    k = rounds.design.max_rounds
    analytic = {
        label: gandy_scott(lambda j, label=label: _q(rounds, label, Axis.LAW, j), levels.analytic, k)  # type: ignore[misc]
        for label in healthy
        if rounds.arm(label, 1).scores is not None
    }
    permutation = _permutation(rounds, levels, healthy, [name for name, c in analytic.items() if c.outcome is Outcome.FAIL])
    return {
        label: _broken(errors[label]) if label in errors
        else _finding(rounds, levels, label, validity, reference, analytic.get(label), permutation)
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


@dataclass(frozen=True)
class TwoSample:
    """The permutation family of the cells that share a reference: one decision, and what each cell had to do with it."""

    decision: Confirmation
    evidence: Mapping[str, tuple[Evidence, ...]]
    """Per cell, of the last round it took part in."""
    last: tuple[str, ...]
    """Cells of the deciding round; only they can have caused a rejection."""

    def of(self, label: str) -> Confirmation:
        """A joint rejection is laid to the cells of the deciding round whose own adjusted p-values are part of it."""
        if self.decision.outcome is not Outcome.FAIL or (
            label in self.last and _own_p(label, self.evidence[label]) <= ATTRIBUTION
        ):
            return self.decision
        q = _own_p(label, self.evidence[label])
        return replace(self.decision, outcome=Outcome.PASS, q_values=(q,))


ATTRIBUTION = 0.05
"""maxT-adjusted p-value from which on a cell has no part in a joint rejection."""


def _permutation(rounds: Rounds, levels: Levels, labels: list[str], settled: list[str]) -> TwoSample | None:
    """Joint maxT over the cells, confirmed on fresh seeds by those that caused the next round alone.

    Cells that the analytic family has already proven wrong (``settled``) take part in the first round alone.
    """
    if rounds.reference is None or not labels:
        return None
    thresholds = budget.confirmation_thresholds(levels.permutation, rounds.design.max_rounds)
    evidence: dict[str, tuple[Evidence, ...]] = {}
    taking_part = [list(labels)]

    def round_q(j: int) -> float:
        members = taking_part[-1]
        if not members:
            return 1.0
        found = rounds.permutation_evidence(members, j)
        evidence.update({name: tuple(e for e in found if e.where.get("cell", name) == name) for name in members})
        pass_above = thresholds[j - 1][1]
        taking_part.append([m for m in members if m not in settled and _own_p(m, evidence[m]) <= pass_above])
        return min((e.p_value for e in found if e.p_value is not None and not e.display), default=1.0)

    decision = gandy_scott(round_q, levels.permutation, rounds.design.max_rounds)
    decided_by = [members for members in taking_part[: decision.rounds] if members][-1]
    return TwoSample(decision, evidence, tuple(decided_by))


def _own_p(label: str, evidence: tuple[Evidence, ...]) -> float:
    """Smallest adjusted p-value among a cell's own displayed statistics."""
    return min(
        (e.p_value for e in evidence if e.display and e.p_value is not None and e.where.get("cell") == label), default=1.0
    )


def _finding(
    rounds: Rounds,
    levels: Levels,
    label: str,
    validity: list[Evidence],
    reference: Confirmation | None,
    analytic: Confirmation | None,
    permutation: TwoSample | None,
) -> Finding:
    families: dict[str, Confirmation] = {}
    if analytic is not None:
        families["analytic"] = analytic
    if permutation is not None:
        families["permutation"] = permutation.of(label)
    mechanism = None
    if any(e.axis is Axis.MECHANISM and e.p_value is not None for e in rounds.arm(label, 1).evidence):
        k = rounds.design.max_rounds
        mechanism = gandy_scott(lambda j: _q(rounds, label, Axis.MECHANISM, j), levels.mechanism, k)
    arm = rounds.last(label)
    evidence = (*validity, *arm.evidence, *(permutation.evidence[label] if permutation is not None else ()))
    n = arm.run.events.n_events
    judged = validity_verdict(evidence, reference=reference, n=n)
    rule = rounds.subjects[label].sampler.declares.rule
    verdicts = (
        judged,
        _if_large_enough(law_verdict(families, evidence, n=n, validity=judged), n, len(arm.run.events)),
        mechanism_verdict(mechanism, _of_the_rule(evidence), rule=rule, n=n, not_possible=arm.not_possible),
    )
    base = rounds.last(REFERENCE) if rounds.reference is not None else None
    return Finding(verdicts, evidence, arm, base, arm.not_possible, rounds.notes.get(label, ""))


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
