"""NeuralModel: an encoder and a head as a ``base.Model``; the law it hands out is float64 numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from reference_impls.base import scores_from_conditionals
from reference_impls.encoders import ENCODERS
from reference_impls.encoders.base import EventInputs, KeyValueCache, causal_attend, folded_layers, plain_layers
from reference_impls.encoders.lean import MAX_LAYERS, CompiledCache, CompiledNetwork
from reference_impls.heads.lognormal_mixture import LogNormalMixture
from reference_impls.heads.network import MixtureHead
from reference_impls.heads.registry import HEADS
from reference_impls.instrument import small_operations
from reference_impls.tokens.buckets import TimeBuckets
from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import FloatArray, IntArray, Scores

_SCORE_POSITIONS = 16_384
"""Positions scored in one pass; bounds the memory of attention scores."""
_FIRST = np.zeros(1, dtype=np.int64)


class NeuralModel(nn.Module):
    """``start``/``extend``/``initial`` for sampling, ``score``/``conditionals`` by teacher forcing, ``log_likelihood`` for training.

    The law of event i conditions on all events before it: row 0 on a learned initial context, row i on the context of event i - 1.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        """``config``: {"encoder": name, "n_types": M, "encoder_args": {...}, "head": name or absent, "head_args": {...}}."""
        super().__init__()
        self.config = config
        self.name = str(config.get("name", config["encoder"]))
        self._n_types = int(config["n_types"])
        self.encoder = ENCODERS[config["encoder"]](self._n_types, **config["encoder_args"])
        if self.encoder.d % self.encoder.n_heads:
            raise InputError(f"{self.name}: d = {self.encoder.d} is not divisible by n_heads = {self.encoder.n_heads}.")
        # named for the head whose inside training by distillation knows; the others offer the same methods
        make = HEADS[config.get("head", "mixture")]
        self.head: MixtureHead = make(self.encoder.d, self._n_types, **config.get("head_args", {}))
        self.initial_context = nn.Parameter(0.1 * torch.randn(self.encoder.d))
        self.lean_layers = MAX_LAYERS
        """Networks at most this deep take single events of single histories in compiled loops; deeper ones in torch, operation by
        operation, as published code does. Raised, a deep target-only sampler is faster."""

    @property
    def n_types(self) -> int:
        return self._n_types

    @property
    def buckets(self) -> TimeBuckets | None:
        """Of a token model, its time buckets."""
        found: TimeBuckets | None = getattr(self.head, "buckets", None)
        return found

    @property
    def device(self) -> torch.device:
        return self.initial_context.device

    @property
    def n_parameters(self) -> int:
        return sum(p.numel() for p in self.parameters())

    def train(self, mode: bool = True) -> NeuralModel:
        self._forget_copies()
        super().train(mode)
        return self

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        self._forget_copies()
        return super().load_state_dict(*args, **kwargs)

    def _forget_copies(self) -> None:
        """Numpy copies of weights, wherever they are kept, are of the old weights."""
        for part, name in (
            (self, "_compiled_network"),
            (self.encoder, "_folded"),
            (self.encoder, "_gap_rates"),
            (self.head, "_numpy"),
        ):
            part.__dict__.pop(name, None)

    # -- sampling -----------------------------------------------------------------------------------------------------
    def start(self, n: int, capacity: int) -> KeyValueCache | CompiledCache:
        if self.device.type == "cpu":
            return CompiledCache(self.encoder, n, capacity)
        return KeyValueCache(self.encoder, n, capacity, self.device)

    @torch.inference_mode()
    def initial(self, n: int) -> LogNormalMixture:
        row = self.head.forward(self.initial_context[None]).cpu().numpy()  # not a pass: hooks that count passes stay silent
        return self.head.law(np.repeat(row, n, axis=0))

    def extend(
        self, cache: KeyValueCache | CompiledCache, gaps: FloatArray, types: IntArray, counts: IntArray
    ) -> LogNormalMixture:
        if not isinstance(cache, CompiledCache):
            return self._extend_torch(cache, gaps, types, counts)
        if gaps.shape == (1, 1) and counts[0] == 1:
            return self._extend_one(cache, float(gaps[0, 0]), int(types[0, 0]))
        return self._extend_compiled(cache, gaps, types, counts)

    @torch.inference_mode()
    def _extend_compiled(self, cache: CompiledCache, gaps: FloatArray, types: IntArray, counts: IntArray) -> LogNormalMixture:
        n, m = gaps.shape
        index, times = cache.append(gaps, counts)
        rows, columns = np.nonzero(np.arange(m) < counts[:, None])
        new = rows * m + columns
        inputs = EventInputs(times, gaps, torch.from_numpy(types), index)
        x, extra = (t.view(n * m, -1).numpy()[new] for t in self.encoder.embed(inputs))
        network = self._network()
        raw = np.zeros((n * m, network.p), dtype=np.float32)
        raw[new] = network(cache, x, extra, rows, index.ravel()[new])
        return self.head.law(raw)

    def _extend_one(self, cache: CompiledCache, gap: float, type_: int) -> LogNormalMixture:
        """One event of a single history: a draft takes K of these steps a round, and target-only sampling consists of them."""
        encoder = self.encoder
        index, time = cache.append_one(gap)
        x, extra = encoder.embed_one(time, gap, type_, index)
        if encoder.n_layers <= self.lean_layers:
            return self.head.law(self._network()(cache, x[None], extra[None], _FIRST, _FIRST + index))
        return self.head.law(self._step(cache, x, extra, index))

    @torch.inference_mode()
    def _step(
        self, cache: CompiledCache, x: NDArray[np.float32], extra: NDArray[np.float32], index: int
    ) -> NDArray[np.float32]:
        """The layers of one event in torch."""
        with small_operations():
            rows = torch.from_numpy(x)[None], torch.from_numpy(extra)[None]
            raw: Tensor = self.head(self.encoder.encode(*rows, cache.attend_one(index), folded_layers(self.encoder)))
            return raw.numpy()

    def _network(self) -> CompiledNetwork:
        """The encoder and the head for compiled passes."""
        ready: CompiledNetwork | None = self.__dict__.get("_compiled_network")
        if ready is None:
            norm, head = getattr(self.encoder, "norm", None), (self.head.raw.weight, self.head.raw.bias)
            final = () if norm is None else (norm.weight, norm.bias)
            ready = CompiledNetwork.of(self.encoder, folded_layers(self.encoder), final, head)
            self.__dict__["_compiled_network"] = ready
        return ready

    @torch.inference_mode()
    def _extend_torch(self, cache: KeyValueCache, gaps: FloatArray, types: IntArray, counts: IntArray) -> LogNormalMixture:
        inputs, attend = cache.append(gaps, types, counts)
        x, extra = self.encoder.embed(inputs)
        raw = self.head(self.encoder.encode(x, extra, attend, folded_layers(self.encoder)))
        return self.head.law(raw.view(-1, raw.shape[-1]).cpu().numpy())

    @torch.inference_mode()
    def law_after(self, gaps: FloatArray, types: IntArray, lengths: IntArray) -> LogNormalMixture:
        return self.laws_at(gaps, types, lengths[:, None] - 1)

    @torch.inference_mode()
    def laws_at(self, gaps: FloatArray, types: IntArray, columns: IntArray) -> LogNormalMixture:
        """The laws after the events in these (n, m) columns of the (n, L) arrays, recomputed from nothing; row ``i * m + j``."""
        context = self._contexts(gaps, types)[torch.arange(len(gaps))[:, None], torch.from_numpy(columns)]
        return self.head.law(self.head(context.flatten(0, 1)).cpu().numpy())

    # -- scoring ------------------------------------------------------------------------------------------------------
    @torch.inference_mode()
    def raw_contexts(self, batch: EventBatch) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Raw head rows of every event's law (N, P) and of the law after the last event (n, P)."""
        order = np.argsort(batch.lengths, kind="stable")
        width = self.head.raw.out_features
        rows = np.empty((batch.n_events, width), dtype=np.float32)
        after = np.empty((len(batch), width), dtype=np.float32)
        begin = 0
        while begin < len(order):
            end = begin + 1
            while end < len(order) and (end + 1 - begin) * (int(batch.lengths[order[end]]) + 1) <= _SCORE_POSITIONS:
                end += 1
            chosen = np.sort(order[begin:end])
            self._score_chunk(batch, chosen, rows, after)
            begin = end
        return rows, after

    def _score_chunk(self, batch: EventBatch, chosen: IntArray, rows: NDArray[np.float32], after: NDArray[np.float32]) -> None:
        part = batch.select(chosen)
        gaps, types = part.padded()
        n, width = gaps.shape
        first = self.initial_context.expand(n, 1, -1)
        context = torch.cat([first, self._contexts(gaps, types)], dim=1) if width else first
        raw = self.head(context).cpu().numpy()
        keep = np.arange(width + 1) < part.lengths[:, None]
        flat = np.repeat(batch.offsets[:-1][chosen] - part.offsets[:-1], part.lengths) + np.arange(part.n_events)
        rows[flat] = raw[keep]
        after[chosen] = raw[np.arange(n), part.lengths]

    def _contexts(self, gaps: FloatArray, types: IntArray) -> Tensor:
        n, m = gaps.shape
        index = np.broadcast_to(np.arange(m), (n, m))
        inputs = EventInputs(np.cumsum(gaps, axis=1), gaps, torch.from_numpy(types).to(self.device), index)
        x, extra = self.encoder.embed(inputs)
        attend = causal_attend(self.encoder.n_heads, self.encoder.strict, m, self.device)
        contexts: Tensor = self.encoder.encode(x, extra, attend, plain_layers(self.encoder))
        return contexts

    def conditionals(self, batch: EventBatch) -> LogNormalMixture:
        return self.head.law(self.raw_contexts(batch)[0])

    def score(self, batch: EventBatch) -> Scores:
        rows, after = self.raw_contexts(batch)
        last = None if batch.horizon is None else self.head.law(after)
        return scores_from_conditionals(batch, self.head.law(rows), last)

    # -- training -----------------------------------------------------------------------------------------------------
    def log_likelihood(self, gaps: FloatArray, types: IntArray) -> Tensor:
        """log p(gap, type) of every event of the padded (n, L) arrays (padding must hold positive gaps), differentiable: (n, L)."""
        return self._events_log_likelihood(self.raw_rows(gaps, types), gaps, types)

    def raw_rows(self, gaps: FloatArray, types: IntArray) -> Tensor:
        """Raw head rows of the law of every event of the padded (n, L) arrays, differentiable: (n, L, P)."""
        out: Tensor = self.head(self._all_contexts(gaps, types)[:, :-1])
        return out

    def censored_log_likelihood(
        self, gaps: FloatArray, types: IntArray, lengths: IntArray, waits: FloatArray
    ) -> tuple[Tensor, Tensor]:
        """``log_likelihood``, and log P(no event within ``waits`` (n,) after the last of ``lengths`` (n,) events): (n, L), (n,)."""
        raw = self.head(self._all_contexts(gaps, types))
        after = raw[torch.arange(len(gaps)), torch.from_numpy(lengths)]
        survival = self.head.log_survival(after, torch.from_numpy(waits).to(self.device))
        return self._events_log_likelihood(raw[:, :-1], gaps, types), survival

    def _all_contexts(self, gaps: FloatArray, types: IntArray) -> Tensor:
        """(n, L + 1, d): what each event and the one after the last are conditioned on."""
        return torch.cat([self.initial_context.expand(len(gaps), 1, -1), self._contexts(gaps, types)], dim=1)

    def _events_log_likelihood(self, raw: Tensor, gaps: FloatArray, types: IntArray) -> Tensor:
        return self.head.log_likelihood(raw, torch.from_numpy(gaps).to(self.device), torch.from_numpy(types).to(self.device))
