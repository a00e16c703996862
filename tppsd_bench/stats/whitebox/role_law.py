"""role_law: every emitted gap and type must follow the law of its role under the declared rule."""

from __future__ import annotations

import numpy as np

from tppsd_bench.protocols import (
    ROLE_ACCEPTED,
    ROLE_RESIDUAL,
    ROLE_TARGET,
    BoolArray,
    Conditional,
    FloatArray,
    IntArray,
    Rule,
)
from tppsd_bench.results import Evidence
from tppsd_bench.stats.whitebox.contexts import Contexts
from tppsd_bench.stats.whitebox.gap_integrals import ACCEPTED, RESIDUAL, GapIntegrals
from tppsd_bench.stats.whitebox.uniformity import MIN_UNIFORMS, type_pit, uniform_evidence
from tppsd_bench.stats.whitebox.weights import role_weight

GAP_ROLES = ("gap.accepted", "gap.residual", "gap.target")
TYPE_ROLES = ("type.accepted", "type.residual", "type.after_residual_gap", "type.target")


def roles(rule: Rule, n_types: int) -> tuple[str, ...]:
    """The role laws a rule has. A joint rule draws gap and type of a residual together: no type follows a residual gap."""
    kinds = GAP_ROLES + (TYPE_ROLES if n_types > 1 else ())
    return tuple(k for k in kinds if not (rule == "leviathan_joint" and k == "type.after_residual_gap"))


def role_law(
    c: Contexts, integrals: GapIntegrals | None, rng: np.random.Generator, alpha: float
) -> tuple[list[Evidence], list[str]]:
    """PIT of each emitted gap and type under its role's law, by quadrature; and what could not be tested.

    Accepted ~ min(p, q), residual ~ (p - q)+, target ~ p, all normalised, by the component's *own* outcome; a type after a
    residual gap ~ p(.|H, gap). In horizon runs gap laws are cut at the time left (the draw that crossed was not kept).
    ``integrals`` is None where the laws of target or draft are not at hand.
    """
    t = c.trace
    masks = {
        "gap.accepted": t.gap_role == ROLE_ACCEPTED,
        "gap.residual": t.gap_role == ROLE_RESIDUAL,
        "gap.target": t.gap_role == ROLE_TARGET,
        "type.accepted": t.type_role == ROLE_ACCEPTED,
        "type.residual": t.type_role == ROLE_RESIDUAL,
        "type.after_residual_gap": (t.gap_role == ROLE_RESIDUAL) & (t.type_role == ROLE_TARGET),
        "type.target": (t.gap_role == ROLE_TARGET) & (t.type_role == ROLE_TARGET),
    }
    evidence: list[Evidence] = []
    missing: list[str] = []
    for kind in roles(c.rule, c.n_types):
        events = _usable(c, integrals, kind, masks[kind])
        if len(events) < MIN_UNIFORMS:
            missing.append(f"role_law.{kind}: {_why_not(c, int(masks[kind].sum()))}")
            continue
        u = _pit(c, integrals, kind, events, rng)
        lost = int((~np.isfinite(u)).sum())
        u = np.clip(u[np.isfinite(u)], 0.0, 1.0)
        if len(u) < MIN_UNIFORMS:
            missing.append(f"role_law.{kind}: the role's law has no mass at {lost} of {len(events)} events (see support)")
            continue
        detail = f"{lost} events without mass under the role's law left out (see support)" if lost else ""
        evidence.append(uniform_evidence(f"role_law.{kind}", u, alpha, detail=detail))
    return evidence, missing


def _usable(c: Contexts, integrals: GapIntegrals | None, kind: str, mask: BoolArray) -> IntArray:
    """Flat indices of the events to use; none where the laws that the role needs are not at hand."""
    needs_q = kind.endswith(("accepted", ".residual"))
    if c.p is None or (needs_q and integrals is None):
        return np.empty(0, dtype=np.int64)
    if needs_q and integrals is not None and kind.startswith("gap"):
        return integrals.accepted if kind == "gap.accepted" else integrals.residual
    return np.flatnonzero(mask)


def _why_not(c: Contexts, n: int) -> str:
    if c.p is None:
        return "the target offers no conditionals"
    if n >= MIN_UNIFORMS:
        return "the draft's conditionals were not given"
    return f"{n} events of that role, at least {MIN_UNIFORMS} are needed"


def _pit(c: Contexts, integrals: GapIntegrals | None, kind: str, events: IntArray, rng: np.random.Generator) -> FloatArray:
    assert c.p is not None
    rows, gap, left = c.event_row[events], c.events.gaps[events], c.time_left[events]
    p = c.p.take(rows)
    if kind == "gap.target":
        u: FloatArray = p.cdf(gap) / np.where(np.isinf(left), 1.0, p.cdf(np.where(np.isinf(left), 1.0, left)))
        return u
    if kind in ("type.target", "type.after_residual_gap"):
        return type_pit(c.events.types[events], np.exp(p.type_log_probs(gap)), rng)
    assert integrals is not None
    if kind.startswith("gap"):
        return integrals.pit(events, ACCEPTED if kind == "gap.accepted" else RESIDUAL)
    role = kind.split(".")[1]
    return type_pit(c.events.types[events], _type_weights(c.rule, role, p, integrals.q.take(rows), gap), rng)


def _type_weights(rule: Rule, role: str, p: Conditional, q: Conditional, gap: FloatArray) -> FloatArray:
    """(n, M) unnormalised law of the type given the gap, for accepted and residual types."""
    log_p, log_q = p.type_log_probs(gap), q.type_log_probs(gap)
    if rule == "exact_match":  # accepted iff the target's draw equals the proposal: p q kept, p (1 - q) replaced
        return np.exp(log_p + log_q) if role == "accepted" else np.exp(log_p) * -np.expm1(log_q)
    if rule == "leviathan_joint":
        log_p, log_q = log_p + p.log_prob(gap)[:, None], log_q + q.log_prob(gap)[:, None]
        top = np.maximum(log_p, log_q).max(axis=1, keepdims=True)  # only ratios matter: keep them from underflowing
        log_p, log_q = log_p - top, log_q - top
    return role_weight(role, log_p, log_q)
