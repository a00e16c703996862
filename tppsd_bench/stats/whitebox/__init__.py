"""White box: does the sampler follow the rule it declares? Evidence on the mechanism (and one law statistic).

Only against the declared rule; law uses p alone. What the access does not allow is named by ``not_possible``, never dropped
in silence. ``family_size`` is the number of deciding p-values, fixed before the data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tppsd_bench import budget
from tppsd_bench.protocols import Conditional, ConditionalTarget, Counts, Rule, SampleRun, Target
from tppsd_bench.results import Axis, Evidence
from tppsd_bench.stats.whitebox.acceptance import acceptance_identity
from tppsd_bench.stats.whitebox.accounting import accounting
from tppsd_bench.stats.whitebox.contexts import Contexts, line_up
from tppsd_bench.stats.whitebox.density_agreement import density_agreement
from tppsd_bench.stats.whitebox.draft_direction import POSITIONS as DIRECTION_POSITIONS
from tppsd_bench.stats.whitebox.draft_direction import draft_direction
from tppsd_bench.stats.whitebox.draft_law import POSITIONS as DRAFT_POSITIONS
from tppsd_bench.stats.whitebox.draft_law import draft_law
from tppsd_bench.stats.whitebox.gap_integrals import GapIntegrals
from tppsd_bench.stats.whitebox.reproducible import reproducible
from tppsd_bench.stats.whitebox.role_law import role_law, roles
from tppsd_bench.stats.whitebox.support import support

__all__ = ["WhiteBox", "family_size", "inspect_run", "reproducible"]

VERIFYING_RULES: tuple[Rule, ...] = ("leviathan_two_step", "leviathan_joint", "exact_match")


@dataclass(frozen=True)
class WhiteBox:
    evidence: tuple[Evidence, ...]
    not_possible: tuple[str, ...]


def inspect_run(
    run: SampleRun,
    target: Target,
    draft: ConditionalTarget | None,
    rule: Rule,
    rng: np.random.Generator,
    *,
    tol: float,
    stale_draft: bool = False,
    max_rows: int = 4096,
    measured: Counts | None = None,
    laws: Conditional | None = None,
) -> WhiteBox:
    """All white-box evidence that the access allows (axis MECHANISM, and draft_direction on axis LAW), and why the rest is missing.

    Args:
        run: events with their trace, drawn from empty histories (a prompt would be part of every context).
        target: ``score`` suffices for the densities of kept proposals; ``conditionals`` opens role laws, support, direction.
        draft: the draft's teacher-forced law, or None.
        rule: the rule the sampler declares. ``other`` and ``target_only`` verify nothing: no evidence.
        rng: randomises the type PITs.
        tol: tolerance of log densities, 10 times the measured gap between block and teacher-forced scoring.
        stale_draft: the draft declares that it samples from a stale cache: nothing then rests on its teacher-forced law as q.
        max_rows: quadrature takes the first this many events of a role, and of the run twice as many for draft_direction.
        measured: an independent counter of forwards.

    Raises:
        InputError: the trace contradicts its own shape (one sentence).
    """
    if rule not in VERIFYING_RULES:
        return WhiteBox((), (f"white box: the declared rule is {rule}, which has no verification to test",))
    if run.trace is None:
        return WhiteBox((), ("white box: the run has no trace",))
    c = line_up(run, target, draft, rule, laws=laws)
    integrals = None if c.p is None or c.q is None else GapIntegrals(c, c.p, c.q, max_rows)
    missing = _access(c, run.counts, stale_draft)
    alpha = _single_level(rule, c.n_types, c.q is not None)
    evidence = density_agreement(c, tol, check_q=not stale_draft)
    direction, why = draft_direction(c, integrals, alpha)
    missing += why
    if stale_draft:
        c, integrals = line_up(run, target, None, rule, laws=laws), None
    evidence += acceptance_identity(c, tol, alpha)
    if c.q is not None:
        found, why = draft_law(c, c.q, rng, alpha)
        evidence, missing = evidence + found, missing + why
    found, why = role_law(c, integrals, rng, alpha)
    evidence, missing = evidence + found + support(c, tol), missing + why
    evidence += accounting(c, run.counts, measured=measured)
    return WhiteBox((*evidence, *direction), tuple(missing))


def family_size(
    rule: Rule, n_types: int, has_draft: bool, *, axis: Axis = Axis.MECHANISM, has_conditionals: bool = True
) -> int:
    """Deciding p-values the battery can give on ``axis``, whatever the data: acceptance, draft law, role laws | direction.

    At least 1, so that an empty family has q = 1.
    """
    if rule not in VERIFYING_RULES:
        return 1
    components = 2 if n_types > 1 else 1
    if axis is Axis.LAW:
        return components * len(DIRECTION_POSITIONS) if has_draft and has_conditionals else 1
    size = 1 if rule == "leviathan_joint" else components
    if has_draft:
        size += components * len(DRAFT_POSITIONS)
    if has_conditionals:
        kinds = roles(rule, n_types)
        size += len(kinds) if has_draft else sum(not k.endswith(("accepted", ".residual")) for k in kinds)
    return size


def _single_level(rule: Rule, n_types: int, has_draft: bool) -> float:
    """The level of one test in the first confirmation round, for smallest detectable effects."""
    return budget.confirmation_thresholds(budget.MECHANISM_LEVEL)[0][0] / family_size(rule, n_types, has_draft)


def _access(c: Contexts, counts: Counts, stale_draft: bool) -> list[str]:
    missing: list[str] = []
    if c.p is None:
        missing.append("density_agreement of rejected gaps, role_law, support: the target offers scores but no conditionals")
    if c.q is None:
        missing.append(
            "density_agreement of q, draft_law, role laws of accepted and residual draws, support: no draft was given"
        )
    elif stale_draft:
        missing.append("density_agreement of q, draft_law, role laws, support: the draft declares a stale cache")
    beyond = int((c.record_row < 0).sum())
    if beyond:
        missing.append(
            f"density_agreement, draft_law: {beyond} verifications lie past the end of their sequence, without a context"
        )
    if not counts.rounds:
        missing.append("accounting of totals: the run has no counts")
    return missing
