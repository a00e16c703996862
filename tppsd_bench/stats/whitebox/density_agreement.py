"""density_agreement: the log p and log q that the sampler reports against a teacher-forced pass, proposal by proposal."""

from __future__ import annotations

import numpy as np

from tppsd_bench.protocols import FloatArray
from tppsd_bench.results import Axis, Evidence
from tppsd_bench.stats.whitebox.contexts import Contexts

COMPONENTS = ("gap", "type", "event")


def density_agreement(c: Contexts, tol: float, *, check_q: bool = True) -> list[Evidence]:
    """|reported - teacher-forced| <= ``tol`` at every verified proposal whose teacher-forced value could be had.

    Deterministic: one proof is enough. Sees wrong rows, leaks of later events, stale or shifted histories. ``tol`` is ten times
    the measured gap between block and teacher-forced scoring (1e-5 or so in float32). ``check_q`` is False for a draft that
    declares a stale cache: what it sampled from is then not the teacher-forced q.
    """
    out = _agreement(c, "p", c.trace.log_p, c.log_p, tol)
    return out + _agreement(c, "q", c.trace.log_q, c.log_q, tol) if check_q else out


def _agreement(c: Contexts, law: str, reported: FloatArray, forced: FloatArray, tol: float) -> list[Evidence]:
    known = ~np.isnan(forced)
    evidence = []
    for component, name in enumerate(COMPONENTS):
        at = np.flatnonzero(known & (c.trace.component == component))
        if not len(at):
            continue
        with np.errstate(invalid="ignore"):
            difference = np.abs(reported[at] - forced[at])
        difference[reported[at] == forced[at]] = 0.0  # equal infinities
        difference[np.isnan(difference)] = np.inf
        wrong = np.flatnonzero(difference > tol)
        detail = ""
        if len(wrong):
            first = at[wrong[0]]
            detail = (
                f"{c.record_said(first)}: reported log {law} {reported[first]:.6g} of the {name}, teacher-forced "
                f"{forced[first]:.6g}; {len(wrong)} of {len(at)} differ by more than {tol:g}"
            )
        evidence.append(
            Evidence(
                f"density_agreement.{law}.{name}",
                Axis.MECHANISM,
                passed=not len(wrong),
                statistic=float(len(wrong)),
                n=len(at),
                effect=float(difference.max()),
                effect_name=f"largest |difference of log {law}|",
                margin=tol,
                null="equal up to the tolerance",
                method="deterministic comparison with a teacher-forced pass",
                detail=detail,
            )
        )
    return evidence
