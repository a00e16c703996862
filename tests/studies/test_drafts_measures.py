"""What the study of drafts measures, against closed forms: intervals over sequences, chosen events, foresight, acceptance over history.

Statistical checks are on fixed seeds; the level that each would fail at for other seeds is stated where it stands.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

from reference_impls.pairs import card, load_pair
from tppsd_bench.events import EventBatch
from tppsd_bench.measure.foresight import foresight
from tppsd_bench.measure.histories import Histories, ratio_over_sequences, spread_over
from tppsd_bench.protocols import SampleRun
from tppsd_bench.results import Outcome
from tppsd_bench.runner.plan import Job, make_plan
from tppsd_bench.streams import StreamKey
from tppsd_bench.studies.drafts import counted, over_history
from tppsd_bench.suite import check_suite

Floats = NDArray[np.float64]


def rng(name: str) -> np.random.Generator:
    return StreamKey(seed=11, cell=name).generator()


# -- intervals ---------------------------------------------------------------------------------------------------------------
def test_a_ratio_of_equal_counts_is_the_t_interval_of_the_mean() -> None:
    x = rng("t interval").normal(size=12)
    got = ratio_over_sequences(5 * x, np.full(12, 5.0))
    low, high = stats.t.interval(0.95, 11, loc=x.mean(), scale=stats.sem(x))
    assert (got["value"], got["low"], got["high"]) == pytest.approx((x.mean(), low, high))


def test_a_ratio_weighs_sequences_by_their_counts_and_needs_two() -> None:
    assert ratio_over_sequences(np.array([1.0, 9.0]), np.array([1.0, 9.0])) == {"value": 1.0, "low": 1.0, "high": 1.0}
    assert np.isnan(ratio_over_sequences(np.zeros(3), np.zeros(3))["value"])
    with pytest.raises(ValueError, match="needs two"):
        ratio_over_sequences(np.ones(1), np.ones(1))


# -- chosen events -----------------------------------------------------------------------------------------------------------
def test_chosen_events_lie_in_their_stretch_and_weigh_all_positions_alike() -> None:
    lengths = np.array([10, 7, 9])
    at = spread_over(lengths, np.array([2, 2, 2]), lengths, 3).reshape(3, 3)
    inside = at - np.array([[0], [10], [17]])
    assert (inside >= 2).all()
    assert (inside < lengths[:, None]).all()
    assert (np.diff(inside, axis=1) > 0).all()
    many = spread_over(np.full(40, 8), np.zeros(40, int), np.full(40, 8), 4) % 8
    assert np.bincount(many, minlength=8).tolist() == [20] * 8


def test_a_stretch_that_is_too_short_gives_what_it_has() -> None:
    at = spread_over(np.array([5, 5]), np.array([0, 0]), np.array([2, 2]), 9)
    assert at.tolist() == [0, 1, 5, 6]


# -- foresight ---------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Law:
    """Log-normal gaps about ``mean``; two types, the second with probability Phi(slope log gap)."""

    mean: Floats
    slope: float
    n_types: int = 2

    def quantile(self, u: Floats) -> Floats:
        return np.exp(self.mean[:, None] + special.ndtri(u))

    def type_log_probs(self, gap: Floats) -> Floats:
        second = special.ndtr(self.slope * np.log(gap))
        return np.log(np.stack([1 - second, second], axis=-1))


def test_foresight_compares_with_the_median_and_averages_types_over_the_gap() -> None:
    law: Any = Law(np.array([-0.4, 0.4, 0.0]), slope=2.0)
    got = foresight(law, np.exp(np.array([0.0, 0.4, 1.0])), np.array([0, 1, 1]))
    assert got.gap_error == pytest.approx([0.4, 0.0, 1.0])
    assert got.type_hit.tolist()[:2] == [True, True]  # E Phi(2 (m + Z)) = Phi(2 m / sqrt(5)): below one half for m < 0
    assert not foresight(law, np.ones(3), np.array([1, 0, 1])).type_hit[:2].any()


def test_of_one_type_every_prediction_is_a_hit() -> None:
    law: Any = Law(np.zeros(2), 0.0, n_types=1)
    assert foresight(law, np.ones(2), np.zeros(2, dtype=int)).type_hit.all()


# -- acceptance --------------------------------------------------------------------------------------------------------------
def job(kind: str, **table: Any) -> Job:
    tables = {"pairs": ["toy-marked"], "k": [1, 3], "sequences": 24, "contexts": 6, "held_out": 8, **table}
    made = make_plan(check_suite({"name": "t", "study": {"drafts": tables}}, "t"), seed=2)
    return next(j for j in made.jobs if j.kind == kind)


@pytest.fixture(scope="module")
def ground() -> counted.Ground:
    shorter = replace(job("drafts"), length=20)
    return counted.Ground(shorter, load_pair("toy-marked"))


def test_the_target_as_its_own_draft_is_always_accepted(ground: counted.Ground) -> None:
    pair = load_pair("toy-marked")
    pair.drafts["itself"] = pair.target
    own = counted.Ground(ground.job, pair)
    found = counted.acceptance(own, "itself")
    for unit in ("gap", "type", "event", "joint"):
        assert found[f"acceptance_{unit}"]["value"] == pytest.approx(1.0, abs=1e-9)
    row = counted.counted(3, counted.sampled(own, "itself", 3), 20)
    assert row["accepted_per_verified"] == {"value": 1.0, "low": 1.0, "high": 1.0}
    assert row["events_per_forward"]["value"] == 20 / 5  # four events a round, whole rounds
    assert row["speedup_by_count"]["value"] == 19 / 5  # target-only needs no pass for the first event


def test_rounds_by_sequence_are_the_forwards_that_the_sampler_counted(ground: counted.Ground) -> None:
    run = counted.sampled(ground, "stress", 3)
    row = counted.counted(3, run, 20)
    assert row["events_per_forward"]["value"] == pytest.approx(run.counts.committed / run.counts.target_row_forwards)
    assert (row["n_drafted"], row["n_verified"]) == (run.counts.drafted, run.counts.verified)
    assert row["accepted_per_verified"]["value"] == pytest.approx(run.counts.accepted / run.counts.verified)
    shown = counted.positions(run)
    assert int(shown["position_accepted"].sum()) == run.counts.accepted


def test_a_distilled_draft_is_compared_with_its_plain_sibling_on_the_same_events(ground: counted.Ground) -> None:
    pair = load_pair("toy-marked")
    pair.drafts["stress-distilled"] = pair.drafts["close"]
    own = counted.Ground(ground.job, pair)
    gain = counted.acceptance(own, "stress-distilled")["acceptance_minus_plain"]
    both = [counted.acceptance(own, name)["acceptance_event"] for name in ("stress-distilled", "stress")]
    assert gain["value"] == pytest.approx(both[0]["value"] - both[1]["value"])
    assert gain["low"] > 0.1  # TV of the stress draft .2 to .4, of the close one .05
    assert "acceptance_minus_plain" not in counted.acceptance(own, "stress")


def test_the_identity_holds_for_the_sampler_and_not_for_one_that_accepts_everything(ground: counted.Ground) -> None:
    """The verdict's own level: 1e-5 over the cells."""
    run = counted.sampled(ground, "stress", 3)
    figure, verdict = counted.identity(ground, "stress", run)
    assert verdict.outcome is Outcome.PASS
    assert figure["low"] < 0 < figure["high"]
    assert run.trace is not None
    zeros = np.zeros_like(run.trace.gap_role)
    always = SampleRun(run.events, run.counts, replace(run.trace, gap_role=zeros, type_role=zeros))
    figure, verdict = counted.identity(ground, "stress", always)
    assert verdict.outcome is Outcome.FAIL
    assert figure["value"] > 0.2


def test_likelihood_is_simulated_where_the_process_is_known_and_the_cards_where_it_is_not(ground: counted.Ground) -> None:
    pair = load_pair("toy-marked")
    assert counted.likelihood(ground, "shipped") == {}

    class Itself:
        """The target as the true process."""

        def simulate(self, n: int, stop: Any, key: StreamKey) -> EventBatch:
            from tppsd_bench.protocols import SampleRequest

            events: EventBatch = pair.sampler("target_only").sample(SampleRequest(n, stop, key, want_trace=False)).events
            return events

    known = counted.Ground(ground.job, replace(pair, process=Itself()))
    behind = counted.likelihood(known, "stress")
    assert behind["nll_draft_minus_target"]["low"] > 0
    assert behind["pointless"] is False
    about = {
        "nll": {
            "target": {"value": 1.0},
            "draft": {"value": 0.9},
            "draft_minus_target": {"value": -0.1, "low": -0.2, "high": 0.0},
        }
    }
    carded = counted.likelihood(counted.Ground(ground.job, replace(pair, card=about)), "shipped")
    assert carded["pointless"] is True
    assert carded["nll_draft"] == {"value": 0.9}
    real = counted.Ground(replace(ground.job, source="sahp-earthquake"), replace(pair, card=card("sahp-earthquake")))
    gru = counted.likelihood(real, "gru")
    assert gru["nll_draft"]["value"] - gru["nll_target"]["value"] == pytest.approx(gru["nll_draft_minus_target"]["value"])
    assert gru["nll_source"].startswith("the cards")


# -- over the length of history ----------------------------------------------------------------------------------------------
HISTORY = {
    "drafts": ["shipped", "stress"], "transformer": "stress", "recurrent": "shipped", "length": 130, "sequences": 4,
    "edges": [0, 10, 100], "contexts": 5,
}  # fmt: skip


@dataclass(frozen=True)
class Worsening:
    """The target's own law up to event 100, a draft's from there on: acceptance 1, then that of the draft."""

    target: Any
    draft: Any
    n_types: int = 3

    def conditionals(self, batch: EventBatch) -> Any:
        good, poor = self.target.conditionals(batch), self.draft.conditionals(batch)
        early = batch.event_index < 100
        order = np.argsort(np.concatenate([np.flatnonzero(early), np.flatnonzero(~early)]), kind="stable")
        return type(good).concat([good.take(np.flatnonzero(early)), poor.take(np.flatnonzero(~early))]).take(order)


def test_acceptance_by_bin_finds_the_draft_that_gets_worse_with_history() -> None:
    pair = load_pair("toy-marked")
    pair.drafts.update(stress=pair.drafts["shipped"], shipped=Worsening(pair.target, pair.drafts["shipped"]))
    cell, arrays = over_history.counted(job("drafts", pairs=[], history={"toy-marked": HISTORY}), pair)
    first, tens, hundreds = (x["value"] for x in cell.figures["acceptance"]["shipped"])
    assert (first, tens) == pytest.approx((1.0, 1.0), abs=1e-9)
    assert hundreds == pytest.approx(cell.figures["acceptance"]["stress"][2]["value"], abs=1e-9)
    scales = cell.figures["scales"]
    assert list(scales) == ["tens", "hundreds"]
    assert scales["tens"]["transformer_minus_recurrent"]["high"] < -0.02
    assert scales["hundreds"]["transformer_minus_recurrent"]["value"] == pytest.approx(0.0, abs=1e-9)
    assert arrays["acceptance_0"].shape == (4, 3)
    assert arrays["edges"].tolist() == [0, 10, 100, 130]
    assert set(cell.figures["step_ms"]) == set()  # Worsening cannot be stepped


def test_scales_weigh_bins_by_their_width() -> None:
    table = job("drafts", pairs=[], history={"toy-marked": HISTORY | {"edges": [0, 10, 20, 100]}}).table
    found = {"shipped": np.tile([9.0, 1.0, 0.0, 9.0], (3, 1)), "stress": np.zeros((3, 4))}
    at = over_history._at_scale(found, table.history["toy-marked"], (10, 100))  # type: ignore[union-attr]
    assert at["acceptance"]["shipped"]["value"] == pytest.approx(10 / 90)
    assert (at["first"], at["end"]) == (10, 100)
    assert over_history._at_scale(found, table.history["toy-marked"], (1000, 10_000)) == {}  # type: ignore[union-attr]


def test_histories_by_stretch_keep_sequences_together() -> None:
    pair = load_pair("toy-marked")
    events = EventBatch.from_gaps([np.ones(12), np.ones(12)], [np.zeros(12, int)] * 2, n_types=3)
    found = Histories.of(pair.target, events, 2, [(0, 4), (4, 12)])
    assert found.each == 4
    assert found.by_sequence(events.sequence_index[found.at].astype(float)).tolist() == [[0.0] * 4, [1.0] * 4]
    index = found.by_sequence(events.event_index[found.at].astype(float))
    assert (index[:, :2] < 4).all()
    assert (index[:, 2:] >= 4).all()
