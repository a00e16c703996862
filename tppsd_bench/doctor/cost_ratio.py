"""Step 5: is the draft cheap enough? c against its break-even, the draft's share of a round, the ratio of parameters."""

from __future__ import annotations

from tppsd_bench.doctor import thresholds
from tppsd_bench.doctor.base import Estimate, Finding, Look, Reading, step, unanswered
from tppsd_bench.doctor.measurements import Costs, Measurements

SHARE, RATIO = thresholds.DRAFT_SHARE, thresholds.PARAMETER_RATIO


@step(5, "cost ratio")
def cost_ratio(m: Measurements) -> Look:
    """The cause where no K pays at this c and some K would with a free draft."""
    c = m.costs
    if c is None:
        return unanswered("Step costs are not known.")
    limit = m.break_even_draft if m.predicts else None
    share = c.shares(m.k)[0] if m.k <= c.law.k_max else None
    outcome = Finding.OK
    if limit is not None and m.pays is False and 0 < limit < c.draft.value:
        outcome = Finding.CAUSE
    elif share is not None and share > SHARE:
        outcome = Finding.ATTENTION
    held = "" if limit is None else f"<= {max(limit, 0):.3g}, where speculation breaks even"
    readings = [Reading("c, draft step / target step", c.draft, "", held)]
    if share is not None:
        readings.append(
            Reading(f"  draft's share of a round, K = {m.k}", Estimate.exact(share), "%", f"<= {SHARE:.0%} (claim 2)")
        )
    if c.parameter_ratio is not None:
        ratio = Estimate.exact(c.parameter_ratio)
        readings.append(Reading("  draft parameters / target's", ratio, "", f"< {RATIO:g} (claim 2)"))
    sentence, advice = _said(m, c, outcome, limit, share)
    return Look(outcome, tuple(readings), sentence, advice, _contradictions(m, c, limit))


def _said(m: Measurements, c: Costs, outcome: Finding, limit: float | None, share: float | None) -> tuple[str, str]:
    if outcome is Finding.CAUSE:
        cheap = m.mended(draft=c.law.draft / 10)
        return (
            f"A draft step costs {c.draft.shown()} target steps; at this acceptance it may cost {limit:.2g}.",
            f"Take a cheaper draft (fewer layers, a GRU, an early exit); at a tenth of c the law promises {cheap.speedup:.2f} "
            f"at K = {cheap.k}.",
        )
    if limit is not None and limit <= 0:
        return "Even a free draft would not pay: see verification and overhead.", ""
    if outcome is Finding.ATTENTION and share is not None:
        half = m.mended(draft=c.law.draft / 2) if m.predicts else None
        gain = "" if half is None else f": at half its cost the law promises {half.speedup:.2f} at K = {half.k}"
        return f"The draft takes {share:.0%} of a round.", f"Take a cheaper draft{gain}."
    return f"A draft step costs {c.draft.shown()} target steps.", ""


def _contradictions(m: Measurements, c: Costs, limit: float | None) -> tuple[str, ...]:
    out = []
    if m.predicts and (best := m.best()).pays and (share := c.shares(best.k)[0]) > SHARE:
        out.append(
            f"Claim 2 splits a round 20 % draft, 80 % target. The fastest K here, {best.k}, spends {share:.0%} on the draft: the split "
            "follows from c and acceptance, it is no aim."
        )
    ratio = c.parameter_ratio
    if ratio is None or limit is None:
        return tuple(out)
    if ratio < RATIO and c.draft.value > limit:
        out.append(
            f"Claim 2 asks for a tenth of the target's parameters. {ratio:.3f} of them cost {c.draft.value:.2f} target steps here."
        )
    if ratio >= RATIO and m.pays:
        out.append(f"Claim 2 asks for a tenth of the target's parameters. A draft with {ratio:.2f} of them pays here.")
    return tuple(out)
