"""What a finished run folder says about each of its pairs, without loading a model: law, speed and fit cells to ``Measurements``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tppsd_bench import store
from tppsd_bench.doctor.base import Estimate
from tppsd_bench.doctor.laws import leading_rates
from tppsd_bench.doctor.measurements import Acceptance, Cache, Costs, HistoryPoint, Measurements, Speed
from tppsd_bench.errors import InputError, RunBroken
from tppsd_bench.measure.throughput import StepCosts, predict
from tppsd_bench.results import CellResult
from tppsd_bench.suite import nearest

Arrays = dict[str, NDArray[Any]]
READ = ("law", "speed", "fit")


def read_run(folder: Path, *, pair: str | None = None, draft: str = "shipped", k: int | None = None) -> list[Measurements]:
    """One for each pair of the run (or the one named), in order of its cells.

    ``k`` left out: the K that the speed cell shows, else the law cell's. Raises InputError where the run has no cell of the pair and
    draft, RunBroken where all of them broke.
    """
    where = store.locate(folder)
    cells = [c for c in store.read_cells(where).values() if c.kind in READ]
    if not cells:
        raise InputError(
            f"{folder} has no law, speed or fit cell; the doctor reads runs of suites such as calibration, or measures: --pair NAME."
        )
    known = list(dict.fromkeys(c.pair for c in cells))
    if pair is not None and pair not in known:
        raise InputError(f"{folder} has no pair {pair!r};{nearest(pair, known)}")
    return [_of_pair([c for c in cells if c.pair == name], where, name, draft, k) for name in ([pair] if pair else known)]


def _of_pair(cells: list[CellResult], where: Path, pair: str, draft: str, k: int | None) -> Measurements:
    whole = [c for c in cells if not c.error]
    if not whole:
        raise RunBroken(f"Every cell of pair {pair!r} in {where} broke ({cells[0].id}: {cells[0].error}).")
    speed = next((c for c in whole if c.kind == "speed" and c.draft == draft and "draft_step" in c.figures), None)
    law = _law_cell(whole, draft, k)
    if speed is None and law is None:
        drafts = sorted({c.draft for c in whole if c.draft})
        raise InputError(f"{where} has no law or speed cell of pair {pair!r} with draft {draft!r};{nearest(draft, drafts)}")
    used = k or (speed.k if speed else None) or (law.k if law else None) or 1
    shown = speed or law
    assert shown is not None
    arrays = {} if law is None else _arrays(where, law)
    accepted = _acceptance(speed, law, arrays)
    n_events = int(shown.stop.get("n_events", 0)) or max(2, round(shown.n_events / max(shown.n_sequences, 1)))
    found = Measurements(
        pair, draft, used, n_events, _n_types(law, arrays), f"from {where}", acceptance=accepted, continuous=None, from_run=True,
        held_out=_held_out(whole) if draft == "shipped" else None,
    )  # fmt: skip
    if speed is not None:
        found = replace(
            found, costs=_costs(speed), speed=_speed(speed, n_events), history=_history(_arrays(where, speed)),
            notes=(str(speed.figures.get("note", "")),),
        )  # fmt: skip
    return replace(found, cache=_cache(speed, law if law is not None and law.k == used else None))


def _law_cell(cells: list[CellResult], draft: str, k: int | None) -> CellResult | None:
    """The law cell of this draft, at this K where there is one: acceptance of an event does not depend on K."""
    mine = [c for c in cells if c.kind == "law" and c.draft == draft]
    return next((c for c in mine if c.k == k), mine[0] if mine else None)


def _n_types(law: CellResult | None, arrays: Arrays) -> int:
    if law is not None and "n_types" in law.figures.get("design", {}):
        return int(law.figures["design"]["n_types"])
    return int(arrays["types"].max(initial=0)) + 1 if "types" in arrays else 1


def _arrays(where: Path, cell: CellResult) -> Arrays:
    path = where / "cells" / f"{cell.id}.npz"
    if not path.is_file():
        return {}
    with np.load(path, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def estimate_of(found: Any) -> Estimate | None:
    """An interval as result files hold it, or a bare number; None where there is none."""
    if isinstance(found, Mapping) and found.get("value") is not None:
        value = float(found["value"])
        low, high = (value if found.get(end) is None else float(found[end]) for end in ("low", "high"))
        return Estimate(value, low, high)
    return Estimate.exact(float(found)) if isinstance(found, (int, float)) else None


def _acceptance(speed: CellResult | None, law: CellResult | None, arrays: Arrays) -> Acceptance | None:
    """By quadrature from the law cell, which has more histories, else from the speed cell; by position where enough was verified."""
    figures: dict[str, Any] = {} if law is None else law.figures
    event = estimate_of(figures.get("alpha_quadrature"))
    if event is None and speed is not None:
        event = estimate_of(speed.figures.get("alpha_quadrature"))
    if event is None:
        return None
    none = np.empty(0, dtype=np.int64)
    alpha, verified = leading_rates(arrays.get("position_reached", none), arrays.get("position_accepted", none))
    kind = figures.get("acceptance_type")
    return Acceptance(
        event, estimate_of(figures.get("acceptance_gap")), estimate_of(kind), by_position=alpha, verified=verified
    )


def _costs(speed: CellResult) -> Costs:
    f = speed.figures
    at = {int(k): float(v) for k, v in f["verify_step"].items()}
    known = sorted(at)
    verify = np.interp(np.arange(max(known[-1], 1) + 1), known, [max(at[k], 1e-6) for k in known])
    c, r = float(f["draft_step"]), float(f["rest_step"])
    law = StepCosts(c, tuple(float(v) for v in verify), r)
    apart = "known together" not in str(f.get("step_costs_from", ""))
    return Costs(Estimate.exact(float(f["target_step_ms"])), Estimate.exact(c), Estimate.exact(r), law, apart=apart)


def _speed(speed: CellResult, n_events: int) -> Speed:
    f = speed.figures
    by_k = {int(row["k"]): e for row in f.get("speedup_by_k", ()) if (e := estimate_of(row)) is not None}
    committed = {}
    alpha = estimate_of(f.get("alpha_quadrature"))
    law = _costs(speed).law
    for k, missed in (f.get("prediction_log_residual") or {}).items():
        if (
            alpha is not None and missed.get("acceptance") is not None
        ):  # the cell keeps events a round as its miss of the promise
            promised = predict(alpha.value, int(k), law, n_events=n_events).expected_committed
            committed[int(k)] = promised * math.exp(missed["acceptance"])
    return Speed(by_k, estimate_of(f.get("aa_ratio")), committed)


def _history(arrays: Arrays) -> tuple[HistoryPoint, ...]:
    if "cost_history" not in arrays:
        return ()
    both = zip(arrays["cost_history"], arrays["cost_ms"], strict=True)
    return tuple(HistoryPoint(int(n), float(ms), None, None) for n, ms in both)


def _cache(speed: CellResult | None, law: CellResult | None) -> Cache | None:
    """Cached over recomputing as a ratio of two medians (no interval), positions a pass from the law cell's counts at the same K."""
    f: dict[str, Any] = {} if speed is None else speed.figures
    gain, n = None, int(f.get("recompute_events") or 0)
    if f.get("recompute_ms") and f.get("baseline_ms"):
        gain = Estimate.exact(float(f["recompute_ms"]) / float(f["baseline_ms"]))
    counts = {} if law is None else law.counts
    rows = counts.get("target_row_forwards", 0)
    each = counts["target_positions"] / rows if rows and counts.get("target_positions") else None
    return None if gain is None and each is None else Cache(gain, n, each)


def _held_out(cells: list[CellResult]) -> Estimate | None:
    fit = next((c for c in cells if c.kind == "fit"), None)
    found = None if fit is None else estimate_of(fit.figures.get("nll_target_minus_draft"))
    return None if found is None else Estimate(-found.value, -found.high, -found.low)
