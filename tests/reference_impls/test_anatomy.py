"""The cost model of a round: products written down and laid out as they were, phases charged once, kernels taken apart, runs compared."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from reference_impls.anatomy import kernels, measure
from reference_impls.anatomy.__main__ import as_dict, main, table
from reference_impls.anatomy.lines import LineTracer, missed, tracing_cost
from reference_impls.anatomy.measure import Anatomy, anatomy
from reference_impls.anatomy.phases import Probe, Tracer, probes_of, wrapping_cost
from reference_impls.anatomy.products import PRODUCTS, Place, Product, Recorder
from reference_impls.anatomy.replay import Memory, Replay
from reference_impls.heads.types import TypesGivenGap
from reference_impls.pairs import load_pair
from tppsd_bench.errors import InputError
from tppsd_bench.protocols import SampleRequest, Stop
from tppsd_bench.streams import StreamKey

TIMED = ("add up",)
"""Checks whose outcome is a matter of the machine's noise, by their names."""


def recorded(work: Any) -> list[Product]:
    recorder = Recorder()
    with recorder.recording():
        work()
    return recorder.products


# -- products ---------------------------------------------------------------------------------------------------------------
def test_products_are_recorded_with_their_kind_and_size() -> None:
    rng = np.random.default_rng(1)
    x, w, v = rng.random((3, 4)), rng.random((4, 5)), rng.random(4)
    t = torch.rand(2, 3, 4)
    with torch.inference_mode():
        made = recorded(
            lambda: (
                np.dot(x, w), np.matmul(v, w, out=np.empty(5)), np.dot(x, np.ones(4)), np.dot(v, v), np.dot(np.zeros(4), w),
                torch.bmm(t, t.transpose(1, 2)), F.linear(t[0], t[1], t[0, 0, :3]), x + 1, torch.exp(t),
            )
        )  # fmt: skip
    assert [p.kind for p in made] == ["product", "product", "sum", "scalar product", "product", "product", "product"]
    assert [p.flops for p in made if p.kind == "product"] == [
        2 * 3 * 4 * 5,
        2 * 4 * 5,
        2 * 4 * 5,
        2 * 2 * 3 * 3 * 4,
        2 * 3 * 3 * 4,
    ]
    assert {p.line[0] for p in made} == {__file__}


def test_the_original_functions_come_back_even_from_default_arguments() -> None:
    before = np.dot, np.matmul, TypesGivenGap.__init__.__defaults__
    made = recorded(
        lambda: TypesGivenGap(np.zeros((2, 3)), np.ones((3, 3)), np.ones((3, 2)), np.zeros(2)).log_probs(np.zeros(2))
    )
    assert [p.flops for p in made] == [2 * 2 * 3 * 3, 2 * 2 * 3 * 2]
    assert (np.dot, np.matmul, TypesGivenGap.__init__.__defaults__) == before
    with pytest.raises(ZeroDivisionError):
        recorded(lambda: 1 / 0)
    assert np.dot is before[0]


def test_all_flops_of_a_network_are_there() -> None:
    pair = load_pair("thp-hawkes")
    n, encoder = 12, pair.target.encoder
    sampler = pair.sampler("target_only")
    request = SampleRequest(1, Stop(n_events=n), StreamKey(seed=3, cell="flops"))
    found = sum(p.flops for p in recorded(lambda: sampler.sample(request)) if p.kind != "scalar product")
    weights = sum(w.numel() for name, w in encoder.named_parameters() if w.ndim == 2 and "embedding" not in name)
    head = pair.target.head.raw.weight.numel()
    passes = n - 1  # the first event's law needs none
    seen = 4 * encoder.n_layers * encoder.d * sum(range(1, n))
    expected = 2 * passes * weights + 2 * n * head + seen
    assert expected <= found <= 1.35 * expected  # biases, and columns in whole vectors


def test_memory_lies_as_it_lay() -> None:
    base = np.zeros(40_000, dtype=np.float32)
    a, b = base[100:1300].reshape(30, 40), base[100:1300].reshape(30, 40)[:, 5:9].T
    tensor, far = torch.from_numpy(base)[200:208].view(2, 4).t(), np.zeros(7)
    places = [Place.of(x) for x in (a, b, tensor, far, a[:0])]
    memory = Memory(places)
    views = [memory.view(p) for p in places]
    for place, view in zip(places, views, strict=True):
        again = Place.of(view)
        assert (again.shape, again.strides, again.dtype, again.torch) == (place.shape, place.strides, place.dtype, place.torch)
        assert again.address % 4096 == place.address % 4096
    views[0][:] = np.arange(1200).reshape(30, 40)
    np.testing.assert_array_equal(views[1], views[0][:, 5:9].T)
    np.testing.assert_array_equal(views[2].numpy(), views[0].ravel()[100:108].reshape(2, 4).T)
    assert not views[3].any()
    assert memory.nbytes < 2 * base.nbytes


def test_a_replay_does_every_product_once_by_phase() -> None:
    x, w, calls = np.ones((3, 4)), np.ones((4, 5)), []
    tracer = Tracer(clock=lambda: 0.0)
    recorder = Recorder(lambda: tracer.path)

    class Work:
        def inner(self) -> None:
            np.dot(x, w)

        def outer(self) -> None:
            np.dot(x, np.ones(4))
            self.inner()
            np.matmul(x, w)

    with tracer.watching([Probe(Work, "inner", ("inner",)), Probe(Work, "outer", ("outer",))]), recorder.recording():
        Work().outer()
    replay = Replay(
        [
            replace(p, function=lambda *a, p=p: calls.append((p.function.__name__, [i.shape for i in a])))
            for p in recorder.products
        ]
    )
    replay.play()
    assert calls == [("dot", [(3, 4), (4,)]), ("dot", [(3, 4), (4, 5)]), ("matmul", [(3, 4), (4, 5)])]
    assert set(replay.by_phase()) == {("outer",), ("outer", "inner")}
    assert len(replay.part(PRODUCTS)) == 2


# -- phases and lines -----------------------------------------------------------------------------------------------------
def test_time_is_charged_once_and_to_the_innermost_phase() -> None:
    now = [0.0]

    def spend(seconds: float) -> None:
        now[0] += seconds

    class Work:
        def inner(self) -> None:
            spend(3)

        def outer(self) -> None:
            spend(1)
            self.inner()
            self.inner()
            spend(2)

    tracer = Tracer(clock=lambda: now[0])
    before = Work.outer
    probes = [Probe(Work, "outer", ("outer",)), Probe(Work, "inner", ("inner",)), Probe(Work, "gone", ("gone",))]
    with tracer.watching(probes):
        spend(10)
        Work().outer()
    assert tracer.seconds == {(): 10, ("outer",): 3, ("outer", "inner"): 6}
    assert tracer.net((0.5, 0.25)) == {(): 9.75, ("outer",): 2, ("outer", "inner"): 5}
    assert Work.outer is before
    assert [p.absent for p in probes] == [False, False, True]


def test_measuring_costs_something() -> None:
    inside, outside = wrapping_cost(2000)
    assert 0 < inside < 1e-4
    assert 0 <= outside < 1e-4
    assert 0 < tracing_cost(2000) < 1e-4


SOURCE = """
import numpy as np

def hidden(x):
    y = np.exp(x)
    y = x @ y
    return y  # x @ y is no product here

def seen(x):
    return np.dot(x, x)
"""


def test_a_product_that_escapes_is_found(tmp_path: Path) -> None:
    module = load_source(tmp_path / "escape.py", "escape", SOURCE)
    recorder, tracer, x = Recorder(), LineTracer(roots=(str(tmp_path),)), np.ones((60, 60))

    def work() -> None:
        for _ in range(20):
            module.seen(module.hidden(x))

    with recorder.recording():
        work()
    with tracer.tracing():
        work()
    lines = tracer.lines()
    assert {x.number: x.runs for x in lines} == dict.fromkeys((5, 6, 7, 10), 20)
    assert [x.number for x in missed(lines, {p.line for p in recorder.products})] == [6]
    assert sorted(x.number for x in missed(lines, set())) == [6, 10]
    assert lines[0].number in (5, 6, 10)
    assert sys.gettrace() is None


# -- compiled kernels -----------------------------------------------------------------------------------------------------
KERNEL = """
import numpy as np
from numba import njit

@njit(cache=True)
def _gelu(x):
    for i in range(len(x)):
        x[i] = 7.0

@njit
def _affine(x, w, out):
    for j in range(len(out)):
        for i in range(len(x)):
            out[j] += x[i] * w[i, j]

@njit(cache=True)
def step(x, w, cells, out):
    cells[0] = 1.0
    _affine(x, w, out)
    _gelu(out)
"""


def load_source(path: Path, name: str, source: str) -> ModuleType:
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def kernel_module(tmp_path: Path) -> Iterator[ModuleType]:
    pytest.importorskip("numba")
    name = f"{kernels.KERNELS}of_a_test"
    module = load_source(tmp_path / "of_a_test.py", name, KERNEL)
    sys.modules[name] = module
    yield module
    del sys.modules[name]


def test_the_twin_of_a_kernel_makes_its_products_and_nothing_else(kernel_module: ModuleType) -> None:
    rng = np.random.default_rng(2)
    x, w, cells = rng.random(3), rng.random((3, 4)), np.zeros(2)
    out = np.zeros(4)
    kernels.products_only(kernel_module.step)(x, w, cells, out)
    np.testing.assert_allclose(out, x @ w)
    assert not cells.any()
    kernel_module.step(x, w, cells, out)
    assert (out == 7.0).all()
    assert cells[0] == 1.0
    with pytest.raises(InputError, match="TAKEN_OUT"), kernels.compiling():
        kernels.products_only(kernel_module.step)(x, w, cells, "no array")
    unknown = kernels.unclassified({kernel_module.step})
    assert "_gelu" not in unknown
    assert "_attend_head" in unknown  # said to be kept, and not there


def test_calls_of_kernels_are_seen_and_their_steering_kept(kernel_module: ModuleType) -> None:
    seen: list[tuple[str, int]] = []
    with kernels.intercepted(lambda kernel, args: seen.append((kernel.py_func.__name__, len(args)))):
        kernel_module.step(np.zeros(3), np.zeros((3, 4)), np.zeros(2), out=np.zeros(4))
    kernel_module._affine(np.zeros(3), np.zeros((3, 4)), np.zeros(4))
    assert seen == [("step", 4)]
    assert isinstance(Recorder()._place(np.arange(3)), np.ndarray)


def test_the_twin_of_attention_is_scores_times_values() -> None:
    """No exponential, no mask, no normalisation, nothing written: two products over whole blocks, unseen columns among them."""
    pytest.importorskip("numba")
    from reference_impls.encoders import compiled

    rng, heads, width, blocks, n = np.random.default_rng(3), 2, 8, 4, 2
    rows, columns = np.repeat([1, 0], 5), np.r_[30:35, 17:22]
    cells = rng.standard_normal((1, 2, n, heads, blocks, width, 16)).astype(np.float32)
    qkv = rng.standard_normal((10, 3, heads, width)).astype(np.float32)
    weights, sums, out = (
        np.empty(4 * blocks * 16, np.float32),
        np.empty(10, np.float32),
        np.empty((10, heads, width), np.float32),
    )
    before = cells.copy()
    kernels.products_only(compiled.attend)(
        qkv.ravel(), 3 * heads * width, rows, columns, 0, 10, cells.reshape(-1), 0, n, blocks, heads, width, 0, weights, sums,
        out.reshape(-1),
    )  # fmt: skip
    np.testing.assert_array_equal(cells, before)
    for e, row in enumerate(rows):
        keys, values = cells[0, :, row, :, : columns[rows == row].max() // 16 + 1]
        expected = np.einsum("hbl,hbwl->hw", np.einsum("hw,hbwl->hbl", qkv[e, 0], keys), values)
        np.testing.assert_allclose(out[e], expected, atol=1e-4)


def test_every_part_of_a_shipped_kernel_is_classified() -> None:
    pytest.importorskip("numba")
    load_pair("thp-hawkes")  # imports what there is
    from numba.core.registry import CPUDispatcher

    modules = [m for name, m in list(sys.modules.items()) if name.startswith(kernels.KERNELS)]
    found = {
        k for m in modules for k in vars(m).values() if isinstance(k, CPUDispatcher) and not k.py_func.__name__.startswith("_")
    }
    assert not kernels.unclassified(found)
    for module in {sys.modules[k.py_func.__module__] for k in found}:
        names = {n.name for n in ast.parse(inspect.getsource(module)).body if isinstance(n, ast.FunctionDef)}
        assert set(kernels.TAKEN_OUT) <= names


# -- the whole --------------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def taken_apart() -> dict[str, Anatomy]:
    pair = load_pair("thp-hawkes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "_LEAST_SECONDS", 0.02)
        return {
            "target-only": anatomy(pair.sampler("target_only"), 1, 8, repeats=6, seed=5),
            "speculative": anatomy(pair.sampler("speculative", k=3), 2, 8, repeats=6, seed=5),
        }


@pytest.mark.parametrize("name", ["target-only", "speculative"])
def test_the_runs_belong_together(taken_apart: dict[str, Anatomy], name: str) -> None:
    found = taken_apart[name]
    failed = [c for c in found.checks if not c.passed and not any(word in c.name for word in TIMED)]
    assert not failed, failed
    assert len(found.checks) >= 10
    low, median, high = found.share[1], found.share[0], found.share[2]
    assert 0 < low <= median <= high < 1
    assert found.overhead == pytest.approx((1 - median, 1 - high, 1 - low))
    sections = [row for row in found.rows if not row.part]
    assert {"target pass", "bookkeeping"} <= {row.section for row in sections}
    for whole in sections:
        parts = [row for row in found.rows if row.section == whole.section and row.part]
        assert not parts or sum(p.seconds for p in parts) == pytest.approx(whole.seconds)
    encoder = next(row for row in found.rows if (row.section, row.part) == ("target pass", "encoder"))
    assert 0 < encoder.products < encoder.seconds
    assert found.events == (8 if name == "target-only" else 16) * found.runs


def test_phases_of_a_speculative_round(taken_apart: dict[str, Anatomy]) -> None:
    parts = {(row.section, row.part) for row in taken_apart["speculative"].rows}
    expected = {("draft steps", "encoder"), ("draft steps", "drawing"), ("draft steps", "law"), ("target pass", "law")}
    expected |= {("acceptance", ""), ("last event", "residual"), ("last event", "bonus"), ("bookkeeping", "commit")}
    assert expected <= parts
    assert "residual" not in {row.part for row in taken_apart["target-only"].rows}


def test_runs_that_differ_are_told_apart() -> None:
    sampler = load_pair("toy-marked").sampler("speculative", k=3)
    runs = [[sampler.sample(SampleRequest(2, Stop(n_events=6), StreamKey(seed=s)))] for s in (1, 1, 2)]
    assert measure._same_events("same", runs[0], runs[1]).passed
    assert not measure._same_events("other seed", runs[0], runs[2]).passed
    x = np.ones((2, 3))
    made = recorded(lambda: (np.dot(x, x.T), np.dot(x.T, x)))
    assert measure._same_products(made, made, 2).passed
    assert not measure._same_products(made, made[::-1], 2).passed
    assert not measure._same_products(made, made[:1], 2).passed
    assert not measure._near("sum", np.array([1.2, 1.2, 0.9]), 0.1).passed
    gone = measure._all_found([*probes_of(sampler), Probe(type(sampler), "renamed", ("gone",))])
    assert not gone.passed
    assert "Speculative.renamed" in gone.said


def test_table_and_file(taken_apart: dict[str, Anatomy]) -> None:
    found = taken_apart["speculative"]
    text = "\n".join(table(found, 3))
    assert "overhead outside them" in text
    assert "last event" in text
    plain = json.loads(json.dumps(as_dict(found, 3)))
    assert plain["share"]["low"] <= plain["share"]["value"] <= plain["share"]["high"]
    assert len(plain["lines"]) == 3
    assert plain["overhead"]["value"] == pytest.approx(1 - plain["share"]["value"])


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "_LEAST_SECONDS", 0.0)
    file = tmp_path / "a.json"
    main(["--pair", "toy-univariate", "--k", "2", "--batch", "1", "--events", "5", "--repeats", "6", "--json", str(file)])
    assert "speculative, K = 2, batch 1" in capsys.readouterr().out
    assert [a["sampler"] for a in json.loads(file.read_text())["anatomies"]] == ["target-only, cached", "speculative, K = 2"]
    with pytest.raises(SystemExit):
        main(["--pair", "toy-univariate", "--repeats", "5"])
    assert "at least 6" in capsys.readouterr().err
