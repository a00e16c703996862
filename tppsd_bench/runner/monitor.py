"""The e-process of a cell as evidence, verdicts and arrays: what becomes of a wealth once it has been followed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.protocols import FloatArray
from tppsd_bench.results import Axis, Evidence, Outcome, Verdict
from tppsd_bench.stats.decide import Confirmation, eprocess_confirmation, law_verdict, mechanism_verdict
from tppsd_bench.stats.eprocess import Wealth
from tppsd_bench.stats.eprocess.process import PROOF

POINTS = 400
"""Of the curve that a report draws."""
_RUNNERS_UP = 3


def evidence(wealth: Wealth, alpha: float) -> list[Evidence]:
    """``e_process`` on the law and, where the rule could be bet on, ``e_process.rule`` on the mechanism; shown, never in a family.

    p = min(1, 1 / largest wealth) is anytime-valid: P(p <= a) <= a although it was looked at after every sequence.
    """
    out = [_evidence("e_process", Axis.LAW, wealth, alpha)]
    if (wealth.log_rule != wealth.log_rule[:1]).any() or np.isposinf(wealth.log_rule).any():
        out.append(_evidence("e_process.rule", Axis.MECHANISM, wealth, alpha))
    return out


def _evidence(name: str, axis: Axis, wealth: Wealth, alpha: float) -> Evidence:
    largest = wealth.largest(axis)
    n = int(wealth.events[-1]) if len(wealth.events) else 0
    at = wealth.detection(alpha, axis)
    reached = (
        f"reached {1 / alpha:.2g} after {wealth.events[at]:,} events" if at is not None else f"stayed below {1 / alpha:.2g}"
    )
    family, phrase = wealth.led_by(axis)
    best = [f"{b.phrase} ({b.family}, wealth 10^{b.log_wealth / math.log(10):.1f})" for b in wealth.top if b.axis is axis]
    led = f"by an event that cannot be: {phrase}" if family == PROOF else f"led by bets on {phrase}"
    about = "law" if axis is Axis.LAW else "declared rule"
    return Evidence(
        name, axis, p_value=math.exp(-max(largest, 0.0)), statistic=largest / math.log(10), n=n, effect=largest / math.log(10),
        effect_name="log10 of the largest wealth", display=True, null="mean at most 1 at every time",
        method="betting e-process; p = 1 / largest wealth is anytime-valid (Ville)",
        detail=f"The wealth of bets on the {about} {reached}, {led}. Best bets at the end: "
        + "; ".join(best[:_RUNNERS_UP]),
    )  # fmt: skip


def families(wealth: Wealth | None, alpha: float) -> dict[str, Confirmation]:
    """The e-process as the law's third family; nothing where there was none."""
    return {} if wealth is None else {"e-process": eprocess_confirmation(wealth.largest(Axis.LAW), alpha)}


def with_rule(mechanism: Confirmation | None, wealth: Wealth | None, alpha: float) -> Confirmation | None:
    """The mechanism's decision, by the analytic family or else by the bets on the rule."""
    if wealth is None or (mechanism is not None and mechanism.outcome is Outcome.FAIL):
        return mechanism
    decided = eprocess_confirmation(wealth.largest(Axis.MECHANISM), alpha)
    return decided if decided.outcome is Outcome.FAIL else mechanism


def shown(found: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """The battery's evidence on a run that stopped early: its n was random, so that its p-values decide nothing. Proofs stay."""
    return tuple(e if e.p_value is None else replace(e, display=True) for e in found)


def stopped_verdicts(
    wealth: Wealth, alpha: float, found: Sequence[Evidence], validity: Verdict, rule: str, missing: Sequence[str]
) -> tuple[Verdict, Verdict]:
    """Law and mechanism of a run that the e-process stopped; ``found`` is the battery's evidence as ``shown``."""
    n = int(wealth.events[-1])
    law = law_verdict(families(wealth, alpha), found, n=n, validity=validity)
    if law.outcome not in (Outcome.FAIL, Outcome.INVALID):
        sentence = (
            f"Not decided: proof against the declared rule ended the run after {n:,} events, before the bets on the law alone were "
            "conclusive; a run that is not sequential judges the law at its full size."
        )
        law = replace(law, outcome=Outcome.INCONCLUSIVE, sentence=sentence, needed_n=None)
    against_rule = with_rule(None, wealth, alpha)
    mine = [e for e in found if e.axis is Axis.MECHANISM]
    if mine and against_rule is None and not any(e.passed is False for e in mine):
        sentence = f"The mechanism was not judged: proof against the law ended the run after {n:,} events."
        return law, Verdict(Axis.MECHANISM, Outcome.NOT_APPLICABLE, sentence, n=n)
    return law, mechanism_verdict(against_rule, found, rule=rule, n=n, not_possible=missing)


def arrays(wealth: Wealth | None, alpha: float) -> dict[str, NDArray[Any]]:
    """``wealth_events``, ``wealth_log`` (natural log, at most ``POINTS`` values, extremes kept) and ``wealth_threshold`` (1,)."""
    if wealth is None or not len(wealth.events):
        return {}
    log_wealth: FloatArray = wealth.log_wealth
    s = len(log_wealth)
    keep = set(np.unique(np.linspace(0, s - 1, min(s, POINTS - 3)).astype(np.int64)).tolist()) | {int(log_wealth.argmax())}
    at = wealth.detection(alpha)
    keep |= set() if at is None else {at}
    rows = np.array(sorted(keep), dtype=np.int64)
    return {
        "wealth_events": wealth.events[rows], "wealth_log": log_wealth[rows], "wealth_threshold": np.array([-math.log(alpha)]),
    }  # fmt: skip


def figures(wealth: Wealth | None, alpha: float) -> dict[str, Any]:
    """``events_to_detection`` and ``detected_by``, where the wealth reached 1/alpha."""
    at = None if wealth is None else wealth.detection(alpha)
    if wealth is None or at is None:
        return {}
    return {"events_to_detection": int(wealth.events[at]), "detected_by": f"{wealth.leading}: {wealth.phrase}"}
