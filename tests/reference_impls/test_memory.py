"""A memory limit changes when a row is worked on, never what it draws; and the estimate bounds what the process takes."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sampler_runs import PastK, same_events, same_trace, same_work
from test_sampler_networks import PAIRS, diverging

from reference_impls.pairs import load_pair
from reference_impls.samplers import history
from reference_impls.samplers.memory import Footprint, Room, footprint, held, in_words
from reference_impls.samplers.policy import AdaptiveK
from reference_impls.samplers.speculative import Speculative
from reference_impls.samplers.target_only import TargetOnly
from tppsd_bench.errors import InputError
from tppsd_bench.protocols import SampleRequest, Stop
from tppsd_bench.streams import StreamKey

ROOT = Path(__file__).resolve().parents[2]
TOYS = ("toy-marked", "toy-gap-types", "toy-univariate", "toy-tokens")
PAIR = {name: load_pair(name) for name in TOYS}
NOT_OF_THE_LAW = {"target_positions", "draft_positions"}
"""Counts that a second encoding of a history adds to; forwards it does not: it is part of the pass that was due anyway."""


def limit_for(sampler: Speculative | TargetOnly, rows: int, capacity: int) -> int:
    """Bytes that ``rows`` rows of this capacity fit, and hardly more."""
    models = (sampler.target, sampler.draft) if isinstance(sampler, Speculative) else (sampler.target,)
    recompute = isinstance(sampler, TargetOnly) and sampler.recompute
    need = footprint(models, recompute=recompute)
    return int(need.fixed(capacity, 12) + (rows + 0.5) * need.of_row(capacity, 12))


@st.composite
def cases(draw):
    pair = PAIR[draw(st.sampled_from(TOYS))]
    sampler = pair.sampler(draw(st.sampled_from(["speculative", "target_only", "target_only_recompute"])), draft="stress")
    if isinstance(sampler, Speculative):
        sampler = replace(sampler, policy=draw(st.sampled_from([sampler.policy, AdaptiveK(k_max=5), PastK(3)])))
    stop = draw(
        st.one_of(st.integers(1, 14).map(lambda n: Stop(n_events=n)), st.floats(1.0, 40.0).map(lambda t: Stop(horizon=t)))
    )
    request = SampleRequest(draw(st.integers(1, 7)), stop, StreamKey(seed=draw(st.integers(0, 2**32)), cell="memory"))
    return sampler, request, draw(st.integers(1, 4))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(cases())
def test_any_limit_gives_the_same_sequences(monkeypatch, case):
    sampler, request, rows = case
    monkeypatch.setattr(history, "FIRST_GUESS", 4)  # horizon runs then outgrow their caches again and again
    free = sampler.sample(request)
    tight = replace(sampler, memory_limit=limit_for(sampler, rows, 128)).sample(request)
    assert same_events(free.events, tight.events)
    assert same_trace(free.trace, tight.trace)
    for name in NOT_OF_THE_LAW:
        assert getattr(tight.counts, name) >= getattr(free.counts, name)
        setattr(tight.counts, name, getattr(free.counts, name))
    assert same_work(free.counts, tight.counts)


@pytest.mark.parametrize("kind", ["speculative", "target_only"])
def test_rows_that_outgrow_memory_wait_and_begin_where_they_were(kind, monkeypatch):
    """Under a horizon nobody knows the lengths: rows are set aside in mid-run, and their histories encoded once more."""
    monkeypatch.setattr(history, "FIRST_GUESS", 8)
    sampler = PAIR["toy-marked"].sampler(kind, draft="stress")
    request = SampleRequest(12, Stop(horizon=100.0), StreamKey(cell="outgrown"))
    free = sampler.sample(request)
    tight = replace(sampler, memory_limit=limit_for(sampler, 4, 96)).sample(request)
    assert same_events(free.events, tight.events)
    assert free.events.lengths.max() > 64
    assert tight.counts.target_positions > free.counts.target_positions + 12 * 8
    assert tight.counts.target_row_forwards == free.counts.target_row_forwards


def test_the_comparison_can_fail(monkeypatch):
    """Rows that come back without the last event of their history draw something else."""
    monkeypatch.setattr(history, "FIRST_GUESS", 8)
    sampler = PAIR["toy-marked"].sampler("speculative", draft="stress")
    request = SampleRequest(12, Stop(horizon=100.0), StreamKey(cell="outgrown"))
    free = sampler.sample(request)
    part = history.Histories.part

    def forgetful(self, rows):
        out = part(self, rows)
        out.gaps[np.arange(len(rows)), out.lengths - 1] *= 2.0
        return out

    monkeypatch.setattr(history.Histories, "part", forgetful)
    assert not same_events(free.events, replace(sampler, memory_limit=limit_for(sampler, 4, 96)).sample(request).events)


@pytest.mark.parametrize("name", sorted(PAIRS))
@pytest.mark.parametrize("stop", [Stop(n_events=20), Stop(horizon=6.0)], ids=["events", "horizon"])
def test_networks_agree_to_float32(name, stop, monkeypatch):
    """Values agree to 1e-4; about 1e-5 of the decisions may flip where they hang on the last bits: one parting sequence is allowed."""
    monkeypatch.setattr(history, "FIRST_GUESS", 8)
    request = SampleRequest(12, stop, StreamKey(cell="memory networks"))
    for sampler in (Speculative(*PAIRS[name]), TargetOnly(PAIRS[name][0]), TargetOnly(PAIRS[name][0], recompute=True)):
        free, tight = (
            replace(sampler, memory_limit=limit).sample(request).events for limit in (None, limit_for(sampler, 3, 40))
        )
        assert diverging(free, tight) <= 1
        assert diverging(free, sampler.sample(replace(request, first_sequence=12)).events) > 9, (
            "other sequences are seen as others"
        )


MODELS = {
    **{name: (lambda name=name: PAIRS[name][0]) for name in PAIRS},
    "toy": lambda: PAIR["toy-marked"].target,
    "lstm": lambda: load_pair("sahp-earthquake").drafts["lstm"],
    "convolution": lambda: load_pair("sahp-earthquake").drafts["convolution"],
}


@pytest.mark.parametrize("name", MODELS)
def test_the_estimate_counts_every_byte_of_a_cache(name):
    model = MODELS[name]()
    cache, need = model.start(5, 200), footprint((model,))
    assert 5 * 200 * (need.event - 32) <= held(cache) <= 5 * (200 * need.event + need.row)
    assert need.event > 32


def test_a_limit_too_small_for_one_row_is_a_sentence():
    sampler = PAIR["toy-marked"].sampler("speculative", memory_limit=1_000)
    with pytest.raises(InputError, match=r"A memory limit of 1 kB is too small for one sequence: with room for 107 events"):
        sampler.sample(SampleRequest(2, Stop(n_events=100), StreamKey()))


def test_without_a_limit_nothing_is_estimated():
    assert Room(None, ()).rows(10**9, 10**9) is None


def test_attention_scores_count_once_on_a_cpu_and_by_row_elsewhere():
    cpu, gpu = Footprint(100.0, 0.0, 0.0, heads=8), Footprint(100.0, 0.0, 0.0, heads=8, on_cpu=False)
    assert cpu.of_row(1000, 6) == 100_000
    assert gpu.of_row(1000, 6) == 100_000 + 3 * 4 * 8 * 6 * 1000


def test_a_network_without_its_cache_encodes_whole_histories():
    """Then memory is that of all its positions, whatever a pass adds."""
    recomputing = load_pair("thp-poisson").sampler("speculative_recompute")
    need, cached = footprint((recomputing.target,)), footprint((load_pair("thp-poisson").target,))
    assert need.whole
    assert not cached.whole
    assert need.event < cached.event
    assert need.of_row(1000, 6) == need.of_row(1000, 500) > cached.of_row(1000, 500)


@pytest.mark.parametrize(("size", "words"), [(12, "12 bytes"), (1_500, "1.5 kB"), (2.5e6, "2.5 MB"), (1e9, "1 GB")])
def test_bytes_in_words(size, words):
    assert in_words(size) == words


MEASURE = """
import sys
import torch
from reference_impls.pairs import load_pair
from tppsd_bench.protocols import SampleRequest, Stop
from tppsd_bench.streams import StreamKey

def peak():
    return next(1024 * int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))

torch.set_num_threads(1)
pair = load_pair("thp-hawkes")
pair.sampler("speculative").sample(SampleRequest(2, Stop(n_events=20), StreamKey(cell="warm"), want_trace=False))
before, limit = peak(), int(sys.argv[1]) or None
pair.sampler("speculative", memory_limit=limit).sample(SampleRequest(48, Stop(n_events=120), StreamKey(cell="peak"), want_trace=False))
print(peak() - before)
"""
"""The kernel's high-water mark of this process alone: ru_maxrss begins with that of the process it was forked from."""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="reads the peak from /proc")
def test_a_process_stays_within_its_limit():
    """The paper-size network: 48 sequences of 120 events take over 60 MB at once, and 30 MB where they are given no more."""

    def taken(limit: int) -> int:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, str(limit)], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        return int(done.stdout)

    assert taken(30_000_000) <= 32_000_000
    assert taken(0) > 60_000_000
