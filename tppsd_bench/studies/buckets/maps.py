"""The map of a pair: acceptance, error and atoms at every strategy and number of buckets, exact sums on common contexts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.errors import InputError
from tppsd_bench.measure.acceptance import ExactAcceptance, exact_acceptance
from tppsd_bench.protocols import FloatArray
from tppsd_bench.results import Axis, CellResult, Outcome, Verdict
from tppsd_bench.runner.plan import CellSpec
from tppsd_bench.studies.buckets.contexts import Contexts, mean
from tppsd_bench.studies.buckets.decoders import events_to_a_tie, events_to_notice, staircase_distance

QUANTILE = "quantile"
KEPT = ("gap", "joint", "two_step")
COMPARED = ("joint", "two_step", "ks", "information", "wasserstein")
STORED = ("joint", "two_step", "ks", "information")
_LEVELS, _SPARSE = 256, 4
QUADRATURE = 5e-4
"""By which acceptance in continuous time, a quadrature, may exceed the exact sum over tokens."""

Columns = dict[str, FloatArray]
"""Numbers of a point by name, (n,) by context."""


def map_cell(cell: CellSpec, contexts: Contexts) -> tuple[CellResult, dict[str, NDArray[Any]]]:
    """Every point of one pair."""
    table, job = contexts.table, contexts.job
    p, q = contexts.target, contexts.draft(table.draft)
    continuous = exact_acceptance(p, q, n_levels=_LEVELS)
    columns: dict[tuple[str, int], Columns] = {}
    points, refused = [], []
    for n in table.buckets:
        for strategy in dict.fromkeys([QUANTILE, *table.strategies]):
            if strategy not in table.strategies:
                continue
            try:
                point, columns[strategy, n] = _point(contexts, strategy, n, p, q, continuous)
            except InputError as problem:
                refused.append({"strategy": strategy, "buckets": n, "why": str(problem)})
                continue
            if strategy != QUANTILE and (QUANTILE, n) in columns:
                other = columns[QUANTILE, n]
                point["less_quantile"] = {name: mean(columns[strategy, n][name] - other[name]) for name in COMPARED}
            points.append(point)
    figures: dict[str, Any] = {
        "n_contexts": len(p), "n_types": p.n_types, "mean_gap": float(contexts.gaps.mean()), "fit_events": len(contexts.gaps),
        "within": list(table.within), "continuous": {name: mean(getattr(continuous, name)) for name in KEPT},
        "points": points, "refused": refused, "hypotheses": table.hypotheses.model_dump(),
    }  # fmt: skip
    if (QUANTILE, table.hypotheses.start) in columns:
        figures["start"] = _start(columns, table.hypotheses.start)
    arrays: dict[str, NDArray[Any]] = {f"continuous_{name}": getattr(continuous, name) for name in KEPT}
    arrays |= {name: np.stack([c[name] for c in columns.values()], axis=1) for name in STORED if columns}
    result = CellResult(
        cell.id, cell.kind, job.pair, cell.draft, f"{contexts.pair.title}: buckets", seed=job.seed, n_sequences=len(p),
        n_events=contexts.histories.n_events, verdicts=(_valid(columns, continuous), _measured(points)), figures=figures,
        arrays=tuple(arrays),
    )  # fmt: skip
    return result, arrays


def _point(
    contexts: Contexts, strategy: str, n: int, p: Any, q: Any, continuous: ExactAcceptance
) -> tuple[dict[str, Any], Columns]:
    """(figures, numbers by context) of one strategy and number."""
    lab = contexts.lab
    buckets = contexts.buckets(strategy, n)
    tokens, errors = lab.law(p, buckets), lab.errors(p, buckets)
    accepted = lab.acceptance(tokens, lab.law(q, buckets))
    columns = {name: getattr(accepted, name) for name in KEPT} | errors
    out: dict[str, Any] = {"strategy": strategy, "buckets": n} | {name: mean(values) for name, values in columns.items()}
    for name in KEPT:
        out[f"gain_{name}"] = mean(columns[name] - getattr(continuous, name))
    out["inside"] = {
        w: {name: mean(found[name]) for name in ("ks", "wasserstein", "information_gap")}
        for w, found in _inside(contexts, strategy, n, p, errors).items()
    }
    probs = lab.bucket_probs(tokens)
    for decoder in ("middles", "edges"):
        emitted = lab.emitted(buckets, decoder)
        far = staircase_distance(p, probs, emitted)
        values, which = np.unique(emitted, return_inverse=True)
        mass = np.zeros(len(values))
        np.add.at(mass, which, probs.mean(axis=0))
        out[decoder] = {"tie": events_to_a_tie(mass), "ks": far, "notice": events_to_notice(far)}
    return out, columns


def _inside(contexts: Contexts, strategy: str, n: int, p: Any, errors: Columns) -> dict[str, Columns]:
    """Errors of the gap by the law inside buckets, on every fourth context: each law of its own is a quadrature of its own."""
    some, (first, *others) = np.arange(0, len(p), _SPARSE), contexts.table.within
    out: dict[str, Columns] = {first: {name: values[some] for name, values in errors.items()}}
    for w in others:
        out[w] = contexts.lab.errors_of_gaps(p.take(some), contexts.buckets(strategy, n, w))
    return out


def _start(columns: dict[tuple[str, int], Columns], start: int) -> list[dict[str, Any]]:
    """The advised number of quantile buckets against every other one: differences paired by context."""
    here = columns[QUANTILE, start]
    return [
        {"buckets": n, **{name: mean(other[name] - here[name]) for name in COMPARED}}
        for (strategy, n), other in columns.items()
        if strategy == QUANTILE and n != start
    ]


def _valid(columns: dict[tuple[str, int], Columns], continuous: ExactAcceptance) -> Verdict:
    """Total variation does not grow when gaps are seen through buckets; a pair that says so is computed wrongly."""
    found = [
        (float((getattr(continuous, name) - c[name]).max()), point)
        for point, c in columns.items() for name in ("gap", "joint")
    ]  # fmt: skip
    worst, (strategy, n) = max(found, default=(0.0, ("", 0)))
    if worst <= QUADRATURE:
        said = f"Nowhere do tokens accept less than continuous time allows (by {max(worst, 0.0):.1e} at most, quadrature)."
        return Verdict(Axis.VALIDITY, Outcome.PASS, said, n=len(continuous.gap))
    said = f"{n} {strategy} buckets accept {worst:.1e} less than continuous time in one context, which cannot be: 1 - TV only grows."
    return Verdict(Axis.VALIDITY, Outcome.INVALID, said, n=len(continuous.gap))


def _measured(points: list[dict[str, Any]]) -> Verdict:
    joint = [p["joint"]["value"] for p in points]
    if not joint:
        return Verdict(Axis.EFFICIENCY, Outcome.NOT_APPLICABLE, "No point of the map could be computed.")
    said = f"Joint acceptance {min(joint):.2%} to {max(joint):.2%} over {len(points)} ways to cut time."
    return Verdict(Axis.EFFICIENCY, Outcome.PASS, said)
