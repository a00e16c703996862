"""How often exact runs are accused, how fast broken ones are: crossing rates against alpha, and events to detection.

Ville's inequality bounds the rate; each test fails only where a one-sided Clopper-Pearson bound at 1e-4 excludes alpha. That the test can
fail is shown by a bet that looks at the event before it bets.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from eprocess_toys import followed, some_sequences
from grey_toys import generator
from scipy import stats

from reference_impls.mutants import Witness, mutant
from reference_impls.pairs import load_pair
from tppsd_bench.protocols import FloatArray, SampleRequest, Stop
from tppsd_bench.results import Axis
from tppsd_bench.runner.sequential import design_of, watch
from tppsd_bench.stats.eprocess import FAMILIES, Design, EProcess, Family
from tppsd_bench.stats.eprocess import process as module
from tppsd_bench.stats.eprocess.base import linear
from tppsd_bench.stats.eprocess.chunk import Chunk
from tppsd_bench.streams import StreamKey

ALPHAS = (0.05, 0.01)
PAIR = load_pair("toy-marked")


def excluded(crossings: int, runs: int, alpha: float) -> bool:
    """Whether so many crossings contradict a rate of at most ``alpha`` at level 1e-4."""
    return bool(stats.binomtest(crossings, runs, alpha, alternative="greater").pvalue < 1e-4)


def crossed(largest: list[float]) -> dict[float, int]:
    return {alpha: int((np.array(largest) >= -math.log(alpha)).sum()) for alpha in ALPHAS}


def exact_wealths(runs: int, name: str) -> list[FloatArray]:
    rng = generator(name)
    return [followed(rng.random((10, 20)), rng.random((10, 20)), rng).log_wealth for _ in range(runs)]


class Peeking(Family):
    """1 + lambda phi(u) with the sign of lambda chosen after seeing u: no martingale."""

    name = "peeking"

    def bets(self, design: Design) -> tuple[str, ...]:
        return ("the sign that wins",)

    def growth(self, chunk: Chunk, design: Design) -> FloatArray:
        return linear(chunk.by_sequence, np.abs(chunk.phi_u[:1]), (0.1,), 3.0)


def test_exact_runs_cross_as_rarely_as_promised_and_peeking_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = 300
    found = exact_wealths(runs, "grey null")
    counts = crossed([float(path.max()) for path in found])
    assert not any(excluded(counts[alpha], runs, alpha) for alpha in ALPHAS)
    monkeypatch.setattr(module, "FAMILIES", (*FAMILIES, Peeking()))
    wrong = crossed([float(path.max()) for path in exact_wealths(60, "grey null")])
    assert excluded(wrong[0.05], 60, 0.05)


def many_runs(kind: str, draft: str, stop: Stop, runs: int, sequences: int, seed: int) -> tuple[list[float], list[float]]:
    """(largest, final) log wealth of each of many short exact runs, cut from large batches."""
    sampler = PAIR.sampler(kind, draft=draft, k=5) if kind == "speculative" else PAIR.sampler(kind)  # type: ignore[arg-type]
    law = PAIR.drafts[draft] if kind == "speculative" else None
    largest, final = [], []
    a_batch = 100
    for b in range(runs // a_batch):
        request = SampleRequest(
            a_batch * sequences, stop, StreamKey(seed=seed, cell=f"null {kind} {draft}"), b * a_batch * sequences
        )
        run = sampler.sample(request)
        scores, laws = PAIR.target.score(run.events), PAIR.target.conditionals(run.events)
        for i in range(a_batch):
            begin = i * sequences
            part, mine = some_sequences(run, scores, begin, begin + sequences)
            process = EProcess(design_of(part, PAIR.target, law, sampler.declares.rule), generator(f"null {seed} {b} {i}"))
            flat = slice(int(run.events.offsets[begin]), int(run.events.offsets[begin + sequences]))
            process.feed(part, mine, target_laws=laws.take(flat), draft=law)
            wealth = process.wealth
            largest.append(float(wealth.log_wealth.max()))
            final.append(float(wealth.log_wealth[-1]))
    return largest, final


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "draft", "stop", "runs"),
    [
        ("speculative", "stress", Stop(n_events=50), 2000), ("speculative", "shipped", Stop(n_events=50), 1000),
        ("speculative", "stress", Stop(horizon=12.0), 1000), ("target_only", "stress", Stop(horizon=12.0), 1000),
    ],
    ids=["white stress", "white shipped", "white horizon", "grey horizon"],
)  # fmt: skip
def test_white_exact_runs_cross_as_rarely_as_promised(kind: str, draft: str, stop: Stop, runs: int) -> None:
    """Runs of about 2,000 events (horizon: 500), wealth looked at after every sequence."""
    largest, final = many_runs(kind, draft, stop, runs, 40, seed=31)
    counts = crossed(largest)
    assert not any(excluded(counts[alpha], runs, alpha) for alpha in ALPHAS)
    # the mean is at most 1; its estimate is heavy-tailed, so only a gross excess is evidence
    assert np.mean(np.minimum(np.exp(final), 100.0)) < 1.5


def events_to_detection(fault: str, draft: str, seeds: int, most: int) -> float:
    sampler = mutant(fault).sampler(PAIR, witness=Witness("toy-marked", draft))
    found = [
        watch(sampler, PAIR.target, PAIR.drafts[draft], Stop(n_events=100), StreamKey(seed=s, cell=f"etd {fault}"), max_events=most)
        for s in range(seeds)
    ]  # fmt: skip
    return float(np.median([math.inf if w.detected_at is None else w.detected_at for w in found]))


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault", ["type_unverified", "residual_from_target", "bonus_from_draft", "stale_history", "q_mismatch"]
)
def test_subtle_faults_are_found_within_twenty_thousand_events(fault: str) -> None:
    """On the reference toy with its shipped draft (event acceptance .91, K = 5), alpha = 1e-5: median of 24 seeds."""
    assert events_to_detection(fault, "shipped", 24, 40_000) <= 20_000


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["always_accept", "lenient", "row_shift", "both_residuals"])
def test_gross_faults_are_found_within_two_thousand_events(fault: str) -> None:
    assert events_to_detection(fault, "shipped", 24, 20_000) <= 2_000


def test_the_axis_of_a_bet_is_that_of_its_null() -> None:
    """Bets that need more than the target's law for their null may not accuse the law."""
    needs_rule = {"acceptance", "shared noise", "proposals", "roles"}
    assert {f.name for f in FAMILIES if f.axis is Axis.MECHANISM} == needs_rule
