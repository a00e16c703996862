"""Step 2: is K right? The K in use against the law's best, from alpha_j, c, v(K) and r."""

from __future__ import annotations

from tppsd_bench.doctor import thresholds
from tppsd_bench.doctor.base import Estimate, Finding, Look, Reading, step, unanswered
from tppsd_bench.doctor.measurements import Measurements, decided


@step(2, "K")
def draft_length(m: Measurements) -> Look:
    """The cause where the law says that this K does not pay and another does."""
    if not m.predicts:
        return _timed_only(m) or unanswered(_missing(m), *_accepted(m))
    used, best = m.predict(m.k), m.best()
    gain, how = m.gain(best.k)
    regret = 1 - 1 / (1 + gain)
    outcome = Finding.OK
    if m.pays is False and best.pays and not used.pays and decided(m.timed(best.k)) is not False:
        outcome = Finding.CAUSE
    elif best.pays and regret > thresholds.K_REGRET and m.pays is not False:
        outcome = Finding.ATTENTION
    limit = f"<= {thresholds.K_REGRET:.0%} of the best K's speed"
    readings = (
        Reading(f"lost by this K ({how})", Estimate.exact(max(regret, 0.0)), "%", limit),
        Reading(f"  speed at K = {m.k}, law", Estimate.exact(used.speedup), "times"),
        Reading(f"  best K = {best.k}, law", Estimate.exact(best.speedup), "times"),
        *_timed(m),
        *_accepted(m),
    )
    if not best.pays:
        sentence = f"No K up to {m.costs.law.k_max if m.costs else m.k} pays by the law (at most {best.speedup:.2f}): K is not the cause."
    elif outcome is Finding.OK and m.pays is False:
        sentence = f"By the law K = {(used if used.pays else best).k} pays; timed, it does not: see the calibration constants."
    elif outcome is Finding.OK:
        sentence = f"K = {m.k} loses {max(regret, 0.0):.0%} against the law's best, K = {best.k} ({how})."
    else:
        sentence = f"K = {m.k} loses {regret:.0%} against K = {best.k} ({how}); by the law {used.speedup:.2f} against {best.speedup:.2f}."
    advice = f"Use K = {best.k}." if outcome is not Finding.OK else ""
    return Look(outcome, readings, sentence, advice)


def _timed(m: Measurements) -> tuple[Reading, ...]:
    speeds = {} if m.speed is None else m.speed.by_k
    return tuple(Reading(f"  speed at K = {k}, timed", s, "times") for k, s in sorted(speeds.items()))


def _timed_only(m: Measurements) -> Look | None:
    """Without the law: the K in use against the fastest of several that were timed; None where they were not."""
    here = m.timed(m.k)
    if here is None or m.speed is None or len(m.speed.by_k) == 1:
        return None
    best = max(m.speed.by_k, key=lambda k: m.speed.by_k[k].value)  # type: ignore[union-attr]  # not None, as asked above
    there = m.speed.by_k[best]
    regret = 1 - here.value / there.value
    outcome = Finding.OK
    if m.pays is False and decided(there):
        outcome = Finding.CAUSE
    elif m.pays is not False and regret > thresholds.K_REGRET and there.low > here.high:
        outcome = Finding.ATTENTION
    limit = f"<= {thresholds.K_REGRET:.0%} of the best K's speed"
    lost = Reading("lost by this K (timed)", Estimate.exact(regret), "%", limit)
    of = f"of the {len(m.speed.by_k)} that were timed"
    apart = "" if there.low > here.high else "; their intervals overlap"
    slower = f"loses {regret:.0%} against K = {best}, the fastest {of}{apart}"
    said = f"K = {m.k} {f'is the fastest {of}' if best == m.k else slower}. {_missing(m)}"
    return Look(outcome, (lost, *_timed(m), *_accepted(m)), said, f"Use K = {best}." if outcome is not Finding.OK else "")


def _missing(m: Measurements) -> str:
    if m.costs is None:
        return "Step costs are not known."
    if m.acceptance is None:
        return "Acceptance is not known."
    return f"K = {m.k} is beyond the largest K whose verification was timed, {m.costs.law.k_max}."


def _accepted(m: Measurements) -> tuple[Reading, ...]:
    a = m.acceptance
    if a is None or a.accepted_per_round is None:
        return ()
    few, near = thresholds.ACCEPTED_FEW * m.k, thresholds.ACCEPTED_NEAR * m.k
    return (Reading(f"  accepted of K = {m.k}, a round", a.accepted_per_round, "events", f"{few:g} to {near:g} (claim 4)"),)
