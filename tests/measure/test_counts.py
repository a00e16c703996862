"""Forward counts: the exact identities and what breaks them."""

from __future__ import annotations

import numpy as np
import pytest

from tppsd_bench.measure import counts as work
from tppsd_bench.protocols import Counts, Stop

LENGTHS = np.array([1, 5, 6, 7, 12])


def test_target_only_forwards_by_stop_rule_and_prompt() -> None:
    by_count, by_horizon = Stop(n_events=5), Stop(horizon=3.0)
    assert work.target_only_forwards(np.array([5, 5]), by_count).tolist() == [4, 4]
    assert work.target_only_forwards(np.array([5, 0]), by_horizon).tolist() == [5, 0]
    assert work.target_only_forwards(np.array([5]), by_count, prompt_or_start_token=True).tolist() == [5]
    assert work.target_only_forwards(np.array([5]), by_horizon, prompt_or_start_token=True).tolist() == [6]


def test_no_sampler_commits_more_than_k_plus_one_events_a_forward() -> None:
    assert work.fewest_forwards(LENGTHS, 5).tolist() == [1, 1, 1, 2, 2]
    assert work.fewest_forwards(LENGTHS, 0).tolist() == LENGTHS.tolist()
    assert work.fewest_forwards(LENGTHS, 0, first_event_free=True).tolist() == (LENGTHS - 1).tolist()


def test_too_few_forwards_are_named_by_sequence_and_by_total() -> None:
    least = work.fewest_forwards(LENGTHS, 5)
    assert work.check_fewest_forwards(LENGTHS, least, 5).passed
    short = least.copy()
    short[3] -= 1
    evidence = work.check_fewest_forwards(LENGTHS, short, 5)
    assert evidence.passed is False
    assert "Sequence 3 has 7 events from 1 target forwards" in evidence.detail
    assert work.check_fewest_forwards(LENGTHS, int(least.sum()), 5).passed
    assert work.check_fewest_forwards(LENGTHS, int(least.sum()) - 1, 5).passed is False


def test_two_counters_agree_or_are_told_apart() -> None:
    wrapper = Counts(target_calls=4, target_row_forwards=9, draft_calls=3)
    assert work.check_counters_agree(wrapper, Counts(target_calls=4, target_row_forwards=9)).passed
    evidence = work.check_counters_agree(wrapper, Counts(target_calls=4, target_row_forwards=8))
    assert evidence.passed is False
    assert "target row forwards: the wrapper counted 9, the module hook 8" in evidence.detail


def test_forwards_per_event_and_the_saving() -> None:
    speculative, plain = Counts(target_row_forwards=25, committed=100), Counts(target_row_forwards=99, committed=100)
    assert work.target_forwards_per_event(speculative) == 0.25
    assert work.forwards_saved(speculative, plain) == pytest.approx(3.96)
    assert np.isnan(work.target_forwards_per_event(Counts()))
