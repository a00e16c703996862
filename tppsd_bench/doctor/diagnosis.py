"""All steps in order, the verdict, the cause that is named, and what to do next."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from tppsd_bench.doctor.bands import Band, Held, bands
from tppsd_bench.doctor.base import REGISTRY, Finding, Step
from tppsd_bench.doctor.measurements import Measurements
from tppsd_bench.errors import Exit

STEPS = ("accuracy", "draft_length", "buckets", "constants", "cost_ratio", "history", "cache", "verification")
for _name in STEPS:
    importlib.import_module(f"tppsd_bench.doctor.{_name}")


@dataclass(frozen=True)
class Diagnosis:
    measurements: Measurements
    steps: tuple[Step, ...]
    bands: tuple[Band, ...]
    exit_code: Exit
    """PASS: healthy. FAIL: acceptance is low or speculation does not pay. INCONCLUSIVE: neither is decided."""
    sentence: str
    next: str
    """The command to run next; empty where there is none."""

    @property
    def cause(self) -> Step | None:
        """The first cause in order; None where there is nothing to explain, or no step explains it."""
        return next((s for s in self.steps if s.outcome is Finding.CAUSE), None)

    @property
    def contradictions(self) -> tuple[str, ...]:
        """Published advice that these measurements speak against."""
        said = tuple(f"Claim {b.claim}, {b.advice}: {b.measured}." for b in self.bands if b.held is Held.CONTRADICTED)
        return tuple(c for s in self.steps for c in s.contradicts) + said


def diagnose(m: Measurements) -> Diagnosis:
    """The ordered diagnosis. Claim 11's order (draft accuracy, K, buckets), then constants, cost ratio, history, cache, the rest."""
    steps = tuple(REGISTRY[number].at(m) for number in sorted(REGISTRY))
    code = Exit.FAIL if m.ill else Exit.PASS if m.pays else Exit.INCONCLUSIVE
    cause = next((s for s in steps if s.outcome is Finding.CAUSE), None)
    return Diagnosis(m, steps, bands(m), code, _sentence(m, cause), _next(m, steps, cause))


def _sentence(m: Measurements, cause: Step | None) -> str:
    at = None if m.speed is None else m.speed.by_k.get(m.k)
    accepted = "" if m.acceptance is None else f"{m.acceptance.event.shown(100)} % accepted"
    clock = "" if m.speed is None else f"({m.speed.clock} time)"
    speed = f"{at.shown()} times cached target-only sampling {clock}" if at is not None else "speed not measured"
    facts = "; ".join(fact for fact in (f"K = {m.k}: {speed}", accepted) if fact)
    if m.ill:
        what = "Acceptance is low" if m.accepts_little else "Speculation does not pay"
        if m.accepts_little:
            what += {True: ", though speculation pays", False: " and speculation does not pay", None: ""}[m.pays]
        named = f"the cause is step {cause.number}, {cause.name}" if cause else "no single step explains it"
        return f"{what}: {named}. {facts}."
    return f"Healthy: speculation pays. {facts}." if m.pays else f"Undecided whether speculation pays. {facts}."


def _next(m: Measurements, steps: tuple[Step, ...], cause: Step | None) -> str:
    """One command: try another draft or the better K, decide what is undecided, answer what is open; where all is well, the whole suite."""
    outcome = {s.number: s.outcome for s in steps}
    length = f" --length {m.n_events}" if m.length_given else ""
    again = m.command
    if cause is not None and cause.number in (1, 5) and m.others:
        other = "" if m.others[0] == "shipped" else f" --draft {m.others[0]}"
        return f"doctor --pair {m.pair}{other} --k {m.k}{length}"
    if m.from_run and (m.pays is None or cause is not None or Finding.UNANSWERED in outcome.values()):
        return f"{again} --k {m.k}"
    if outcome[2] in (Finding.CAUSE, Finding.ATTENTION):
        return f"{again} --k {m.best().k}{length}"
    if m.pays is None and not m.ill:
        return f"{again} --k {m.k}{length} --time-budget 2m"
    return "" if m.ill else f"run --suite calibration --pair {m.pair}"
