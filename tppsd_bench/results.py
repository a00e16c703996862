"""What a run writes and a report reads: evidence, verdicts and cells, as frozen records that survive JSON.

One direction: samples + trace -> statistics -> evidence -> verdicts -> report. Nothing here computes.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    INVALID = "invalid"
    NOT_APPLICABLE = "not applicable"


class Axis(StrEnum):
    """The five verdicts, never merged."""

    VALIDITY = "validity"
    LAW = "law"
    MECHANISM = "mechanism"
    EFFICIENCY = "efficiency"
    SPEED = "speed"


@dataclass(frozen=True)
class Evidence:
    """One statistic, with everything needed to read it."""

    name: str
    """Dotted: family.statistic[.component], e.g. ``pit_time.neyman``."""
    axis: Axis
    p_value: float | None = None
    """None for deterministic checks, which set ``passed``."""
    passed: bool | None = None
    statistic: float | None = None
    n: int = 0
    effect: float | None = None
    effect_name: str = ""
    """What the effect is, with its unit: ``KS distance``, ``theta_1``, ``lambda (0 = target, 1 = draft)``."""
    interval: tuple[float, float] | None = None
    """95 % unless the name says otherwise."""
    min_detectable: float | None = None
    """Smallest effect this n finds with power .95 at the run's level."""
    margin: float | None = None
    """For primary effects: the equivalence margin delta."""
    null: str = ""
    """The null distribution, e.g. ``chi2(4)``."""
    method: str = ""
    where: dict[str, str] = field(default_factory=dict)
    """Where it localises: stratum -> value, e.g. ``{"position": "3"}``. Empty = pooled."""
    primary: bool = False
    display: bool = False
    """Shown to people, but not part of the family that decides."""
    detail: str = ""


@dataclass(frozen=True)
class Verdict:
    axis: Axis
    outcome: Outcome
    sentence: str
    """One sentence a person can act on."""
    q_value: float | None = None
    level: float | None = None
    rounds: int = 1
    n: int = 0
    needed_n: int | None = None


@dataclass(frozen=True)
class CellResult:
    """One point of a suite's grid. Arrays live beside it in ``<id>.npz``; ``arrays`` names them.

    Arrays of law cells: ``u`` and ``v`` (PITs in event order), ``event_index``, ``gaps``, ``types``, ``lengths`` (the sampler
    under test), ``ref_gaps``, ``ref_types``, ``ref_lengths`` (target-only arm), ``acf_lags``, ``acf``, ``ref_acf``,
    ``position_reached``, ``position_accepted`` (by position in round), ``raster_times`` / ``raster_sequence`` and
    ``ref_raster_*``, ``wealth_events``, ``wealth_log`` and ``wealth_threshold`` (the e-process, natural logs). Arrays of speed
    cells: ``k``, ``log_ratio_cpu`` (pairs x k), ``log_ratio_wall``, ``predicted``, ``cost_history``, ``cost_ms``.
    """

    id: str
    kind: str
    """law | horizon | screen | speed | fit."""
    pair: str
    draft: str
    title: str
    sampler: str = ""
    k: int | None = None
    stop: dict[str, float] = field(default_factory=dict)
    seed: int = 0
    n_sequences: int = 0
    n_events: int = 0
    verdicts: tuple[Verdict, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    """Counts of the sampler under test, as in protocols.Counts."""
    reference_counts: dict[str, int] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)
    """Scalars worth showing (acceptance, forwards per event, speedups with intervals, NLLs, ...)."""
    arrays: tuple[str, ...] = ()
    not_possible: tuple[str, ...] = ()
    """Tests the access did not allow, each with the reason."""
    seconds: float = 0.0
    error: str = ""
    """Set where the cell broke; the other cells still finish."""

    def verdict(self, axis: Axis) -> Verdict | None:
        return next((v for v in self.verdicts if v.axis == axis), None)


def to_json(record: Any) -> Any:
    """Dataclasses to plain JSON values; NaN and infinities become null (JSON has none)."""
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return {f.name: to_json(getattr(record, f.name)) for f in dataclasses.fields(record)}
    if isinstance(record, dict):
        return {str(k): to_json(v) for k, v in record.items()}
    if isinstance(record, (list, tuple)):
        return [to_json(v) for v in record]
    if hasattr(record, "tolist"):
        return to_json(record.tolist())
    if isinstance(record, float) and not math.isfinite(record):
        return None
    return record


def cell_from_json(data: dict[str, Any]) -> CellResult:
    """The inverse of ``to_json`` for a cell."""
    verdicts = tuple(
        Verdict(**{**v, "axis": Axis(v["axis"]), "outcome": Outcome(v["outcome"])}) for v in data.get("verdicts", ())
    )
    evidence = tuple(
        Evidence(**{**e, "axis": Axis(e["axis"]), "interval": None if e["interval"] is None else tuple(e["interval"])})
        for e in data.get("evidence", ())
    )
    plain = {**data, "verdicts": verdicts, "evidence": evidence}
    for name in ("arrays", "not_possible"):
        plain[name] = tuple(plain.get(name, ()))
    return CellResult(**plain)
