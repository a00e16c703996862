"""What a finished run folder says about its pairs, without loading a model: cells to ``Measurements``, one a pair.

Law, speed and fit cells are read here, those of studies by ``from_studies``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tppsd_bench import store
from tppsd_bench.doctor.base import Estimate
from tppsd_bench.doctor.from_studies import STUDIES
from tppsd_bench.doctor.laws import leading_rates
from tppsd_bench.doctor.measurements import SHIPPED, Acceptance, Cache, HistoryPoint, Measurements, Speed
from tppsd_bench.doctor.parts import Arrays, Part, arrays_of, costs_of, drafts_named, estimate_of, join, speeds
from tppsd_bench.errors import Exit, InputError, RunBroken
from tppsd_bench.measure.throughput import predict
from tppsd_bench.results import CellResult
from tppsd_bench.suite import nearest

READ = ("law", "speed", "fit", *(kind for study in STUDIES for kind in (study, f"{study}-time")))
USUAL_K = 5
"""In use, where a run has acceptance alone."""
POOR = "stress"
"""The draft that suites make poor on purpose: never advised."""


@dataclass(frozen=True)
class Silent:
    """A pair of the run of which nothing can be said."""

    pair: str
    sentence: str
    exit_code: Exit
    """BROKEN where all of its cells broke, else INCONCLUSIVE."""


@dataclass(frozen=True)
class _Run:
    """A run folder, opened."""

    where: Path
    cells: tuple[CellResult, ...]
    """All of them."""
    sources: Mapping[str, str]
    """Label of a pair in cell ids -> the name that its loader knows it by."""
    tables: Mapping[str, Any]
    """Of the suite's studies."""

    @classmethod
    def open(cls, folder: Path) -> _Run:
        where = store.locate(folder)
        plan = store.read_json(where / "run.json")
        sources = {label: str(about.get("source", label)) for label, about in (plan.get("pairs") or {}).items()}
        return cls(where, tuple(store.read_cells(where).values()), sources, (plan.get("suite") or {}).get("study") or {})

    def name(self, label: str) -> str:
        return self.sources.get(label, label)

    def of(self, label: str) -> list[CellResult]:
        """Unbroken cells of a pair that the doctor reads."""
        return [c for c in self.cells if c.pair == label and c.kind in READ and not c.error]

    def drafts(self, label: str) -> list[str]:
        """Those of which something can be said, the shipped one first, the poor one last."""
        named = dict.fromkeys(d for c in self.of(label) for d in drafts_named(c))
        return [d for d in sorted(named, key=lambda d: (d != SHIPPED, d == POOR)) if self.part(label, d).speaks]

    def part(self, label: str, draft: str, k: int | None = None) -> Part:
        """All that the run says of a pair and draft."""
        cells = self.of(label)
        parts = list(_calibration(cells, self.where, draft, k))
        for study, read in STUDIES.items():
            mine = [c for c in cells if c.kind in (study, f"{study}-time")]
            parts += read(mine, draft, lambda cell: arrays_of(self.where, cell), self.tables.get(study) or {})
        return join(parts)


def read_run(
    folder: Path, *, pair: str | None = None, draft: str | None = None, k: int | None = None
) -> list[Measurements | Silent]:
    """One for each pair of the run (or the one named), in order of its cells.

    ``draft`` left out: the shipped one where the run measured it, else the first one it did; given, only pairs that have it.
    ``k`` left out: the K that the timed cells chose, else the law cell's, else 5. Raises InputError where no cell can be
    read or no pair has the draft, RunBroken where all cells of all pairs broke.
    """
    run = _Run.open(folder)
    labels = list(dict.fromkeys(c.pair for c in run.cells if c.pair))
    if not any(c.kind in READ for c in run.cells):
        kinds = ", ".join(dict.fromkeys(c.kind for c in run.cells)) or "no"
        which = run.name(labels[0]) if labels else "NAME"
        raise InputError(
            f"{folder} has {kinds} cells and no law, speed or fit cell, nor one of a study of {', '.join(STUDIES)}: no step of the "
            f"diagnosis can read it. Measure a pair: python -m tppsd_bench doctor --pair {which}."
        )
    if pair is not None:
        known = [run.name(label) for label in labels]
        labels = [label for label in labels if pair in (label, run.name(label))]
        if not labels:
            raise InputError(f"{folder} has no pair {pair!r};{nearest(pair, known)}")
    if draft is not None:
        labels = _having(run, labels, draft)
    found = [_of_pair(run, label, draft, k) for label in labels]
    broken = [one.sentence for one in found if isinstance(one, Silent) and one.exit_code is Exit.BROKEN]
    if broken and len(broken) == len(found):
        raise RunBroken(" ".join(broken))
    return found


def _having(run: _Run, labels: list[str], draft: str) -> list[str]:
    """The pairs that have this draft; InputError where none of several drafts is it."""
    having = [label for label in labels if draft in run.drafts(label)]
    known = list(dict.fromkeys(d for label in labels for d in run.drafts(label)))
    if not having and known:
        of = f" of pair {run.name(labels[0])!r}" if len(labels) == 1 else ""
        raise InputError(f"{run.where} has no cell{of} with draft {draft!r} that a step could read;{nearest(draft, known)}")
    return having or labels


def _of_pair(run: _Run, label: str, draft: str | None, k: int | None) -> Measurements | Silent:
    name, cells = run.name(label), [c for c in run.cells if c.pair == label]
    if all(c.error for c in cells):
        said = f"Every cell of pair {name!r} in {run.where} broke ({cells[0].id}: {cells[0].error})."
        return Silent(name, said, Exit.BROKEN)
    drafts = run.drafts(label)
    if not drafts:
        kinds = ", ".join(dict.fromkeys(c.kind for c in cells if not c.error))
        said = f"{run.where} has only {kinds} cells of {name}, of which no step can read acceptance, a cost or a speed. Measure it:"
        return Silent(name, f"{said} python -m tppsd_bench doctor --pair {name}.", Exit.INCONCLUSIVE)
    used = draft or drafts[0]
    p = run.part(label, used, k)
    # of its own, not another pair's, and cheaper than the target
    own = [d for d in drafts if d not in (used, POOR, "target") and "/" not in d]
    accepted = {d: a.event.value for d in own if (a := run.part(label, d).acceptance) is not None}
    others = tuple(sorted(accepted, key=lambda d: -accepted[d]))
    kinds = ", ".join(dict.fromkeys(c.kind for c in run.of(label)))
    return Measurements(
        name, used, k or p.k or USUAL_K, p.n_events or 2, p.n_types or 1, f"from {run.where}: {kinds} cells", bool(p.joint),
        p.accuracy, p.acceptance, None, p.continuous, p.costs, p.speed, p.history, p.cache, held_out=p.held_out, cuts=p.cuts,
        others=others, from_run=True, notes=(_which(used, drafts, draft is None), *p.notes),
    )  # fmt: skip


def _which(used: str, drafts: Sequence[str], chosen: bool) -> str:
    """Which draft is diagnosed, where there was a choice or the usual one is not there."""
    others = [d for d in drafts if d != used]
    if not chosen or (used == SHIPPED and not others):
        return ""
    why = "" if used == SHIPPED else "; this run did not measure the shipped one"
    return f"Draft {used}{why}." + (f" Also measured (--draft NAME): {', '.join(others)}." if others else "")


# -- law, speed and fit cells ---------------------------------------------------------------------------------------------
def _calibration(cells: Sequence[CellResult], where: Path, draft: str, k: int | None) -> Iterator[Part]:
    speed = next((c for c in cells if c.kind == "speed" and c.draft == draft and "draft_step" in c.figures), None)
    law = _law_cell(cells, draft, k)
    shown = speed or law
    if shown is None:
        yield Part(held_out=_held_out(cells) if draft == SHIPPED else None)
        return
    used = k or shown.k or 1
    arrays = {} if law is None else arrays_of(where, law)
    n_events = int(shown.stop.get("n_events", 0)) or max(2, round(shown.n_events / max(shown.n_sequences, 1)))
    found = Part(
        k=used, n_events=n_events, n_types=_n_types(law, arrays), acceptance=_acceptance(speed, law, arrays),
        held_out=_held_out(cells) if draft == SHIPPED else None, cache=_cache(speed, law if law and law.k == used else None),
    )  # fmt: skip
    if speed is not None:
        costs = costs_of(speed.figures, apart="known together" not in str(speed.figures.get("step_costs_from", "")))
        found = replace(
            found, costs=costs, speed=_speed(speed, n_events), history=_history(arrays_of(where, speed)),
            notes=(str(speed.figures.get("note", "")),),
        )  # fmt: skip
    yield found


def _law_cell(cells: Sequence[CellResult], draft: str, k: int | None) -> CellResult | None:
    """The law cell of this draft, at this K where there is one: acceptance of an event does not depend on K."""
    mine = [c for c in cells if c.kind == "law" and c.draft == draft]
    return next((c for c in mine if c.k == k), mine[0] if mine else None)


def _n_types(law: CellResult | None, arrays: Arrays) -> int:
    if law is not None and "n_types" in law.figures.get("design", {}):
        return int(law.figures["design"]["n_types"])
    return int(arrays["types"].max(initial=0)) + 1 if "types" in arrays else 1


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
    gap, kind, measured = (estimate_of(figures.get(f"acceptance_{of}")) for of in ("gap", "type", "event"))
    return Acceptance(event, gap, kind, by_position=alpha, verified=verified, measured=measured)


def _speed(speed: CellResult, n_events: int) -> Speed:
    f = speed.figures
    committed = {}
    alpha = estimate_of(f.get("alpha_quadrature"))
    law = costs_of(f, apart=True).law
    for k, missed in (f.get("prediction_log_residual") or {}).items():
        # the cell keeps events a round as its miss of the promise
        if alpha is not None and missed.get("acceptance") is not None:
            promised = predict(alpha.value, int(k), law, n_events=n_events).expected_committed
            committed[int(k)] = promised * math.exp(missed["acceptance"])
    return Speed(speeds(f.get("speedup_by_k", ())), estimate_of(f.get("aa_ratio")), committed)


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


def _held_out(cells: Sequence[CellResult]) -> Estimate | None:
    fit = next((c for c in cells if c.kind == "fit"), None)
    found = None if fit is None else estimate_of(fit.figures.get("nll_target_minus_draft"))
    return None if found is None else Estimate(-found.value, -found.high, -found.low)
