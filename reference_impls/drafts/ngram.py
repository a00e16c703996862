"""n-gram over tokens: the next (bucket, type) from the last ``order - 1`` of them, by counts with a Dirichlet back-off. No network.

P_l(x | c) = (count(c, x) + kappa P_{l-1}(x | c shortened)) / (count(c) + kappa), down to P_0(x), the frequencies with half a count a token
(MacKay and Peto 1995). Tokens before the first event are a mark of their own. Every token has positive probability, so that
nothing of the target's is out of reach.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference_impls.base import scores_from_conditionals
from reference_impls.tokens.buckets import TimeBuckets
from reference_impls.tokens.discretise import one_more_each
from reference_impls.tokens.law import JointTokens
from tppsd_bench.errors import InputError
from tppsd_bench.events import EventBatch
from tppsd_bench.protocols import FloatArray, IntArray, Scores

Context = tuple[int, ...]
Row = NDArray[np.float64]
_START, _PADDING = -1, -2
_KEPT = 4096
"""Laws of contexts that are kept once computed."""


class TokenCache:
    """The tokens of ``n`` histories. Implements ``base.Cache``."""

    def __init__(self, n: int, capacity: int, order: int) -> None:
        self.lengths = np.zeros(n, dtype=np.int64)
        self._before = order - 1
        self.tokens = np.full((n, order - 1 + capacity), _START, dtype=np.int64)

    def rollback(self, lengths: IntArray) -> None:
        self.lengths = np.asarray(lengths, dtype=np.int64).copy()

    def keep(self, rows: IntArray) -> None:
        self.lengths, self.tokens = self.lengths[rows], self.tokens[rows]

    def append(self, tokens: IntArray, counts: IntArray) -> list[Context]:
        """Write (n, m) new tokens; the context after each, row-major."""
        n, m = tokens.shape
        needed = self._before + int(self.lengths.max(initial=0)) + m
        if needed > self.tokens.shape[1]:
            extra = max(needed, 2 * self.tokens.shape[1]) - self.tokens.shape[1]
            self.tokens = np.pad(self.tokens, ((0, 0), (0, extra)), constant_values=_START)
        contexts = []
        for i in range(n):
            begin = int(self.lengths[i])
            row = self.tokens[i]
            row[self._before + begin : self._before + begin + m] = tokens[i]
            contexts += [tuple(row[j + 1 : j + 1 + self._before].tolist()) for j in range(begin, begin + m)]
        self.lengths = self.lengths + counts
        return contexts


@dataclass(frozen=True)
class NGram:
    """Implements ``base.Model`` over the buckets of its target."""

    buckets: TimeBuckets
    n_types: int
    order: int
    kappa: float
    base: Row
    """P_0, (B M,)."""
    counts: dict[Context, tuple[IntArray, FloatArray]]
    """(tokens, counts) after each context of 1 .. order - 1 tokens that was seen."""
    name: str = "n-gram"
    _laws: dict[Context, Row] = field(default_factory=dict, repr=False, compare=False)

    @property
    def n_parameters(self) -> int:
        """Counts kept, and the frequencies."""
        return len(self.base) + sum(len(tokens) for tokens, _ in self.counts.values())

    def tokens_of(self, gaps: FloatArray, types: IntArray) -> IntArray:
        """bucket x M + type."""
        return self.buckets.bucket_of(gaps) * self.n_types + types

    def probabilities(self, context: Context) -> Row:
        """P(token | context), (B M,)."""
        out = self.base
        for length in range(1, len(context) + 1):
            seen = self.counts.get(context[len(context) - length :])
            if seen is None:
                break  # a longer context was not seen either
            tokens, counts = seen
            out = self.kappa * out
            out[tokens] += counts
            out /= counts.sum() + self.kappa
        return out

    def _logits(self, context: Context) -> Row:
        known = self._laws.get(context)
        if known is None:
            known = np.log(self.probabilities(context))
            if len(self._laws) >= _KEPT:
                self._laws.clear()
            self._laws[context] = known
        return known

    def _law(self, contexts: Iterable[Context]) -> JointTokens:
        rows = [self._logits(context) for context in contexts]
        return JointTokens(self.buckets, np.stack(rows) if rows else np.empty((0, len(self.base))), self.n_types)

    # -- files ------------------------------------------------------------------------------------------------------------
    @property
    def config(self) -> dict[str, Any]:
        return {"name": self.name, "n_types": self.n_types, "order": self.order, "kappa": self.kappa}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What ``from_arrays`` needs beside ``config`` and the buckets: contexts padded in front, and their counts side by side."""
        contexts = np.full((len(self.counts), self.order - 1), _PADDING, dtype=np.int64)
        for row, context in zip(contexts, self.counts, strict=True):
            row[len(row) - len(context) :] = context
        seen = list(self.counts.values())
        tokens, counts = (np.concatenate([np.empty(0), *part]) for part in (zip(*seen, strict=True) if seen else ([], [])))
        sizes = np.array([len(part) for part, _ in seen])
        whole = {"contexts": contexts, "sizes": sizes, "tokens": tokens, "counts": counts}
        return {"base": self.base, **{name: _narrow(values) for name, values in whole.items()}}

    @classmethod
    def from_arrays(cls, config: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], buckets: TimeBuckets) -> NGram:
        """The n-gram that ``arrays`` and ``config`` were written by; InputError where ``buckets`` are not as many as it counted."""
        n_types, base = int(config["n_types"]), arrays["base"]
        if len(base) != len(buckets) * n_types:
            raise InputError(
                f"{config['name']}: an n-gram over {len(base)} tokens, but the target has {len(buckets)} buckets x {n_types} types; "
                "count it anew on the target's buckets."
            )
        ends = np.cumsum(arrays["sizes"])
        counts = {
            tuple(int(x) for x in context if x != _PADDING): (
                arrays["tokens"][end - size : end].astype(np.int64),
                arrays["counts"][end - size : end].astype(np.float64),
            )
            for context, size, end in zip(arrays["contexts"], arrays["sizes"], ends, strict=True)
        }
        return cls(buckets, n_types, int(config["order"]), float(config["kappa"]), base, counts, str(config["name"]))

    # -- base.Model ---------------------------------------------------------------------------------------------------------
    def start(self, n: int, capacity: int) -> TokenCache:
        return TokenCache(n, capacity, self.order)

    def initial(self, n: int) -> JointTokens:
        return self._law([(_START,) * (self.order - 1)] * n)

    def extend(self, cache: TokenCache, gaps: FloatArray, types: IntArray, counts: IntArray) -> JointTokens:
        return self._law(cache.append(self.tokens_of(gaps, types), counts))

    def law_after(self, gaps: FloatArray, types: IntArray, lengths: IntArray) -> JointTokens:
        padded = np.pad(self.tokens_of(gaps, types), ((0, 0), (self.order - 1, 0)), constant_values=_START)
        return self._law(tuple(row[n : n + self.order - 1].tolist()) for row, n in zip(padded, lengths, strict=True))

    def conditionals(self, batch: EventBatch) -> JointTokens:
        return self._law(context for context, _ in _pairs(self.tokens_of(batch.gaps, batch.types), batch, self.order))

    def score(self, batch: EventBatch) -> Scores:
        if batch.horizon is None:
            return scores_from_conditionals(batch, self.conditionals(batch), None)
        laws = self.conditionals(one_more_each(batch))
        last = np.cumsum(batch.lengths + 1) - 1
        return scores_from_conditionals(batch, laws.take(np.delete(np.arange(len(laws)), last)), laws.take(last))


def _narrow(whole: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers in 16 bits where they fit, else in 32."""
    return whole.astype(np.int16 if np.abs(whole).max(initial=0) < 2**15 else np.int32)


def _pairs(tokens: IntArray, batch: EventBatch, order: int) -> Iterable[tuple[Context, int]]:
    """(context, token) of every event."""
    for begin, end in zip(batch.offsets[:-1], batch.offsets[1:], strict=True):
        row = [_START] * (order - 1) + tokens[begin:end].tolist()
        for j in range(len(row) - order + 1):
            yield tuple(row[j : j + order - 1]), row[j + order - 1]


def fit_ngram(
    train: EventBatch, buckets: TimeBuckets, *, order: int = 3, validation: EventBatch | None = None,
    kappas: tuple[float, ...] = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0),
) -> NGram:  # fmt: skip
    """Counts of ``train``; kappa is the one of ``kappas`` that makes ``validation`` likeliest, the middle one without."""
    if order < 1:
        raise InputError(f"An n-gram of order {order}: expected 1 (frequencies alone) or more.")
    if not train.n_events:
        raise InputError("An n-gram needs events to count; the training batch has none.")
    size = len(buckets) * train.n_types
    tokens = buckets.bucket_of(train.gaps) * train.n_types + train.types
    frequencies = np.bincount(tokens, minlength=size) + 0.5
    seen: defaultdict[Context, Counter[int]] = defaultdict(Counter)
    for context, token in _pairs(tokens, train, order):
        for length in range(1, order):
            seen[context[order - 1 - length :]][token] += 1
    counts = {
        context: (np.array(list(c), dtype=np.int64), np.array(list(c.values()), dtype=np.float64))
        for context, c in seen.items()
    }
    made = [
        NGram(buckets, train.n_types, order, kappa, frequencies / frequencies.sum(), counts, f"{order}-gram")
        for kappa in kappas
    ]
    if validation is None or order == 1:
        return made[len(made) // 2]
    return max(made, key=lambda model: _log_likelihood(model, validation))


def _log_likelihood(model: NGram, batch: EventBatch) -> float:
    tokens = model.tokens_of(batch.gaps, batch.types)
    return float(sum(np.log(model.probabilities(context)[token]) for context, token in _pairs(tokens, batch, model.order)))
