"""Step 8: what is left of a round. Verifying K + 1 positions, and everything between draft and target passes."""

from __future__ import annotations

from tppsd_bench.doctor import thresholds
from tppsd_bench.doctor.base import Estimate, Finding, Look, Reading, step, unanswered
from tppsd_bench.doctor.measurements import Measurements

REST = thresholds.REST_SHARE


@step(8, "verification and overhead")
def verification(m: Measurements) -> Look:
    """The cause where even a free draft would not pay at any K: verification grows with K, or rounds carry too much besides."""
    c = m.costs
    if c is None or m.k > c.law.k_max:
        return unanswered("Step costs are not known.")
    _, verify, rest = c.shares(m.k)
    dear = m.predicts and m.pays is False and not m.mended(draft=0.0).pays
    overhead = dear and m.mended(draft=0.0, rest=0.0).pays
    outcome = Finding.CAUSE if dear else Finding.ATTENTION if rest > REST else Finding.OK
    each = Estimate.exact(c.law.verify[m.k] / (m.k + 1))
    readings = [
        Reading(f"v({m.k}) / (K + 1)", each, "target steps", "well below 1 (claim 17): at 1 verifying is sampling"),
        Reading("  verification's share of a round", Estimate.exact(verify), "%"),
    ]
    if c.apart:
        readings.append(Reading("  rest of a round, its share", Estimate.exact(rest), "%", f"<= {REST:.0%}"))
        readings.append(Reading("  r", c.rest, "target steps"))
    if overhead:
        sentence = f"The rest of a round costs {c.rest.shown()} target steps, more than a free draft's events are worth."
        advice = "Make rounds leaner: fused distribution arithmetic, no Python loop over events, larger batches."
    elif dear:
        sentence = (
            f"Verifying {m.k + 1} events costs {c.law.verify[m.k]:.2f} target steps: it saves too little over sampling them."
        )
        advice = "Verify in one pass over a cache; a target this small or already bound by arithmetic is better sampled alone."
    elif outcome is Finding.ATTENTION:
        sentence, advice = f"{rest:.0%} of a round is neither draft nor target.", "A leaner round, or a larger batch."
    else:
        sentence, advice = f"Verifying {m.k + 1} events costs {c.law.verify[m.k]:.2f} target steps.", ""
    return Look(outcome, tuple(readings), sentence, advice)
