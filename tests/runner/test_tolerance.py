"""Tolerances come from the pilot: exact samplers are held to bits, rounding buys ten times itself, faults buy nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from reference_impls.pairs import load_pair
from tppsd_bench.protocols import SampleRequest, SampleRun, Stop
from tppsd_bench.runner import tolerance
from tppsd_bench.streams import StreamKey

PAIR = load_pair("toy-marked")
DRAFT = PAIR.drafts["stress"]
RULE = "leviathan_two_step"
SAMPLER = PAIR.sampler("speculative", draft="stress", k=4, batch_size=16)


def pilot() -> SampleRun:
    run: SampleRun = SAMPLER.sample(SampleRequest(40, Stop(n_events=12), StreamKey(seed=3, cell="pilot")))
    return run


def off_by(noise: np.ndarray) -> SampleRun:
    run = pilot()
    assert run.trace is not None
    return replace(run, trace=replace(run.trace, log_p=run.trace.log_p + noise[: len(run.trace.log_p)]))


def test_passes_that_agree_to_the_bit_are_held_to_it() -> None:
    assert tolerance.measure(pilot(), PAIR.target, DRAFT, RULE) == tolerance.Tolerance(tolerance.FLOOR, 0.0)


def test_rounding_is_allowed_tenfold() -> None:
    noise = np.linspace(-8e-5, 8e-5, 10_000)
    found = tolerance.measure(off_by(noise), PAIR.target, DRAFT, RULE)
    assert found.log_density == pytest.approx(8e-4, rel=0.2)
    assert found.batch_rtol == tolerance.BATCH_RTOL


def test_a_lucky_pilot_does_not_hold_float32_to_less_than_its_tails() -> None:
    found = tolerance.measure(off_by(np.linspace(-2e-6, 2e-6, 10_000)), PAIR.target, DRAFT, RULE)
    assert found == tolerance.Tolerance(tolerance.ROUNDED, tolerance.BATCH_RTOL)


@pytest.mark.parametrize("wrong", [0.3, np.nan, np.inf])
def test_a_fault_buys_no_more_room_than_the_ceiling(wrong: float) -> None:
    found = tolerance.measure(off_by(np.full(10_000, wrong)), PAIR.target, DRAFT, RULE)
    assert found.log_density == tolerance.CEILING


def test_what_cannot_be_compared_gets_the_tolerance_of_float32() -> None:
    run = pilot()
    assert tolerance.measure(replace(run, trace=None), PAIR.target, DRAFT, RULE) == tolerance.Tolerance()
    assert tolerance.measure(run, PAIR.target, DRAFT, "other") == tolerance.Tolerance()
