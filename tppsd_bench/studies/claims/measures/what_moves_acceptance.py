"""Draft accuracy, then K, then buckets? How much each of them moves acceptance, and whether accuracy tells it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import Field
from scipy import stats

from tppsd_bench.measure.acceptance import acceptance_by_position
from tppsd_bench.protocols import SampleRequest, Stop
from tppsd_bench.runner.plan import CellSpec
from tppsd_bench.studies.base import StudyTable
from tppsd_bench.studies.buckets.contexts import Contexts
from tppsd_bench.studies.buckets.maps import map_cell
from tppsd_bench.studies.buckets.reading import point
from tppsd_bench.studies.buckets.table import Buckets
from tppsd_bench.studies.claims.measures.base import Z95, Context, Measured, Quantity, estimated
from tppsd_bench.studies.drafts.counted import Ground, acceptance, likelihood
from tppsd_bench.studies.drafts.table import Drafts


class Settings(StudyTable):
    k: tuple[int, int] = (3, 10)
    buckets: tuple[int, int] = (100, 500)
    sequences: Annotated[int, Field(ge=8)] = 64
    left_out: list[str] = ["stress"]


def measure(context: Context, settings: Settings) -> Measured:
    """Over all drafts of the pair: range of acceptance, and its rank correlation with the held-out likelihood.

    Of the shipped draft: accepted / verified at two K's (independent runs, 95 % over sequences), and exact acceptance over few and many
    quantile buckets (paired by history). Each as points of acceptance.
    """
    table = Drafts(pairs=[context.name], sequences=settings.sequences, held_out=settings.sequences)
    ground = Ground(context.studied(table, "drafts"), context.pair)
    names = [name for name in context.pair.drafts if name not in settings.left_out]
    accepted = [acceptance(ground, name)["acceptance_event"]["value"] for name in names]
    nats = [likelihood(ground, name).get("nll_draft") for name in names]
    known = [(a, n["value"] if isinstance(n, dict) else n) for a, n in zip(accepted, nats, strict=True) if n is not None]
    span = 100 * (max(accepted) - min(accepted))
    found = [
        Quantity("moved_by_draft", "acceptance, best draft less worst", span, span, span, f"{context.name}, {len(names)} drafts",
                 len(names), "points"),
        unsigned(_by_k(context, settings)), unsigned(_by_buckets(context, settings)),
    ]  # fmt: skip
    if len(known) > 4:
        found.append(_told(context.name, known))
    return Measured(tuple(found))


def unsigned(q: Quantity) -> Quantity:
    """How far it moved, whichever way."""
    ends = abs(q.low), abs(q.high)
    return replace(q, value=abs(q.value), low=0.0 if q.low <= 0 <= q.high else min(ends), high=max(ends))


def _told(name: str, known: list[tuple[float, float]]) -> Quantity:
    """Spearman's correlation of accuracy (minus nats) with acceptance over drafts; interval by Fisher's transform."""
    a, n = np.array(known).T
    rho = float(stats.spearmanr(a, -n).statistic)
    half = Z95 * 1.03 / math.sqrt(len(known) - 3)
    low, high = (math.tanh(math.atanh(max(-0.9999, min(0.9999, rho))) + s * half) for s in (-1, 1))
    label = "rank correlation of held-out likelihood with acceptance over drafts"
    return Quantity("told_by_accuracy", label, rho, low, high, name, len(known))


def _by_k(context: Context, settings: Settings) -> Quantity:
    rates = []
    for k in settings.k:
        key = context.key.replace(arm=f"k{k}")
        stop = Stop(n_events=context.job.length if context.job else 100)
        run = context.pair.sampler("speculative", k=k).sample(
            SampleRequest(settings.sequences, stop, key, device=context.device)
        )
        rates.append(acceptance_by_position(run.trace).event)
    shares = [r.accepted.sum() / r.verified.sum() for r in rates]
    spread = math.sqrt(sum(s * (1 - s) / r.verified.sum() for s, r in zip(shares, rates, strict=True)))
    moved, half = 100 * (shares[1] - shares[0]), 100 * Z95 * spread
    where = f"{context.name}, K = {settings.k[0]} to {settings.k[1]}"
    return Quantity("moved_by_k", "accepted over verified, change from smaller to larger K", moved, moved - half, moved + half, where,
                    int(sum(r.verified.sum() for r in rates)), "points")  # fmt: skip


def _by_buckets(context: Context, settings: Settings) -> Quantity:
    few, many = settings.buckets
    table = Buckets(pairs=[context.name], strategies=["quantile"], buckets=[few, many], within=["uniform"])
    table = table.model_copy(update={"hypotheses": table.hypotheses.model_copy(update={"start": few})})
    contexts = Contexts(context.studied(table, "buckets"), context.pair)
    mapped = map_cell(CellSpec(f"buckets.map.{context.name}", "buckets", context.name, table.draft), contexts)[0]
    assert point(mapped, "quantile", few) is not None
    change = next(s for s in mapped.figures["start"] if s["buckets"] == many)["joint"]
    where = f"{context.name}, {few} to {many} quantile buckets"
    return estimated(
        "moved_by_buckets", "acceptance over tokens, change from few to many", change, where, table.contexts, "points", 100.0
    )
