"""Watching a sampler: when it stops, that chunks do not matter, and what becomes of a cell that was stopped.

The seeds are fixed; an exact sampler is stopped in at most 1e-5 of seeds.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from fake_pair import load_pair as load_fake
from quick_suites import quick_suite

from reference_impls.mutants import Witness, mutant
from reference_impls.pairs import load_pair
from tppsd_bench import budget, certify
from tppsd_bench.errors import InputError
from tppsd_bench.protocols import Declaration, SampleRequest, SampleRun, Scores
from tppsd_bench.results import Axis, CellResult, Outcome
from tppsd_bench.runner import monitor, plan
from tppsd_bench.runner.law_cell import run_law_job
from tppsd_bench.runner.sequential import Watched, follow, watch
from tppsd_bench.stats.decide import validity_verdict
from tppsd_bench.stats.eprocess import Wealth
from tppsd_bench.stats.eprocess.process import Best
from tppsd_bench.streams import StreamKey

PAIR = load_pair("toy-marked")
STRESS = PAIR.drafts["stress"]
HERE = Witness("toy-marked", "stress", length=50)
EXACT = HERE.exact(PAIR)
KEY = StreamKey(seed=11, cell="watch")


def watched(sampler: Any, seed: int = 11, **more: Any) -> Watched:
    options = {"max_events": 20_000, **more}
    return watch(sampler, PAIR.target, STRESS, HERE.stop, KEY.replace(seed=seed), **options)


def broken(fault: str) -> Any:
    return mutant(fault).sampler(PAIR, witness=HERE)


def test_an_exact_sampler_is_watched_to_its_budget() -> None:
    seen = watched(EXACT, max_events=4_000)
    assert seen.detected_at is None
    assert seen.events[-1] == seen.run.events.n_events == 6_400  # the budget ends with the chunk that reaches it
    assert len(seen.log_wealth) == len(seen.events) == 128
    assert (seen.log_wealth < seen.threshold).all()
    assert watched(EXACT, max_events=10**9, max_sequences=70).run.events.n_events == 3_500


def test_it_stops_at_proof_and_says_who_led() -> None:
    seen = watched(broken("bonus_from_draft"))
    assert seen.detected_at is not None
    assert seen.detected_at < seen.run.events.n_events < 20_000
    at = int(np.flatnonzero(seen.events == seen.detected_at)[0])
    assert seen.log_wealth[at] >= seen.threshold > seen.log_wealth[:at].max()
    assert seen.leading == "draft direction"
    assert "bonus position" in seen.phrase
    assert seen.law_detected_at == seen.detected_at


def test_chunks_decide_how_much_is_drawn_not_what_is_found() -> None:
    found = [watched(broken("bonus_from_draft"), chunk=chunk) for chunk in (7, 64)]
    assert found[0].detected_at == found[1].detected_at
    m = min(len(w.log_wealth) for w in found)
    assert found[0].log_wealth[:m] == pytest.approx(found[1].log_wealth[:m], abs=1e-9)
    assert len(found[0].run.events) < len(found[1].run.events)


def test_the_joined_run_is_the_run_in_one_piece() -> None:
    seen = watched(EXACT, max_events=10**9, max_sequences=20, chunk=8)
    whole = EXACT.sample(SampleRequest(20, HERE.stop, KEY))
    assert (seen.run.events.gaps == whole.events.gaps).all()
    assert seen.run.counts.committed == whole.counts.committed == 1_000
    joined, one = seen.run.trace, whole.trace
    assert joined is not None
    assert one is not None
    order = [np.lexsort((t.component, t.event, t.sequence)) for t in (joined, one)]
    assert (joined.log_p[order[0]] == one.log_p[order[1]]).all()
    assert (joined.event_position == one.event_position).all()
    alone = follow(whole, PAIR.target, STRESS, "leviathan_two_step", KEY.replace(purpose="eprocess").generator())
    assert alone.log_wealth == pytest.approx(seen.log_wealth, abs=1e-9)


def test_patience_waits_for_the_law() -> None:
    """The residual is impossible at once; that the law is wrong takes longer."""
    fault = broken("residual_from_target")
    soon, patient = watched(fault), watched(fault, patience=1000.0)
    assert soon.detected_at == patient.detected_at
    assert patient.law_detected_at is not None
    assert soon.run.events.n_events <= patient.run.events.n_events
    assert soon.wealth.largest(Axis.MECHANISM) == np.inf


def test_grey_box_bets_on_the_law_alone() -> None:
    seen = watched(EXACT, max_events=3_000, want_trace=False)
    assert (seen.wealth.log_rule == -np.inf).all()
    assert all(best.axis is Axis.LAW for best in seen.wealth.top)


class Unscored:
    """The target, which loses its numbers in the second chunk."""

    def __init__(self) -> None:
        self.n_types, self.calls = PAIR.target.n_types, 0

    def score(self, batch: Any) -> Scores:
        self.calls += 1
        scores: Scores = PAIR.target.score(batch)
        return scores if self.calls == 1 else dataclasses.replace(scores, cdf=np.full_like(scores.cdf, np.nan))


def test_a_target_without_numbers_ends_it_and_wins_nothing() -> None:
    seen = watch(EXACT, Unscored(), None, HERE.stop, KEY, max_events=20_000)
    assert seen.detected_at is None
    assert "the CDF is nan" in seen.problem
    assert len(seen.log_wealth) == 64
    assert len(seen.run.events) == 128


def test_an_answer_that_is_none_is_refused() -> None:
    class Short:
        declares = Declaration("leviathan_two_step")

        def sample(self, request: SampleRequest) -> SampleRun:
            return EXACT.sample(dataclasses.replace(request, n_sequences=1))

    with pytest.raises(InputError, match="returned 1 sequences; 64 were requested"):
        watched(Short())


# -- cells and certificates -------------------------------------------------------------------------------------------------
LAW: dict[str, Any] = {"n_events": 4_000, "k": [4], "drafts": ["stress"], "n_permutations": 199, "max_rounds": 1}


def law_cell(pair: str, **law: Any) -> tuple[CellResult, dict[str, Any]]:
    made = plan.make_plan(quick_suite(pair, screen={"n_sequences": 40}, law={**LAW, **law}))
    ((cell, arrays),) = run_law_job(next(j for j in made.jobs if j.kind == "law"), load_fake(pair))
    return cell, arrays


def named(cell: CellResult, name: str) -> Any:
    return next(e for e in cell.evidence if e.name == name)


def test_a_broken_cell_ends_early_and_only_the_e_process_decides() -> None:
    cell, arrays = law_cell("fake-types-unverified", sequential=True)
    assert cell.n_events < 4_000
    law, mechanism = cell.verdict(Axis.LAW), cell.verdict(Axis.MECHANISM)
    assert law is not None
    assert law.outcome is Outcome.FAIL
    assert "the wealth of bets on the law reached 1e+05 after" in law.sentence
    assert law.level == budget.EPROCESS_LEVEL
    assert mechanism is not None
    assert mechanism.outcome is Outcome.FAIL
    assert all(e.display for e in cell.evidence if e.p_value is not None and e.axis is not Axis.VALIDITY)
    assert cell.figures["events_to_detection"] <= cell.n_events
    assert "ended this cell at" in cell.figures["confirmation"]
    assert arrays["wealth_log"].max() >= arrays["wealth_threshold"][0] == pytest.approx(np.log(1e5))
    assert not [e for e in cell.evidence if e.name.startswith("blackbox")]


def test_an_exact_cell_is_the_same_watched_or_not() -> None:
    (watched_cell, a), (plain, b) = (law_cell("fake-exact", sequential=s) for s in (True, False))
    assert [v.outcome for v in watched_cell.verdicts] == [v.outcome for v in plain.verdicts]
    assert watched_cell.n_events == plain.n_events == 4_000
    assert (a["gaps"] == b["gaps"]).all()
    assert a["wealth_log"] == pytest.approx(b["wealth_log"], abs=1e-9)
    assert named(plain, "e_process").p_value == pytest.approx(named(watched_cell, "e_process").p_value)
    law = plain.verdict(Axis.LAW)
    assert law is not None
    shares = budget.LAW_ANALYTIC_LEVEL + budget.PERMUTATION_LEVEL + budget.EPROCESS_LEVEL
    assert law.level == pytest.approx(shares)  # the third family passed


def test_every_law_cell_spends_its_own_share() -> None:
    cell, _ = law_cell("fake-types-unverified")
    assert cell.n_events == 4_000
    assert named(cell, "e_process").p_value < 1e-5
    assert named(cell, "e_process").display
    made = plan.make_plan(quick_suite("fake-exact", "fake-raises", horizon={"enabled": True}, law=LAW))
    judged = [j for j in made.jobs if j.kind in ("law", "horizon")]
    assert sum(len(j.cells) * j.levels.eprocess for j in judged) == pytest.approx(budget.EPROCESS_LEVEL)


def test_a_sequential_certificate() -> None:
    found = certify(broken("type_unverified"), PAIR.target, draft=STRESS, n_events=20_000, sequential=True)
    assert found.outcome is Outcome.FAIL
    assert found.cell.n_events < 20_000
    assert found.cell.figures["events_to_detection"] <= found.cell.n_events
    assert certify(EXACT, PAIR.target, draft=STRESS, n_events=4_000, sequential=True)
    with pytest.raises(InputError, match="bets on the target's own scores"):
        certify(EXACT, PAIR.target, reference=EXACT, access="black", sequential=True)


def test_proof_against_the_rule_alone_leaves_the_law_undecided() -> None:
    rule = Wealth(
        np.array([50, 100]), np.log([0.5, 0.6]), np.array([0.0, np.inf]), (), {Axis.MECHANISM: "a thing that cannot be"}
    )
    bets = monitor.evidence(rule, 1e-5)
    law, mechanism = monitor.stopped_verdicts(rule, 1e-5, bets, validity_verdict([]), "leviathan_two_step", ())
    assert law.outcome is Outcome.INCONCLUSIVE
    assert "proof against the declared rule ended the run after 100 events" in law.sentence
    assert mechanism.outcome is Outcome.FAIL
    assert "a thing that cannot be" in mechanism.sentence


def test_the_curve_is_thinned_without_losing_its_extremes() -> None:
    path = np.sin(np.arange(5_000) / 300) * 5
    path[1234] = 13.0
    wealth = Wealth(100 * np.arange(1, 5_001), path, np.full(5_000, -np.inf), (Best("types", "x", 1.0, Axis.LAW),))
    arrays = monitor.arrays(wealth, 1e-5)
    assert len(arrays["wealth_log"]) <= monitor.POINTS
    assert 13.0 in arrays["wealth_log"]
    assert arrays["wealth_events"][[0, -1]].tolist() == [100, 500_000]
    assert monitor.arrays(None, 1e-5) == {}
    assert monitor.figures(wealth, 1e-5) == {"events_to_detection": 123_500, "detected_by": "types: x"}
