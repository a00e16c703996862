"""The monitoring bands of claims 4 and 5, each held against what was measured: it agrees, it is contradicted, or it does not apply.

Advice is contradicted where following it costs ``ADVICE_LOSS`` of the speed or more, or gains less than it by doing what it asks. Bands
that nothing was measured for are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tppsd_bench.doctor import thresholds
from tppsd_bench.doctor.measurements import Measurements
from tppsd_bench.measure.throughput import Prediction, predict

LOSS = thresholds.ADVICE_LOSS


class Held(StrEnum):
    AGREES = "agrees"
    CONTRADICTED = "contradicted"
    IDLE = "does not apply"
    """Its condition is not met, or nothing pays."""


@dataclass(frozen=True)
class Band:
    claim: int
    advice: str
    held: Held
    measured: str


def bands(m: Measurements) -> tuple[Band, ...]:
    """All bands that these measurements speak to, in the order of the claims."""
    return tuple(band for look in (_k_start, _k_one, _accepted, _histories, _acceptance, _batch) for band in look(m))


def _k_start(m: Measurements) -> Iterator[Band]:
    if m.predicts:
        low, high = thresholds.K_START
        yield _band_of_k(4, f"K = {low} to start, {low} to {high} is right", thresholds.K_START, m.predictions)


def _largest(m: Measurements) -> int:
    return 0 if m.costs is None else m.costs.law.k_max


def _band_of_k(claim: int, advice: str, span: tuple[int, int], found: Sequence[Prediction], where: str = "") -> Band:
    """Whether the best K of a band of K's is about as fast as the best of all that are ``found``."""
    best = max(found, key=lambda p: p.speedup)
    inside = [p for p in found if span[0] <= p.k <= span[1]]
    if not inside or not best.pays:
        said = f"{where}no K up to {len(found)} pays by the law (at most {best.speedup:.2f})"
        return Band(claim, advice, Held.IDLE, said if not best.pays else f"{where}no such K was timed")
    mine = max(inside, key=lambda p: p.speedup)
    loss = 1 - mine.speedup / best.speedup
    said = f"{where}the law's best is K = {best.k} ({best.speedup:.2f} times); within the band K = {mine.k} loses {max(loss, 0.0):.0%}"
    return Band(claim, advice, Held.CONTRADICTED if loss >= LOSS else Held.AGREES, said)


def _k_one(m: Measurements) -> Iterator[Band]:
    advice, timed = "K = 1 gains nothing", None if m.speed is None else m.speed.by_k.get(1)
    if timed is not None and m.speed is not None and m.speed.steady:
        held = Held.CONTRADICTED if timed.low > 1 else Held.AGREES
        yield Band(4, advice, held, f"timed at K = 1: {timed.shown()} times target-only sampling")
    elif m.predicts:
        one = m.predict(1).speedup
        yield Band(4, advice, Held.CONTRADICTED if one > 1 + LOSS else Held.AGREES, f"by the law K = 1 gives {one:.2f} times")


def _accepted(m: Measurements) -> Iterator[Band]:
    few, near = thresholds.ACCEPTED_FEW * m.k, thresholds.ACCEPTED_NEAR * m.k
    a = m.acceptance
    if a is None or a.accepted_per_round is None:
        return
    mean = a.accepted_per_round
    short, long = "mean accepted below K/2: shorten K or train the draft", "mean accepted near K: faster draft or larger K"
    said = f"{mean.shown()} of K = {m.k} accepted a round"
    if not m.predicts:
        yield Band(4, short, Held.AGREES if mean.value < few else Held.IDLE, said)
        return
    best = m.best()
    gain, how = m.gain(best.k)
    said += f"; the law's best, K = {best.k}, gains {gain:.0%} ({how})"
    if mean.high < few:
        yield Band(4, short, Held.AGREES if best.k < m.k and gain >= LOSS else Held.CONTRADICTED, said)
    elif mean.low > near:
        yield Band(4, long, Held.AGREES if best.k > m.k and gain >= LOSS else _unless_at_the_end(m, best), said)
    else:
        yield Band(4, f"mean accepted between K/2 and K ({few:g} to {near:g} here): leave K", _leave(gain), said)


def _leave(gain: float) -> Held:
    return Held.CONTRADICTED if gain >= LOSS else Held.AGREES


def _histories(m: Measurements) -> Iterator[Band]:
    """K after short and after long histories, where they were timed."""
    short = f"histories below {thresholds.SHORT_HISTORY} events: K {thresholds.K_SHORT[0]} to {thresholds.K_SHORT[1]}"
    long = f"histories above {thresholds.LONG_HISTORY:,} events: K {thresholds.K_LONG[0]} to {thresholds.K_LONG[1]}"
    for point in m.history:
        if point.law is None or m.acceptance is None:
            continue
        found = [predict(m.acceptance.alpha, k, point.law) for k in range(1, point.law.k_max + 1)]
        where = f"after {point.n_events:,} events "
        if point.n_events < thresholds.SHORT_HISTORY:
            yield _band_of_k(5, short, thresholds.K_SHORT, found, where)
        elif point.n_events > thresholds.LONG_HISTORY:
            yield _band_of_k(5, long, thresholds.K_LONG, found, where)


def _acceptance(m: Measurements) -> Iterator[Band]:
    if m.acceptance is None:
        return
    a, (low, high) = m.acceptance.event, thresholds.ACCEPTANCE_IDEAL
    said = f"{a.shown(100)} % accepted"
    ideal = Held.IDLE
    if a.low > high and m.pays:
        ideal, said = Held.CONTRADICTED, f"{said}, and it pays: the law grows with acceptance, there is no upper end"
    elif a.low >= low and a.high <= high and m.pays is not None:
        ideal = Held.AGREES if m.pays else Held.CONTRADICTED
        said += ", and it pays" if m.pays else ", and it does not pay"
    yield Band(5, f"acceptance {low:.0%} to {high:.0%} is ideal", ideal, said)
    weak = f"acceptance below {thresholds.ACCEPTANCE_WEAK:.0%}: the draft is too weak"
    if a.high < thresholds.ACCEPTANCE_WEAK and m.pays is not None:
        paid = "and it pays all the same" if m.pays else "and it does not pay"
        yield Band(5, weak, Held.CONTRADICTED if m.pays else Held.AGREES, f"{a.shown(100)} % accepted, {paid}")
    raise_k = f"acceptance above {thresholds.ACCEPTANCE_RAISE_K:.0%}: raise K"
    if a.low > thresholds.ACCEPTANCE_RAISE_K and m.predicts:
        best = m.best()
        gain, how = m.gain(best.k)
        helps = best.k > m.k and gain >= LOSS
        larger = f"from K = {m.k} to {best.k} gains {gain:.0%} ({how})"
        why = larger if best.k > m.k else f"the law's best is K = {best.k}, in use is {m.k}"
        held = Held.AGREES if helps else _unless_at_the_end(m, best)
        yield Band(5, raise_k, held, f"{a.shown(100)} % accepted; {why}")


def _unless_at_the_end(m: Measurements, best: Prediction) -> Held:
    """Not gaining from a larger K contradicts nothing where no larger K is known."""
    return Held.IDLE if best.k == m.k == _largest(m) else Held.CONTRADICTED


def _batch(m: Measurements) -> Iterator[Band]:
    """4 to 8 sequences in a batch: contradicted where a larger batch still gains, or none does."""
    low, high = thresholds.BATCH_ADVISED
    inside = {b: e for b, e in m.batch.items() if low <= b <= high}
    if not inside:
        return
    mine = max(inside, key=lambda b: inside[b].value)
    beyond = {b: e for b, e in m.batch.items() if b > high}
    said = ", ".join(f"{b}: {e.shown()}" for b, e in sorted(m.batch.items()))
    larger = any(e.low > (1 + LOSS) * inside[mine].high for e in beyond.values())
    none = inside[mine].high < 1 + LOSS
    held = Held.CONTRADICTED if larger or none else Held.AGREES
    yield Band(
        5, f"verify {low} to {high} sequences in a batch", held, f"events a second over single sequences, by batch: {said}"
    )
