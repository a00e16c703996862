"""From evidence to verdicts: family p-values, confirmation on fresh seeds, and one readable sentence per verdict.

FAIL comes from the confirmation rule alone (or from a deterministic proof); a PASS of the law also needs every primary
effect to be shown small; what is neither is INCONCLUSIVE and says how many events are needed. No arrays, no randomness.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from tppsd_bench import budget
from tppsd_bench.results import Axis, Evidence, Outcome, Verdict
from tppsd_bench.stats.locate import locate


@dataclass(frozen=True)
class Family:
    """One family's decision value and the Holm-adjusted list people see."""

    q: float
    """min(1, M * smallest p)."""
    m: int
    worst: Evidence | None
    holm: tuple[tuple[Evidence, float], ...]
    """(evidence, Holm-adjusted p), smallest first; display only."""


@dataclass(frozen=True)
class Confirmation:
    """What a Gandy-Scott sequence of rounds decided: FAIL or PASS, never anything else."""

    outcome: Outcome
    level: float
    q_values: tuple[float, ...]
    """One per round that was run, each on fresh seeds."""
    thresholds: tuple[tuple[float, float], ...]
    """(fail at or below, pass above) per round."""
    anytime: bool = False
    """Whether it was decided by an e-process, which may be looked at whenever one likes."""

    @property
    def rounds(self) -> int:
        return len(self.q_values)

    @property
    def q_value(self) -> float:
        """The last round's value: the one that decided."""
        return self.q_values[-1]


def family_q(evidence: Sequence[Evidence], m_fixed: int) -> Family:
    """q = min(1, M * min p) over the deciding p-values, M = ``m_fixed`` fixed before the data (Bonferroni).

    Evidence marked ``display`` and deterministic checks do not count. Fewer p-values than M are conservative, more an error.
    """
    members = [e for e in evidence if e.p_value is not None and not e.display]
    if m_fixed < max(1, len(members)):
        raise ValueError(
            f"The family has {len(members)} deciding p-values but its size was fixed at {m_fixed}; "
            "fix M before the data at no less than every test that can be run, or mark the extra ones as display."
        )
    ordered: list[tuple[float, Evidence]] = []
    for e in members:
        p = e.p_value
        if p is None or not 0.0 <= p <= 1.0:
            raise ValueError(
                f"{e.name} {e.where or ''}: the p-value is {p}; expected a number in [0, 1]. Report why it has none."
            )
        ordered.append((p, e))
    ordered.sort(key=lambda pair: pair[0])
    holm: list[tuple[Evidence, float]] = []
    running = 0.0
    for rank, (p, e) in enumerate(ordered):
        running = max(running, min(1.0, (m_fixed - rank) * p))
        holm.append((e, running))
    q = min(1.0, m_fixed * ordered[0][0]) if ordered else 1.0
    return Family(q, m_fixed, ordered[0][1] if ordered else None, tuple(holm))


def gandy_scott(round: Callable[[int], float], alpha: float, k: int = budget.CONFIRMATION_ROUNDS) -> Confirmation:
    """Confirm a rejection on fresh seeds so that P(FAIL | exact) <= alpha.

    beta = alpha/k, gamma = beta**(1/k); in round j = 1..k: FAIL if q_j <= beta, PASS if q_j > gamma + beta, else
    beta <- beta/gamma and go on; PASS at the end. ``round(j)`` must draw data from seeds of its own, of size
    ``budget.round_size(n, j)`` (n, 4n, 4n, ...), and return a valid q. Source: Gandy and Scott 2020, arXiv 2001.06465.
    """
    thresholds = budget.confirmation_thresholds(alpha, k)
    values: list[float] = []
    for j, (fail_at, pass_above) in enumerate(thresholds, start=1):
        q = float(round(j))
        if not 0.0 <= q <= 1.0:
            raise ValueError(f"Confirmation round {j} returned q = {q}; expected a number in [0, 1].")
        values.append(q)
        if q <= fail_at:
            return Confirmation(Outcome.FAIL, alpha, tuple(values), thresholds)
        if q > pass_above:
            break
    return Confirmation(Outcome.PASS, alpha, tuple(values), thresholds)


def upper_bound(evidence: Evidence) -> float:
    """One-sided 95 % upper bound of |effect|.

    A theta's interval is the two-sided normal 95 % one around the effect, so its half width shrinks by z(.95)/z(.975);
    any other effect (a KS distance with its DKW band) is bounded by the far end of its interval, which is conservative.
    """
    if evidence.effect is None or evidence.interval is None:
        return math.inf
    low, high = evidence.interval
    if evidence.effect_name.startswith("theta"):
        z = NormalDist().inv_cdf
        shrink = z(budget.EQUIVALENCE_CONFIDENCE) / z((1.0 + budget.DISPLAY_CONFIDENCE) / 2.0)
        return abs(evidence.effect) + (high - low) / 2.0 * shrink
    return max(abs(low), abs(high))


def needed_n(evidence: Evidence) -> int:
    """Events after which this primary effect of an exact sampler lies below its margin (in all but about 2 % of runs).

    (scale / delta)^2, scale = 3.6 for KS and 5.4 for theta; a run already that large has to grow as a confirmation round does.
    """
    if not evidence.margin:
        raise ValueError(f"{evidence.name} is primary but has no margin; set Evidence.margin to its delta.")
    theta = evidence.effect_name.startswith("theta")
    scale = budget.THETA_MARGIN_SCALE if theta else budget.KS_MARGIN_SCALE
    planned = math.ceil((scale / evidence.margin) ** 2 * (1.0 - 1e-9))
    return planned if planned > evidence.n else budget.CONFIRMATION_GROWTH * max(evidence.n, 1)


def validity_verdict(evidence: Sequence[Evidence], *, reference: Confirmation | None = None, n: int = 0) -> Verdict:
    """INVALID if a precondition of the evidence fails, or if the reference arm fails the battery it is a reference for."""
    mine = [e for e in evidence if e.axis is Axis.VALIDITY]
    broken = [e for e in mine if e.passed is False]
    if broken:
        sentence = f"The evidence is invalid: {_said(broken[0])}{_more(broken)}. Mend this first; no other verdict counts."
        return Verdict(Axis.VALIDITY, Outcome.INVALID, sentence, n=n)
    if reference is not None and reference.outcome is Outcome.FAIL:
        sentence = (
            f"The evidence is invalid: the target-only reference itself misses the target (q = "
            f"{reference.q_value:.1e} in round {reference.rounds}), so the two disagree. Check what each conditions on."
        )
        return Verdict(Axis.VALIDITY, Outcome.INVALID, sentence, reference.q_value, reference.level, reference.rounds, n)
    if not mine and reference is None:
        return Verdict(
            Axis.VALIDITY, Outcome.NOT_APPLICABLE, "No precondition could be checked: no target scores were given.", n=n
        )
    checked = sum(e.passed is True for e in mine)
    also = " and the target-only reference passes its own battery" if reference is not None else ""
    return Verdict(Axis.VALIDITY, Outcome.PASS, f"The evidence is valid: {checked} preconditions hold{also}.", n=n)


def law_verdict(
    confirmations: Mapping[str, Confirmation],
    evidence: Sequence[Evidence],
    *,
    n: int,
    validity: Verdict | None = None,
) -> Verdict:
    """The law: FAIL only by confirmation (one per family) or by a deterministic proof (an event of probability 0);
    PASS only if every primary effect is below its margin too.

    ``confirmations`` maps a family's name (analytic, permutation, e-process) to its decision; an e-process enters as
    ``eprocess_confirmation``. ``evidence`` is that of the deciding round.
    """
    if validity is not None and validity.outcome is Outcome.INVALID:
        return Verdict(Axis.LAW, Outcome.INVALID, "The law was not judged: the evidence is invalid.", n=n)
    level = sum(c.level for c in confirmations.values())
    rounds = max((c.rounds for c in confirmations.values()), default=0)
    q = min((c.q_value for c in confirmations.values()), default=None)
    failed = {name: c for name, c in confirmations.items() if c.outcome is Outcome.FAIL}
    mine = [e for e in evidence if e.axis is Axis.LAW]
    proofs = [e for e in mine if e.passed is False]
    if proofs:
        sentence = (
            f"The sampler does not draw from the target's law: {_said(proofs[0])}{_more(proofs)}. {_where(mine)}".rstrip()
        )
        return Verdict(Axis.LAW, Outcome.FAIL, sentence, 0.0, level or None, rounds, n)
    if failed:
        # tests of a fixed size say more about where than a monitor that stopped as soon as it could
        name, worst = min(failed.items(), key=lambda item: (item[0] == "e-process", item[1].q_value))
        if name == "e-process":
            sentence = (
                f"The sampler does not draw from the target's law: {_bets_said(mine, 'e_process', worst)} "
                f"{_where(mine)}Exact samplers fail so in at most {level:.0e} of runs."
            )
            return Verdict(Axis.LAW, Outcome.FAIL, sentence, worst.q_value, level, worst.rounds, n)
        sentence = (
            f"The sampler does not draw from the target's law: the {name} family gives q = {worst.q_value:.1e} in round "
            f"{worst.rounds}{_worst_said(mine)}. {_where(mine)}Exact samplers fail so in at most {level:.0e} of runs."
        )
        return Verdict(Axis.LAW, Outcome.FAIL, sentence, worst.q_value, level, worst.rounds, n)
    primary = [e for e in mine if e.primary]
    open_effects = [e for e in primary if e.margin is None or not upper_bound(e) < e.margin]
    if not confirmations or not primary:
        what = "no family of tests was decided" if not confirmations else "no primary effect was measured"
        sentence = f"Nothing contradicts the target's law, but {what}, so nothing is shown either; give the target's scores."
        return Verdict(Axis.LAW, Outcome.INCONCLUSIVE, sentence, q, level or None, rounds, n)
    if open_effects:
        return _inconclusive(open_effects, q, level, rounds, n)
    largest = max(primary, key=lambda e: upper_bound(e) / (e.margin or math.inf))
    sentence = (
        f"The sampler draws from the target's law as far as {n:,} events can tell: no test rejects at level {level:.0e} and "
        f"all {len(primary)} primary effects are below their margins (closest: {_named(largest)} at most "
        f"{upper_bound(largest):.4f}, margin {largest.margin:.4f})."
    )
    return Verdict(Axis.LAW, Outcome.PASS, sentence, q, level, rounds, n)


def mechanism_verdict(
    confirmation: Confirmation | None, evidence: Sequence[Evidence], *, rule: str, n: int, not_possible: Sequence[str] = ()
) -> Verdict:
    """The declared rule: a deterministic proof or a confirmed rejection is a FAIL; without rule or trace NOT_APPLICABLE."""
    mine = [e for e in evidence if e.axis is Axis.MECHANISM]
    proofs = [e for e in mine if e.passed is False]
    if proofs:
        sentence = f"The sampler does not follow {rule}: {_said(proofs[0])}{_more(proofs)}."
        return Verdict(Axis.MECHANISM, Outcome.FAIL, sentence, 0.0, None, confirmation.rounds if confirmation else 1, n)
    if confirmation is not None and confirmation.outcome is Outcome.FAIL:
        if confirmation.anytime:
            sentence = (
                f"The sampler does not follow {rule}: {_bets_said(mine, 'e_process.rule', confirmation)} "
                f"Correct ones fail so in at most {confirmation.level:.0e} of runs."
            )
            return Verdict(Axis.MECHANISM, Outcome.FAIL, sentence, confirmation.q_value, confirmation.level, 1, n)
        sentence = (
            f"The sampler does not follow {rule}: q = {confirmation.q_value:.1e} in round {confirmation.rounds}"
            f"{_worst_said(mine)}. Correct ones fail so in at most {confirmation.level:.0e} of runs."
        )
        return Verdict(Axis.MECHANISM, Outcome.FAIL, sentence, confirmation.q_value, confirmation.level, confirmation.rounds, n)
    if not mine:
        why = f" ({not_possible[0]})" if not_possible else ""
        sentence = f"The mechanism was not judged: the declared rule is {rule} and no check of it was possible{why}."
        return Verdict(Axis.MECHANISM, Outcome.NOT_APPLICABLE, sentence, n=n)
    unchecked = f"; {len(not_possible)} checks were not possible" if not_possible else ""
    sentence = f"The sampler follows {rule} in all {sum(not e.display for e in mine)} checks{unchecked}."
    if confirmation is None:
        return Verdict(Axis.MECHANISM, Outcome.PASS, sentence, n=n)
    return Verdict(Axis.MECHANISM, Outcome.PASS, sentence, confirmation.q_value, confirmation.level, confirmation.rounds, n)


def eprocess_confirmation(log_e: float, alpha: float = budget.EPROCESS_LEVEL) -> Confirmation:
    """An e-process as a family of its own: FAIL iff its running maximum E >= 1/alpha (Ville); q = min(1, 1/E)."""
    q = math.exp(-max(log_e, 0.0))
    outcome = Outcome.FAIL if log_e >= -math.log(alpha) else Outcome.PASS
    return Confirmation(outcome, alpha, (q,), ((alpha, alpha),), anytime=True)


def _inconclusive(open_effects: Sequence[Evidence], q: float | None, level: float, rounds: int, n: int) -> Verdict:
    worst = max(open_effects, key=lambda e: upper_bound(e) / e.margin if e.margin else math.inf)
    needs = max(needed_n(e) for e in open_effects)
    sentence = (
        f"Undecided at {n:,} events: no test rejects, but {_named(worst)} could be as large as {upper_bound(worst):.4f}, above "
        f"its margin {worst.margin:.4f}{_more(open_effects)}; about {needs:,} events are needed."
    )
    return Verdict(Axis.LAW, Outcome.INCONCLUSIVE, sentence, q, level, rounds, n, needs)


def _bets_said(evidence: Sequence[Evidence], name: str, decided: Confirmation) -> str:
    """What the e-process's own evidence says of how it came about, without the list of bets."""
    detail = next((e.detail for e in evidence if e.name == name and e.detail), "")
    said = detail.partition(" Best bets")[0] or f"the e-process reached q = {decided.q_value:.1e}."
    return said[:1].lower() + said[1:]


def _where(evidence: Sequence[Evidence]) -> str:
    found = locate(evidence)
    return f"{found} " if found else ""


def _named(e: Evidence) -> str:
    return f"{e.effect_name or 'effect'} of {e.name}"


def _said(e: Evidence) -> str:
    return f"{e.name}: {e.detail.rstrip('.')}" if e.detail else f"{e.name} failed"


def _more(found: Sequence[Evidence]) -> str:
    return f" (and {len(found) - 1} more)" if len(found) > 1 else ""


def _worst_said(evidence: Sequence[Evidence]) -> str:
    deciding = [e for e in evidence if e.p_value is not None and not e.display]
    if not deciding:
        return ""
    worst = min(deciding, key=lambda e: e.p_value if e.p_value is not None else 1.0)
    effect = f", {worst.effect_name or 'effect'} = {worst.effect:.3g}" if worst.effect is not None else ""
    where = ", ".join(f"{k} {v}" for k, v in worst.where.items())
    return f", led by {worst.name}{f' at {where}' if where else ''}{effect}"
