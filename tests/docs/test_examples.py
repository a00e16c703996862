"""The examples of the documentation: the correct one follows its law, the broken one differs by one line and is caught."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy import integrate, stats

from tppsd_bench.certificate import certify
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import SampleRequest, SamplerUnderTest, Stop, Target
from tppsd_bench.results import Outcome
from tppsd_bench.streams import StreamKey

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
KEY = StreamKey(seed=11, cell="docs/examples")


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sampled(name: str, n: int = 170, first: int = 0) -> EventBatch:
    return load(name).Hawkes().sample(SampleRequest(n, Stop(n_events=48), KEY, first_sequence=first)).events


@pytest.fixture(scope="module")
def hawkes() -> ModuleType:
    return load("ogata_hawkes")


def test_the_two_files_differ_in_one_line_of_code() -> None:
    good, broken = ((EXAMPLES / f"{n}.py").read_text().splitlines()[1:] for n in ("ogata_hawkes", "ogata_hawkes_broken"))
    assert len(good) == len(broken)
    assert [(a.strip(), b.strip()) for a, b in zip(good, broken, strict=True) if a != b] == [
        ("gaps[row, count[row]] += wait", "gaps[row, count[row]] = wait")
    ]


def lines_of_code(source: str) -> int:
    return sum(bool(x.strip()) and not x.strip().startswith(("#", '"""')) for x in source.splitlines())


def test_it_is_as_short_as_the_page_says() -> None:
    assert lines_of_code((EXAMPLES / "ogata_hawkes.py").read_text()) <= 30


def test_it_speaks_the_protocols(hawkes: ModuleType) -> None:
    assert isinstance(hawkes.Hawkes(), Target)
    assert isinstance(hawkes.Hawkes(), SamplerUnderTest)


def test_the_density_is_the_derivative_of_the_cdf_and_integrates_to_one(hawkes: ModuleType) -> None:
    history = sampled("ogata_hawkes", 1).prefix(5)

    def score(gap: float) -> tuple[float, float]:
        batch = EventBatch.from_gaps([[*history.gaps, gap]], [[*history.types, 0]], n_types=2)
        scores = hawkes.Hawkes().score(batch)
        return float(np.exp(scores.log_density[-1])), float(scores.cdf[-1])

    for gap in (0.1, 1.0, 5.0):
        assert integrate.quad(lambda x: score(x)[0], 0, gap)[0] == pytest.approx(score(gap)[1], abs=1e-8)
    assert score(200.0)[1] == pytest.approx(1)


@pytest.mark.parametrize(("name", "outcome"), [("ogata_hawkes", Outcome.PASS), ("ogata_hawkes_broken", Outcome.FAIL)])
def test_certify_says_what_the_page_says(name: str, outcome: Outcome) -> None:
    example = load(name).Hawkes()
    assert certify(example, example).outcome is outcome


def test_the_correct_sampler_follows_its_law_and_the_broken_one_does_not(hawkes: ModuleType) -> None:
    """Two tests at 1e-6 on the correct sampler: 2 false alarms in a million seeds; the seed is fixed."""
    target = hawkes.Hawkes()
    batch = sampled("ogata_hawkes")
    scores = target.score(batch)
    assert stats.kstest(scores.cdf, "uniform").pvalue > 1e-6
    surprise = (batch.types - scores.type_probs[:, 1]).sum() / np.sqrt(scores.type_probs.prod(axis=1).sum())
    assert 2 * stats.norm.sf(abs(surprise)) > 1e-6
    assert stats.kstest(target.score(sampled("ogata_hawkes_broken")).cdf, "uniform").pvalue < 1e-20


def test_a_sequence_depends_neither_on_the_batch_nor_on_its_neighbours() -> None:
    whole, part = sampled("ogata_hawkes", 6), sampled("ogata_hawkes", 2, first=3)
    assert np.array_equal(whole.select(np.array([3, 4])).gaps, part.gaps)
    assert np.array_equal(whole.select(np.array([3, 4])).types, part.types)


def test_the_page_shows_the_file_as_it_is() -> None:
    page = (EXAMPLES.parent / "certify.md").read_text(encoding="utf-8")
    assert f"```python\n{(EXAMPLES / 'ogata_hawkes.py').read_text(encoding='utf-8').rstrip()}\n```" in page
