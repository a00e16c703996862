"""Step 7: does the cache do its work? Cached against recomputing target-only sampling; positions that a verifying pass encodes."""

from __future__ import annotations

from tppsd_bench.doctor import thresholds
from tppsd_bench.doctor.base import Estimate, Finding, Look, Reading, step, unanswered
from tppsd_bench.doctor.measurements import Measurements

GAIN, POSITIONS = thresholds.CACHE_GAIN, thresholds.POSITIONS_PER_PASS


@step(7, "cache")
def cache(m: Measurements) -> Look:
    """The cause where speculation does not pay and its passes encode the history again."""
    c = m.cache
    if c is None or (c.gain is None and c.positions_per_pass is None):
        return unanswered("Neither the recomputing baseline nor the positions of a pass are known.")
    again = c.positions_per_pass is not None and c.positions_per_pass > POSITIONS * (m.k + 1)
    idle = c.gain is not None and c.gain.high < GAIN
    outcome = Finding.CAUSE if again and m.pays is False else Finding.ATTENTION if again or idle else Finding.OK
    readings = [Reading(f"cached over recomputing, {c.gain_events} events", c.gain, "times", f">= {GAIN:g} (claim 10)")]
    if c.positions_per_pass is not None:
        limit = f"<= {POSITIONS:g} x (K + 1) = {POSITIONS * (m.k + 1):g}"
        readings.append(Reading("  positions a pass", Estimate.exact(c.positions_per_pass), "", limit))
    if c.hit_share is not None:
        readings.append(Reading("  found in the cache", Estimate.exact(c.hit_share), "%"))
    if again:
        sentence = f"A verifying pass encodes {c.positions_per_pass:.0f} positions for K + 1 = {m.k + 1}: the history is encoded again."
        advice = "Roll the cache back to the committed events instead of building it anew."
    elif idle:
        sentence, advice = (
            "Target-only sampling gains little from its cache.",
            "Check that the cache is used; short histories need none.",
        )
    else:
        sentence, advice = "The cache does its work.", ""
    contradicts: tuple[str, ...] = ()
    if idle and c.gain is not None and not again:
        contradicts = (
            f"Claim 10 says that caching matters most. On {c.gain_events} events it gains {c.gain.shown()} times here.",
        )
    return Look(outcome, tuple(readings), sentence, advice, contradicts)
