"""Step 6: does it depend on the history's length? Cost of a step, acceptance along the sequence, the best K at short and long."""

from __future__ import annotations

from tppsd_bench.doctor import thresholds
from tppsd_bench.doctor.base import Estimate, Finding, Look, Reading, graded, step, unanswered
from tppsd_bench.doctor.measurements import HistoryPoint, Measurements
from tppsd_bench.measure.throughput import Prediction, best_k

SHORT, LONG, GROWTH = thresholds.SHORT_HISTORY, thresholds.LONG_HISTORY, thresholds.HISTORY_GROWTH


@step(6, "history length")
def history_length(m: Measurements) -> Look:
    """The cause where speculation pays after a short history and no longer at this one, or acceptance fades away."""
    fade = None if m.acceptance is None else m.acceptance.fade
    if not m.history and fade is None:
        return unanswered("Neither cost nor acceptance by history is known.")
    fades = fade is not None and fade.low > thresholds.HISTORY_FADE
    ratio = growth(m.history)
    grows = ratio is not None and ratio > GROWTH
    lost = m.pays is False and any(p.n_events < m.n_events / 2 and _pays(m, p) for p in m.history) and not _pays_at_length(m)
    outcome = Finding.CAUSE if lost else graded(m.accepts_little is True, True) if fades else graded(False, grows)
    readings = [Reading("step cost, long over short history", None if ratio is None else Estimate.exact(ratio),
                        "times" if ratio else "no long history was timed", f"<= {GROWTH:g}")]  # fmt: skip
    for p in m.history:
        readings.append(Reading(f"  target step after {p.n_events:,}", Estimate.exact(p.target_ms), "ms"))
        if (best := best_after(m, p)) is not None:
            readings.append(Reading(f"    best K = {best.k}, law", Estimate.exact(best.speedup), "times"))
    if m.acceptance is not None and m.acceptance.early is not None:
        limit = f"<= {100 * thresholds.HISTORY_FADE:g} points"
        early, late = m.acceptance.spans
        readings += [
            Reading(f"  accepted, {early}", m.acceptance.early, "%"), Reading(f"  accepted, {late}", m.acceptance.late, "%"),
            Reading("    lost on the way", fade, "points", limit),
        ]  # fmt: skip
    if outcome is Finding.OK and ratio is None:
        return unanswered("No history of 1,000 events was timed.", *readings)
    sentence, advice = _said(lost, fades, grows, ratio)
    return Look(outcome, tuple(readings), sentence, advice)


def growth(points: tuple[HistoryPoint, ...]) -> float | None:
    """Target step after the longest history over that after the one nearest 100; None unless the longest reaches 1,000."""
    longest = max(points, key=lambda p: p.n_events, default=None)
    if longest is None or longest.n_events < LONG:
        return None
    return longest.target_ms / min(points, key=lambda p: abs(p.n_events - SHORT)).target_ms


def best_after(m: Measurements, p: HistoryPoint) -> Prediction | None:
    """The fastest K at this history, long runs."""
    return None if p.law is None or m.acceptance is None else best_k(m.acceptance.alpha, p.law)


def _pays(m: Measurements, p: HistoryPoint) -> bool:
    best = best_after(m, p)
    return best is not None and best.pays


def _pays_at_length(m: Measurements) -> bool:
    return _pays(m, min(m.history, key=lambda p: abs(p.n_events - m.n_events)))


def _said(lost: bool, fades: bool, grows: bool, ratio: float | None) -> tuple[str, str]:
    if lost:
        return (
            "After a short history speculation pays, at this length it no longer does.",
            "Bound what the target's pass does with the history (cache, window), or speculate on short sequences only.",
        )
    if fades:
        return (
            "Acceptance falls along the sequence: the draft loses the thread.",
            "Take a draft that sees the whole history (attention, a recurrent state), trained on sequences of this length.",
        )
    if grows:
        return f"A target step costs {ratio:.1f} times as much after a long history.", "Look at the cache (step 7)."
    return "Neither cost nor acceptance suffers from the history's length.", ""
