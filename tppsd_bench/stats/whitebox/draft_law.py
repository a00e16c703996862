"""draft_law: verified proposals must come from the reported q (a colder draft, shared noise: seen at the source)."""

from __future__ import annotations

import numpy as np

from tppsd_bench.protocols import COMPONENT_EVENT, COMPONENT_GAP, COMPONENT_TYPE, BoolArray, Conditional
from tppsd_bench.results import Evidence
from tppsd_bench.stats.whitebox.contexts import Contexts
from tppsd_bench.stats.whitebox.uniformity import MIN_UNIFORMS, type_pit, uniform_evidence

POSITIONS = ("all", "first", "later")


def draft_law(c: Contexts, q: Conditional, rng: np.random.Generator, alpha: float) -> tuple[list[Evidence], list[str]]:
    """PIT of verified proposals under q, by component and position in the round; and what could not be tested.

    Whether a proposal is verified is decided by earlier draws, so its PIT is U(0,1) given the past. Types are randomised.
    """
    t = c.trace
    evidence: list[Evidence] = []
    missing: list[str] = []
    for name in ("gap", "type") if c.n_types > 1 else ("gap",):
        wanted = (COMPONENT_GAP if name == "gap" else COMPONENT_TYPE, COMPONENT_EVENT)
        at = np.flatnonzero((c.record_row >= 0) & np.isin(t.component, wanted))
        if not len(at):
            missing.append(f"draft_law.{name}: no verification of a {name} has a context")
            continue
        law = q.take(c.record_row[at])
        u = law.cdf(t.gap[at]) if name == "gap" else type_pit(t.type[at], np.exp(law.type_log_probs(t.gap[at])), rng)
        usable = np.isfinite(u)
        strata: tuple[BoolArray, ...] = (usable, usable & (t.position[at] == 0), usable & (t.position[at] > 0))
        for position, keep in zip(POSITIONS, strata, strict=True):
            if keep.sum() < MIN_UNIFORMS:
                missing.append(
                    f"draft_law.{name} at position {position}: {keep.sum()} verified proposals, {MIN_UNIFORMS} are needed"
                )
                continue
            where = {} if position == "all" else {"position": position}
            evidence.append(uniform_evidence(f"draft_law.{name}", u[keep], alpha, where=where))
    return evidence, missing
