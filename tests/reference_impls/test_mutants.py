"""Mutants: a registry of faults, each the exact sampler with one decision changed."""

from __future__ import annotations

import pytest

from reference_impls.mutants import mutant, names
from reference_impls.mutants.base import register
from reference_impls.pairs import load_pair
from tppsd_bench.errors import InputError
from tppsd_bench.protocols import COMPONENT_GAP, COMPONENT_TYPE, SampleRequest, Stop
from tppsd_bench.streams import StreamKey

REQUEST = SampleRequest(32, Stop(n_events=30), StreamKey(seed=2, cell="mutants"))


@pytest.mark.parametrize("name", names())
def test_a_mutant_says_what_it_is_and_declares_the_rule_it_breaks(name: str) -> None:
    made = mutant(name)
    assert made.broken
    assert made.precedent
    assert made.killers
    pair, draft = made.witness
    exact = load_pair(pair).sampler("speculative", draft=draft, k=4)
    assert made.of(exact).declares == exact.declares
    assert made.of(exact).sample(REQUEST).events.n_events == 960


def test_unverified_types_verify_gaps_and_nothing_else() -> None:
    exact = load_pair("toy-gap-types").sampler("speculative", draft="stress", k=4)
    trace = mutant("type_unverified").of(exact).sample(REQUEST).trace
    reference = exact.sample(REQUEST).trace
    assert trace is not None
    assert reference is not None
    assert trace.accepted[trace.component == COMPONENT_TYPE].all()
    assert not reference.accepted[reference.component == COMPONENT_TYPE].all()
    assert not trace.accepted[trace.component == COMPONENT_GAP].all()


def test_names_are_known_and_unique() -> None:
    with pytest.raises(InputError, match="known mutants: type_unverified"):
        mutant("types")
    with pytest.raises(InputError, match="already registered"):
        register(mutant("type_unverified"))
