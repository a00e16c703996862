"""Acceptance by position from traces, and exact acceptance against closed forms and dense grids."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

from tppsd_bench.measure.acceptance import acceptance_by_position, clopper_pearson, exact_acceptance
from tppsd_bench.protocols import COMPONENT_EVENT, COMPONENT_GAP, COMPONENT_TYPE, Trace
from tppsd_bench.streams import StreamKey

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LogNormalLaw:
    """Rows of log-normal gaps with type logits that may move with log gap: logits a + b log(gap)."""

    mean: Floats
    scale: Floats
    level: Floats
    slope: Floats

    @property
    def n_types(self) -> int:
        return self.level.shape[1]

    def __len__(self) -> int:
        return len(self.mean)

    def take(self, rows: slice | NDArray[np.int64]) -> LogNormalLaw:
        return LogNormalLaw(self.mean[rows], self.scale[rows], self.level[rows], self.slope[rows])

    def _score(self, gap: Floats) -> Floats:
        shape = (-1, *[1] * (gap.ndim - 1))
        return (np.log(gap) - self.mean.reshape(shape)) / self.scale.reshape(shape)

    def cdf(self, gap: Floats) -> Floats:
        return special.ndtr(self._score(gap))

    def sf(self, gap: Floats) -> Floats:
        return special.ndtr(-self._score(gap))

    def log_prob(self, gap: Floats) -> Floats:
        scale = self.scale.reshape(-1, *[1] * (gap.ndim - 1))
        return stats.norm.logpdf(self._score(gap)) - np.log(scale) - np.log(gap)

    def quantile(self, u: Floats) -> Floats:
        shape = (-1, *[1] * (u.ndim - 1))
        return np.exp(self.mean.reshape(shape) + self.scale.reshape(shape) * special.ndtri(u))

    def sample_gap(self, u: Floats) -> Floats:
        return self.quantile(u[..., 0])

    def type_log_probs(self, gap: Floats) -> Floats:
        shape = (len(self), *[1] * (gap.ndim - 1), self.n_types)
        return special.log_softmax(self.level.reshape(shape) + self.slope.reshape(shape) * np.log(gap)[..., None], axis=-1)


def laws(name: str, n: int, n_types: int, apart: float, slope: float) -> tuple[LogNormalLaw, LogNormalLaw]:
    rng = StreamKey(seed=5, cell=name).generator()

    def one(distance: float) -> LogNormalLaw:
        return LogNormalLaw(
            distance * rng.normal(size=n),
            np.exp(distance * 0.5 * rng.normal(size=n)),
            rng.normal(size=(n, n_types)),
            slope * rng.normal(size=(n, n_types)),
        )

    return one(apart), one(apart)


def dense(p: LogNormalLaw, q: LogNormalLaw) -> tuple[Floats, Floats, Floats]:
    """The same integrals by 40,001 equal steps of log gap."""
    x = np.linspace(-25, 25, 40_001)
    gap = np.broadcast_to(np.exp(x), (len(p), len(x)))
    fp, fq = (np.exp(law.log_prob(gap)) * gap * (x[1] - x[0]) for law in (p, q))
    kp, kq = np.exp(p.type_log_probs(gap)), np.exp(q.type_log_probs(gap))
    both = np.minimum(fp, fq)
    joint = np.minimum(fp[..., None] * kp, fq[..., None] * kq).sum(axis=(1, 2))
    return both.sum(axis=1), joint, (both * np.minimum(kp, kq).sum(axis=2)).sum(axis=1)


@pytest.mark.parametrize("slope", [0.0, 1.0])
@pytest.mark.parametrize("apart", [0.05, 0.5, 2.0])
def test_quadrature_is_within_1e_4_of_a_dense_grid(apart: float, slope: float) -> None:
    p, q = laws("dense", 20, 3, apart, slope)
    exact = exact_acceptance(p, q)
    for mine, reference in zip((exact.gap, exact.joint, exact.two_step), dense(p, q), strict=True):
        assert np.abs(mine - reference).max() < 1e-4


def test_equal_scale_gaps_have_the_closed_form_overlap() -> None:
    """Two normals a distance d apart overlap by 2 Phi(-d / 2)."""
    d = np.array([0.0, 0.1, 1.0, 5.0])
    one_type = np.zeros((4, 1))
    p, q = (LogNormalLaw(m, np.ones(4), one_type, one_type) for m in (np.zeros(4), d))
    exact = exact_acceptance(p, q)
    for value in (exact.gap, exact.joint, exact.two_step):
        assert value == pytest.approx(2 * special.ndtr(-d / 2), abs=1e-4)


def test_equal_laws_are_always_accepted_and_disjoint_ones_never() -> None:
    p, _ = laws("same", 5, 3, 1.0, 1.0)
    exact = exact_acceptance(p, p)
    assert exact.gap == pytest.approx(np.ones(5), abs=1e-12)
    assert exact.joint == pytest.approx(np.ones(5), abs=1e-12)
    assert exact.two_step == pytest.approx(np.ones(5), abs=1e-12)
    far = exact_acceptance(p, replace(p, mean=p.mean + 200))
    assert far.joint == pytest.approx(np.zeros(5), abs=1e-11)


def test_types_that_ignore_the_gap_factor_in_two_steps_and_joint_is_the_ceiling() -> None:
    p, q = laws("factor", 30, 4, 0.5, 0.0)
    exact = exact_acceptance(p, q)
    one = np.ones(30)
    types = np.minimum(np.exp(p.type_log_probs(one)), np.exp(q.type_log_probs(one))).sum(axis=1)
    assert exact.type_given_gap == pytest.approx(types)
    assert (exact.two_step <= exact.joint + 1e-9).all()
    assert (exact.joint - exact.two_step).max() > 0.01


def test_chunks_change_nothing_and_no_rows_are_fine() -> None:
    p, q = laws("chunks", 17, 3, 0.5, 1.0)
    assert np.array_equal(exact_acceptance(p, q).joint, exact_acceptance(p, q, chunk_values=4000).joint)
    assert len(exact_acceptance(p.take(slice(0, 0)), q.take(slice(0, 0))).gap) == 0
    with pytest.raises(ValueError, match="same contexts and types"):
        exact_acceptance(p, q.take(slice(0, 3)))


def test_clopper_pearson_agrees_with_scipy_and_knows_the_ends() -> None:
    x, n = np.array([0, 3, 10, 7, 0]), np.array([10, 10, 10, 50, 0])
    lower, upper = clopper_pearson(x, n, 0.99)
    for i in range(4):
        interval = stats.binomtest(int(x[i]), int(n[i])).proportion_ci(0.99, method="exact")
        assert (lower[i], upper[i]) == pytest.approx((interval.low, interval.high))
    assert (lower[4], upper[4]) == (0, 1)


def trace(records: list[tuple[int, int, bool]], drafted: list[int]) -> Trace:
    """A trace of (component, position, accepted) records and drafts a round; the other columns play no part here."""
    component, position, accepted = (np.array(c) for c in zip(*records, strict=True))
    n, r = len(records), len(drafted)
    ints, floats, rounds = np.zeros(n, dtype=np.int64), np.zeros(n), np.zeros(r, dtype=np.int64)
    roles, none = np.zeros(0, dtype=np.int8), np.zeros(0, dtype=np.int64)
    return Trace(
        ints, ints, ints, position.astype(np.int64), ints, component.astype(np.int8), floats, ints, floats, floats,
        accepted.astype(bool), roles, roles, none, none, none,
        rounds, rounds, np.array(drafted), rounds, rounds, rounds, rounds,
    )  # fmt: skip


G, T, E = COMPONENT_GAP, COMPONENT_TYPE, COMPONENT_EVENT


def test_components_events_and_the_two_rates_are_told_apart() -> None:
    records = [
        (G, 0, True), (T, 0, True), (G, 1, True), (T, 1, False),  # round 0: stops at the type of position 1
        (G, 0, False),  # round 1: stops at the first gap
        (G, 0, True), (T, 0, True), (G, 1, True), (T, 1, True), (G, 2, True), (T, 2, True),  # round 2: all three
    ]  # fmt: skip
    table = acceptance_by_position(trace(records, [3, 3, 3]))
    assert table.gap is not None
    assert table.type is not None
    assert table.gap.verified.tolist() == [3, 2, 1]
    assert table.gap.accepted.tolist() == [2, 2, 1]
    assert table.type.verified.tolist() == [2, 2, 1]
    assert table.event.verified.tolist() == [3, 2, 1]
    assert table.event.accepted.tolist() == [2, 1, 1]
    assert table.event.accepted_per_verified == pytest.approx([2 / 3, 1 / 2, 1])
    assert table.event.accepted_per_drafted == pytest.approx([2 / 3, 1 / 3, 1 / 3])
    assert table.undecided == 0


def test_an_accepted_gap_beyond_the_horizon_is_in_no_event_rate() -> None:
    table = acceptance_by_position(trace([(G, 0, True), (T, 0, True), (G, 1, True)], [2]))
    assert table.undecided == 1
    assert table.event.verified.tolist() == [1, 0]
    assert np.isnan(table.event.accepted_per_verified[1])


def test_joint_records_and_single_type_traces_are_events() -> None:
    joint = acceptance_by_position(trace([(E, 0, True), (E, 1, False)], [2]))
    assert joint.gap is None
    assert joint.event.accepted.tolist() == [1, 0]
    single = acceptance_by_position(trace([(G, 0, True), (G, 1, False)], [2]))
    assert single.event.verified.tolist() == [1, 1]
    assert single.event.accepted.tolist() == [1, 0]
