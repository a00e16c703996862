"""Mutants: a registry of faults and controls, each the exact sampler with one decision changed."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reference_impls.mutants import Mutant, controls, mutant, names
from reference_impls.mutants.__main__ import BEGIN, table
from reference_impls.pairs import load_pair
from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import COMPONENT_GAP, COMPONENT_TYPE, SampleRequest, Stop
from tppsd_bench.streams import StreamKey

REQUEST = SampleRequest(32, Stop(n_events=30), StreamKey(seed=2, cell="mutants"))
pair = lru_cache(load_pair)


def same(a: EventBatch, b: EventBatch) -> bool:
    return np.array_equal(a.lengths, b.lengths) and np.array_equal(a.gaps, b.gaps) and np.array_equal(a.types, b.types)


def exact_of(made: Mutant) -> Any:
    return made.witness.exact(pair(made.witness.pair))


def request_of(made: Mutant) -> SampleRequest:
    stop = REQUEST.stop if made.witness.horizon is None else made.witness.stop
    return SampleRequest(32, stop, REQUEST.key)


@pytest.mark.parametrize("name", names() + controls())
def test_a_mutant_says_what_it_is_and_runs_on_its_witness(name: str) -> None:
    made = mutant(name)
    assert made.broken.endswith(".")
    assert made.precedent
    assert made.control or made.killers
    sampler = made.sampler(pair(made.witness.pair))
    run = sampler.sample(request_of(made))
    assert len(run.events) == 32
    assert run.trace is not None
    assert made.control or sampler.declares.rule == exact_of(made).declares.rule


@pytest.mark.parametrize("name", names() + controls())
def test_a_mutant_is_the_exact_sampler_until_its_decision_comes_up(name: str) -> None:
    """Same streams: a changed decision moves the sequences, and nothing else does; same seed, same sequences."""
    made = mutant(name)
    request = request_of(made)
    sampler = made.sampler(pair(made.witness.pair))
    mine, exact = sampler.sample(request).events, exact_of(made).sample(request).events
    assert same(sampler.sample(request).events, mine)
    assert made.control or not same(mine, exact)


@pytest.mark.parametrize("name", [n for n in names() if mutant(n).doses])
def test_doses_go_up_and_each_is_another_sampler(name: str) -> None:
    made = mutant(name)
    assert made.dose in made.doses
    request = replace(request_of(made), n_sequences=64)
    if made.witness.horizon is None:
        request = replace(request, stop=made.witness.stop)  # harmless doses need events to show at all
    runs = [made.sampler(pair(made.witness.pair), dose).sample(request).events for dose in made.doses]
    assert not any(same(a, b) for a, b in pairwise(runs))


def test_unverified_types_verify_gaps_and_nothing_else() -> None:
    made = mutant("type_unverified")
    trace = made.sampler(pair(made.witness.pair)).sample(REQUEST).trace
    reference = exact_of(made).sample(REQUEST).trace
    assert trace is not None
    assert trace.accepted[trace.component == COMPONENT_TYPE].all()
    assert not reference.accepted[reference.component == COMPONENT_TYPE].all()
    assert not trace.accepted[trace.component == COMPONENT_GAP].all()


def test_the_docs_page_has_the_zoo_as_it_is() -> None:
    """Out of date? python -m reference_impls.mutants docs/mutants.md"""
    page = (Path(__file__).parents[2] / "docs" / "mutants.md").read_text(encoding="utf-8")
    assert page.partition(BEGIN)[2].strip() == table().strip()


def test_an_unknown_name_is_answered_with_those_there_are() -> None:
    with pytest.raises(InputError, match=r"known mutants: .*type_unverified"):
        mutant("types")


def test_the_registry_has_both_kinds_and_no_name_twice() -> None:
    assert not set(names()) & set(controls())
    assert not any(mutant(n).control for n in names())
    assert np.all([mutant(n).control for n in controls()])
