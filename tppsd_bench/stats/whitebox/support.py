"""support: a residual draw can only fall where the target is denser than the draft; one that does not is proof of a fault."""

from __future__ import annotations

import numpy as np

from tppsd_bench.protocols import COMPONENT_GAP, ROLE_ACCEPTED, ROLE_RESIDUAL, FloatArray, IntArray
from tppsd_bench.results import Axis, Evidence
from tppsd_bench.stats.whitebox.contexts import Contexts


def support(c: Contexts, tol: float) -> list[Evidence]:
    """log p(x) - log q(x) >= -``tol`` at every residual draw x: gaps, types after an accepted gap, or joint events.

    Types after a residual gap are drawn from p and are not residual draws. Under exact match a replaced type must differ from
    the proposal. Sees the capped residual loop, which no marginal test sees at 200k events.
    """
    if c.p is None or c.q is None:
        return []
    t = c.trace
    residual_gap = t.gap_role == ROLE_RESIDUAL
    if c.rule == "leviathan_joint":
        at = np.flatnonzero(residual_gap)
        return [_evidence(c, "event", at, _log_ratio(c, at, gap=True, type=True), tol)]
    at = np.flatnonzero(residual_gap)
    out = [_evidence(c, "gap", at, _log_ratio(c, at, gap=True, type=False), tol)]
    at = np.flatnonzero((t.gap_role == ROLE_ACCEPTED) & (t.type_role == ROLE_RESIDUAL))
    if c.n_types > 1:
        ratio = _replaced(c, at) if c.rule == "exact_match" else _log_ratio(c, at, gap=False, type=True)
        out.append(_evidence(c, "type", at, ratio, tol))
    return out


def _log_ratio(c: Contexts, at: IntArray, *, gap: bool, type: bool) -> FloatArray:
    """(len(at),) log p - log q at the emitted draw; NaN (no density under either law) counts as impossible."""
    assert c.p is not None
    assert c.q is not None
    if not len(at):
        return np.empty(0)
    rows, x = c.event_row[at], c.events.gaps[at]
    ratio = np.zeros(len(at))
    with np.errstate(invalid="ignore"):
        if gap:
            ratio = ratio + c.p.take(rows).log_prob(x) - c.q.take(rows).log_prob(x)
        if type:
            k = (np.arange(len(at)), c.events.types[at])
            ratio = ratio + c.p.take(rows).type_log_probs(x)[k] - c.q.take(rows).type_log_probs(x)[k]
    return np.where(np.isnan(ratio), -np.inf, ratio)


def _replaced(c: Contexts, at: IntArray) -> FloatArray:
    """Exact match: -inf where the replacement equals a rejected proposal of the same event, else 0."""
    t = c.trace
    rejected = np.flatnonzero((t.component != COMPONENT_GAP) & ~t.accepted & (t.event < c.events.lengths[t.sequence]))
    proposed = np.full(c.events.n_events, -1, dtype=np.int64)
    proposed[c.events.offsets[t.sequence[rejected]] + t.event[rejected]] = t.type[rejected]
    return np.where(proposed[at] == c.events.types[at], -np.inf, 0.0)


def _evidence(c: Contexts, name: str, at: IntArray, log_ratio: FloatArray, tol: float) -> Evidence:
    impossible = np.flatnonzero(log_ratio < -tol)
    detail = ""
    if len(impossible):
        worst = impossible[np.argmin(log_ratio[impossible])]
        detail = (
            f"{c.event_said(int(at[worst]))}: a residual {name} with log p - log q = {log_ratio[worst]:.4g}, which "
            f"(p - q)+ never draws; {len(impossible)} of {len(at)} residual draws are impossible"
        )
    return Evidence(
        f"support.{name}",
        Axis.MECHANISM,
        passed=not len(impossible),
        statistic=float(len(impossible)),
        n=len(at),
        effect=len(impossible) / max(len(at), 1),
        effect_name="share of residual draws that are impossible",
        null="none",
        method="deterministic",
        detail=detail,
    )
