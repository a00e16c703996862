"""The examples of the documentation: the correct one follows its law, the broken one differs by one line and is caught."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from tppsd_bench.certificate import certify
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import SampleRequest, SamplerUnderTest, Stop, Target
from tppsd_bench.results import Axis, Outcome
from tppsd_bench.streams import StreamKey

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
KEY = StreamKey(seed=11, cell="docs/examples")


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # dataclasses look their module up
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


def test_the_page_shows_the_files_as_they_are() -> None:
    page = (EXAMPLES.parent / "certify.md").read_text(encoding="utf-8")
    assert f"```python\n{(EXAMPLES / 'ogata_hawkes.py').read_text(encoding='utf-8').rstrip()}\n```" in page
    assert f"```python\n{adapter().rstrip()}\n```" in page


# -- the torch model --------------------------------------------------------------------------------------------------------
def adapter() -> str:
    """The part of the torch example that is written for certify."""
    source = (EXAMPLES / "torch_next_event.py").read_text(encoding="utf-8")
    return source.partition("# -- the adapter")[2].partition("\n")[2]


@pytest.fixture(scope="module")
def torch_example() -> ModuleType:
    return load("torch_next_event")


def test_the_torch_adapter_is_at_most_forty_lines() -> None:
    assert lines_of_code(adapter()) <= 40


def test_the_torch_example_needs_no_reference_implementation() -> None:
    assert "reference_impls" not in (EXAMPLES / "torch_next_event.py").read_text(encoding="utf-8")


LEVELS = [("white", Outcome.PASS), ("grey", Outcome.PASS), ("black", Outcome.INCONCLUSIVE)]


@pytest.mark.parametrize(("access", "outcome"), LEVELS)
def test_the_torch_sampler_at_each_level_of_access(access: Any, outcome: Outcome, torch_example: ModuleType) -> None:
    """At most 5e-5 of seeds fail an exact sampler and 2 % are inconclusive; the seed is fixed."""
    sampler, target, draft, reference = torch_example.make_sampler()
    found = certify(sampler, target, draft=draft, reference=reference, access=access, n_events=8_000)
    assert found.outcome is outcome
    mechanism = found.cell.verdict(Axis.MECHANISM)
    assert mechanism is not None
    assert mechanism.outcome is (Outcome.PASS if access == "white" else Outcome.NOT_APPLICABLE)
    names = {e.name for e in found.evidence}
    assert "blackbox.maxT" in names
    assert ("role_law.gap.residual" in names) == (access == "white")


@pytest.mark.parametrize("access", ["white", "grey", "black"])
def test_a_fault_in_the_torch_sampler_is_found_at_each_level(
    access: Any, torch_example: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every proposal accepted: what comes out is the draft's law."""
    monkeypatch.setattr(torch_example, "accept", lambda log_p, log_q, rng: torch_example.torch.ones_like(log_p, dtype=bool))
    sampler, target, draft, _ = torch_example.make_sampler()
    reference = TargetOnly(torch_example)
    found = certify(sampler, target, draft=draft, reference=reference, access=access, n_events=8_000)
    assert found.outcome is Outcome.FAIL


class TargetOnly:
    """The example's target-only sampler, which accepts nothing and so is not touched by the fault."""

    def __init__(self, example: ModuleType) -> None:
        self._inner = example.Sampler(k=0)
        self.declares = self._inner.declares

    def sample(self, request: SampleRequest) -> Any:
        return self._inner.sample(request)


def test_the_torch_example_on_the_command_line() -> None:
    """One factory, every level by an option; black box alone shows no more than that nothing contradicts (exit 3)."""
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES.parents[1]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tppsd_bench", "certify", "--sampler", "torch_next_event:make_sampler", "--events", "4000"]
    for access, code in (("auto", 0), ("black", 3)):
        done = subprocess.run(
            [*command, "--access", access], cwd=EXAMPLES, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stderr
        assert "GRU, K = 4: " in done.stdout
