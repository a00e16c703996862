"""Step 3: buckets, where time is cut into them. They cannot lower acceptance below that of the continuous laws: TV does not grow."""

from __future__ import annotations

from tppsd_bench.doctor import thresholds
from tppsd_bench.doctor.base import Estimate, Finding, Look, Reading, graded, step, unanswered
from tppsd_bench.doctor.measurements import Buckets, Measurements


@step(3, "buckets")
def time_buckets(m: Measurements) -> Look:
    """Crowded or open buckets deserve attention; a cause is only what buckets can cause: acceptance below the continuous laws'."""
    if m.continuous:
        said = f"Time is continuous: there are no buckets.{_cut(m)}"
        return Look(Finding.NOT_APPLICABLE, (*_ratio(m), *_cuts(m)), said, "", _claim_six(m))
    b = m.buckets
    if b is None:
        known = "The pair's buckets are" if m.continuous is False else "Whether the pair has buckets, and which, is"
        return unanswered(f"{known} not known.")
    crowded = [what for what, beyond in _limits(b).items() if beyond]
    lost = b.continuous is not None and b.joint.high < b.continuous.low
    outcome = graded(m.ill, True) if lost else Finding.ATTENTION if crowded else Finding.OK
    few, many = thresholds.BUCKETS
    readings = (
        Reading("buckets", Estimate.exact(b.number), b.strategy, f"{few} to {many} (claim 6)"),
        Reading("  mass of the open bucket", b.open_mass, "%", f"<= {thresholds.OPEN_BUCKET:.0%}"),
        Reading("  mass of the fullest bucket", b.fullest, "%", f"<= {thresholds.FULLEST_BUCKET:.0%}"),
        Reading("  gaps on edges or middles", b.edge_share, "%", f"<= {thresholds.EDGE_ATOMS:.1%} (claim 6)"),
        Reading("  1 - TV over tokens", b.joint, "%", "at least the continuous laws': TV does not grow"),
        Reading("  1 - TV of the continuous laws", b.continuous, "%" if b.continuous else "there are none"),
    )  # fmt: skip
    if lost:
        sentence = "Tokens overlap less than the continuous laws they stand for, which no buckets that both sides share do."
        advice = "Give target and draft the same buckets, and normalise both by log-softmax (claim 12)."
    else:
        sentence = f"Beyond its limit: {', '.join(crowded)}." if crowded else "No bucket is crowded, none is on an edge."
        advice = "Fit quantile buckets to the target's own gaps, or more of them." if crowded else ""
    return Look(outcome, readings, sentence, advice, _more_buckets(b))


def _limits(b: Buckets) -> dict[str, bool]:
    return {
        "the open bucket": b.open_mass.low > thresholds.OPEN_BUCKET,
        "the fullest bucket": b.fullest.low > thresholds.FULLEST_BUCKET,
        "gaps on edges": b.edge_share.low > thresholds.EDGE_ATOMS,
    }


def _ratio(m: Measurements) -> tuple[Reading, ...]:
    if m.acceptance is None or m.acceptance.largest_log_ratio is None:
        return ()
    return (Reading("largest |log p/q| verified", Estimate.exact(m.acceptance.largest_log_ratio), "nats"),)


def _cuts(m: Measurements) -> tuple[Reading, ...]:
    out = []
    for cut in m.cuts:
        out.append(Reading(f"  cut into {cut.name}: accepted", cut.accepted, "%" if cut.accepted is not None else ""))
        if cut.over_continuous is not None:
            out.append(Reading("    its speed over continuous time", cut.over_continuous, "times"))
    return tuple(out)


def _cut(m: Measurements) -> str:
    """The cut that comes nearest to continuous time, or passes it."""
    timed = {cut.name: cut.over_continuous for cut in m.cuts if cut.over_continuous is not None}
    if not timed:
        return ""
    best = max(timed, key=lambda name: timed[name].value)
    return (
        f" Of {len(timed)} ways to cut it, {best} come nearest in speed, with {timed[best].shown()} of that in continuous time."
    )


def _claim_six(m: Measurements) -> tuple[str, ...]:
    a = m.acceptance
    if a is None or a.event.low < thresholds.ACCEPTANCE_IDEAL[0]:
        return ()
    ratio = f"; the largest |log p/q| was {a.largest_log_ratio:.1f}" if a.largest_log_ratio is not None else ""
    return (f"Claim 6 says that time must be bucketed. In continuous time {a.event.value:.0%} are accepted here{ratio}.",)


def _more_buckets(b: Buckets) -> tuple[str, ...]:
    if b.continuous is None:
        return ()
    room = b.joint.value - b.continuous.value
    if room > thresholds.ADVICE_LOSS:
        return ()
    return (
        f"Claim 6 says that too many buckets lower acceptance. With as many as one likes it cannot fall below {b.continuous.value:.1%}, "
        f"{100 * room:.1f} points from here.",
    )
