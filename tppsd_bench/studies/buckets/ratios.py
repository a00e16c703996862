"""Density ratios p / q on the draft's own proposals: how far they spread, in continuous time and over tokens, and in float32."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.measure.acceptance import clopper_pearson
from tppsd_bench.protocols import BoolArray, Conditional, FloatArray, IntArray
from tppsd_bench.results import Axis, CellResult, Outcome, Verdict
from tppsd_bench.runner.plan import CellSpec
from tppsd_bench.studies.buckets.contexts import Contexts, mean
from tppsd_bench.studies.buckets.maps import QUANTILE


def ratio_cell(cell: CellSpec, contexts: Contexts) -> tuple[CellResult, dict[str, NDArray[Any]]]:
    """Both drafts of one pair, in continuous time and over the advised buckets."""
    table, job = contexts.table, contexts.job
    limit = math.log(table.hypotheses.extreme_ratio)
    buckets = contexts.buckets(QUANTILE, table.hypotheses.start)
    p, found = contexts.target, {}
    arrays: dict[str, NDArray[Any]] = {}
    for name in dict.fromkeys([table.draft, table.poor_draft]):
        q = contexts.draft(name)
        gap, types, u = proposals(q, table.proposals, contexts.key(name, "proposals").generator())
        plain = log_ratio(p, q, gap, types)
        tokens = log_ratio(contexts.lab.law(p, buckets), contexts.lab.law(q, buckets), gap, types)
        found[name] = {
            "continuous": spread(plain, limit), "tokens": spread(tokens, limit),
            "float32": _single(contexts, p, q, gap, u),
        }  # fmt: skip
        arrays |= {f"{name}_continuous": plain.ravel(), f"{name}_tokens": tokens.ravel()}
    figures = {
        "n_contexts": len(p), "proposals": table.proposals, "start": table.hypotheses.start, "drafts": found,
        "hypotheses": table.hypotheses.model_dump(),
    }  # fmt: skip
    beyond = found[table.draft]["continuous"]["beyond"]
    said = (
        f"{beyond['value']:.2%} of {plain.size:,} proposals have a ratio beyond {table.hypotheses.extreme_ratio:g} or its inverse "
        f"(95 % up to {beyond['high']:.2%})."
    )
    result = CellResult(
        cell.id, cell.kind, job.pair, cell.draft, f"{contexts.pair.title}: density ratios", seed=job.seed, n_sequences=len(p),
        n_events=int(plain.size), verdicts=(Verdict(Axis.EFFICIENCY, Outcome.PASS, said, n=int(plain.size)),), figures=figures,
        arrays=tuple(arrays),
    )  # fmt: skip
    return result, arrays


def proposals(q: Conditional, m: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray, FloatArray]:
    """(gaps, types, uniforms to decide by), each (n, m), of ``m`` draws from each row of ``q``."""
    u = np.maximum(rng.random((len(q), m, 4)), 2.0**-54)
    gap = q.sample_gap(u[..., :2])
    cumulative = np.cumsum(np.exp(q.type_log_probs(gap)), axis=-1)
    types = (u[..., 2:3] * cumulative[..., -1:] >= cumulative[..., :-1]).sum(axis=-1)
    return gap, types, u[..., 3]


def log_ratio(p: Conditional, q: Conditional, gap: FloatArray, types: IntArray) -> FloatArray:
    """log p(gap, type) - log q(gap, type), (n, m)."""
    out: FloatArray = p.log_prob(gap) - q.log_prob(gap)
    if p.n_types > 1:
        each = p.type_log_probs(gap) - q.type_log_probs(gap)
        out = out + np.take_along_axis(each, types[..., None], axis=-1)[..., 0]
    return out


def spread(log: FloatArray, limit: float) -> dict[str, Any]:
    """How far log ratios (n, m) spread: standard deviation within contexts, shares beyond +-limit, extremes, mean of min(1, ratio).

    Intervals of shares are Clopper-Pearson over proposals, the contexts taken as given.
    """
    variance = mean(log.var(axis=1, ddof=1))
    return {
        "sd": {end: math.sqrt(max(v, 0.0)) for end, v in variance.items()},
        "beyond": share(np.abs(log) > limit), "above": share(log > limit), "below": share(log < -limit),
        "least": float(log.min()), "largest": float(log.max()), "accepted": mean(np.exp(np.minimum(log, 0.0)).mean(axis=1)),
    }  # fmt: skip


def share(hits: BoolArray) -> dict[str, float]:
    """{value, low, high} of a share."""
    n, of = int(hits.sum()), hits.size
    low, high = clopper_pearson(np.array([n]), np.array([of]))
    return {"value": n / of, "low": float(low[0]), "high": float(high[0])}


def _single(contexts: Contexts, p: Any, q: Any, gap: FloatArray, u: FloatArray) -> dict[str, Any]:
    """The gap's ratio in float32 against float64: how far off in log space, and how many decisions it turns, in and out of log space."""
    exact = p.log_prob(gap) - q.log_prob(gap)
    (log_p, plain_p), (log_q, plain_q) = (contexts.lab.log_density_float32(law, gap) for law in (p, q))
    single = log_p - log_q
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = plain_p / plain_q
    decided = np.log(u) < exact
    return {
        "off": float(np.abs(single - exact).max()), "turned": share((np.log(u) < single) != decided),
        "turned_plain": share((u < ratio) != decided), "not_finite": share(~np.isfinite(ratio)),
    }  # fmt: skip
