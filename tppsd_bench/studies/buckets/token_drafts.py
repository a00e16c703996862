"""Drafts of a pair that was trained over tokens: is one that factorises bucket and type accepted more than one over joint tokens?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.protocols import FloatArray
from tppsd_bench.results import Axis, CellResult, Outcome, Verdict
from tppsd_bench.runner.plan import CellSpec
from tppsd_bench.studies.buckets.contexts import Contexts, mean
from tppsd_bench.studies.buckets.maps import KEPT

STRESS, JOINT = "stress", "joint"


def drafts_cell(cell: CellSpec, contexts: Contexts) -> tuple[CellResult, dict[str, NDArray[Any]]]:
    """Every draft of the pair but the poor one; those over joint tokens against their twins, on the same histories."""
    job, shipped = contexts.job, contexts.table.draft
    p = contexts.target
    names = [shipped, *(name for name in contexts.pair.drafts if name not in (shipped, contexts.table.poor_draft, STRESS))]
    columns = {name: _columns(contexts, p, contexts.draft(name)) for name in names}
    found: dict[str, dict[str, Any]] = {}
    for name, mine in columns.items():
        found[name] = {kind: mean(values) for kind, values in mine.items()}
        found[name]["head"] = head_of(contexts.pair.drafts[name])
        like = twin_of(name, names, shipped)
        if like:
            found[name] |= {"like": like, "less": {kind: mean(mine[kind] - columns[like][kind]) for kind in mine}}
    figures = {
        "n_contexts": len(p),
        "n_types": p.n_types,
        "drafts": found,
        "hypotheses": contexts.table.hypotheses.model_dump(),
    }
    best = max(found, key=lambda name: found[name]["joint"]["value"])
    said = f"Of {len(found)} drafts {best} is accepted most under joint verification: {found[best]['joint']['value']:.2%}."
    arrays = {f"{name}_{kind}": values[kind] for name, values in columns.items() for kind in ("joint", "two_step")}
    result = CellResult(
        cell.id, cell.kind, job.pair, cell.draft, f"{contexts.pair.title}: drafts over tokens", seed=job.seed, n_sequences=len(p),
        n_events=contexts.histories.n_events, verdicts=(Verdict(Axis.EFFICIENCY, Outcome.PASS, said, n=len(p)),), figures=figures,
        arrays=tuple(arrays),
    )  # fmt: skip
    return result, arrays


def twin_of(name: str, names: Sequence[str], shipped: str) -> str:
    """The draft of the same architecture without the joint head: X of ``X-joint``, the shipped one of ``joint``; empty: there is none."""
    if name == JOINT:
        return shipped
    twin = name.removesuffix(f"-{JOINT}")
    return twin if twin != name and twin in names else ""


def head_of(draft: Any) -> str:
    """``joint`` or ``factorised``, where the draft's own configuration tells; empty elsewhere."""
    config = getattr(draft, "config", None)
    head = str(config.get("head", "")) if isinstance(config, dict) else ""
    return head.removeprefix("token_") if head.startswith("token_") else ""


def _columns(contexts: Contexts, p: Any, q: Any) -> dict[str, FloatArray]:
    """By context: acceptance, KL(p || q) over tokens in nats, and how rough log q is along buckets."""
    accepted = contexts.lab.acceptance(p, q)
    log_p, log_q = contexts.lab.log_tokens(p), contexts.lab.log_tokens(q)
    mass = np.exp(log_p)
    divergence = (mass * np.where(mass > 0, log_p - log_q, 0.0)).sum(axis=(1, 2))
    bend = np.abs(np.diff(log_q, n=2, axis=1))
    inner = mass[:, 1:-1]
    roughness = (inner * bend).sum(axis=(1, 2)) / inner.sum(axis=(1, 2))
    return {kind: getattr(accepted, kind) for kind in KEPT} | {"divergence": divergence, "roughness": roughness}
