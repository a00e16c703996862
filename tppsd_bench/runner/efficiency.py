"""The efficiency verdict: target forwards counted, against target-only sampling and against what acceptance allows."""

from __future__ import annotations

from tppsd_bench.measure.counts import check_fewest_forwards
from tppsd_bench.measure.promise import Alpha
from tppsd_bench.protocols import Counts, SampleRun
from tppsd_bench.results import Axis, Outcome, Verdict

LEAST_SHARE = 0.9
"""Of the events a forward that acceptance allows. Rounds of an exact run stay within a few per cent; losing positions costs more."""


def efficiency(run: SampleRun, reference: Counts | None, k: int | None, alpha: Alpha | None, length: int | None) -> Verdict:
    """FAIL: the counts contradict each other, no forward is saved, or a tenth of what acceptance allows is lost. Exact counts.

    ``k`` and ``alpha`` are None where K varies or the laws are not at hand; ``length`` is the events of a count-stopped sequence.
    """
    c, n = run.counts, run.events.n_events
    if not c.drafted or not c.committed or reference is None or not reference.committed:
        return Verdict(Axis.EFFICIENCY, Outcome.NOT_APPLICABLE, "Forwards were not counted on both sides.", n=n)
    if k is not None and length is not None:
        least = check_fewest_forwards(run.events.lengths, c.target_row_forwards, k, first_event_free=True)
        if least.passed is False:
            return Verdict(Axis.EFFICIENCY, Outcome.FAIL, f"The counts contradict each other: {least.detail}", n=n)
    mine = c.committed / max(c.target_row_forwards, 1)
    other = reference.committed / max(reference.target_row_forwards, 1)
    said = f"{c.accepted / max(c.verified, 1):.1%} of the verified events are accepted; {mine:.2f} events a target forward"
    if mine <= other:
        sentence = f"{said}, no more than the {other:.2f} of target-only sampling: nothing is saved."
        return Verdict(Axis.EFFICIENCY, Outcome.FAIL, sentence, n=n)
    if k is None or alpha is None or length is None:
        return Verdict(Axis.EFFICIENCY, Outcome.PASS, f"{said} instead of {other:.2f}.", n=n)
    share = mine / alpha.events_per_forward(length, k)
    outcome = Outcome.PASS if share >= LEAST_SHARE else Outcome.FAIL
    rest = f"{share:.0%} of what the two laws allow" + ("" if outcome is Outcome.PASS else ": accepted events are thrown away")
    return Verdict(Axis.EFFICIENCY, outcome, f"{said} instead of {other:.2f}, {rest}.", n=n)
