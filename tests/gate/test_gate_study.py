"""The study: its table, its jobs, the streams that both trees draw from, and its section of the report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import gate_candidates
import numpy as np
import pytest
from conftest import NAME, SMALL

from tppsd_bench import store
from tppsd_bench.errors import InputError
from tppsd_bench.gate.drift import legendre_sums
from tppsd_bench.gate.keys import counts_key, drawn_key, effects_key
from tppsd_bench.gate.side import count
from tppsd_bench.protocols import SampleRequest, Stop
from tppsd_bench.report.build import build_report
from tppsd_bench.results import Axis, Outcome
from tppsd_bench.runner.plan import detectable, make_plan
from tppsd_bench.studies.gate.section import section, sentence
from tppsd_bench.suite import check_suite, load_suite


def arrays(run: Path, cell: str) -> dict[str, np.ndarray]:
    with np.load(run / "cells" / f"{cell}.npz") as stored:
        return {name: stored[name] for name in stored.files}


def test_the_events_of_a_law_cell_are_drawn_from_the_stream_that_a_revision_draws_from(plain: Path) -> None:
    """Drawn again by hand and scored by the target they give the cell's sums, to the last digit."""
    sampler, target, _, _ = gate_candidates.make()
    cell, n = f"gate.law.{NAME}", SMALL["n_events"] // SMALL["length"]
    events = sampler.sample(SampleRequest(n, Stop(n_events=SMALL["length"]), drawn_key("gated", cell, 7))).events
    rng = effects_key("gated", cell, 7).generator()
    np.testing.assert_array_equal(legendre_sums(events, target.score(events), rng), arrays(plain, cell)["sums"])


def test_counted_sequences_are_those_of_one_batch(plain: Path) -> None:
    """One by one or together: the same events, and the same total of forwards."""
    sampler, *_ = gate_candidates.make()
    key, n, length = counts_key("gated", f"gate.counts.{NAME}", 7), SMALL["n_sequences"], SMALL["length"]
    together = sampler.sample(SampleRequest(n, Stop(n_events=length), key))
    found = count(sampler.sample, key, n, length)
    assert sum(found["forwards"]) == together.counts.target_row_forwards
    np.testing.assert_array_equal(found["forwards"], arrays(plain, f"gate.counts.{NAME}")["forwards"])


def test_the_digest_sees_one_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler, *_ = gate_candidates.make()
    key = counts_key("gated", "digest", 7)
    first = count(sampler.sample, key, 3, 20)["digest"]

    def nudged(request: SampleRequest) -> object:
        run = sampler.sample(request)
        run.events.gaps[-1] = np.nextafter(run.events.gaps[-1], 1)
        return run

    assert count(sampler.sample, key, 3, 20)["digest"] == first
    assert count(nudged, key, 3, 20)["digest"] != first


def test_levels_are_shared_by_the_law_cells() -> None:
    plan = make_plan(load_suite("gate"))
    one = make_plan(load_suite("gate", ['study.gate.pairs=["toy-marked"]']))
    assert plan.jobs[0].levels.analytic == pytest.approx(one.jobs[0].levels.analytic / 2)
    assert [job.alone for job in plan.jobs] == [False, True, False, True]
    assert "81,920" in detectable(plan)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, "pairs, or samplers"),
        ({"samplers": ["no_colon"]}, "MODULE:FACTORY"),
        ({"pairs": ["toy-marked"], "margins": {"tv": 0.03}}, "tv_found beyond tv"),
        ({"pairs": ["toy-marked"], "margins": {"sped": 0.9}}, "did you mean 'speed'"),
    ],
)
def test_tables_that_make_no_gate_are_refused(table: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        check_suite({"name": "x", "study": {"gate": table}}, "x")


def test_a_factory_without_a_reference_cannot_be_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    from tppsd_bench.gate.subject import load_subject

    monkeypatch.setattr(gate_candidates, "bare", lambda: gate_candidates.make()[:2], raising=False)
    pair = load_subject("gate_candidates:bare")
    assert pair.sampler("speculative") is pair.subject
    with pytest.raises(InputError, match="no reference sampler"):
        pair.sampler("target_only")


def test_the_section_has_a_row_a_cell_and_says_what_fails(plain: Path) -> None:
    cells = list(store.read_cells(plain).values())
    made = section(cells, lambda cell: {}, SimpleNamespace())  # type: ignore[arg-type]
    (table,) = made.blocks[0].tables
    assert len(table.rows) == len(cells) == 3
    assert "no failing verdict" in sentence(cells)
    law = next(c for c in cells if ".law." in c.id)
    failing = replace(law, verdicts=(replace(law.verdicts[0], axis=Axis.LAW, outcome=Outcome.FAIL, sentence="Off."),))
    assert sentence([failing]).endswith("Off.")


def test_the_report_is_built(plain: Path) -> None:
    text = build_report(plain).read_text(encoding="utf-8")
    assert "Regression gate" in text
    assert f"gate.counts.{NAME}" in text
