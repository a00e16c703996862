"""Replacements of refused proposals: both ways of drawing them have the law (p - q)+ / TV.

The inverse CDF is checked as an identity against an independent dense quadrature; rejection by one-sample tests at p > 1e-6 (one
false alarm in 1e6 each, seeds fixed by names), which draws from p itself fail at p < 1e-9.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from reference_impls.heads.lognormal_mixture import LogNormalMixture, sample_types
from reference_impls.heads.types import OneType, TypesIndependent
from reference_impls.samplers.residual import ExactResidual, invert_residual, residual_types
from reference_impls.stress import StressDraft
from reference_impls.toys import toy_draft, toy_target
from tppsd_bench.streams import StreamKey

FALSE_ALARM, CAUGHT = 1e-6, 1e-9


class OneTry(ExactResidual):
    """Leaves rejection sampling after a single try: most draws come from the quadrature."""

    tries = 1


def laws(kind: str, poor: bool) -> tuple[LogNormalMixture, LogNormalMixture]:
    """One row of target and draft, after a history that both remember."""
    target = toy_target(1 if kind == "univariate" else 3, types_given_gap=kind == "gap types")
    draft = StressDraft(toy_draft(target)) if poor else toy_draft(target)
    gaps, types = np.array([[0.1, 2.0, 0.3]]), np.array([[0, target.n_types - 1, 0]])
    end = np.array([3])
    return target.law_after(gaps, types, end), draft.law_after(gaps, types, end)


class Truth:
    """(p - q)+ on a dense grid of log gaps, by branch (types, or one): masses by the trapezoid rule, roots left unpolished."""

    def __init__(self, p: LogNormalMixture, q: LogNormalMixture, joint: bool) -> None:
        parts = [np.linspace(-14.0, 14.0, 6_001)]
        for law in (p, q):
            parts += [m + s * np.linspace(-9, 9, 6_001) for m, s in zip(law.loc[0], law.scale[0], strict=True)]
        self.x = np.unique(np.concatenate(parts))
        gap = np.exp(self.x)[None]
        log_p, log_q = p.log_prob(gap)[0] + self.x, q.log_prob(gap)[0] + self.x
        if joint:
            log_p = log_p[:, None] + p.type_log_probs(gap)[0]
            log_q = log_q[:, None] + q.type_log_probs(gap)[0]
        density = np.maximum(np.exp(log_p) - np.exp(log_q), 0.0).reshape(len(self.x), -1).T
        cell = np.diff(self.x) * (density[:, 1:] + density[:, :-1]) / 2
        self.cumulative = np.concatenate([np.zeros((len(cell), 1)), np.cumsum(cell, axis=1)], axis=1)
        self.branch_mass = self.cumulative[:, -1]
        self.mass = float(self.branch_mass.sum())

    def cdf(self, gap: np.ndarray, branch: np.ndarray) -> np.ndarray:
        """Position of (branch, gap) in the residual's CDF, branches one after the other."""
        before = np.concatenate([[0.0], np.cumsum(self.branch_mass)])[branch]
        inside = [np.interp(np.log(g), self.x, self.cumulative[b]) for g, b in zip(gap, branch, strict=True)]
        return (before + np.array(inside)) / self.mass


def draw(rule: ExactResidual, p: LogNormalMixture, q: LogNormalMixture, n: int, joint: bool, name: str):
    rows, rng = np.zeros(n, dtype=np.int64), StreamKey(cell=name).generator()
    return rule.draw(p.take(rows), q.take(rows), np.arange(n), lambda at, m: rng.random((len(at), m)), joint)


def p_value(truth: Truth, gap: np.ndarray, types: np.ndarray) -> float:
    """KS of positions in the branch-wise CDF: a wrong law of gaps within a type, or of types, moves it."""
    return float(stats.kstest(truth.cdf(gap, np.maximum(types, 0)), "uniform").pvalue)


CASES = [(kind, joint) for kind in ("univariate", "marked", "gap types") for joint in (False, True)]


@pytest.mark.parametrize(("kind", "joint"), CASES)
def test_rejection_draws_have_the_residual_law(kind, joint):
    p, q = laws(kind, poor=True)
    truth, n = Truth(p, q, joint), 4000
    drawn = draw(ExactResidual(), p, q, n, joint, f"rejection {kind} {joint}")
    assert not np.any([drawn.kept, drawn.gave_up, drawn.switched])
    assert (drawn.type >= 0).all() == joint
    assert p_value(truth, drawn.gap, drawn.type) > FALSE_ALARM
    rng = StreamKey(cell=f"from p {kind} {joint}").generator()
    gap = p.sample_gap(rng.random((1, n, 2)))
    types = sample_types(p.type_log_probs(gap), rng.random((1, n)))[0] if joint else np.zeros(n, dtype=np.int64)
    assert p_value(truth, gap[0], types) < CAUGHT, "draws from p pass for residual draws"
    lower = q.log_prob(drawn.gap[None])[0] >= p.log_prob(drawn.gap[None])[0]
    assert joint or not lower.any(), "a residual draw where p <= q"


@pytest.mark.parametrize("joint", [False, True])
def test_draws_of_many_looks_have_the_residual_law(joint):
    """One try in two hundred is taken: most rows draw random numbers several times, few come to the inversion."""
    p, _ = laws("marked", poor=False)
    q = replace(p, loc=p.loc + 0.012)
    truth, n = Truth(p, q, joint), 3000
    assert 1 / 400 < truth.mass < 1 / 100
    drawn = draw(ExactResidual(), p, q, n, joint, f"many looks {joint}")
    assert 0 < drawn.switched.mean() < 0.2
    assert p_value(truth, drawn.gap, drawn.type) > FALSE_ALARM


@pytest.mark.parametrize(("kind", "joint"), CASES)
@pytest.mark.parametrize("poor", [False, True])
def test_the_inverse_cdf_inverts_the_residuals_cdf(kind, joint, poor):
    p, q = laws(kind, poor)
    truth = Truth(p, q, joint)
    u = np.array([1e-9, 0.01, 0.2, 0.37, 0.5, 0.73, 0.9, 0.999, 1 - 1e-9])
    rows = np.zeros(len(u), dtype=np.int64)
    gap, types, empty = invert_residual(p.take(rows), q.take(rows), u, joint)
    assert not empty.any()
    np.testing.assert_allclose(truth.cdf(gap, np.maximum(types, 0)), u, atol=1e-5)  # the truth's own error


def test_a_residual_that_sits_on_a_narrow_component_is_found():
    """Components of widths .007 and 20 side by side: a grid that is even over the whole support steps over the narrow one."""
    loc, log_scale, logit = np.array([[-1.0, 1.0, 0.3]]), np.array([[-5.0, 3.0, 0.0]]), np.array([[-3.0, 0.3, 0.0]])
    p = LogNormalMixture(loc, log_scale, logit, OneType(1))
    first = np.array([[1.0, 0.0, 0.0]])
    for change in ({"loc": loc + 1e-3 * first}, {"logit": logit + 0.02 * first}, {"log_scale": log_scale - 0.02 * first}):
        for a, b in ((p, replace(p, **change)), (replace(p, **change), p)):
            truth = Truth(a, b, False)
            u, rows = np.array([0.01, 0.3, 0.6, 0.99]), np.zeros(4, dtype=np.int64)
            gap, _, _ = invert_residual(a.take(rows), b.take(rows), u, False)
            np.testing.assert_allclose(truth.cdf(gap, rows), u, atol=1e-4)


@pytest.mark.parametrize("joint", [False, True])
def test_a_row_is_drawn_alike_alone_and_among_others(joint):
    """Rows of unlike resolution and residual mass (1e-9 beside .3), together and one by one: the same bits."""
    target = toy_target(3, types_given_gap=True)
    near, far = toy_draft(target, 1e-8), StressDraft(toy_draft(target))
    rng = StreamKey(cell="rows alone").generator()
    gaps, types, end = np.exp(rng.normal(size=(6, 5))), rng.integers(0, 3, (6, 5)), np.full(6, 5)
    p = target.law_after(gaps, types, end)
    law_near, law_far = near.law_after(gaps, types, end), far.law_after(gaps, types, end)
    q = replace(law_near, loc=np.where(np.arange(6)[:, None] % 2, law_near.loc, law_far.loc),
                log_scale=np.where(np.arange(6)[:, None] % 3, law_near.log_scale, law_far.log_scale - 3.0))  # fmt: skip
    u = rng.random(6)
    together = invert_residual(p, q, u, joint)
    for i in range(6):
        alone = invert_residual(p.take(slice(i, i + 1)), q.take(slice(i, i + 1)), u[i : i + 1], joint)
        for a, b in zip(alone, together, strict=True):
            assert a[0] == b[i]


@pytest.mark.parametrize(("kind", "joint"), CASES)
def test_draws_that_leave_rejection_have_the_residual_law(kind, joint):
    p, q = laws(kind, poor=False)
    truth = Truth(p, q, joint)
    drawn = draw(OneTry(), p, q, 300, joint, f"one try {kind} {joint}")
    assert drawn.switched.mean() > 0.7
    assert not np.any([drawn.kept, drawn.gave_up])
    assert p_value(truth, drawn.gap, drawn.type) > FALSE_ALARM
    from_p = draw(FromTarget(), p, q, 300, joint, f"one try from p {kind} {joint}")
    assert p_value(truth, from_p.gap, from_p.type) < CAUGHT


class FromTarget(ExactResidual):
    """The fault: the first try is taken whatever it is."""

    def draw(self, p, q, rows, uniforms, joint):
        shifted = replace(q, loc=q.loc + 200.0)  # q nowhere near: every try of p is taken
        return super().draw(p, shifted, rows, uniforms, joint)


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("difference", [0.0, 1e-16, 1e-14])
def test_without_a_residual_the_proposal_is_kept(joint, difference):
    for kind in ("univariate", "marked", "gap types"):
        p, _ = laws(kind, poor=False)
        q = replace(p, loc=p.loc * (1 + difference))
        drawn = draw(ExactResidual(), p, q, 5, joint, "no residual")
        assert drawn.kept.all()
        assert not drawn.switched.any()


def test_a_small_residual_is_drawn_not_kept():
    p, _ = laws("univariate", poor=False)
    q = replace(p, loc=p.loc + 1e-9)
    truth = Truth(p, q, False)
    drawn = draw(ExactResidual(), p, q, 20, False, "small residual")
    assert drawn.switched.all()
    assert (p.take(np.zeros(20, dtype=int)).log_prob(drawn.gap) >= q.take(np.zeros(20, dtype=int)).log_prob(drawn.gap)).all()
    assert stats.kstest(truth.cdf(drawn.gap, np.zeros(20, dtype=int)), "uniform").pvalue > FALSE_ALARM


# -- types -----------------------------------------------------------------------------------------------------------------
@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-30, 30), min_size=2, max_size=6), st.integers(0, 2**32))
def test_type_residuals_by_counting(logits, seed):
    rng = np.random.default_rng(seed)
    log_p = TypesIndependent(np.array([logits])).log_p
    log_q = TypesIndependent(np.array([logits]) + rng.normal(size=(1, len(logits)))).log_p
    residual = np.maximum(np.exp(log_p) - np.exp(log_q), 0.0)[0]
    u = (np.arange(2000) + 0.5) / 2000
    types, kept = residual_types(np.repeat(log_p, 2000, axis=0), np.repeat(log_q, 2000, axis=0), u)
    if kept.any():
        assert kept.all()
        assert residual.sum() <= 1e-12
        return
    share = np.bincount(types, minlength=len(logits)) / 2000
    np.testing.assert_allclose(share, residual / residual.sum(), atol=1e-3)
    assert (share[residual == 0] == 0).all(), "a type with p <= q is never drawn"


def test_equal_type_laws_keep_the_proposal():
    log_p = np.log(np.array([[0.2, 0.3, 0.5], [0.2, 0.3, 0.5]]))
    _, kept = residual_types(log_p, log_p + np.array([[0.0], [1e-14]]), np.array([0.3, 0.9]))
    assert kept.all()


def test_edges_of_the_uniform_never_draw_a_type_without_mass():
    log_p, log_q = np.log(np.array([[0.5, 0.25, 0.25]])), np.log(np.array([[0.25, 0.5, 0.25]]))
    for u in (2.0**-54, 0.5, 1 - 2.0**-53):
        assert residual_types(log_p, log_q, np.array([u]))[0] == 0
