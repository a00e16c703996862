"""A toy that speaks the whole white-box protocol: an autoregressive log-normal mixture with types, a poor draft of it, and a
speculative sampler whose every decision can be broken by hand. All sequences advance in lockstep, one event a step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri

from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import Conditional, ConditionalTarget, Counts, SampleRun, Scores, Trace
from tppsd_bench.streams import StreamKey

N_TYPES = 4
_MIX = np.log([[0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0.3, 0.3, 0.4], [0.1, 0.2, 0.7]])
_PLACE = np.array([-1.5, 0.0, 1.2])
_LOGITS = np.array([[0.8, 0.0, -0.3, 0.2], [0.0, 0.9, 0.1, -0.6], [-0.5, 0.3, 0.6, 0.0], [0.2, -0.2, 0.0, 0.7]])
_SLOPE = np.array([0.4, -0.2, 0.1, -0.3])


@dataclass
class Law:
    """Rows of (C,) log-normal components and (M,) type logits that drift with the log gap."""

    log_w: np.ndarray
    mu: np.ndarray
    sigma: np.ndarray
    logits: np.ndarray
    slope: np.ndarray

    @property
    def n_types(self):
        return self.logits.shape[1]

    def __len__(self):
        return len(self.mu)

    def take(self, rows):
        return Law(self.log_w[rows], self.mu[rows], self.sigma[rows], self.logits[rows], self.slope)

    def _z(self, gap):
        flat = gap.reshape(len(self), gap.size // max(len(self), 1))
        with np.errstate(divide="ignore"):
            return (np.log(flat)[..., None] - self.mu[:, None]) / self.sigma[:, None], flat

    def log_prob(self, gap):
        z, flat = self._z(gap)
        body = np.exp(self.log_w[:, None] - 0.5 * z * z - np.log(self.sigma[:, None])).sum(axis=-1)
        with np.errstate(divide="ignore"):
            return (np.log(body) - 0.5 * np.log(2 * np.pi) - np.log(flat)).reshape(gap.shape)

    def cdf(self, gap):
        return np.minimum((np.exp(self.log_w[:, None]) * ndtr(self._z(gap)[0])).sum(axis=-1), 1.0).reshape(gap.shape)

    def sf(self, gap):
        return np.exp(logsumexp(self.log_w[:, None] + log_ndtr(-self._z(gap)[0]), axis=-1)).reshape(gap.shape)

    def quantile(self, u):
        low, high = np.full(u.shape, -60.0), np.full(u.shape, 60.0)
        for _ in range(80):
            middle = (low + high) / 2
            below = self.cdf(np.exp(middle)) < u
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.exp(low)

    def sample_gap(self, u):
        flat = u.reshape(len(self), u.size // max(2 * len(self), 1), 2)
        cumulative = np.cumsum(np.exp(self.log_w), axis=1)[:, None]
        c = np.minimum((flat[..., :1] >= cumulative).sum(axis=-1), self.mu.shape[1] - 1)
        mu, sigma = np.take_along_axis(self.mu, c, 1), np.take_along_axis(self.sigma, c, 1)
        return np.exp(mu + sigma * ndtri(flat[..., 1])).reshape(u.shape[:-1])

    def type_log_probs(self, gap):
        x = np.clip(np.log(gap), -3, 3)
        logits = self.logits.reshape(len(self), *(1,) * (gap.ndim - 1), self.n_types) + x[..., None] * self.slope
        return logits - logsumexp(logits, axis=-1, keepdims=True)


@dataclass(frozen=True)
class Model:
    """shift and widen move the gaps, temper flattens the types: 0, 1, 1 is the target."""

    shift: float = 0.0
    widen: float = 1.0
    temper: float = 1.0
    n_types: int = N_TYPES

    def law(self, log_gap, kind):
        """The next event given the previous log gap and type (-1: no history)."""
        start = kind < 0
        k = np.where(start, 0, kind)
        mu = _PLACE + 0.3 * np.where(start, 0.0, np.clip(log_gap, -3, 3))[:, None] + self.shift
        sigma = np.broadcast_to(np.array([0.7, 0.4, 0.6]) * self.widen, mu.shape)
        return Law(_MIX[k], mu, sigma, _LOGITS[k, : self.n_types] / self.temper, _SLOPE[: self.n_types] / self.temper)

    def conditionals(self, batch):
        first = batch.event_index == 0
        kind = np.where(first, -1, np.roll(batch.types, 1))
        return self.law(np.where(first, 0.0, np.log(np.roll(batch.gaps, 1))), kind)

    def score(self, batch):
        law = self.conditionals(batch)
        g = batch.gaps
        return Scores(law.log_prob(g), law.cdf(g), law.sf(g), np.exp(law.type_log_probs(g)))


@dataclass(frozen=True)
class ScoreOnly:
    """A target that offers no conditionals."""

    model: Model

    @property
    def n_types(self):
        return N_TYPES

    def score(self, batch):
        return self.model.score(batch)


TARGET = Model()
STRESS = Model(shift=0.35, widen=1.25, temper=2.0)


@dataclass(frozen=True)
class Fault:
    """One decision changed; the defaults are exact."""

    lenient: float = 1.0
    residual_from_target: bool = False
    residual_tries: int = 10_000
    bonus_from_draft: bool = False
    type_unverified: bool = False
    type_residual_after_gap: bool = False
    lost_position: bool = False
    colder: float = 1.0
    wrong_row: bool = False
    shifted_q: float = 0.0
    keep_after_rejection: bool = False


EXACT = Fault()


def _pick(log_probs, rng):
    above = (rng.random((len(log_probs), 1)) > np.cumsum(np.exp(log_probs), axis=1)).sum(axis=1)
    return np.minimum(above, log_probs.shape[1] - 1)


def _draw(law, rng):
    gap = law.sample_gap(rng.random((len(law), 2)))
    return gap, _pick(law.type_log_probs(gap), rng)


def _log_ratio(p, q, gap, kind, joint):
    """log p - log q of the gap, or of gap and type together."""
    out = p.log_prob(gap) - q.log_prob(gap)
    if joint:
        at = np.arange(len(gap))
        out = out + p.type_log_probs(gap)[at, kind] - q.type_log_probs(gap)[at, kind]
    return out


def _residual(p, q, rng, fault, joint):
    """Gap (and type) from (p - q)+ by rejection from p."""
    gap, kind = _draw(p, rng)
    left = np.arange(len(gap))
    for _ in range(0 if fault.residual_from_target else fault.residual_tries):
        keep = np.log(rng.random(len(left))) < np.log(
            np.maximum(-np.expm1(-_log_ratio(p.take(left), q.take(left), gap[left], kind[left], joint)), 1e-300)
        )
        left = left[~keep]
        if not len(left):
            break
        gap[left], kind[left] = _draw(p.take(left), rng)
    return gap, kind


def _residual_type(log_p, log_q, rng):
    weight = np.maximum(np.exp(log_p) - np.exp(log_q), 0.0)
    with np.errstate(divide="ignore"):
        return _pick(np.log(weight / weight.sum(axis=1, keepdims=True)), rng)


class Recorder:
    """Dense arrays (sequence, event[, component]); an event that is rewound is simply written again."""

    def __init__(self, n, width):
        self.gap, self.kind = np.ones((n, width)), np.zeros((n, width), dtype=np.int64)
        self.role = np.full((n, width, 2), 2, dtype=np.int8)
        self.place = np.zeros((n, width, 2), dtype=np.int64)  # round, position
        self.seen = np.zeros((n, width, 3), dtype=bool)
        self.accepted = np.zeros((n, width, 3), dtype=bool)
        self.proposal = np.ones((n, width, 3))
        self.proposed = np.full((n, width, 3), -1, dtype=np.int64)
        self.log_p, self.log_q = np.zeros((n, width, 3)), np.zeros((n, width, 3))

    def verify(self, rows, at, component, gap, kind, log_p, log_q, accepted):
        where = (rows, at[rows], component)
        self.seen[where] = True
        self.proposal[where], self.accepted[where] = gap, accepted
        self.proposed[where] = -1 if component == 0 else kind
        self.log_p[where], self.log_q[where] = log_p, log_q


def sample(
    n, length, key, *, target=TARGET, draft=STRESS, k=3, rule="leviathan_two_step", fault=EXACT, horizon=None
) -> SampleRun:
    """``n`` sequences of ``length`` events, or up to ``horizon`` (``length`` is then the room)."""
    rng = key.generator()
    rec = Recorder(n, length + 1)
    at = np.zeros(n, dtype=np.int64)
    position, round_, start = at.copy(), at.copy(), at.copy()
    log_gap, kind, time = np.zeros(n), np.full(n, -1), np.zeros(n)
    done = np.zeros(n, dtype=bool)
    crossing = np.zeros(n, dtype=np.int64)
    while not done.all():
        live = np.flatnonzero(~done)
        rec.seen[live, at[live]] = False
        rec.place[live, at[live], 0], rec.place[live, at[live], 1] = round_[live], position[live]
        p, q = target.law(log_gap[live], kind[live]), draft.law(log_gap[live], kind[live])
        new_gap, new_kind, ended = _step(rec, live, at, position, k, p, q, rule, fault, rng)
        if fault.lost_position:
            back = ended & (position[live] > 0) & (position[live] < k)
            rows = live[back]
            at[rows] = start[rows]
            rec.seen[rows[:, None], start[rows][:, None] + np.arange(1, k + 1).clip(max=length - start[rows][:, None])] = False
            rec.accepted[rows, start[rows]], rec.role[rows, start[rows]] = False, (1, 2)
            rec.seen[rows, start[rows], 1] = False
            rec.place[rows, start[rows], 1] = 0
            before = start[rows] - 1
            first = before < 0
            lg = np.where(first, 0.0, np.log(rec.gap[rows, before]))
            kd = np.where(first, -1, rec.kind[rows, before])
            g, _ = _residual(target.law(lg, kd), draft.law(lg, kd), rng, fault, False)
            new_gap[back] = g
            new_kind[back] = _pick(target.law(lg, kd).type_log_probs(g), rng)
        crossed = time[live] + new_gap >= horizon if horizon is not None else np.zeros(len(live), dtype=bool)
        crossing[live[crossed]] = position[live[crossed]]
        done[live[crossed]] = True
        rows, on = live[~crossed], ~crossed
        rec.gap[rows, at[rows]], rec.kind[rows, at[rows]] = new_gap[on], new_kind[on]
        log_gap[rows], kind[rows] = np.log(new_gap[on]), new_kind[on]
        time[rows] += new_gap[on]
        at[rows] += 1
        over = ended[on]
        position[rows] = np.where(over, 0, position[rows] + 1)
        round_[rows] += over
        start[rows] = np.where(over, at[rows], start[rows])
        done |= at >= length
    return _run(rec, at, k, horizon, crossing, target.n_types)


def _step(rec, live, at, position, k, p, q, rule, fault, rng):
    """One event for each live sequence: gap, type, and whether its round ends here."""
    joint = rule == "leviathan_joint"
    n = len(live)
    gap, kind = _draw(p, rng)
    where = (live, at[live])
    rec.role[where] = 2
    bonus = position[live] == k
    if fault.bonus_from_draft:
        gap[bonus], kind[bonus] = _draw(q.take(bonus), rng)
    d = np.flatnonzero(~bonus)
    rows, pd, qd = live[d], p.take(d), q.take(d)
    colder = Law(qd.log_w, qd.mu, qd.sigma * fault.colder, qd.logits, qd.slope)
    x, y = _draw(colder, rng)
    rec_p, rec_q = pd, qd
    if fault.wrong_row:
        rec_p = pd.take(np.roll(np.arange(len(d)), 1))
    ratio = _log_ratio(rec_p, rec_q, x, y, joint) - fault.shifted_q
    ok = np.log(rng.random(len(d))) < ratio + np.log(fault.lenient)
    lp, lq = rec_p.log_prob(x), rec_q.log_prob(x) + fault.shifted_q
    i = np.arange(len(d))
    tp, tq = pd.type_log_probs(x), qd.type_log_probs(x)
    if joint:
        rec.verify(rows, at, 2, x, y, lp + tp[i, y], lq + tq[i, y], ok)
        gap[d[ok]], kind[d[ok]] = x[ok], y[ok]
        bad = d[~ok]
        gap[bad], kind[bad] = _residual(p.take(bad), q.take(bad), rng, fault, True)
        rec.role[live[d], at[live[d]]] = np.where(ok, 0, 1)[:, None]
        good = ok
    else:
        rec.verify(rows, at, 0, x, y, lp, lq, ok)
        bad = d[~ok]
        gap[bad], _ = _residual(p.take(bad), q.take(bad), rng, fault, False)
        kind[bad] = _pick(p.take(bad).type_log_probs(gap[bad]), rng)
        if fault.type_residual_after_gap:
            kind[bad] = _residual_type(p.take(bad).type_log_probs(gap[bad]), q.take(bad).type_log_probs(gap[bad]), rng)
        v = np.flatnonzero(ok)
        if rule == "exact_match":
            wanted = _pick(tp[v], rng)
            same, other = wanted == y[v], wanted
        else:
            same = np.log(rng.random(len(v))) < tp[v, y[v]] - tq[v, y[v]] + np.log(fault.lenient)
            same |= fault.type_unverified
            with np.errstate(invalid="ignore"):
                other = _residual_type(tp[v], tq[v], rng) if not fault.residual_from_target else _pick(tp[v], rng)
        rec.verify(rows[v], at, 1, x[v], y[v], tp[v, y[v]], tq[v, y[v]], same)
        gap[d[v]], kind[d[v]] = x[v], np.where(same, y[v], other)
        rec.role[rows, at[rows]] = np.where(ok[:, None], 0, [1, 2])
        rec.role[rows[v], at[rows[v]], 1] = np.where(same, 0, 1)
        good = np.zeros(len(d), dtype=bool)
        good[v] = same
    ended = np.ones(n, dtype=bool)
    ended[d] = ~good if not fault.keep_after_rejection else False
    return gap, kind, ended


def _run(rec, lengths, k, horizon, crossing, n_types) -> SampleRun:
    n, width = rec.gap.shape
    inside = np.arange(width) < lengths[:, None]
    reach = np.arange(width) < (lengths + (horizon is not None))[:, None]
    events = EventBatch.from_padded(rec.gap, rec.kind, lengths, n_types, None if horizon is None else np.full(n, horizon))
    i, j, c = np.nonzero(rec.seen & reach[:, :, None])
    role, place = rec.role[inside], rec.place[inside]
    good = (role == 0).all(axis=1)
    last = np.where(horizon is not None, lengths, lengths - 1)  # index of the last event drawn
    rounds = rec.place[np.arange(n), last, 0] + 1
    base = np.concatenate([[0], np.cumsum(rounds)[:-1]])
    total = int(rounds.sum())
    of_event = base[events.sequence_index] + place[:, 0]
    gap_records = c != 1
    of_record = base[i] + rec.place[i, j, 0]
    discarded = np.zeros(total, dtype=np.int64)
    if horizon is not None:
        discarded[base + rounds - 1] = 1
    trace = Trace(
        sequence=i, event=j, round=rec.place[i, j, 0], position=rec.place[i, j, 1], k_round=np.full(len(i), k),
        component=c.astype(np.int8), gap=rec.proposal[i, j, c], type=rec.proposed[i, j, c], log_p=rec.log_p[i, j, c],
        log_q=rec.log_q[i, j, c], accepted=rec.accepted[i, j, c], gap_role=role[:, 0], type_role=role[:, 1],
        event_round=place[:, 0], event_position=place[:, 1], event_k=np.full(len(place), k),
        round_sequence=np.repeat(np.arange(n), rounds), round_index=np.arange(total) - np.repeat(base, rounds),
        round_drafted=np.full(total, k), round_verified=np.bincount(of_record[gap_records], minlength=total),
        round_accepted=np.bincount(of_event[good], minlength=total), round_committed=np.bincount(of_event, minlength=total),
        round_discarded=discarded, crossing_position=None if horizon is None else crossing,
        crossing_k=None if horizon is None else np.full(n, k),
    )  # fmt: skip
    counts = Counts(
        rounds=total, drafted=k * total, verified=int(trace.round_verified.sum()), accepted=int(good.sum()),
        committed=events.n_events, discarded=int(discarded.sum()),
    )  # fmt: skip
    return SampleRun(events, counts, trace)


# -- the toy itself ----------------------------------------------------------------------------------------------------------
def test_toy_speaks_the_protocol():
    assert isinstance(TARGET, ConditionalTarget)
    assert not isinstance(ScoreOnly(TARGET), ConditionalTarget)
    run = sample(3, 5, StreamKey(cell="toy protocol"))
    law = TARGET.conditionals(run.events)
    assert isinstance(law, Conditional)
    run.events.validate()
    np.testing.assert_allclose(law.cdf(law.quantile(np.full(15, 0.3))), 0.3, rtol=1e-9)


def test_toy_density_is_the_derivative_of_its_cdf():
    law = TARGET.law(np.array([0.4, -1.0]), np.array([2, -1]))
    x = np.array([0.5, 2.0])
    np.testing.assert_allclose((law.cdf(x + 1e-6) - law.cdf(x - 1e-6)) / 2e-6, np.exp(law.log_prob(x)), rtol=1e-6)
    np.testing.assert_allclose(law.sf(x), 1 - law.cdf(x), rtol=1e-10)
