"""Small pairs that obey the contract of ``reference_impls.pairs``, in numpy: an autoregressive log-normal marked process.

log gap_i ~ N(mu + phi * clip(log gap_{i-1}), sigma^2), type_i ~ a row of a matrix chosen by type_{i-1}. Also samplers that
misbehave, one a name: see ``names``.
"""

from __future__ import annotations

import math
import os
import signal
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from scipy.special import ndtr, ndtri

from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import Counts, Declaration, SampleRequest, SampleRun, Scores, Trace

START = 0.0  # log gap and type that stand in for the missing past
MATRIX = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4]])


@dataclass(frozen=True)
class Law:
    """Rows of log-normal gaps x types."""

    mean: np.ndarray
    sigma: np.ndarray
    log_types: np.ndarray

    @property
    def n_types(self):
        return self.log_types.shape[1]

    def __len__(self):
        return len(self.mean)

    def take(self, rows):
        return Law(self.mean[rows], self.sigma[rows], self.log_types[rows])

    def _z(self, gap):
        extra = (slice(None),) + (None,) * (np.ndim(gap) - 1)
        with np.errstate(divide="ignore"):
            return (np.log(gap) - self.mean[extra]) / self.sigma[extra], self.sigma[extra]

    def log_prob(self, gap):
        z, s = self._z(gap)
        return -0.5 * z * z - np.log(s * math.sqrt(2 * math.pi)) - np.log(gap)

    def cdf(self, gap):
        return ndtr(self._z(gap)[0])

    def sf(self, gap):
        return ndtr(-self._z(gap)[0])

    def quantile(self, u):
        extra = (slice(None),) + (None,) * (np.ndim(u) - 1)
        return np.exp(self.mean[extra] + self.sigma[extra] * ndtri(u))

    def sample_gap(self, u):
        return self.quantile(u[..., 0])

    def type_log_probs(self, gap):
        return np.broadcast_to(
            self.log_types.reshape(len(self), *(1,) * (np.ndim(gap) - 1), -1), (*np.shape(gap), self.n_types)
        )


@dataclass(frozen=True)
class Model:
    """Target or draft; ``temper`` flattens the types."""

    mu: float = -0.2
    phi: float = 0.3
    sigma: float = 0.7
    temper: float = 1.0
    n_types: int = 3

    def __post_init__(self):
        rows = MATRIX**self.temper
        object.__setattr__(self, "log_types", np.log(rows / rows.sum(axis=1, keepdims=True)))

    def at(self, log_gap, kind):
        """(mean, log type probabilities) after one event; scalars."""
        return self.mu + self.phi * min(max(log_gap, -3.0), 3.0), self.log_types[kind]

    def conditionals(self, batch):
        previous = np.roll(np.log(batch.gaps), 1)
        kinds = np.roll(batch.types, 1)
        first = batch.event_index == 0
        previous[first], kinds[first] = START, 0
        mean = self.mu + self.phi * np.clip(previous, -3, 3)
        return Law(mean, np.full(len(mean), self.sigma), self.log_types[kinds])

    def score(self, batch):
        law = self.conditionals(batch)
        crossing = None
        if batch.horizon is not None:
            padded, kinds = batch.padded(fill_gap=1.0)
            at = np.arange(len(batch)), np.maximum(batch.lengths - 1, 0)
            some = batch.lengths > 0
            last = np.where(some, np.log(padded[at]), START) if batch.n_events else np.full(len(batch), START)
            mean = self.mu + self.phi * np.clip(last, -3, 3)
            row = np.where(some, kinds[at], 0) if batch.n_events else np.zeros(len(batch), dtype=int)
            after = Law(mean, np.full(len(mean), self.sigma), self.log_types[row])
            crossing = after.cdf(np.maximum(batch.horizon - batch.end_times, 1e-300))
        g = batch.gaps
        return Scores(law.log_prob(g), law.cdf(g), law.sf(g), np.exp(law.type_log_probs(g)), crossing)


def log_density(model, mean, x):
    """Log density of the log gap x (the 1/gap is common to target and draft)."""
    z = (x - mean) / model.sigma
    return -0.5 * z * z - math.log(model.sigma * math.sqrt(2 * math.pi))


def draw_type(log_probs, u):
    return min(int(np.searchsorted(np.cumsum(np.exp(log_probs)), u)), len(log_probs) - 1)


class TargetOnly:
    def __init__(self, target, recompute=False):
        self.target, self.recompute = target, recompute
        self.declares = Declaration("target_only", True, True, "fake target-only")

    def sample(self, request):
        gaps, kinds = [], []
        for i in range(request.n_sequences):
            u = request.key.generator(request.first_sequence + i)
            g, k, x, kind, t = [], [], START, 0, 0.0
            while not done(request.stop, len(g), t):
                mean, logs = self.target.at(x, kind)
                if self.recompute:
                    for past in g:
                        self.target.at(math.log(past), 0)
                x = mean + self.target.sigma * ndtri(1 - u.random())
                kind = draw_type(logs, u.random())
                t += math.exp(x)
                g.append(math.exp(x))
                k.append(kind)
            gaps.append(g)
            kinds.append(k)
        batch = clip(gaps, kinds, request.stop, self.target.n_types)
        n = batch.n_events
        return SampleRun(batch, Counts(target_calls=n, target_row_forwards=n, target_positions=n, rounds=n, committed=n))


def done(stop, n, t):
    return n >= stop.n_events if stop.n_events is not None else t >= stop.horizon


def clip(gaps, kinds, stop, n_types):
    if stop.horizon is None:
        return EventBatch.from_gaps(gaps, kinds, n_types=n_types)
    keep = [int((np.cumsum(g) < stop.horizon).sum()) for g in gaps]
    return EventBatch.from_gaps(
        [g[:m] for g, m in zip(gaps, keep, strict=True)],
        [k[:m] for k, m in zip(kinds, keep, strict=True)],
        n_types=n_types,
        horizon=stop.horizon,
    )


@dataclass
class Book:
    """Growing columns of a trace."""

    verification: list = field(default_factory=list)
    event: list = field(default_factory=list)
    round: list = field(default_factory=list)

    def trace(self):
        v = np.array(self.verification, dtype=float).reshape(-1, 11)
        e = np.array(self.event, dtype=np.int64).reshape(-1, 5)
        r = np.array(self.round, dtype=np.int64).reshape(-1, 7)
        whole = [v[:, j].astype(np.int64) for j in range(5)]
        return Trace(
            *whole, v[:, 5].astype(np.int8), v[:, 6], v[:, 7].astype(np.int64), v[:, 8], v[:, 9], v[:, 10] > 0,
            e[:, 0].astype(np.int8), e[:, 1].astype(np.int8), e[:, 2], e[:, 3], e[:, 4], *(r[:, j] for j in range(7)),
        )  # fmt: skip


class Speculative:
    """Exact two-step speculative sampling, one event at a time; ``verify_types=False`` is the fault."""

    def __init__(self, target, draft, k, verify_types=True):
        self.target, self.draft, self.k, self.verify_types = target, draft, k, verify_types
        self.declares = Declaration("leviathan_two_step", True, True, "fake speculative")

    def sample(self, request):
        book, counts = Book(), Counts()
        gaps, kinds = [], []
        for i in range(request.n_sequences):
            u = request.key.generator(request.first_sequence + i).random
            g, k, t, number = [], [], 0.0, 0
            while not done(request.stop, len(g), t):
                left = self.k if request.stop.n_events is None else min(self.k, request.stop.n_events - len(g) - 1)
                before = len(g)
                self._round(i, number, left, g, k, u, book, counts)
                number += 1
                t += sum(g[before:])
            gaps.append(g)
            kinds.append(k)
        batch = clip(gaps, kinds, request.stop, self.target.n_types)
        counts.committed = batch.n_events
        return SampleRun(batch, counts, book.trace() if request.want_trace and request.stop.horizon is None else None)

    def _round(self, i, number, k, g, kinds, u, book, counts):
        p, q = self.target, self.draft
        x, kind = (math.log(g[-1]), kinds[-1]) if g else (START, 0)
        drafts = []
        for _ in range(k):
            mean, logs = q.at(x, kind)
            x = mean + q.sigma * ndtri(1 - u())
            kind = draw_type(logs, u())
            drafts.append((x, kind, mean, logs))
        x, kind = (math.log(g[-1]), kinds[-1]) if g else (START, 0)
        verified = accepted = 0
        roles = None
        for j, (dx, dk, q_mean, q_logs) in enumerate(drafts):
            event = len(g)
            mean, logs = p.at(x, kind)
            lp, lq = log_density(p, mean, dx), log_density(q, q_mean, dx)
            ok = math.log(1 - u()) < lp - lq
            verified += 1
            book.verification.append((i, event, number, j, k, 0, math.exp(dx), -1, lp - dx, lq - dx, ok))
            if not ok:
                x = self._residual(mean, q_mean, u, counts)
                kind, roles = draw_type(logs, u()), (1, 2)
            else:
                x = dx
                ok = not self.verify_types or math.log(1 - u()) < logs[dk] - q_logs[dk]
                book.verification.append((i, event, number, j, k, 1, math.exp(dx), dk, logs[dk], q_logs[dk], ok))
                if ok:
                    kind, roles = dk, (0, 0)
                    accepted += 1
                else:
                    rest = np.maximum(np.exp(logs) - np.exp(q_logs), 0)
                    kind, roles = draw_type(np.log(np.maximum(rest / rest.sum(), 1e-300)), u()), (0, 1)
            g.append(math.exp(x))
            kinds.append(kind)
            book.event.append((*roles, number, j, k))
            if not ok:
                break
        else:
            mean, logs = p.at(x, kind)
            g.append(math.exp(mean + p.sigma * ndtri(1 - u())))
            kinds.append(draw_type(logs, u()))
            book.event.append((2, 2, number, k, k))
        committed = min(verified + 1, k + 1) if roles == (0, 0) or not drafts else verified
        book.round.append((i, number, k, verified, accepted, committed, 0))
        counts.target_calls += 1
        counts.target_row_forwards += 1
        counts.target_positions += k + 1
        counts.draft_calls += k
        counts.draft_row_forwards += k
        counts.draft_positions += k
        counts.rounds += 1
        counts.drafted += k
        counts.verified += verified
        counts.accepted += accepted

    def _residual(self, mean, q_mean, u, counts):
        p, q = self.target, self.draft
        while True:
            counts.residual_draws += 1
            x = mean + p.sigma * ndtri(1 - u())
            if u() < 1 - math.exp(min(0.0, log_density(q, q_mean, x) - log_density(p, mean, x))):
                return x


class Misbehaving:
    """Wraps a sampler and does ``what`` instead of its job."""

    def __init__(self, inner, what):
        self.inner, self.what, self.declares = inner, what, inner.declares

    def sample(self, request):
        misbehave(self.what)
        return self.inner.sample(request)


class Process(Model):
    """The true process behind the target (the same law): simulates and scores."""

    def simulate(self, n, stop, key):
        return TargetOnly(self).sample(SampleRequest(n, stop, key)).events


@dataclass
class Pair:
    name: str
    title: str
    target: Model
    drafts: dict
    card: dict
    process: object = None
    fault: str = ""

    def sampler(self, kind, *, draft="shipped", k=5, rule="leviathan_two_step", batch_size=None):
        if kind == "target_only":
            return TargetOnly(self.target)
        if kind == "target_only_recompute":
            return TargetOnly(self.target, recompute=True)
        if kind == "draft_only":
            return TargetOnly(self.drafts[draft])
        sampler = Speculative(self.target, self.drafts[draft], k, verify_types=self.fault != "types_unverified")
        wrong = self.fault in ("raises", "dies", "hangs") and draft == "stress"
        return Misbehaving(sampler, self.fault) if wrong else sampler


FAULTS = {
    "fake-exact": "",
    "fake-types-unverified": "types_unverified",
    "fake-raises": "raises",
    "fake-dies": "dies",
    "fake-hangs": "hangs",
}


LOADS = ("load-ok", "load-ok-too", "load-raises", "load-dies", "load-hangs", "load-stuck", "load-slow")
"""Pairs that misbehave while loading, and two that do not: real data, no process, so that a fit cell is instant."""


NLL = {
    "target": {"value": 1.0, "low": 0.9, "high": 1.1},
    "draft": {"value": 1.1, "low": 1.0, "high": 1.2},
    "draft_minus_target": {"value": 0.1, "low": 0.08, "high": 0.12},
}
"""Held-out likelihoods as a card of real data has them."""


def names():
    return [*FAULTS, *LOADS]


def card(name):
    return {
        "title": f"Fake pair {name}",
        "data": "synthetic",
        "process": {"kind": "log-normal autoregression", "params": {}},
        "train_median_events": 40,
        "train_median_horizon": 30.0,
        "nll": NLL if name in LOADS else {},
    }


def misbehave(what):
    if what == "raises":
        raise ZeroDivisionError("the fake pair divides by zero")
    if what == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "stuck":  # as in foreign code that never returns to the interpreter
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        time.sleep(3600)
    if what == "hangs":
        time.sleep(3600)
    if what == "slow":
        time.sleep(float(os.environ.get("FAKE_SLOW", "0")))


def load_pair(name, device="cpu"):
    name = Path(name).name
    if name in LOADS:
        misbehave(name.removeprefix("load-"))
        return Pair(name, f"Fake pair {name}", Model(), {"shipped": Model()}, card(name))
    target = Model()
    drafts = {
        "shipped": replace(target, mu=-0.15, sigma=0.75, temper=0.9),
        "stress": replace(target, mu=0.2, sigma=0.95, temper=0.3),
    }
    return Pair(name, f"Fake pair {name}", target, drafts, card(name), Process(), FAULTS[name])


def make_exact():
    """A factory for ``certify --sampler``."""
    pair = load_pair("fake-exact")
    return pair.sampler("speculative", draft="stress"), pair.target, pair.drafts["stress"]


def make_unverified():
    pair = load_pair("fake-types-unverified")
    return pair.sampler("speculative", draft="stress"), pair.target, pair.drafts["stress"]
