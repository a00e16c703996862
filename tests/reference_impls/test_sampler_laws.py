"""The samplers' law on toys: the grey-box battery of the target, and the white-box battery of the declared rule.

False alarms: q = M min p > 1e-6 per grey battery and min p M > 1e-6 per white battery, so each assertion fails one exact tree in 1e6
(seeds are fixed by names: it either always passes or always fails). Each battery is shown to catch a fault at the same size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from sampler_runs import PastK

from reference_impls.samplers.policy import AdaptiveK, FixedK, KPolicy
from reference_impls.samplers.residual import ExactResidual, ResidualDraw
from reference_impls.samplers.speculative import Speculative
from reference_impls.samplers.target_only import TargetOnly
from reference_impls.samplers.verification import Joint, TwoStep
from reference_impls.stress import StressDraft
from reference_impls.toys import toy_draft, toy_target
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import SampleRequest, SampleRun, Stop
from tppsd_bench.results import Axis, Evidence
from tppsd_bench.stats.grey import family_size, grey_battery
from tppsd_bench.stats.strata import standard_strata
from tppsd_bench.stats.whitebox import family_size as white_family_size
from tppsd_bench.stats.whitebox import inspect_run
from tppsd_bench.streams import StreamKey

FALSE_ALARM, CAUGHT = 1e-6, 1e-9
TARGETS = {"marked": toy_target(3), "gap types": toy_target(3, types_given_gap=True), "univariate": toy_target(1)}


def sampler(name: str, policy: KPolicy, rule=None, residual=None, poor: bool = True) -> Speculative:
    draft = toy_draft(TARGETS[name])
    parts = {} if residual is None else {"residual": residual}
    return Speculative(TARGETS[name], StressDraft(draft) if poor else draft, policy, rule or TwoStep(), **parts)


def grey_q(run: SampleRun, target, name: str, strata=True) -> float:
    """M min p of the grey-box battery, M fixed by the declared strata."""
    t, horizon = run.trace, run.events.horizon is not None
    by = (t.event_position, t.event_k) if strata else (None, None)
    k_values = tuple(range(1, 7)) if strata else ()
    declared = standard_strata(run.events.n_types, max_k=6 if strata else None, k_values=k_values)
    found = grey_battery(
        run.events, target.score(run.events), StreamKey(cell=name, purpose="pit").generator(), position=by[0], k_round=by[1],
        strata=declared, m=int(0.9 * (run.events.n_events + len(run.events))) if horizon else None,
        crossing_position=t.crossing_position if strata else None, crossing_k=t.crossing_k if strata else None,
    )  # fmt: skip
    assert all(e.passed for e in found if e.passed is not None)
    deciding = [e.p_value for e in found if e.p_value is not None and not e.display]
    return min(1.0, family_size(run.events.n_types, declared, horizon=horizon) * min(deciding))


def draw(of, stop: Stop, name: str, n: int = 120) -> SampleRun:
    return of.sample(SampleRequest(n, stop, StreamKey(cell=name)))


POLICIES = {"k = 1": FixedK(1), "k = 4": FixedK(4), "adaptive": AdaptiveK(k_max=6), "past": PastK(4), "k = 0": FixedK(0)}


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("rule", [TwoStep(), Joint()], ids=lambda r: r.rule)
def test_grey_battery_passes_whatever_chooses_k_from_the_past(policy, rule):
    name = f"grey {policy} {rule.rule}"
    run = draw(sampler("gap types", POLICIES[policy], rule), Stop(n_events=50), name)
    assert grey_q(run, TARGETS["gap types"], name) > FALSE_ALARM


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_grey_battery_passes_under_a_horizon(name):
    run = draw(sampler(name, AdaptiveK(k_max=6)), Stop(horizon=40.0), f"horizon {name}")
    assert grey_q(run, TARGETS[name], f"horizon {name}") > FALSE_ALARM


def test_grey_battery_passes_target_only_and_after_prompts():
    run = draw(TargetOnly(TARGETS["marked"]), Stop(n_events=50), "grey target only")
    assert grey_q(run, TARGETS["marked"], "grey target only", strata=False) > FALSE_ALARM
    prompt = EventBatch.from_gaps([[0.01] * 6], [[2] * 6], n_types=3)
    request = SampleRequest(120, Stop(n_events=50), StreamKey(cell="grey prompt"), prompt=prompt)
    run = sampler("marked", FixedK(4)).sample(request)
    assert grey_q(run, After(TARGETS["marked"], prompt), "grey prompt") > FALSE_ALARM
    assert grey_q(run, TARGETS["marked"], "grey prompt") < CAUGHT, "without its prompt the same run does not fit"


@dataclass(frozen=True)
class After:
    """The target given one prompt for all."""

    target: object
    prompt: EventBatch

    def score(self, batch: EventBatch):
        p = len(self.prompt.gaps)
        starts = np.repeat(batch.offsets[:-1], p)
        whole = EventBatch(
            np.insert(batch.gaps, starts, np.tile(self.prompt.gaps, len(batch))),
            np.insert(batch.types, starts, np.tile(self.prompt.types, len(batch))), batch.lengths + p, batch.n_types,
        )  # fmt: skip
        scores, mine = self.target.score(whole), whole.event_index >= p
        per_event = {f: getattr(scores, f)[mine] for f in ("log_density", "cdf", "survival", "type_probs")}
        return replace(scores, **per_event)


class OneTry(ExactResidual):
    tries = 1


@pytest.mark.parametrize("rule", [TwoStep(), Joint()], ids=lambda r: r.rule)
def test_grey_battery_passes_where_residuals_come_from_the_quadrature(rule):
    name = f"quadrature {rule.rule}"
    run = draw(sampler("gap types", FixedK(4), rule, OneTry()), Stop(n_events=30), name, n=60)
    assert run.counts.residual_switches > 100
    assert grey_q(run, TARGETS["gap types"], name) > FALSE_ALARM


# -- the battery at this size sees faults ----------------------------------------------------------------------------------
class FromTarget(ExactResidual):
    """The replacement is drawn from p instead of (p - q)+."""

    def draw(self, p, q, rows, uniforms, joint):
        drawn = super().draw(p, replace(q, loc=q.loc + 200.0), rows, uniforms, joint)
        return ResidualDraw(drawn.gap, drawn.type, drawn.kept, drawn.switched, drawn.gave_up)


@dataclass(frozen=True)
class PeekingSampler(Speculative):
    """K is cut where the third proposal is long: a choice that has seen the draft."""

    def propose(self, work, k, u):
        draft = super().propose(work, k, u)
        if draft.gaps.shape[1] > 2:
            draft.k = np.where((draft.gaps[:, 2] > 1.0) & (draft.k > 2), 2, draft.k)
        return draft


@pytest.mark.parametrize("rule", [TwoStep(), Joint()], ids=lambda r: r.rule)
def test_grey_battery_catches_a_residual_from_the_target(rule):
    run = draw(sampler("gap types", FixedK(4), rule, FromTarget()), Stop(n_events=50), f"from target {rule.rule}")
    assert grey_q(run, TARGETS["gap types"], "from target") < CAUGHT


def test_grey_battery_catches_a_k_that_has_seen_the_draft():
    honest = sampler("gap types", FixedK(4))
    peeking = PeekingSampler(honest.target, honest.draft, honest.policy)
    run = draw(peeking, Stop(n_events=50), "peeking")
    assert grey_q(run, TARGETS["gap types"], "peeking") < CAUGHT


# -- white box -------------------------------------------------------------------------------------------------------------
def white(run: SampleRun, of: Speculative, name: str) -> tuple[list[Evidence], float, float]:
    """(failed deterministic checks, M min p of mechanism, M min p of law)."""
    found = list(
        inspect_run(
            run, of.target, of.draft, of.declares.rule, StreamKey(cell=name, purpose="pit").generator(), tol=1e-9, max_rows=512
        ).evidence
    )
    q = {}
    for axis in (Axis.MECHANISM, Axis.LAW):
        p = [e.p_value for e in found if e.p_value is not None and not e.display and e.axis is axis]
        q[axis] = white_family_size(of.declares.rule, run.events.n_types, True, axis=axis) * min(p, default=1.0)
    return [e for e in found if e.passed is False], q[Axis.MECHANISM], q[Axis.LAW]


@pytest.mark.parametrize("stop", [Stop(n_events=50), Stop(horizon=30.0)], ids=["events", "horizon"])
@pytest.mark.parametrize("rule", [TwoStep(), Joint()], ids=lambda r: r.rule)
@pytest.mark.parametrize("name", sorted(TARGETS))
def test_whitebox_battery_passes(name, rule, stop):
    of, cell = sampler(name, AdaptiveK(k_max=6), rule), f"white {name} {rule.rule} {stop.n_events}"
    failed, mechanism, law = white(draw(of, stop, cell, n=60), of, cell)
    assert not failed, [e.name + ": " + e.detail for e in failed]
    assert mechanism > FALSE_ALARM
    assert law > FALSE_ALARM


def test_whitebox_battery_catches_a_residual_from_the_target():
    of = sampler("gap types", FixedK(4), residual=FromTarget())
    failed, _, _ = white(draw(of, Stop(n_events=50), "white fault", n=60), of, "white fault")
    assert any("support" in e.name for e in failed)


# -- long versions ---------------------------------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize("poor", [False, True])
@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("rule", [TwoStep(), Joint()], ids=lambda r: r.rule)
@pytest.mark.parametrize("name", sorted(TARGETS))
def test_grey_battery_passes_on_many_events(name, rule, policy, poor):
    cell = f"long {name} {policy} {rule.rule} {poor}"
    run = draw(sampler(name, POLICIES[policy], rule, poor=poor), Stop(n_events=100), cell, n=1000)
    assert grey_q(run, TARGETS[name], cell) > FALSE_ALARM


@pytest.mark.slow
def test_rejections_of_the_family_are_as_rare_as_stated():
    """200 exact runs at level .05: more than 27 rejections have probability below 1e-6."""
    rejected = 0
    for i in range(200):
        run = draw(sampler("gap types", AdaptiveK(k_max=6)), Stop(n_events=30), f"calibration {i}", n=60)
        rejected += grey_q(run, TARGETS["gap types"], f"calibration {i}") < 0.05
    assert rejected <= 27
