"""Step 1: is the draft like its target? Exact acceptance, its split in gap and type, and next-event predictions beside the target's."""

from __future__ import annotations

from tppsd_bench.doctor import thresholds
from tppsd_bench.doctor.base import Estimate, Finding, Look, Reading, step, unanswered
from tppsd_bench.doctor.measurements import Accuracy, Measurements

WEAK, (IDEAL, GOOD) = thresholds.ACCEPTANCE_WEAK, thresholds.ACCEPTANCE_IDEAL


@step(1, "draft accuracy")
def draft_accuracy(m: Measurements) -> Look:
    """Low acceptance is the draft's fault by definition; between 50 and 60 % only where a better draft alone would pay."""
    if m.acceptance is None:
        return unanswered("Acceptance is not known.", *_predictions(m))
    a = m.acceptance
    outcome = Finding.OK
    if m.accepts_little or (m.pays is False and a.event.high < IDEAL and _would_pay(m)):
        outcome = Finding.CAUSE
    elif a.event.value < IDEAL:
        outcome = Finding.ATTENTION
    readings = [Reading("events accepted (exact)", a.event, "%", f">= {IDEAL:.0%}, below {WEAK:.0%} too weak (claim 5)")]
    parts = ("  gaps", a.gap), ("  types, their gap accepted", a.type), ("  of verified events, in runs", a.measured)
    readings += [Reading(what, part, "%") for what, part in parts if part is not None]
    said = f"{a.event.shown(100)} % of drafted events are accepted"
    sentence = f"{said}{_split(m)}." if outcome is not Finding.OK else f"{said}, enough to speculate with."
    return Look(
        outcome, (*readings, *_predictions(m)), sentence, _advice(m, outcome), _contradictions(m, outcome)
    )  # fmt: skip


def _would_pay(m: Measurements) -> bool:
    return not m.predicts or m.best_with_acceptance(GOOD).pays


def _split(m: Measurements) -> str:
    """Which component loses more."""
    a = m.acceptance
    if a is None or a.gap is None or a.type is None:
        return ""
    lost = {"gap": 1 - a.gap.value, "type": 1 - a.type.value}
    worse = max(lost, key=lambda name: lost[name])
    return f"; most is lost on the {worse} ({lost['gap']:.1%} of gaps, {lost['type']:.1%} of types)"


def _advice(m: Measurements, outcome: Finding) -> str:
    out = []
    if outcome is not Finding.OK:
        out.append("Train or distil a draft for this target (train drafts/PAIR), or take another draft of the pair.")
        if m.predicts:
            better = m.best_with_acceptance(GOOD)
            gain = "alone would pay" if better.pays else "alone would not pay"
            out.append(f"{GOOD:.0%} accepted {gain}: the law promises {better.speedup:.2f} at K = {better.k}.")
    if m.held_out is not None and m.held_out.low <= 0:
        out.append(
            "On held-out data the target is not shown to be better than this draft: sample the draft, or train the target."
        )
    return " ".join(out)


def _predictions(m: Measurements) -> tuple[Reading, ...]:
    a, out = m.accuracy, []
    if a is not None:
        if a.type_target is not None and a.type_draft is not None:
            points = f">= -{100 * thresholds.ACCURACY_POINTS:g} points of the target's (claim 11)"
            out += [
                Reading("  next type right, target", a.type_target, "%"), Reading("  next type right, draft", a.type_draft, "%"),
                Reading("    draft less target", a.type_difference, "points", points),
            ]  # fmt: skip
        share = f"<= {thresholds.GAP_ERROR_SHARE:.0%} of the target's (claim 11)"
        out += [
            Reading("  gap error, target", a.gap_target, "log units"), Reading("  gap error, draft", a.gap_draft, "log units"),
            Reading("    draft less target", a.gap_difference, "log units", share),
        ]  # fmt: skip
        if a.nll_difference is not None:
            out.append(Reading("  draft less target", a.nll_difference, "nats/event"))
    if m.held_out is not None:
        out.append(Reading("  the same on held-out data", m.held_out, "nats/event", "> 0, else sample the draft"))
    return tuple(out)


def as_accurate(a: Accuracy) -> bool:
    """Whether the draft's point predictions are as good as the target's, by whole intervals."""
    gap = a.gap_difference.high <= thresholds.GAP_ERROR_SHARE * a.gap_target.value
    kind = a.type_difference
    return gap and (kind is None or kind.low >= -thresholds.ACCURACY_POINTS)


def _contradictions(m: Measurements, outcome: Finding) -> tuple[str, ...]:
    if outcome is Finding.OK or m.accuracy is None or m.acceptance is None or not as_accurate(m.accuracy):
        return ()
    accepted: Estimate = m.acceptance.event
    return (
        f"Claim 11 looks at next-event accuracy first. Here the draft predicts as well as its target and {accepted.value:.0%} are "
        "accepted: the whole law counts, not its best guess.",
    )
