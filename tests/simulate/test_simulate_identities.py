"""Exact identities of the known processes: streams, likelihood against brute force, inversion, refusals."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import Stop, Target
from tppsd_bench.simulate import PROCESSES, Process, make
from tppsd_bench.streams import StreamKey

CASES: dict[str, Process] = {
    "poisson": make("poisson", rate=[1.0, 0.5], amplitude=[0.8, 0.9], period=[10.0, 7.0], phase=[0.0, 1.0]),
    "hawkes one type": make("hawkes", mu=0.5, alpha=0.8, beta=1.6),
    "hawkes beta by row": make("hawkes", mu=[0.3, 0.2], alpha=[[0.6, 0.3], [0.2, 0.5]], beta=[1.5, 1.2]),
    "hawkes beta by pair": make("hawkes", mu=[0.3, 0.0], alpha=[[0.6, 0.0], [0.4, 0.5]], beta=[[1.5, 1.0], [0.7, 1.2]]),
    "self-correcting": make("self_correcting", mu=1.0, alpha=0.8, type_logits=[0.0, 0.5]),
    "self-correcting, types by gap": make(
        "self_correcting", mu=0.7, alpha=[1.0, 0.5, 0.3], type_logits=[0.0, 0.3, -0.2], type_slopes=[1.0, -1.0, 0.2]
    ),
    "renewal": make("renewal", locations=[0.0, -2.0], scales=[1.0, 0.5], weights=[0.6, 0.4], type_probs=[0.7, 0.3]),
    "renewal, Markov types": make("renewal", locations=-0.2, scales=0.6, type_probs=[[0.8, 0.2], [0.3, 0.7]]),
    "echo": make("echo", lag=3, location=-0.2, scale=0.6, echo=-0.7, type_probs=[0.6, 0.3, 0.1], type_echo=0.5),
    "echo of the last event": make("echo", lag=1, location=0.0, scale=0.4, echo=0.9),
}
every_case = pytest.mark.parametrize("process", CASES.values(), ids=CASES)
KEY = StreamKey(seed=11, suite="tests", cell="simulate identities")


def test_every_registered_process_has_a_case() -> None:
    assert {p.kind for p in CASES.values()} == set(PROCESSES)


# -- parameters -------------------------------------------------------------------------------------------------------------
@every_case
def test_parameters_survive_json_and_cannot_change(process: Process) -> None:
    again = make(process.kind, **json.loads(json.dumps(process.params())))
    assert again == process
    assert hash(again) == hash(process)
    name = dataclasses.fields(process)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(process, name, 1.0)
    for value in (getattr(process, f.name) for f in dataclasses.fields(process)):
        assert not (isinstance(value, np.ndarray) and value.flags.writeable)


# -- streams and stopping -----------------------------------------------------------------------------------------------------
def same(a: EventBatch, b: EventBatch) -> bool:
    return all(np.array_equal(x, y) for x, y in ((a.gaps, b.gaps), (a.types, b.types), (a.lengths, b.lengths)))


@every_case
@pytest.mark.parametrize("stop", [Stop(n_events=12), Stop(horizon=9.0)], ids=["count", "horizon"])
def test_a_sequence_does_not_depend_on_how_many_are_drawn(process: Process, stop: Stop) -> None:
    many = process.simulate(50, stop, KEY)
    many.validate()
    assert same(process.simulate(50, stop, KEY), many)
    assert same(process.simulate(3, stop, KEY), many.select(slice(0, 3)))
    assert same(process.simulate(1, stop, KEY, first_sequence=37), many.select(slice(37, 38)))
    assert not same(process.simulate(50, stop, KEY.replace(arm="other")), many)


@every_case
def test_a_horizon_run_is_the_count_run_cut_at_the_horizon(process: Process) -> None:
    cut = process.simulate(20, Stop(horizon=6.0), KEY)
    longer = process.simulate(20, Stop(n_events=int(cut.lengths.max()) + 1), KEY)
    inside = longer.times < 6.0
    assert np.array_equal(cut.lengths, np.bincount(longer.sequence_index[inside], minlength=20))
    assert np.array_equal(cut.gaps, longer.gaps[inside])
    assert np.array_equal(cut.types, longer.types[inside])
    assert cut.horizon is not None
    assert (cut.horizon == 6.0).all()


def test_nothing_asked_and_nothing_happened() -> None:
    process = CASES["hawkes one type"]
    assert len(process.simulate(0, Stop(n_events=3), KEY)) == 0
    empty = process.simulate(4, Stop(horizon=1e-9), KEY)
    assert empty.n_events == 0
    assert process.log_likelihood(empty) == pytest.approx(np.full(4, -0.5e-9))


# -- likelihood against the definition, integrated numerically ----------------------------------------------------------------
Intensity = Callable[[float, list[float], list[int]], np.ndarray]
"""λ_m(t | history), written from the definition, one event at a time."""


def reference_intensity(process: Process) -> Intensity:
    p = {name: np.array(value) if isinstance(value, list) else value for name, value in process.params().items()}
    m = process.n_types

    def poisson(t: float, times: list[float], types: list[int]) -> np.ndarray:
        return np.asarray(p["rate"] * (1 + p["amplitude"] * np.sin(2 * np.pi * t / p["period"] + p["phase"])))

    def hawkes(t: float, times: list[float], types: list[int]) -> np.ndarray:
        beta = p["beta"] if p["beta"].ndim == 2 else np.repeat(p["beta"][:, None], m, axis=1)
        rate = p["mu"].astype(float).copy()
        for s, k in zip(times, types, strict=True):
            rate += p["alpha"][:, k] * np.exp(-beta[:, k] * (t - s))
        return rate

    def self_correcting(t: float, times: list[float], types: list[int]) -> np.ndarray:
        total = np.exp(p["mu"] * t - sum(p["alpha"][k] for k in types))
        gap = max(t - (times[-1] if times else 0.0), 1e-300)
        weights = np.exp(p["type_logits"]) * (gap * p["mu"] / p["alpha"].mean()) ** p["type_slopes"]
        return np.asarray(total * weights / weights.sum())

    def renewal(t: float, times: list[float], types: list[int]) -> np.ndarray:
        gap = max(t - (times[-1] if times else 0.0), 1e-300)
        z = (np.log(gap) - p["locations"]) / p["scales"]
        hazard = (p["weights"] @ (norm.pdf(z) / (p["scales"] * gap))) / (p["weights"] @ norm.sf(z))
        if p["type_probs"].ndim == 1:
            return np.asarray(hazard * p["type_probs"])
        return np.asarray(hazard * (p["type_probs"][types[-1]] if types else np.array([0.6, 0.4])))  # stationary law

    def echo(t: float, times: list[float], types: list[int]) -> np.ndarray:
        gaps, lag, mean, scale = np.diff([0.0, *times]), p["lag"], p["location"], p["scale"]
        repeats = len(times) >= lag
        if repeats:
            mean, scale = mean + p["echo"] * (np.log(gaps[-lag]) - mean), scale * np.sqrt(1 - p["echo"] ** 2)
        gap = max(t - (times[-1] if times else 0.0), 1e-300)
        z = (np.log(gap) - mean) / scale
        probs = np.atleast_1d(p["type_probs"])
        if repeats:
            probs = p["type_echo"] * np.eye(m)[types[-lag]] + (1 - p["type_echo"]) * probs
        return np.asarray(norm.pdf(z) / (scale * gap * norm.sf(z)) * probs)

    chosen = {"poisson": poisson, "hawkes": hawkes, "self_correcting": self_correcting, "renewal": renewal, "echo": echo}
    return chosen[process.kind]


def area(rate: Intensity, start: float, end: float, times: list[float], types: list[int]) -> float:
    return float(quad(lambda t: rate(t, times, types).sum(), start, end, epsabs=1e-12, epsrel=1e-11, limit=200)[0])


@every_case
def test_likelihood_and_scores_equal_the_definition_integrated_numerically(process: Process) -> None:
    batch = process.simulate(3, Stop(horizon=6.0), KEY)
    assert batch.horizon is not None
    rate, scores, increments = reference_intensity(process), process.score(batch), process.compensator(batch)
    likelihood = process.log_likelihood(batch)
    assert scores.crossing_cdf is not None
    for i in range(3):
        one = slice(batch.offsets[i], batch.offsets[i + 1])
        times, types = batch.times[one].tolist(), batch.types[one].tolist()
        expected, last = 0.0, 0.0
        for j, (t, k) in enumerate(zip(times, types, strict=True)):
            flat = int(batch.offsets[i]) + j
            at, mass = rate(t, times[:j], types[:j]), area(rate, last, t, times[:j], types[:j])
            assert increments[flat] == pytest.approx(mass, rel=1e-8)
            assert scores.log_density[flat] == pytest.approx(np.log(at.sum()) - mass, rel=1e-8, abs=1e-8)
            assert scores.cdf[flat] == pytest.approx(-np.expm1(-mass), rel=1e-8)
            assert scores.survival[flat] == pytest.approx(np.exp(-mass), rel=1e-8)
            assert scores.type_probs[flat] == pytest.approx(at / at.sum(), rel=1e-8)
            expected, last = expected + np.log(at[k]) - mass, t
        mass = area(rate, last, 6.0, times, types)
        assert scores.crossing_cdf[i] == pytest.approx(-np.expm1(-mass), rel=1e-8)
        assert likelihood[i] == pytest.approx(expected - mass, rel=1e-8, abs=1e-8)


@every_case
def test_scores_are_those_of_a_target(process: Process) -> None:
    assert isinstance(process, Target)
    batch = process.simulate(20, Stop(n_events=15), KEY)
    scores = process.score(batch)
    assert scores.crossing_cdf is None
    assert scores.type_probs.sum(axis=1) == pytest.approx(np.ones(batch.n_events), abs=1e-12)
    assert process.event_log_likelihood(batch).reshape(20, 15).sum(axis=1) == pytest.approx(process.log_likelihood(batch))
    prefix = process.score(batch.prefix(7))
    assert np.array_equal(prefix.log_density, scores.log_density[batch.event_index < 7])
    order = np.arange(20)[::-1]
    assert np.array_equal(process.score(batch.select(order)).cdf, scores.cdf.reshape(20, 15)[order].ravel())


@every_case
def test_ragged_scores_equal_those_of_each_sequence_alone(process: Process) -> None:
    batch = process.simulate(12, Stop(horizon=4.0), KEY)
    assert len(set(batch.lengths.tolist())) > 1
    alone = [process.score(batch.select(slice(i, i + 1))) for i in range(12)]
    assert np.array_equal(process.score(batch).cdf, np.concatenate([s.cdf for s in alone]))


@every_case
def test_states_give_the_laws_of_the_walk_through_the_events(process: Process) -> None:
    """``states`` may keep less than a walk does, but nothing that the next law looks at."""
    batch = process.simulate(7, Stop(horizon=6.0), KEY)
    gaps = np.full(batch.n_events, 0.7), np.full(7, 0.7)
    for one, two, gap in zip(process.states(batch), Process.states(process, batch), gaps, strict=True):
        for found, expected in zip(process.law(one, gap), process.law(two, gap), strict=True):
            assert np.array_equal(found, expected)


# -- the draw inverts the compensator ---------------------------------------------------------------------------------------
uniform = st.floats(2.0**-54, 1 - 2.0**-53)


@settings(max_examples=200, deadline=None)
@given(u=uniform, start=st.floats(0.0, 1e6), amplitude=st.floats(0.0, 0.999), period=st.floats(1e-2, 1e3))
def test_poisson_gaps_invert_the_compensator(u: float, start: float, amplitude: float, period: float) -> None:
    process = make("poisson", rate=2.0, amplitude=amplitude, period=period, phase=0.4)
    gap, _ = process.draw(np.array([start]), np.array([[u]]))
    assert gap[0] > 0
    assert process.law(np.array([start]), gap).compensator[0] == pytest.approx(-np.log(u), rel=1e-12)


@settings(max_examples=200, deadline=None)
@given(u=uniform, v=uniform, excitation=st.floats(0.0, 50.0))
def test_hawkes_gaps_are_the_first_of_two_exact_clocks(u: float, v: float, excitation: float) -> None:
    process = make("hawkes", mu=0.5, alpha=0.8, beta=1.6)
    gap = float(process.draw(np.full((1, 1, 1), excitation), np.array([[u, v]]))[0][0])
    rung = [0.5 * gap / -np.log(u), excitation / 1.6 * -np.expm1(-1.6 * gap) / -np.log(v)]  # 1 = this clock rings now
    assert gap > 0
    assert max(rung) == pytest.approx(1.0, rel=1e-9)


@settings(max_examples=100, deadline=None)
@given(u=uniform, stress=st.floats(-20.0, 20.0))
def test_self_correcting_gaps_invert_the_compensator(u: float, stress: float) -> None:
    process = make("self_correcting", mu=0.7, alpha=1.0)
    gap, _ = process.draw(np.array([stress]), np.array([[u, 0.5]]))
    assert process.law(np.array([stress]), gap).compensator[0] == pytest.approx(-np.log(u), rel=1e-12)


@settings(max_examples=100, deadline=None)
@given(u=uniform, past=st.floats(-20.0, 20.0), echo=st.floats(-0.99, 0.99))
def test_echo_gaps_invert_the_compensator(u: float, past: float, echo: float) -> None:
    process = make("echo", lag=2, location=0.3, scale=0.5, echo=echo)
    state = np.array([[[past, 0.0], [9.0, 0.0]]])
    gap, _ = process.draw(state, np.array([[u, 0.5]]))
    assert process.law(state, gap).compensator[0] == pytest.approx(-np.log1p(-u), rel=1e-6)


# -- refusals -----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "params", "sentence"),
    [
        ("hawkes", {"mu": 1.0, "alpha": 1.0, "beta": 1.0}, "branching ratio .* is 1;"),
        ("hawkes", {"mu": [1, 1], "alpha": [[0.5, 2.0], [0.5, 0.5]], "beta": [1, 1]}, "branching ratio .* is 1.5;"),
        ("hawkes", {"mu": [0, 0], "alpha": np.zeros((2, 2)), "beta": [1, 1]}, "no event ever comes"),
        ("hawkes", {"mu": [1, 1], "alpha": [[0.5]], "beta": 1}, r"expected alpha \(2, 2\)"),
        ("hawkes", {"mu": 1.0, "alpha": -0.1, "beta": 1.0}, "alpha has the entry -0.1"),
        ("poisson", {"rate": [1.0, 2.0], "amplitude": [0.1, 0.2, 0.3]}, "amplitude has 3 entries"),
        ("poisson", {"rate": 1.0, "amplitude": 1.5}, "amplitude has the entry 1.5"),
        ("self_correcting", {"mu": 0.0, "alpha": 1.0}, "mu has the entry 0"),
        ("self_correcting", {"mu": 1.0, "alpha": [1.0, 2.0], "type_logits": [0, 0, 0]}, "alpha has 2 entries for 3 types"),
        ("renewal", {"locations": 0.0, "scales": 1.0, "type_probs": [0.5, 0.4]}, "sums to 0.9"),
        ("renewal", {"locations": [0.0, 1.0], "scales": [1.0]}, "2 locations, 1 scales and 1 weights"),
        ("renewal", {"locations": np.nan, "scales": 1.0}, "entry nan"),
        ("echo", {"lag": 2.5, "location": 0.0, "scale": 1.0, "echo": 0.5}, "whole number of events"),
        ("echo", {"lag": 0, "location": 0.0, "scale": 1.0, "echo": 0.5}, "lag has the entry 0"),
        ("echo", {"lag": 2, "location": 0.0, "scale": 1.0, "echo": 1.0}, "repeats the first events for ever"),
        ("echo", {"lag": 2, "location": 0.0, "scale": [1.0, 2.0], "echo": 0.5}, "scale has 2 entries; expected one"),
        ("cox", {}, "no process named 'cox'; the known ones are poisson, hawkes"),
        ("poisson", {"speed": 1.0}, "cannot be made from the parameters"),
    ],
)
def test_bad_parameters_get_one_sentence(kind: str, params: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        make(kind, **params)


def test_types_beyond_the_process_are_named() -> None:
    batch = EventBatch.from_gaps([[1.0], [0.5, 0.5]], [[0], [0, 2]])
    with pytest.raises(InputError, match="Sequence 1, event 1 has type 2, but the hawkes process has 2 types"):
        CASES["hawkes beta by row"].score(batch)


# -- cost ---------------------------------------------------------------------------------------------------------------------
def test_a_thousand_hawkes_sequences_take_under_two_cpu_seconds() -> None:
    started = time.process_time()
    batch = CASES["hawkes beta by row"].simulate(1000, Stop(n_events=150), KEY)
    CASES["hawkes beta by row"].score(batch)
    assert time.process_time() - started < 2.0


def test_imports_without_torch() -> None:
    code = "import sys, tppsd_bench.simulate; sys.exit('torch' in sys.modules)"
    root = Path(__file__).resolve().parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0
