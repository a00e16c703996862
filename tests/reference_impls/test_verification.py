"""Verification rules by exhaustion: a discrete toy, every combination of grid uniforms once, and the output law comes out exact.

Probabilities are multiples of 1/4, acceptance ratios of 1/2: midpoints of a grid of four give every branch its exact weight, so the
law of what the real sampler returns is a matter of counting, without any statistics.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest

import reference_impls.samplers.speculative as speculative
from reference_impls.heads.lognormal_mixture import LogNormalMixture
from reference_impls.heads.types import TypesIndependent
from reference_impls.samplers.policy import FixedK
from reference_impls.samplers.residual import ResidualDraw
from reference_impls.samplers.speculative import Speculative
from reference_impls.samplers.verification import Joint, TwoStep, Verification
from tppsd_bench.protocols import ROLE_ACCEPTED, ROLE_RESIDUAL, ROLE_TARGET, SampleRequest, Stop
from tppsd_bench.streams import StreamKey

P_GAP, Q_GAP = np.array([2, 1, 1]) / 4, np.array([1, 1, 2]) / 4
P_TYPE = np.array([[3, 1], [1, 3], [2, 2]]) / 4
Q_TYPE = np.full((3, 2), 0.5)
P, Q = P_GAP[:, None] * P_TYPE, Q_GAP[:, None] * Q_TYPE


@dataclass(frozen=True)
class DiscreteLaw:
    """Gaps 1, 2, 3 with masses ``gap`` (3,), types with ``type`` (3, 2) given the gap; n equal rows."""

    gap: np.ndarray
    type: np.ndarray
    n: int
    n_types: int = 2

    def __len__(self):
        return self.n

    def take(self, rows):
        return DiscreteLaw(self.gap, self.type, len(np.arange(self.n)[rows]))

    @classmethod
    def concat(cls, laws):
        return cls(laws[0].gap, laws[0].type, sum(law.n for law in laws))

    def log_prob(self, gap):
        return np.log(self.gap)[gap.astype(int) - 1]

    def sample_gap(self, u):
        return np.searchsorted(np.cumsum(self.gap), u[..., 0], side="right") + 1.0

    def type_log_probs(self, gap):
        return np.log(self.type)[gap.astype(int) - 1]


@dataclass
class Lengths:
    lengths: np.ndarray

    def rollback(self, lengths):
        self.lengths = lengths.copy()

    def keep(self, rows):
        self.lengths = self.lengths[rows]


@dataclass(frozen=True)
class DiscreteModel:
    gap: np.ndarray
    type: np.ndarray
    name: str = "discrete"
    n_types: int = 2

    def start(self, n, capacity):
        return Lengths(np.zeros(n, dtype=np.int64))

    def initial(self, n):
        return DiscreteLaw(self.gap, self.type, n)

    def extend(self, cache, gaps, types, counts):
        cache.lengths = cache.lengths + counts
        return self.initial(gaps.size)


GRID = (np.arange(4) + 0.5) / 4
FIFTHS = (np.arange(5) + 0.5) / 5
HALF = np.array([0.5])
AXES = (GRID, HALF, GRID, GRID, GRID, GRID, HALF, GRID, FIFTHS)
"""Draft gap, its normal, draft type, accept gap, accept type, last gap, its normal, last type; and the residual's level."""


class EveryCombination:
    """Stands in for the streams: row i takes combination i in its first round, midpoints afterwards."""

    def __init__(self, key, n, first_sequence=0):
        self.table = np.array(list(product(*AXES)))
        self.taken = np.zeros(n, dtype=np.int64)

    def take(self, rows, m):
        if m == 1:
            return self.table[rows, 8:]
        fresh = self.taken[rows] == 0
        self.taken[rows] += 1
        return np.where(fresh[:, None], self.table[rows, :m], 0.5)


class ByInversion:
    """The residual (p - q)+ of the discrete toy, by inverse CDF of one uniform."""

    def draw(self, p, q, rows, uniforms, joint):
        mass = np.maximum(P - Q, 0) if joint else np.maximum(P_GAP - Q_GAP, 0)[:, None]
        cell = np.searchsorted(np.cumsum(mass) / mass.sum(), uniforms(rows, 1)[:, 0], side="right")
        gap, type_ = np.divmod(cell, mass.shape[1])
        no = np.zeros(len(rows), dtype=bool)
        return ResidualDraw(gap + 1.0, type_ if joint else np.full(len(rows), -1), no, no, no)


class AlwaysAccept(TwoStep):
    def verify(self, p, q, gaps, types, u_gap, u_type):
        yes = np.ones(gaps.shape, dtype=bool)
        v = super().verify(p, q, gaps, types, u_gap, u_type)
        return Verification(v.log_p_gap, v.log_q_gap, v.log_p_type, v.log_q_type, yes, yes.copy())


def first_round(rule, monkeypatch):
    """(first events (n, 2), second events of rounds that accepted (n', 2), the run): as (gap index, type)."""
    monkeypatch.setattr(speculative, "UniformStreams", EveryCombination)
    n = int(np.prod([len(axis) for axis in AXES]))
    sampler = Speculative(DiscreteModel(P_GAP, P_TYPE), DiscreteModel(Q_GAP, Q_TYPE), FixedK(1), rule, ByInversion())
    run = sampler.sample(SampleRequest(n, Stop(n_events=2), StreamKey()))
    gaps, types = run.events.padded()
    bonus = (run.trace.event_round == 0).reshape(n, 2)[:, 1]
    return (gaps[:, 0].astype(int) - 1, types[:, 0]), (gaps[bonus, 1].astype(int) - 1, types[bonus, 1]), run


def law_of(events) -> np.ndarray:
    table = np.zeros((3, 2))
    np.add.at(table, events, 1.0)
    return table / len(events[0])


@pytest.mark.parametrize("rule", [TwoStep(), Joint()], ids=lambda r: r.rule)
def test_every_combination_of_uniforms_once_gives_exactly_the_target(rule, monkeypatch):
    first, bonus, run = first_round(rule, monkeypatch)
    np.testing.assert_allclose(law_of(first), P, atol=1e-15)
    np.testing.assert_allclose(law_of(bonus), P, atol=1e-15)
    roles = list(zip(run.trace.gap_role[::2], run.trace.type_role[::2], strict=True))
    share = {pair: roles.count(pair) / len(roles) for pair in set(roles)}
    tv_gap, tv_joint = 0.25, 0.3125
    if rule.joint:
        assert share == {(ROLE_ACCEPTED, ROLE_ACCEPTED): 1 - tv_joint, (ROLE_RESIDUAL, ROLE_RESIDUAL): tv_joint}
    else:
        tv_type = 0.25 * np.minimum(P_GAP, Q_GAP)[:2].sum()  # with gaps 1 and 2 the types differ by 1/4
        want = {
            (ROLE_ACCEPTED, ROLE_ACCEPTED): 1 - tv_gap - tv_type,
            (ROLE_ACCEPTED, ROLE_RESIDUAL): tv_type,
            (ROLE_RESIDUAL, ROLE_TARGET): tv_gap,
        }
        assert share == want
    bonuses = run.trace.event_round[1::2] == 0
    assert (run.trace.gap_role[1::2][bonuses] == ROLE_TARGET).all()


def test_the_exhaustion_sees_a_rule_that_accepts_everything(monkeypatch):
    first, _, _ = first_round(AlwaysAccept(), monkeypatch)
    np.testing.assert_allclose(law_of(first), Q, atol=1e-15)
    assert np.abs(law_of(first) - P).max() > 0.1


def test_joint_acceptance_is_one_minus_tv_and_two_step_is_not_above_it(monkeypatch):
    accepted = {}
    for rule in (TwoStep(), Joint()):
        _, _, run = first_round(rule, monkeypatch)
        accepted[rule.rule] = run.counts.accepted / run.counts.drafted
    assert accepted["leviathan_joint"] == 1 - np.maximum(P - Q, 0).sum()
    assert accepted["leviathan_two_step"] <= accepted["leviathan_joint"]


# -- decisions -------------------------------------------------------------------------------------------------------------
class Given:
    """Log densities handed in."""

    def __init__(self, log_gap, log_type, n_types=2):
        self.log_gap, self.log_type, self.n_types = np.array(log_gap, dtype=float), log_type, n_types

    def log_prob(self, gap):
        return self.log_gap

    def type_log_probs(self, gap):
        return np.broadcast_to(self.log_type, (len(gap), self.n_types))


@pytest.mark.parametrize("rule", [TwoStep(), Joint()], ids=lambda r: r.rule)
@pytest.mark.filterwarnings("error")
def test_an_undefined_ratio_is_never_an_acceptance(rule):
    inf, nan = np.inf, np.nan
    same = np.log([[0.5, 0.5]])
    p, q = Given([-inf, nan, 0.0, -inf, 0.0], same), Given([-inf, 0.0, nan, 0.0, -inf], same)
    one = np.ones((1, 5))
    v = rule.verify(p, q, one, one.astype(np.int64), one * 2.0**-54, one * 0.5)
    assert v.gap_accepted[0].tolist() == [False, False, False, False, True], "0/0, NaN and 0 refuse; only q = 0 < p accepts"


def test_types_are_compared_given_the_gap_and_only_two_step_compares_them_apart():
    types = TypesIndependent(np.log([[0.9, 0.1]])), TypesIndependent(np.log([[0.1, 0.9]]))
    p, q = (LogNormalMixture(np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1)), t) for t in types)
    gap, kind, u = np.ones((1, 1)), np.ones((1, 1), dtype=np.int64), np.full((1, 1), 0.2)
    two, joint = TwoStep().verify(p, q, gap, kind, u, u), Joint().verify(p, q, gap, kind, u, u)
    assert (two.gap_accepted.item(), two.type_accepted.item()) == (True, False)
    assert (joint.gap_accepted.item(), joint.type_accepted.item()) == (False, False)
    np.testing.assert_allclose(np.exp(two.log_p_type - two.log_q_type), 1 / 9)
