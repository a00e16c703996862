"""One examination of a known sampler, again and again under fresh seeds: was it caught, by what, and is the true fault suspected?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.errors import InputError
from tppsd_bench.measure.acceptance import exact_acceptance
from tppsd_bench.protocols import ConditionalTarget, Rule, SampleRequest, SamplerUnderTest, Stop
from tppsd_bench.results import Axis, Evidence, Outcome
from tppsd_bench.runner.design import Design, Subject
from tppsd_bench.runner.examine import Finding, examine, preconditions
from tppsd_bench.runner.plan import Levels
from tppsd_bench.runner.rounds import Rounds
from tppsd_bench.stats.base import clopper_pearson
from tppsd_bench.stats.columns import COLUMNS, KILL_LEVEL, column_p
from tppsd_bench.stats.eprocess import Wealth
from tppsd_bench.streams import StreamKey

LABEL = "sampler"
LENGTH_PILOT = 64
"""Target-only sequences by whose mean length a horizon examination is sized."""
CONTEXTS, CUTS = 256, 128
"""Histories and cuts of the gap axis for total variation and acceptance: errors of 1e-3 and 2e-5."""


@dataclass(frozen=True)
class Case:
    """A known sampler on its witness, and how it is examined."""

    target: ConditionalTarget
    draft: ConditionalTarget | None
    sampler: SamplerUnderTest
    design: Design
    levels: Levels

    def rounds(self, seed: int, reference: SamplerUnderTest | None = None) -> Rounds:
        """The rounds of one examination; ``seed`` counts from 0 and names streams of its own."""
        key = self.design.key
        design = replace(self.design, key=key.replace(cell=f"{key.cell}.seed{seed}"))
        return Rounds(self.target, {LABEL: Subject(self.sampler, self.draft)}, reference, design)


@dataclass(frozen=True)
class Examined:
    """What one examination said."""

    law: bool
    """Whether the law verdict was FAIL; likewise the others (validity: the evidence was invalid, or the answer refused)."""
    mechanism: bool
    validity: bool
    p: dict[str, float]
    """Column of the kill matrix -> p-value, from the first round."""
    wealth: Wealth | None
    """Of the e-process over the first round's sequences; None where nothing could be bet on."""
    evidence: tuple[Evidence, ...]
    """Of the first round."""
    finding: Finding
    sentence: str

    @property
    def caught(self) -> bool:
        return self.law or self.mechanism or self.validity

    def light(self) -> Examined:
        """The same without what was drawn: many seeds together would not fit into memory."""
        return replace(self, finding=replace(self.finding, arm=None))


def design_of(
    pair: Any,
    stop: Stop,
    key: StreamKey,
    *,
    n_events: int,
    pilot: int,
    batch_size: int | None,
    max_rounds: int = 3,
    **more: Any,
) -> Design:
    """Sizes of an examination of ``n_events`` events; with a horizon by the mean length of the target's own sequences."""
    if stop.n_events is not None:
        n = max(2, math.ceil(n_events / stop.n_events))
    else:
        request = SampleRequest(LENGTH_PILOT, stop, key.replace(stage="size"), want_trace=False)
        mean = pair.sampler("target_only").sample(request).events.n_events / LENGTH_PILOT
        n = max(20, math.ceil(n_events / max(mean, 1.0)))
    return Design(stop, n, key, pilot_sequences=min(pilot, n) if stop.n_events is None else pilot, batch_size=batch_size,
                  max_rounds=max_rounds, **more)  # fmt: skip


def known_preconditions(case: Case, reference: SamplerUnderTest) -> list[Evidence]:
    """The target's preconditions, once for all seeds, on sequences of its own (a ``reference`` that draws from it)."""
    return preconditions(case.rounds(0, reference), [LABEL], {})


def examined(rounds: Rounds, levels: Levels, known: Sequence[Evidence] | None) -> Examined:
    """One examination. A refused answer (InputError) is a catch; anything else that a sampler raises is an error of the cell."""
    finding = examine(rounds, levels, known=known)[LABEL]
    if finding.error:
        problem = rounds.problems.get(LABEL)
        if not isinstance(problem, InputError):
            raise problem or RuntimeError(finding.error)
        refused = Evidence("validity.answer", Axis.VALIDITY, passed=False, method="deterministic", detail=str(problem))
        return Examined(False, False, True, column_p([refused]), None, (refused,), finding, str(problem))
    outcome = {v.axis: v.outcome for v in finding.verdicts}
    first = (*(known or ()), *rounds.arm(LABEL, 1).evidence) if finding.arm is not None else finding.evidence
    wealth = rounds.wealth(LABEL) if finding.arm is not None else None
    columns = column_p(first)
    if wealth is not None and len(wealth.events):
        columns["e_process"] = math.exp(-max(0.0, float(wealth.log_wealth.max())))
    said = next((v.sentence for v in finding.verdicts if v.outcome in (Outcome.FAIL, Outcome.INVALID)), "")
    return Examined(
        outcome.get(Axis.LAW) is Outcome.FAIL, outcome.get(Axis.MECHANISM) is Outcome.FAIL,
        outcome.get(Axis.VALIDITY) is Outcome.INVALID, columns, wealth, first, finding, said,
    )  # fmt: skip


def place_among_suspects(found: Examined, names: Iterable[str]) -> int | None:
    """Place, from 1, of the first of ``names`` in the ranking of known faults; None where it is not ranked at all.

    Ranked is what a certificate would hold: where copies of sequences or a coarse clock end it, these alone.
    """
    from tppsd_bench.stats.preconditions import check_batch
    from tppsd_bench.stats.signatures import rank

    wanted, arm = set(names), found.finding.arm
    refused = [e for e in check_batch(arm.run.events) if e.passed is False] if arm is not None else []
    suspects = rank(refused or found.finding.evidence or found.evidence)
    return next((i for i, suspect in enumerate(suspects, 1) if suspect.name in wanted), None)


def matrix(examinations: Sequence[dict[str, float]]) -> NDArray[np.float64]:
    """(examinations, columns) p-values, NaN where a column was not run."""
    return np.array([[one.get(name, np.nan) for name in COLUMNS] for one in examinations]).reshape(-1, len(COLUMNS))


def kills(p: NDArray[np.float64]) -> dict[str, dict[str, float]]:
    """Column -> how often it killed, among the examinations in which it was run."""
    out = {}
    for name, values in zip(COLUMNS, p.T, strict=True):
        run = values[~np.isnan(values)]
        if len(run):
            out[name] = rate(int((run <= KILL_LEVEL).sum()), len(run))
    return out


def rate(hits: int, n: int, level: float = 0.95) -> dict[str, float]:
    """A share with its exact (Clopper-Pearson) interval."""
    low, high = clopper_pearson(hits, n, level) if n else (0.0, 1.0)
    return {"hits": hits, "n": n, "low": low, "high": high}


def distances(pair: Any, draft: ConditionalTarget, stop: Stop, rule: Rule, key: StreamKey) -> dict[str, float | None]:
    """Total variation of gap and type laws and acceptance of an event, by quadrature, on the target's own histories.

    Means over ``CONTEXTS`` events; the type's given an accepted gap, None for one type.
    """
    target = pair.target
    length = stop.n_events or 50
    request = SampleRequest(
        math.ceil(4 * CONTEXTS / length), Stop(n_events=length), key.replace(stage="distances"), want_trace=False
    )
    events = pair.sampler("target_only").sample(request).events
    chosen = np.sort(key.replace(purpose="quadrature").generator().permutation(events.n_events)[:CONTEXTS])
    p, q = (model.conditionals(events).take(chosen) for model in (target, draft))
    found = exact_acceptance(p, q, n_levels=CUTS)
    event = found.joint if rule == "leviathan_joint" else found.two_step
    return {
        "tv_gap": 1.0 - float(found.gap.mean()),
        "tv_type": 1.0 - float(np.nanmean(found.type_given_gap)) if target.n_types > 1 else None,
        "acceptance": float(event.mean()),
    }


def median_interval(values: NDArray[np.float64], level: float = 0.95) -> tuple[float, float, float]:
    """(median, low, high) by order statistics: the narrowest symmetric pair of ranks that covers the median with this probability.

    P(X_(r) < median < X_(n + 1 - r)) = 1 - 2 P(Bin(n, 1/2) < r). With too few values for the level: the extremes. Infinite values
    (beyond what was observed) are allowed.
    """
    x, n = np.sort(values), len(values)
    below, r = 0.0, 0
    while r < n // 2:
        below += math.comb(n, r) * 0.5**n
        if 1.0 - 2.0 * below < level:
            break
        r += 1
    r = max(r, 1)
    middle = float((x[(n - 1) // 2] + x[n // 2]) / 2.0)
    return middle, float(x[r - 1]), float(x[n - r])
