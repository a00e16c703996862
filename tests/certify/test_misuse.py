"""Misuse of ``certify``: each way to bring a broken sampler, target or trace is answered with one sentence and exit code 2.

An exact run is *invalid* by mistake never: all that is tested here is deterministic.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import misbehaving as bad
from misbehaving import EXACT, PAIR, Sampler, Target, changed, with_trace

from tppsd_bench import Certificate, EventBatch, SampleRun, Scores, Stop, certify
from tppsd_bench.errors import Exit, InputError
from tppsd_bench.results import Axis, Outcome

ROOT = Path(__file__).resolve().parents[2]


def certified(sampler: Any = EXACT, target: Any = PAIR.target, **options: Any) -> Certificate:
    return certify(sampler, target, **{"n_events": 2_000, "stop": Stop(n_events=50), **options})


def test_nothing_is_wrong_with_the_pair_itself() -> None:
    found = certified(draft=PAIR.drafts["stress"], reference=PAIR.sampler("target_only"))
    assert found.exit_code is Exit.PASS
    assert certified(Sampler(bad.exact), Target(lambda _, s: s)).exit_code is Exit.PASS


# -- answers that are none: InputError (exit 2) ---------------------------------------------------------------------------
def first(array: Any, value: Any) -> Any:
    out = array.copy()
    out[0] = value
    return out


def padded_as_events(request: Any) -> SampleRun:
    """Rows of unequal length handed over whole: zeros after the last time, so negative gaps."""
    gaps, types = bad.exact(request).events.padded()
    times = np.cumsum(gaps, axis=1)
    times[:, -3:] = 0.0
    flat = np.diff(times, axis=1, prepend=0.0).ravel()
    return SampleRun(EventBatch(flat, types.ravel(), np.full(len(gaps), gaps.shape[1]), 3))


ANSWERS: list[tuple[str, Callable[[Any], Any], str]] = [
    ("raises", bad.raises, r"The sampler under test raised IndexError: list index out of range \(in misbehaving.py, line"),
    ("none", lambda _: None, "returned a NoneType; expected SampleRun"),
    ("events alone", lambda r: bad.exact(r).events, "returned a EventBatch; expected SampleRun"),
    ("arrays", lambda r: SampleRun(bad.exact(r).events.gaps), "events are a ndarray; expected an EventBatch"),
    ("too few sequences", lambda r: SampleRun(bad.exact(r).events.select(slice(1, None))), "sequences; .* were requested"),
    ("too few events", lambda r: SampleRun(bad.exact(r).events.prefix(3)), "sequence 0 has 3 events; the stop rule asked for"),
    ("float32", changed(gaps=lambda e: e.gaps.astype(np.float32)), r"EventBatch\.gaps is float32; expected a float64"),
    ("lists", changed(gaps=lambda e: list(e.gaps)), r"EventBatch\.gaps is list; expected a float64"),
    ("lengths", changed(lengths=lambda e: e.lengths - 1), "gaps and .* types but lengths that sum to"),
    ("nan gap", changed(gaps=lambda e: first(e.gaps, np.nan)), "sequence 0, event 0: the gap is nan; expected a finite"),
    ("infinite gap", changed(gaps=lambda e: first(e.gaps, np.inf)), "sequence 0, event 0: the gap is inf"),
    ("tie", changed(gaps=lambda e: first(e.gaps[::-1], 0.0)[::-1]), r"two events at the same time \(gap 0\)"),
    ("first at 0", changed(gaps=lambda e: first(e.gaps, 0.0)), "the first event is at exactly time 0"),
    ("padding", padded_as_events, "This looks like padding handed over as events"),
    ("types from 1", changed(types=lambda e: e.types + 1), "type 3 is outside 0..2. The ids run from 1: subtract 1"),
    ("padding types", changed(types=lambda e: first(e.types, -1)), "type -1 is outside 0..2. A negative id is usually padding"),
    ("more types", changed(n_types=lambda _: 4), "events have 4 types but the target has 3"),
]


@pytest.mark.parametrize(("spoil", "part"), [a[1:] for a in ANSWERS], ids=[a[0] for a in ANSWERS])
def test_an_answer_that_is_none_is_refused(spoil: Callable[[Any], Any], part: str) -> None:
    with pytest.raises(InputError, match=part):
        certified(Sampler(spoil))


HORIZONS: list[tuple[str, Callable[[Any], Any], str]] = [
    ("at T", changed(gaps=lambda e: first(e.gaps, 20.0)), r"sequence 0: an event at .* is not before the horizon 20"),
    ("none", changed(horizon=lambda _: None), "carry no horizon; the stop rule asked for 20: set EventBatch.horizon"),
    ("another", changed(horizon=lambda e: 0.5 + e.horizon), "sequence 0 has horizon 20.5; the stop rule asked for 20 in all"),
    ("raises", bad.raises, "raised IndexError"),
]


@pytest.mark.parametrize(("spoil", "part"), [h[1:] for h in HORIZONS], ids=[h[0] for h in HORIZONS])
def test_a_horizon_is_kept_or_refused(spoil: Callable[[Any], Any], part: str) -> None:
    with pytest.raises(InputError, match=part):
        certified(Sampler(spoil), stop=Stop(horizon=20.0))


TRACES: list[tuple[str, Callable[[Any], Any], str]] = [
    ("accepted > verified", with_trace(round_accepted=lambda t: t.round_verified + 1), "accepted more than it verified"),
    ("verified > drafted", with_trace(round_verified=lambda t: t.round_drafted + 1), "verified more than it drafted"),
    ("negative", with_trace(round_accepted=lambda t: t.round_accepted - 99), "a negative counter"),
    (
        "lost events",
        with_trace(round_committed=lambda t: first(t.round_committed, 0)),
        "of sequence 0 committed .* the run has 24",
    ),
    ("short column", with_trace(log_p=lambda t: t.log_p[:-1]), "trace's log_p has .* entries; expected .* verifications"),
    ("events of others", with_trace(gap_role=lambda t: t.gap_role[:-2]), "trace's gap_role has .* one for each of the events"),
    ("no such sequence", with_trace(sequence=lambda t: t.sequence + 10_000), "Verification 0 names sequence 10000"),
    ("no such type", with_trace(type=lambda t: np.full_like(t.type, 7)), "proposes type 7; expected 0..2"),
]


@pytest.mark.parametrize(("spoil", "part"), [t[1:] for t in TRACES], ids=[t[0] for t in TRACES])
def test_a_trace_that_contradicts_itself_is_refused(spoil: Callable[[Any], Any], part: str) -> None:
    with pytest.raises(InputError, match=part):
        certified(Sampler(spoil))
    assert certified(Sampler(spoil), access="grey").outcome is Outcome.PASS  # a trace that is not asked for does no harm


def test_a_trace_of_another_story_fails_the_mechanism_and_not_the_evidence() -> None:
    """Consistent in itself but not what the sampler declares: that is a verdict, not a misuse."""
    found = certified(Sampler(with_trace(log_p=lambda t: t.log_p + 0.5)))
    assert found.cell.verdict(Axis.LAW).outcome is Outcome.PASS  # type: ignore[union-attr]
    assert found.cell.verdict(Axis.MECHANISM).outcome is Outcome.FAIL  # type: ignore[union-attr]


# -- evidence that supports nothing: outcome invalid (exit 2) -------------------------------------------------------------
REPEATS: list[tuple[str, Callable[[Any], Any], str]] = [
    ("one seed for all", bad.one_seed_for_all, "Sequence 1 is an exact copy of sequence 0"),
    ("key ignored", bad.ignores_its_key, "the sampler does not take its randomness from request.key"),
    ("the reference itself", bad.same_as_the_reference, "sequences of the sampler under test are also in the reference arm"),
    ("rounded times", bad.rounded, "a continuous law has no ties: record times more finely"),
]


@pytest.mark.parametrize(("spoil", "part"), [r[1:] for r in REPEATS], ids=[r[0] for r in REPEATS])
def test_repeated_or_rounded_sequences_are_invalid_evidence(spoil: Callable[[Any], Any], part: str) -> None:
    found = certified(Sampler(spoil), reference=PAIR.sampler("target_only"))
    assert found.outcome is Outcome.INVALID
    assert found.exit_code is Exit.USAGE
    assert part in found.sentence
    assert found.sentence.count("\n") == 0


def rare(value: float) -> Callable[[EventBatch, Scores], Scores]:
    """Broken at the thirty-first event: the preconditions' short pilot does not meet it, a whole round does."""
    return lambda batch, s: replace(s, log_density=np.where(batch.event_index == 30, value, s.log_density))


def anticipating(batch: EventBatch, s: Scores) -> Scores:
    """The types of an event lean on the event after it."""
    after = np.append(batch.types[1:], 0) * (np.append(batch.event_index[1:], 0) > 0)
    tilted = s.type_probs * (1 + 0.1 * (np.arange(3) == after[:, None]))
    return replace(s, type_probs=tilted / tilted.sum(axis=1, keepdims=True))


SCORES: list[tuple[str, Callable[[EventBatch, Scores], Any], str]] = [
    ("nan log-density", lambda _, s: replace(s, log_density=s.log_density * np.nan), "the log-density is nan"),
    ("infinite log-density", lambda _, s: replace(s, log_density=s.log_density + np.inf), "the log-density is inf"),
    ("rare nan", rare(np.nan), "the log-density is nan"),
    ("rare infinity", rare(np.inf), "the log-density is inf"),
    ("nan cdf", lambda _, s: replace(s, cdf=s.cdf * np.nan), "the CDF is nan"),
    ("nan types", lambda _, s: replace(s, type_probs=s.type_probs * np.nan), "a type probability is"),
    ("density for its log", lambda _, s: replace(s, log_density=np.exp(s.log_density)), "return its logarithm"),
    ("log types", lambda _, s: replace(s, type_probs=np.log(s.type_probs)), "these look like logarithms: exponentiate"),
    ("log cdf", lambda _, s: replace(s, cdf=np.log(s.cdf)), "these look like logarithms: exponentiate"),
    ("other cdf", lambda _, s: replace(s, cdf=s.cdf**1.1, survival=1 - s.cdf**1.1), "take both from one law"),
    ("cdf and survival", lambda _, s: replace(s, survival=s.cdf), "CDF \\+ survival"),
    ("types short", lambda _, s: replace(s, type_probs=0.9 * s.type_probs), "sum to 0.9; expected 1"),
    ("anticipating", anticipating, "the scores of a prefix must not depend on its future"),
    ("shape", lambda _, s: replace(s, cdf=s.cdf[:-1]), "score\\(\\) returned cdf of shape"),
]


@pytest.mark.parametrize(("spoil", "part"), [s[1:] for s in SCORES], ids=[s[0] for s in SCORES])
def test_a_target_that_contradicts_itself_is_invalid_evidence(spoil: Callable[..., Any], part: str) -> None:
    found = certified(Sampler(bad.exact), Target(spoil))
    assert found.outcome is Outcome.INVALID
    assert found.exit_code is Exit.USAGE
    assert any(part.replace("\\", "") in e.detail for e in found.evidence if e.passed is False)
    assert found.sentence.startswith(f"{EXACT.declares.name}: no statement")


TARGETS: list[tuple[str, Callable[[EventBatch, Scores], Any], str]] = [
    ("raises", lambda _, s: 1 / 0, "The target's score\\(\\) raised ZeroDivisionError: division by zero"),
    ("a tuple", lambda _, s: (s.log_density, s.cdf), "returned a tuple without log_density, cdf, survival, type_probs"),
    ("text", lambda _, s: replace(s, cdf=["a"] * len(s.cdf)), "no arrays of numbers"),
]


@pytest.mark.parametrize(("spoil", "part"), [t[1:] for t in TARGETS], ids=[t[0] for t in TARGETS])
def test_a_target_that_breaks_is_told_so(spoil: Callable[..., Any], part: str) -> None:
    with pytest.raises(InputError, match=part):
        certified(Sampler(bad.exact), Target(spoil))


def test_an_impossible_event_is_a_proof_against_the_law() -> None:
    """The target says probability 0, the sampler draws it: no misuse but a FAIL, whatever the p-values."""

    def two_types(_: EventBatch, s: Scores) -> Scores:
        probs = s.type_probs * [1, 1, 0]
        return replace(s, type_probs=probs / probs.sum(axis=1, keepdims=True))

    found = certified(Sampler(bad.exact), Target(two_types))
    assert (found.outcome, found.exit_code) == (Outcome.FAIL, Exit.FAIL)


def test_gaps_beyond_all_numbers_do_not_break_the_statistics() -> None:
    found = certified(Sampler(changed(gaps=lambda e: np.where(e.event_index == 7, 1e-300, e.gaps))))
    assert found.outcome is Outcome.FAIL
    found = certified(Sampler(changed(gaps=lambda e: np.where(e.event_index == 7, 1e300, e.gaps))))
    assert found.outcome is Outcome.FAIL


# -- too little ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("n_events", "length"), [(150, 50), (3, 1), (1, 1), (60, 20)])
def test_a_handful_of_sequences_is_inconclusive_and_says_what_is_needed(n_events: int, length: int) -> None:
    found = certified(n_events=n_events, stop=Stop(n_events=length), reference=PAIR.sampler("target_only"))
    assert (found.outcome, found.exit_code) == (Outcome.INCONCLUSIVE, Exit.INCONCLUSIVE)
    assert "are needed" in found.sentence
    assert any(v.needed_n and v.needed_n >= 2_000 for v in found.verdicts)


# -- references, drafts, declarations ------------------------------------------------------------------------------------
def test_a_reference_that_breaks_or_misses_the_target_is_named() -> None:
    with pytest.raises(InputError, match="The reference sampler broke: IndexError"):
        certified(reference=Sampler(bad.raises))
    found = certified(reference=PAIR.sampler("draft_only", draft="stress"))
    assert found.outcome is Outcome.INVALID
    assert "target-only reference itself misses the target" in found.sentence


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"draft": object()}, "The draft .object. has no 'conditionals'"),
        ({"reference": object()}, "The reference .object. has no 'sample'"),
        ({"sampler": Sampler(bad.exact, "leviathan_two_step")}, "expected tppsd_bench.Declaration with a rule among"),
        ({"sampler": Sampler(bad.exact, replace(EXACT.declares, rule="leviathan"))}, "with a rule among leviathan_two_step"),
    ],
)
def test_parts_that_are_none_are_named(change: dict[str, Any], part: str) -> None:
    with pytest.raises(InputError, match=part):
        certified(**change)


def test_a_call_that_hangs_is_stopped() -> None:
    started = time.perf_counter()
    with pytest.raises(InputError, match=r"took longer than 0\.5 s, so it counts as hanging"):
        certified(Sampler(bad.hangs), timeout=0.5)
    assert time.perf_counter() - started < 20


# -- the command line ----------------------------------------------------------------------------------------------------
def command(factory: str, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), str(Path(__file__).resolve().parent)])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    line = [sys.executable, "-m", "tppsd_bench", "certify", "--sampler", f"misbehaving:{factory}", "--events", "2000", *words]
    return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("factory", "words", "part"),
    [
        ("make_raising", [], "The sampler under test raised IndexError: list index out of range (in misbehaving.py, line"),
        ("make_hanging", ["--timeout", "1s"], "took longer than 1 s, so it counts as hanging"),
        pytest.param("make_stuck", ["--timeout", "1s"], "ended without a word", marks=pytest.mark.slow),
        ("make_dying", [], "ended without a word (signal SIGKILL)"),
        ("make_nothing", [], "the factory raised KeyError: 'weights.pt'"),
    ],
)
def test_a_sampler_that_raises_hangs_or_dies_is_one_sentence_and_exit_2(factory: str, words: list[str], part: str) -> None:
    done = command(factory, *words, "--quiet")
    assert done.returncode == 2, done.stderr
    assert part in done.stderr.splitlines()[-1]
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert done.stdout == ""
    assert factory == "make_stuck" or "Traceback" not in done.stderr


def test_invalid_evidence_is_exit_2_and_says_where() -> None:
    done = command("make_nan")
    assert done.returncode == 2, done.stderr
    assert "no statement, The evidence is invalid: validity.finite: Sequence" in done.stdout
    assert "Traceback" not in done.stderr


def test_what_a_sampler_prints_does_not_spoil_the_json() -> None:
    done = command("make_chatty", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kind"] == "law"
    assert "a word on standard output" in done.stderr
