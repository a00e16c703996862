"""``certify`` and ``assert_exact``: the same examination, from Python."""

from __future__ import annotations

from typing import Any

import pytest
from fake_pair import Speculative, load_pair

import tppsd_bench
import tppsd_bench.testing
from tppsd_bench import Certificate, certify
from tppsd_bench.certificate import ProcessSampler
from tppsd_bench.errors import InputError, InvalidEvidence
from tppsd_bench.protocols import Declaration, SampleRequest, SampleRun, Stop
from tppsd_bench.results import Axis, Outcome
from tppsd_bench.simulate import make

PAIR = load_pair("fake-exact")
EXACT = PAIR.sampler("speculative", draft="stress", k=4)
WRONG = Speculative(PAIR.target, PAIR.drafts["stress"], 4, verify_types=False)


class BlackBox:
    """Another sampler's sequences and nothing else."""

    declares = Declaration(name="black box")

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def sample(self, request: SampleRequest) -> SampleRun:
        return SampleRun(self.inner.sample(request).events)


def test_the_public_names_are_what_they_say() -> None:
    assert tppsd_bench.certify is certify
    assert callable(tppsd_bench.load_run)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tppsd_bench.nothing  # type: ignore[attr-defined]


def test_white_box() -> None:
    found = certify(EXACT, PAIR.target, draft=PAIR.drafts["stress"], n_events=2000)
    assert isinstance(found, Certificate)
    assert found
    assert [v.outcome for v in found.verdicts] == [Outcome.PASS] * 3
    table = found.to_frame()
    assert len(table) == len(found.evidence)
    assert {"acceptance_identity.gap", "pit_time.neyman"} <= set(table["name"])
    assert found.sentence in found._repr_html_()


def test_grey_box_finds_unverified_types_and_says_what_it_could_not_do() -> None:
    found = certify(BlackBox(WRONG), PAIR.target, n_events=4000)
    assert not found
    assert found.cell.verdict(Axis.LAW).outcome is Outcome.FAIL
    assert found.cell.verdict(Axis.MECHANISM).outcome is Outcome.NOT_APPLICABLE
    assert any("no trace" in m for m in found.cell.not_possible)


def test_black_box_needs_a_reference_and_shows_no_more_than_it_can() -> None:
    with pytest.raises(InputError, match="reference="):
        certify(BlackBox(EXACT), PAIR.target, access="black")
    found = certify(BlackBox(EXACT), PAIR.target, access="black", reference=PAIR.sampler("target_only"), n_events=2000)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "blackbox.maxT" in {e.name for e in found.evidence}


def test_a_sampler_given_as_its_own_reference_stream_is_invalid_evidence() -> None:
    class Replay(BlackBox):
        """Draws one and the same file, whatever the key."""

        def sample(self, request: SampleRequest) -> SampleRun:
            fixed = SampleRequest(request.n_sequences, request.stop, PAIR_KEY)
            return super().sample(fixed)

    from tppsd_bench.streams import StreamKey

    PAIR_KEY = StreamKey(seed=5)
    replay = Replay(PAIR.sampler("target_only"))
    found = certify(replay, PAIR.target, reference=replay, n_events=2000)
    assert found.outcome is Outcome.INVALID
    with pytest.raises(InvalidEvidence):
        tppsd_bench.testing.assert_exact(replay, PAIR.target, reference=replay, n_events=2000)


def test_a_process_is_its_own_reference() -> None:
    hawkes = make("hawkes", mu=[0.2], alpha=[[0.6]], beta=[[1.0]])
    found = certify(ProcessSampler(hawkes), hawkes, n_events=2000, stop=Stop(n_events=50))
    assert found.outcome is Outcome.PASS
    assert "blackbox.maxT" in {e.name for e in found.evidence}


def test_assert_exact() -> None:
    """Exact: 5e-5 false alarms over seeds, seed fixed. The fault has power 1 here."""
    assert tppsd_bench.testing.assert_exact(EXACT, PAIR.target, n_events=2000)
    with pytest.raises(AssertionError, match="NOT exact"):
        tppsd_bench.testing.assert_exact(WRONG, PAIR.target, n_events=2000)
    with pytest.raises(tppsd_bench.testing.Inconclusive, match="2,000"):
        tppsd_bench.testing.assert_exact(EXACT, PAIR.target, n_events=100)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"access": "deep"}, "expected auto, black, grey or white"),
        ({"n_events": 0}, "n_events is 0"),
        ({"target": object()}, "has no 'n_types'"),
        ({"sampler": object()}, "has no 'sample'"),
    ],
)
def test_bad_use_is_a_sentence(change: dict[str, Any], part: str) -> None:
    with pytest.raises(InputError, match=part):
        certify(**{"sampler": EXACT, "target": PAIR.target, **change})


def test_a_sampler_that_answers_something_else_is_told_so() -> None:
    class Short(BlackBox):
        def sample(self, request: SampleRequest) -> SampleRun:
            return SampleRun(self.inner.sample(request).events.prefix(3))

    with pytest.raises(InputError, match="sequence 0 has 3 events; the stop rule asked for"):
        certify(Short(EXACT), PAIR.target, n_events=500)
