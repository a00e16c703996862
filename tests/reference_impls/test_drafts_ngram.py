"""n-grams over tokens: counts by hand, one law however it is asked for, and exactness as a draft of a token target."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from reference_impls.drafts.files import about_draft, load_draft, save_draft
from reference_impls.drafts.ngram import NGram, fit_ngram
from reference_impls.pairs import Pair, load_pair
from reference_impls.samplers.policy import FixedK
from reference_impls.samplers.residual_tokens import TokenResidual
from reference_impls.samplers.speculative import Speculative
from reference_impls.samplers.target_only import TargetOnly
from reference_impls.samplers.verification import Joint, TwoStep
from reference_impls.tokens.buckets import TimeBuckets
from reference_impls.tokens.discretise import discretised_pair
from reference_impls.tokens.fitting import buckets_of_model, fit_buckets
from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch
from tppsd_bench.measure.acceptance import exact_acceptance
from tppsd_bench.protocols import SampleRequest, Stop
from tppsd_bench.stats.grey import family_size, grey_battery
from tppsd_bench.stats.strata import standard_strata
from tppsd_bench.streams import StreamKey

FALSE_ALARM = 1e-6


def draw(sampler, n: int, length: int, name: str) -> EventBatch:
    return sampler.sample(SampleRequest(n, Stop(n_events=length), StreamKey(cell=name))).events


@pytest.fixture(scope="module")
def pair() -> Pair:
    """Eight buckets, 24 tokens: pairs of tokens are seen often enough in 6,000 events for their counts to tell something."""
    toy = load_pair("toy-marked")
    return discretised_pair(toy, buckets_of_model(toy.target, 8))


@pytest.fixture(scope="module")
def model(pair) -> NGram:
    train, validation = (draw(pair.sampler("target_only"), n, 40, f"n-gram {n}") for n in (150, 20))
    return fit_ngram(train, pair.target.buckets, order=3, validation=validation)


def batch_of(*sequences: list[int]) -> EventBatch:
    """Sequences of tokens of a two-bucket, one-type code: bucket 0 is a gap of 1, bucket 1 a gap of 9."""
    gaps = [np.where(np.array(s) == 0, 1.0, 9.0) for s in sequences]
    return EventBatch.from_gaps(gaps, [np.zeros(len(s), dtype=int) for s in sequences], n_types=1)


def two_buckets() -> TimeBuckets:
    around = np.concatenate([np.linspace(0.5, 1.5, 20), np.linspace(8.0, 10.0, 20)])
    return fit_buckets(around, 2, "quantile", "uniform", "exponential")


def test_probabilities_are_the_counts_with_their_back_off():
    train = batch_of([0, 1, 1, 0], [0, 1])
    buckets = two_buckets()
    model = fit_ngram(train, buckets, order=2, kappas=(2.0,))
    unigram = np.array([3.5, 3.5]) / 7.0
    np.testing.assert_allclose(model.probabilities(()), unigram)
    np.testing.assert_allclose(model.probabilities((0,)), (np.array([0, 2]) + 2 * unigram) / 4)
    np.testing.assert_allclose(model.probabilities((1,)), (np.array([1, 1]) + 2 * unigram) / 4)
    np.testing.assert_allclose(model.probabilities((-1,)), (np.array([2, 0]) + 2 * unigram) / 4, err_msg="the first event")
    longer = fit_ngram(train, buckets, order=3, kappas=(2.0,))
    np.testing.assert_allclose(longer.probabilities((0, 1)), (np.array([0, 1]) + 2 * model.probabilities((1,))) / 3)
    np.testing.assert_allclose(longer.probabilities((1, 9)), unigram, err_msg="a context never seen")
    assert fit_ngram(train, buckets, order=1).probabilities(()) == pytest.approx(unigram)


def test_the_law_is_normalised_and_never_zero(model):
    law = model.initial(1)
    table = np.exp(law.log_token_probs()[0])
    assert table.sum() == pytest.approx(1.0)
    assert table.min() > 0


def test_blocks_rollback_batches_and_recomputation_agree_to_the_last_bit(model):
    rng = StreamKey(cell="n-gram cache").generator()
    gaps, types = np.exp(rng.normal(size=(3, 9))), rng.integers(0, 3, (3, 9))
    cache, alone = model.start(3, 2), model.start(1, 2)
    model.extend(cache, gaps[:, :4], types[:, :4], np.array([4, 2, 4]))
    wrong = np.full((3, 2), 0.1), np.zeros((3, 2), dtype=np.int64)
    model.extend(cache, *wrong, np.array([2, 2, 2]))
    cache.rollback(np.array([4, 2, 4]))
    cache.keep(np.array([0, 2]))
    law = model.extend(cache, gaps[[0, 2], 4:], types[[0, 2], 4:], np.array([5, 5]))
    whole = model.extend(alone, gaps[2:], types[2:], np.array([9]))
    np.testing.assert_array_equal(law.logits[5:], whole.logits[4:])
    after = model.law_after(gaps, types, np.array([9, 6, 5]))
    np.testing.assert_array_equal(after.logits[[0, 2]], [law.logits[4], law.logits[5]])
    batch = EventBatch.from_gaps(list(gaps), list(types), n_types=3)
    forced = model.conditionals(batch).logits.reshape(3, 9, -1)
    np.testing.assert_array_equal(forced[2, 1:], whole.logits[:-1])
    np.testing.assert_array_equal(forced[:, 0], model.initial(3).logits)


def test_history_helps_and_the_score_is_the_likelihood(pair, model):
    test = draw(pair.sampler("target_only"), 20, 40, "n-gram test")
    at = np.arange(test.n_events)

    def nll(of) -> float:
        scores = of.score(test)
        return -float(np.mean(scores.log_density + np.log(scores.type_probs[at, test.types])))

    frequencies = fit_ngram(draw(pair.sampler("target_only"), 150, 40, "n-gram 150"), pair.target.buckets, order=1)
    assert nll(pair.target) < nll(model) < nll(frequencies)
    accepted = [
        exact_acceptance(pair.target.conditionals(test), of.conditionals(test), n_levels=64).joint.mean()
        for of in (model, frequencies)
    ]
    assert accepted[0] > accepted[1]


@pytest.mark.parametrize("rule", [TwoStep(), Joint()], ids=lambda r: r.rule)
def test_as_a_draft_it_leaves_the_targets_law(pair, model, rule):
    """q = M min p of the grey battery > 1e-6: one false alarm in 1e6 exact trees; the draft's own events are refused at 1e-9."""
    declared = standard_strata(3)

    def q(events: EventBatch, name: str) -> float:
        found = grey_battery(
            events, pair.target.score(events), StreamKey(cell=name, purpose="pit").generator(), strata=declared
        )
        assert all(e.passed for e in found if e.passed is not None)
        return min(1.0, family_size(3, declared) * min(e.p_value for e in found if e.p_value is not None and not e.display))

    name = f"n-gram {rule.rule}"
    exact = Speculative(pair.target, model, FixedK(4), rule, TokenResidual())
    assert q(draw(exact, 100, 40, name), name) > FALSE_ALARM
    assert q(draw(TargetOnly(model), 100, 40, name), name) < 1e-9


def test_a_file_holds_the_same_law_and_belongs_to_its_buckets(pair, model, tmp_path):
    """Counts are whole numbers and the frequencies go as they are: nothing is lost, not a bit."""
    path = tmp_path / "ngram.safetensors"
    save_draft(model, path, fit={"kappa": model.kappa})
    assert about_draft(path)["fit"] == {"kappa": model.kappa}
    test = draw(pair.sampler("target_only"), 5, 40, "n-gram file")
    again = load_draft(path, pair.target)
    assert isinstance(again, NGram)
    assert (again.order, again.kappa, again.n_parameters) == (model.order, model.kappa, model.n_parameters)
    np.testing.assert_array_equal(again.conditionals(test).logits, model.conditionals(test).logits)
    alone = fit_ngram(test, pair.target.buckets, order=1)
    save_draft(alone, path)
    np.testing.assert_array_equal(load_draft(path, pair.target).initial(1).logits, alone.initial(1).logits)
    toy = load_pair("toy-marked")
    with pytest.raises(InputError, match="over 24 tokens, but the target has 9 buckets x 3 types"):
        load_draft(path, discretised_pair(toy, buckets_of_model(toy.target, 9)).target)
    with pytest.raises(InputError, match="is in continuous time"):
        load_draft(path, SimpleNamespace(buckets=None, name="continuous"))


def test_nothing_to_count_is_a_sentence(pair):
    empty = EventBatch(np.empty(0), np.empty(0, dtype=np.int64), np.zeros(2, dtype=np.int64), 3)
    with pytest.raises(InputError, match="has none"):
        fit_ngram(empty, pair.target.buckets)
    with pytest.raises(InputError, match="order 0"):
        fit_ngram(batch_of([0]), pair.target.buckets, order=0)
