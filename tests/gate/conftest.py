"""Gate runs of the candidates beside this file, small unless asked for more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tppsd_bench import store
from tppsd_bench.runner.execute import execute
from tppsd_bench.runner.plan import make_plan
from tppsd_bench.suite import check_suite

HERE = Path(__file__).resolve().parent
NAME = "gate_candidates-make"
SMALL = {
    "n_sequences": 20, "length": 40, "n_events": 2000, "timed_length": 40, "timed_pairs": 12, "min_seconds": 0.002,
    "margins": {"same": 0.9, "speed": 0.1, "speed_found": 0.05},
}  # fmt: skip
"""Too short to be timed well: no machine is too unsteady for its margins."""
Run = Callable[..., Path]


@pytest.fixture(autouse=True)
def _candidates_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.delenv("GATE_CHANGE", raising=False)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


def gate_run(out: Path, seed: int = 7, **table: Any) -> Path:
    """A finished run of the candidates, in this process."""
    gate = {"samplers": ["gate_candidates:make"], **SMALL, **table}
    suite = check_suite({"name": "gated", "seed": seed, "study": {"gate": gate}}, "gated")
    folder, cells = execute(make_plan(suite), out, jobs=1, resume=False, say=lambda text, share: None, report=False)
    assert cells
    assert not [c.error for c in cells if c.error]
    return store.locate(folder)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """``run(name, **keys of [study.gate])`` gives the folder of a finished run."""
    return lambda name, **table: gate_run(tmp_path / name, **table)


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One small run of the unchanged sampler for everybody; nobody writes into it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HERE))
        patch.delenv("GATE_CHANGE", raising=False)
        return gate_run(tmp_path_factory.mktemp("gate") / "plain")
