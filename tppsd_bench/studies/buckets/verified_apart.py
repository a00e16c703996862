"""Bucket and type verified, or redrawn, apart: the law that comes out, computed exactly, beside the two rules that are exact."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from tppsd_bench.results import Axis, CellResult, Outcome, Verdict
from tppsd_bench.runner.plan import CellSpec
from tppsd_bench.studies.buckets.contexts import Contexts, mean
from tppsd_bench.studies.buckets.maps import KEPT, QUANTILE

Filled = tuple[CellResult, dict[str, NDArray[Any]]]


def laws_over_tokens(contexts: Contexts, names: list[str]) -> tuple[Any, dict[str, Any]]:
    """(target's laws, drafts' laws by name) over tokens: the pair's own where it speaks tokens, else the advised quantile buckets."""
    p = contexts.target
    drafts: dict[str, Any] = {name: contexts.draft(name) for name in names}
    if getattr(contexts.pair.target, "buckets", None) is not None:
        return p, drafts
    buckets = contexts.buckets(QUANTILE, contexts.table.hypotheses.start)
    return contexts.lab.law(p, buckets), {name: contexts.lab.law(q, buckets) for name, q in drafts.items()}


def apart_cell(cell: CellSpec, contexts: Contexts) -> Filled:
    """Both drafts of one pair."""
    table, job = contexts.table, contexts.job
    names = list(dict.fromkeys([table.draft, table.poor_draft]))
    p, drafts = laws_over_tokens(contexts, names)
    found = {}
    for name, q in drafts.items():
        accepted = contexts.lab.acceptance(p, q)
        columns = {kind: getattr(accepted, kind) for kind in KEPT} | contexts.lab.apart(p, q)
        found[name] = {kind: mean(values) for kind, values in columns.items()}
        found[name]["lost_two_step"] = mean(accepted.joint - accepted.two_step)
    figures = {
        "n_contexts": len(p), "n_types": p.n_types, "drafts": found, "hypotheses": table.hypotheses.model_dump(),
    }  # fmt: skip
    tv = found[table.draft]
    said = (
        f"Verified apart the law is off by TV {tv['apart']['value']:.4f}, redrawn apart by {tv['redrawn']['value']:.4f}; the exact rules "
        f"accept {tv['joint']['value']:.2%} (joint) and {tv['two_step']['value']:.2%} (bucket, then type)."
    )
    result = CellResult(
        cell.id, cell.kind, job.pair, cell.draft, f"{contexts.pair.title}: verified apart", seed=job.seed, n_sequences=len(p),
        n_events=contexts.histories.n_events, verdicts=(Verdict(Axis.EFFICIENCY, Outcome.PASS, said, n=len(p)),), figures=figures,
    )  # fmt: skip
    return result, {}
