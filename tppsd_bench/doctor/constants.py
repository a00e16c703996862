"""Step 4: are the calibration constants right? A/A, calibration against calibration, the law's promise against what was timed."""

from __future__ import annotations

import math

from tppsd_bench.doctor import thresholds
from tppsd_bench.doctor.base import Estimate, Finding, Look, Reading, step, unanswered
from tppsd_bench.doctor.measurements import Measurements, decided
from tppsd_bench.measure.throughput import Residual, explain

MISS = thresholds.LAW_MISS


@step(4, "calibration constants")
def calibration_constants(m: Measurements) -> Look:
    """The cause where the law, from these constants, says that a K pays and its timing says that it does not."""
    measured = None if m.speed is None else m.speed.by_k.get(m.k)
    if measured is None or m.speed is None or not m.predicts:
        return unanswered(
            f"K = {m.k} was not timed." if measured is None else "Step costs or acceptance are not known.", *_spread(m)
        )
    prediction = m.predict(m.k)
    miss = Estimate(*(x / prediction.speedup for x in (measured.value, measured.low, measured.high)))
    missed = miss.high < 1 - MISS or miss.low > 1 + MISS
    unstable = _unstable(m, prediction.speedup)
    outcome = Finding.OK
    best = m.best()
    if m.pays is False and (prediction.pays or (best.pays and decided(m.timed(best.k)) is False)):
        outcome = Finding.CAUSE
    elif not m.speed.steady or unstable or (missed and m.pays is not False):
        outcome = Finding.ATTENTION
    within = f"within {MISS:.0%}"
    committed = m.speed.committed.get(m.k)
    split = None if not committed else explain(prediction, measured.value, committed)
    readings = (
        Reading("timed speed over the law's", miss, "times", within),
        *_parts(split),
        *_spread(m),
        Reading("  A/A: against itself", m.speed.self_ratio, "times", f"within {thresholds.SELF_DIFFERENCE:.0%}"),
    )
    if not m.speed.steady:
        sentence = "The machine is too unsteady for a verdict: a sampler differs from itself."
        return Look(outcome, readings, sentence, "Measure again with nothing else running.")
    if m.pays is False and outcome is Finding.OK:
        return Look(outcome, readings, "Law and timing agree that it does not pay.")
    sentence, advice = _said(miss, missed or outcome is Finding.CAUSE, split)
    if unstable and outcome is Finding.ATTENTION and not missed:
        sentence, advice = "Single calibrations promise different speeds.", "Calibrate on more runs, or on a quieter machine."
    return Look(outcome, readings, sentence, advice)


def _unstable(m: Measurements, promised: float) -> bool:
    """Single calibrations differ; where speculation does not pay, only if some of them say that it does."""
    s = None if m.costs is None else m.costs.spread
    if s is None:
        return False
    return s.high / s.low > 1 + MISS and (m.pays is not False or s.low * promised < 1 < s.high * promised)


def _spread(m: Measurements) -> tuple[Reading, ...]:
    if m.costs is None or m.costs.spread is None:
        return ()
    return (Reading("  single calibrations, promised", m.costs.spread, "times", f"range within {MISS:.0%}"),)


def _parts(split: Residual | None) -> tuple[Reading, ...]:
    if split is None:
        return ()
    return (
        Reading("    of it events a round", Estimate.exact(math.exp(split.acceptance)), "times"),
        Reading("    of it cost of a round", Estimate.exact(math.exp(split.overhead)), "times"),
    )


def _said(miss: Estimate, missed: bool, split: Residual | None) -> tuple[str, str]:
    if not missed:
        return f"The law's promise is met ({miss.shown()} of it).", ""
    if miss.value > 1:
        return (
            f"Runs are faster than the law promises ({miss.shown()} times).",
            "Calibrate again: some step cost is overstated.",
        )
    said = f"Runs reach {miss.shown()} of what the law promises"
    if split is not None and split.acceptance < split.overhead:
        return (
            f"{said}: fewer events a round than the two laws allow.",
            "The sampler's draft or rule is not the one that was scored, or accepted events are thrown away: run the efficiency check "
            "(run --suite calibration).",
        )  # fmt: skip
    return (
        f"{said}: rounds cost more than their parts.",
        "Profile a round: something between draft and verification costs time.",
    )
