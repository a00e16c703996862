"""Encoders on random weights: contexts see the past only, and every way of computing them gives the same law to 1e-5."""

from __future__ import annotations

import hashlib
import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import reference_impls.network as network_module
from reference_impls.encoders import compiled, lanes
from reference_impls.encoders.attnhp import AttNHP
from reference_impls.encoders.base import EventInputs, KeyValueCache, causal_attend, softmax_of_log2
from reference_impls.encoders.lanes import LANES
from reference_impls.encoders.lean import CompiledCache
from reference_impls.encoders.sahp import SAHP
from reference_impls.encoders.thp import THP
from reference_impls.network import NeuralModel
from tppsd_bench.events import EventBatch
from tppsd_bench.streams import StreamKey

TOLERANCE = 1e-5
CASES = [
    ("thp", 3, 2, 1, {}),
    ("thp", 1, 3, 2, {}),
    ("sahp", 3, 2, 2, {}),
    ("sahp", 1, 1, 1, {"d_inner": 0, "first_gap": False, "output_projection": False}),
    ("sahp", 2, 3, 1, {"d_inner": 8}),
    ("attnhp", 3, 1, 2, {"d_time": 8}),
    ("attnhp", 1, 2, 1, {"d_time": 8}),
    ("attnhp", 3, 3, 2, {"d_time": 8}),
]
IDS = [f"{e}-{m}types-{n}x{h}" for e, m, n, h, _ in CASES]


def build(encoder: str, n_types: int, layers: int, heads: int, extra: dict[str, Any], given_gap: bool = False) -> NeuralModel:
    torch.manual_seed(layers + 10 * heads)
    model = NeuralModel(
        {
            "encoder": encoder,
            "n_types": n_types,
            "encoder_args": {"n_layers": layers, "n_heads": heads, "d": 16, "time_scale": 0.2, **extra},
            "head_args": {"n_components": 4, "types_given_gap": given_gap, "hidden": 6},
        }
    )
    with torch.no_grad():  # large enough that every event moves every later law
        model.head.raw.weight *= 3.0
    return model.eval()


@pytest.fixture(params=CASES, ids=IDS)
def model(request) -> NeuralModel:
    return build(*request.param)


@pytest.fixture(params=[c for c in CASES if c[2] <= network_module.MAX_LAYERS])
def shallow(request) -> NeuralModel:
    return build(*request.param, given_gap=request.param[1] > 1)


def events(n_types: int, lengths: list[int], name: str = "events") -> EventBatch:
    rng = StreamKey(cell=name).generator()
    gaps = [np.exp(rng.normal(size=n)) for n in lengths]
    return EventBatch.from_gaps(gaps, [rng.integers(0, n_types, n) for n in lengths], n_types=n_types)


def parameters(law) -> np.ndarray:
    """Everything a law is made of, one row each: (n, P)."""
    n = len(law)
    types = law.type_log_probs(np.full(n, 0.7))
    return np.concatenate([law.loc, law.log_scale, law.logit, types], axis=1)


def forced(model: NeuralModel, batch: EventBatch) -> list[np.ndarray]:
    """Teacher-forced law parameters after each event, (n_i, P) for each sequence."""
    longer = EventBatch.from_gaps(
        [np.append(batch.select(slice(i, i + 1)).gaps, 1.0) for i in range(len(batch))],
        [np.append(batch.select(slice(i, i + 1)).types, 0) for i in range(len(batch))],
        n_types=batch.n_types,
    )
    rows = parameters(model.conditionals(longer))
    return [rows[b + 1 : e] for b, e in zip(longer.offsets[:-1], longer.offsets[1:], strict=True)]


def extend(model: NeuralModel, cache, gaps: np.ndarray, types: np.ndarray, counts: list[int]) -> np.ndarray:
    """``Model.extend`` with parameters as (n, m, P)."""
    n, m = gaps.shape
    return parameters(model.extend(cache, gaps, types, np.array(counts))).reshape(n, m, -1)


# -- causality -------------------------------------------------------------------------------------------------------------
def test_no_context_sees_a_later_event(model):
    batch = events(model.n_types, [12, 7])
    before = model.raw_contexts(batch)[0]
    for at in (0, 4, 11):
        gaps, types = batch.gaps.copy(), batch.types.copy()
        gaps[at] *= 1.7
        types[at] = (types[at] + 1) % model.n_types
        after = model.raw_contexts(EventBatch(gaps, types, batch.lengths, batch.n_types))[0]
        moved = np.abs(after - before).max(axis=1)
        assert (moved[: at + 1] == 0).all(), "an event's own law, or an earlier one, moved"
        assert (moved[12:] == 0).all(), "another sequence's law moved"
        sees_gap = at > 0 or getattr(model.encoder, "first_gap", True) or model.n_types > 1
        assert not sees_gap or at == 11 or (moved[at + 1 : 12] > 1e-6).all(), "a later law ignores the event"


def test_appending_events_changes_no_earlier_law(model):
    batch = events(model.n_types, [12])
    whole = parameters(model.conditionals(batch))
    for n in (1, 5, 11):
        np.testing.assert_allclose(parameters(model.conditionals(batch.prefix(n))), whole[:n], atol=TOLERANCE)


# -- the cache -------------------------------------------------------------------------------------------------------------
def test_one_sequence_in_steps_blocks_and_after_rollback_is_teacher_forced(model):
    batch = events(model.n_types, [14])
    want = forced(model, batch)[0]
    gaps, types = batch.padded()
    cache, got = model.start(1, 3), []  # too small: it must grow
    for begin, end in ((0, 1), (1, 2), (2, 7), (7, 8), (8, 14)):
        wrong = extend(model, cache, np.full((1, 4), 0.37), np.zeros((1, 4), dtype=np.int64), [4])
        assert np.isfinite(wrong).all()
        cache.rollback(np.array([begin]))
        got.append(extend(model, cache, gaps[:, begin:end], types[:, begin:end], [end - begin])[0])
        assert cache.lengths.tolist() == [end]
    np.testing.assert_allclose(np.concatenate(got), want, atol=TOLERANCE)


def test_a_ragged_batch_is_teacher_forced_through_growth_rollback_and_kept_rows(model):
    batch = events(model.n_types, [9, 5, 12, 1])
    want = forced(model, batch)
    gaps, types = batch.padded(fill_gap=1.0)
    cache = model.start(4, 2)
    at = np.zeros(4, dtype=np.int64)
    ids = np.arange(4)
    steps = iter(([2, 0, 3, 1], [1, 2, 4, 0], [0, 3, 1, 0], [6, 0, 4, 0]))
    for step, counts in enumerate(steps):
        new = np.array(counts)[ids]
        m = max(int(new.max()), 1)
        columns = np.minimum(at[ids, None] + np.arange(m), gaps.shape[1] - 1)
        block = np.where(np.arange(m) < new[:, None], gaps[ids[:, None], columns], 5.0)
        extend(model, cache, np.full((len(ids), 3), 0.2), np.zeros((len(ids), 3), dtype=np.int64), [3] * len(ids))
        cache.rollback(at[ids])
        got = extend(model, cache, block, types[ids[:, None], columns], list(new))
        for row, i in enumerate(ids):
            np.testing.assert_allclose(got[row, : new[row]], want[i][at[i] : at[i] + new[row]], atol=TOLERANCE)
        at[ids] += new
        np.testing.assert_array_equal(cache.lengths, at[ids])
        if step == 2:
            ids = np.array([2, 0])
            cache.keep(ids)
    assert at[0] == 9
    assert at[2] == 12


def test_a_batch_thinned_to_one_row_goes_on_as_a_batch_of_one(model):
    batch = events(model.n_types, [8, 8])
    want = forced(model, batch)[1]
    gaps, types = batch.padded()
    cache = model.start(2, 4)
    extend(model, cache, gaps[:, :5], types[:, :5], [5, 5])
    cache.keep(np.array([1]))
    got = extend(model, cache, gaps[1:, 5:], types[1:, 5:], [3])[0]
    np.testing.assert_allclose(got, want[5:], atol=TOLERANCE)


def test_compiled_passes_are_the_torch_ones(model):
    batch = events(model.n_types, [20])
    gaps, types = batch.padded()
    compiled_cache = model.start(1, 4)
    torch_cache = KeyValueCache(model.encoder, 1, 4, torch.device("cpu"))
    assert isinstance(compiled_cache, CompiledCache)
    for begin, end in ((0, 1), (1, 6), (6, 20)):
        block = gaps[:, begin:end], types[:, begin:end], [end - begin]
        np.testing.assert_allclose(
            extend(model, compiled_cache, *block), extend(model, torch_cache, *block), atol=TOLERANCE, rtol=TOLERANCE
        )


def test_a_batch_is_its_histories_at_ragged_lengths(shallow):
    batch = events(shallow.n_types, [9, 4, 7])
    want = forced(shallow, batch)
    gaps, types = batch.padded(fill_gap=1.0)
    cache = shallow.start(3, 2)
    assert isinstance(cache, CompiledCache)
    got = extend(shallow, cache, gaps[:, :5], types[:, :5], [5, 2, 4])
    for row, count in enumerate((5, 2, 4)):
        np.testing.assert_allclose(got[row][:count], want[row][:count], atol=TOLERANCE)
    cache.rollback(np.array([3, 2, 4]))
    cache.keep(np.array([0, 2]))
    left = np.stack([gaps[0, 3:6], gaps[2, 4:7]]), np.stack([types[0, 3:6], types[2, 4:7]])
    got = extend(shallow, cache, *left, [3, 3])
    np.testing.assert_allclose(got[0], want[0][3:6], atol=TOLERANCE)
    np.testing.assert_allclose(got[1], want[2][4:7], atol=TOLERANCE)


def test_extreme_gaps_are_encoded_without_nan(model):
    batch = EventBatch.from_gaps([[1e-12, 1e9, 1e-12, 3.0, 1e9]], [[0] * 5], n_types=model.n_types)
    want = forced(model, batch)[0]
    gaps, types = batch.padded()
    got = extend(model, model.start(1, 8), gaps, types, [5])[0]
    assert np.isfinite(want).all()
    np.testing.assert_allclose(got, want, atol=1e-4)


# -- whole-history views ---------------------------------------------------------------------------------------------------
def test_initial_law_recomputation_and_scores_agree_with_teacher_forcing(model):
    batch = events(model.n_types, [6, 0, 4, 6])
    want = forced(model, batch)
    first = parameters(model.conditionals(batch))[batch.offsets[:-1][[0, 2, 3]]]
    np.testing.assert_allclose(parameters(model.initial(3)), first, atol=TOLERANCE)
    gaps, types = batch.padded()
    after = parameters(model.law_after(gaps, types, np.array([3, 1, 4, 6])))
    np.testing.assert_allclose(after[[0, 2, 3]], [want[0][2], want[2][3], want[3][5]], atol=TOLERANCE)
    horizon = batch.end_times + 0.3
    scores = model.score(EventBatch(batch.gaps, batch.types, batch.lengths, batch.n_types, horizon))
    last = model.law_after(gaps, types, np.array([6, 1, 4, 6])).cdf(np.full(4, 0.3))
    assert scores.crossing_cdf is not None
    np.testing.assert_allclose(scores.crossing_cdf[[0, 2, 3]], last[[0, 2, 3]], atol=TOLERANCE)
    np.testing.assert_allclose(scores.crossing_cdf[1], model.initial(1).cdf(np.array([0.3]))[0], atol=TOLERANCE)


def test_scores_do_not_depend_on_how_they_are_cut_into_chunks(model, monkeypatch):
    batch = events(model.n_types, [6, 2, 9, 3, 3, 11])
    whole = model.raw_contexts(batch)
    monkeypatch.setattr(network_module, "_SCORE_POSITIONS", 13)
    for got, want in zip(model.raw_contexts(batch), whole, strict=True):
        np.testing.assert_allclose(got, want, atol=TOLERANCE)


def test_training_likelihood_is_the_float64_score(model):
    batch = events(model.n_types, [10, 7])
    gaps, types = batch.padded(fill_gap=1.0)
    with torch.inference_mode():
        got = model.log_likelihood(gaps, types).numpy()[np.arange(10) < batch.lengths[:, None]]
    scores = model.score(batch)
    want = scores.log_density + np.log(scores.type_probs[np.arange(batch.n_events), batch.types])
    np.testing.assert_allclose(got, want, atol=3e-5, rtol=1e-5)


def test_new_weights_are_seen_by_every_path(shallow):
    batch = events(shallow.n_types, [6])
    gaps, types = batch.padded()
    extend(shallow, shallow.start(1, 8), gaps, types, [6])
    forced(shallow, batch)
    waves = {k: torch.sin(torch.arange(v.numel())).view(v.shape) for k, v in shallow.state_dict().items()}
    constants = ("head.log_mean", "head.log_std")
    shallow.load_state_dict({k: v + (0.3 if k in constants else 0.1 * waves[k]) for k, v in shallow.state_dict().items()})
    fresh = NeuralModel(shallow.config)
    fresh.load_state_dict(shallow.state_dict())
    want = forced(fresh.eval(), batch)[0]
    torch_cache = KeyValueCache(shallow.encoder, 1, 8, torch.device("cpu"))
    for got in (
        forced(shallow, batch)[0],
        extend(shallow, shallow.start(1, 8), gaps, types, [6])[0],
        extend(shallow, torch_cache, gaps, types, [6])[0],
    ):
        np.testing.assert_allclose(got, want, atol=TOLERANCE)
    assert shallow.initial(1).log_shift_gap == pytest.approx(0.3)


# -- attention -------------------------------------------------------------------------------------------------------------
def test_strict_attention_sees_the_null_key_and_what_is_strictly_before():
    torch.manual_seed(5)
    m, d = 6, 4
    qkv = torch.randn(1, m, 3 * d)
    attend = causal_attend(2, True, m, torch.device("cpu"))
    out = attend(0, qkv)[0]
    assert (out[0] == 0).all(), "the first event has only the null key, of value 0"
    q, k, v = (t[0].view(m, 2, d // 2) for t in qkv.chunk(3, dim=-1))
    f = torch.exp((q[1] * k[0]).sum(-1) / np.sqrt(d / 2))
    np.testing.assert_allclose(out[1].view(2, -1), (f / (1 + f))[:, None] * v[0], rtol=1e-5)
    for at in range(m):
        moved = qkv.clone()
        moved[0, at, d:] += 1.0
        changed = (attend(0, moved)[0] - out).abs().amax(dim=-1) > 0
        assert changed.tolist() == [i > at for i in range(m)]


def test_attention_weights_stay_right_where_powers_of_two_overflow():
    for scale in (1.0, 80.0, 300.0):
        scores = scale * torch.tensor([[[-1.0, 0.5, 1.0], [-1.2, -1.0, -1.1]]])
        weights, sums = softmax_of_log2(scores.clone())
        want = torch.softmax(scores.double() * np.log(2.0), dim=-1)
        np.testing.assert_allclose((weights / sums).double(), want, atol=1e-6)
    hidden = torch.tensor([[[0.0, -torch.inf], [300.0, -torch.inf]]])
    weights, sums = softmax_of_log2(hidden)
    np.testing.assert_allclose(weights / sums, [[[1.0, 0.0], [1.0, 0.0]]])


def attended(cache, layer, qkv, index):
    """Compiled attention of (n, m, 3 d) numbers at ``index`` (n, m), heads padded as the cache has them."""
    _, _, n, heads, blocks, width, _ = cache.store.shape
    m, d = qkv.shape[1], qkv.shape[2] // 3
    given = np.pad(qkv.reshape(n * m, 3 * heads, -1), ((0, 0), (0, 0), (0, width - d // heads))).reshape(-1)
    scratch, sums = np.empty(4 * blocks * LANES, np.float32), np.empty(n * m, np.float32)
    out = np.empty(n * m * heads * width, np.float32)
    compiled.attend(
        given, 3 * heads * width, np.repeat(cache.places, m), index.ravel() + cache.null, 0, n * m, cache.store.reshape(-1), layer, n,
        blocks, heads, width, cache.null, scratch, sums, out,
    )  # fmt: skip
    return out.reshape(n, m, heads, width)[..., : d // heads].reshape(n, m, d)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("overflowing", [False, True])
def test_every_form_of_cached_attention_is_the_causal_one(strict, heads, overflowing):
    """One event of each history at a time and several, in one tile of columns and in three; also where powers of two leave float32."""
    torch.manual_seed(3)
    n, length, d = 3, 2100, 16
    qkv = torch.randn(n, length, 3 * d) * (20.0 if overflowing else 1.0)
    want = causal_attend(heads, strict, length, torch.device("cpu"))(0, qkv).numpy()
    folded = qkv.numpy() * np.where(np.arange(3 * d) < d, np.log2(np.e) / np.sqrt(d // heads), 1.0).astype(np.float32)
    shape = SimpleNamespace(n_layers=1, n_heads=heads, d_attention=d, strict=strict)
    for steps in ((1,) * 12, (2,) * 6, (5, 7), (4, 1, 7), (16, 15, 1, 40), (2000, 1, 6, 11, 2)):
        on_cpu, in_torch, at = CompiledCache(shape, n, length), KeyValueCache(shape, n, length, torch.device("cpu")), 0
        for m in steps:
            index = np.broadcast_to(np.arange(at, at + m), (n, m))
            block = np.ascontiguousarray(folded[:, at : at + m])
            for got in (attended(on_cpu, 0, block, index), in_torch._attend(index)(0, torch.from_numpy(block)).numpy()):
                np.testing.assert_allclose(got, want[:, at : at + m], atol=1e-2 if overflowing else 2e-6)
            at += m


def test_an_event_has_the_same_bits_in_any_company(model):
    """Alone, in blocks of any size, with other histories beside it: compiled sums run in one order."""
    rng, network, lengths = np.random.default_rng(4), model._network(), (90, 37, 90)
    rows, index = np.repeat(np.arange(3), lengths), np.concatenate([np.arange(k) for k in lengths])
    x = rng.normal(size=(len(rows), 16)).astype(np.float32)
    extra = rng.normal(size=(len(rows), getattr(model.encoder, "d_time", 16))).astype(np.float32)
    together = network(model.start(3, 90), x, extra, rows, index)
    assert np.isfinite(together).all()
    for row in range(3):
        alone, mine, at = model.start(1, 90), np.flatnonzero(rows == row), 0
        for m in (1, 2, 3, 4, 7, 1, 19, 53):
            part = mine[at : at + m]
            at += m
            if len(part):
                got = network(alone, x[part], extra[part], np.zeros(len(part), dtype=np.int64), index[part])
                np.testing.assert_array_equal(got, together[part])


def touching(*shapes):
    """Arrays that lie end to end in memory, in this order."""
    sizes = [int(np.prod(shape)) for shape in shapes]
    memory, ends = np.empty(sum(sizes), dtype=np.float32), np.cumsum(sizes)
    return [memory[end - size : end].reshape(shape) for size, end, shape in zip(sizes, ends, shapes, strict=True)]


@pytest.mark.parametrize("order", list(itertools.permutations(range(4), 4))[::3])
def test_compiled_attention_does_not_depend_on_where_arrays_lie(order):
    """A loop that is taken in vectors only where arrays do not touch must round the same way either way."""
    rng, (n, m, heads, width, blocks) = np.random.default_rng(6), (2, 3, 2, 8, 3)
    d = heads * width
    shapes = [(n * m * 3 * d,), (2 * n * heads * blocks * width * LANES,), (4 * blocks * LANES,), (n * m,)]
    values, results = [rng.normal(size=shape).astype(np.float32) for shape in shapes], []
    rows, columns = np.repeat(np.arange(n), m), np.array([20, 21, 22, 31, 32, 33])
    for apart in (True, False):
        laid = [v.copy() for v in values] if apart else dict(zip(order, touching(*(shapes[i] for i in order)), strict=True))
        for i, value in enumerate(values):
            laid[i][...] = value
        out = np.empty(n * m * d, dtype=np.float32)
        compiled.attend(laid[0], 3 * d, rows, columns, 0, n * m, laid[1], 0, n, blocks, heads, width, 0, laid[2], laid[3], out)
        results.append(out)
    np.testing.assert_array_equal(*results)


def test_kept_results_are_of_these_vectors():
    """numba looks at the file of the calling function alone: a change in ``lanes`` must show in ``compiled``."""
    state = hashlib.sha256(Path(lanes.__file__).read_bytes()).hexdigest()[:16]
    assert state == compiled.LANES_STATE, f'lanes.py has changed: write LANES_STATE = "{state}" in compiled.py.'


def test_rows_kept_are_the_rows(model):
    """What is dropped stays where it lies until the store grows; kept rows find theirs, before and after."""
    batch = events(model.n_types, [7, 9, 6, 9])
    want = forced(model, batch)
    gaps, types = batch.padded(fill_gap=1.0)
    for capacity in (4, 16):
        cache = model.start(4, capacity)
        extend(model, cache, gaps[:, :5], types[:, :5], [5] * 4)
        cache.keep(np.array([1, 3]))
        got = extend(model, cache, gaps[[1, 3], 5:], types[[1, 3], 5:], [4, 4])
        for row, i in enumerate((1, 3)):
            np.testing.assert_allclose(got[row], want[i][5:], atol=TOLERANCE)


@pytest.mark.parametrize("kind", [THP, SAHP, AttNHP])
def test_phases_are_formed_in_float64(kind):
    """At t = 1e7 a float32 phase is off by half a turn; one event is encoded as a batch encodes it, and as the formula says."""
    encoder = kind(2, 1, 1, d=8, **({"d_time": 8} if kind is AttNHP else {})).eval()
    time, gap, index = 1e7 + 0.3, 0.3, 5
    inputs = EventInputs(np.array([[time]]), np.array([[gap]]), torch.tensor([[1]]), np.array([[index]]))
    with torch.inference_mode():
        x, extra = (t[0, 0].numpy() for t in encoder.embed(inputs))
    for got, want in zip(encoder.embed_one(time, gap, 1, index), (x, extra), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-6)
    if kind is not SAHP:
        np.testing.assert_allclose(extra[:2], [np.sin(time), np.cos(time)], atol=1e-6)
