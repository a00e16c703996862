"""What verification of bucket and type apart would put out, exactly, on tables of tokens: sums, no sampling.

Two shortcuts for a draft Q of a target P over tokens (bucket b, type k):

``apart``: accept the bucket against P_b / Q_b and the type against P_k / Q_k, on their own, and redraw what is refused from its own
marginal residual. Both marginals of the output are P's. The joint law is P's only where neither law couples bucket and type.

``redrawn apart``: accept the token against P_bk / Q_bk, and on rejection draw bucket and type each from its marginal residual
(the mutant ``split_token_residual``). The joint residual is no product even where P and Q are, so this is wrong everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reference_impls.samplers.residual_tokens import shared_tokens
from reference_impls.tokens.law import TokenLaw
from tppsd_bench.protocols import FloatArray

_CHUNK = 2_000_000


@dataclass(frozen=True)
class Apart:
    """Of n contexts, (n,) each. Distances are total variation from the target's law of the next token."""

    apart: FloatArray
    apart_accepted: FloatArray
    """P(bucket and type both accepted)."""
    redrawn: FloatArray
    redrawn_buckets: FloatArray
    """Of the bucket alone."""
    redrawn_types: FloatArray
    coupling_target: FloatArray
    """Mutual information of bucket and type under the target, nats."""
    coupling_draft: FloatArray
    coupling_apart: FloatArray
    coupling_redrawn: FloatArray


def apart(p: TokenLaw, q: TokenLaw) -> Apart:
    """Both shortcuts for n contexts; InputError where the laws do not share their tokens."""
    p, q = shared_tokens(p, q)
    rows = max(1, _CHUNK // (len(p.buckets) * p.n_types))
    parts = [
        _of_tables(np.exp(p.take(s).log_token_probs()), np.exp(q.take(s).log_token_probs()))
        for s in (slice(i, i + rows) for i in range(0, len(p), rows))
    ]
    return Apart(*np.concatenate(parts, axis=1))


def _of_tables(p: FloatArray, q: FloatArray) -> FloatArray:
    """(9, n) in the order of ``Apart``."""
    first, accepted = verified_apart(p, q)
    second = redrawn_apart(p, q)
    return np.stack([
        distance(first, p), accepted, distance(second, p), distance(second.sum(axis=2), p.sum(axis=2)),
        distance(second.sum(axis=1), p.sum(axis=1)), *(coupling(t) for t in (p, q, first, second)),
    ])  # fmt: skip


def verified_apart(p: FloatArray, q: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(output law (n, B, M), acceptance (n,)) of ``apart``, from tables (n, B, M)."""
    (keep_b, residual_b), (keep_k, residual_k) = (_marginal(p.sum(axis=a), q.sum(axis=a)) for a in (2, 1))
    a_b, a_k = keep_b[:, :, None], keep_k[:, None, :]
    both = q * a_b * a_k
    type_kept = (q * (1.0 - a_b) * a_k).sum(axis=1)[:, None, :] * residual_b[:, :, None]
    bucket_kept = (q * a_b * (1.0 - a_k)).sum(axis=2)[:, :, None] * residual_k[:, None, :]
    neither = (q * (1.0 - a_b) * (1.0 - a_k)).sum(axis=(1, 2))[:, None, None]
    out: FloatArray = both + type_kept + bucket_kept + neither * residual_b[:, :, None] * residual_k[:, None, :]
    return out, both.sum(axis=(1, 2))


def redrawn_apart(p: FloatArray, q: FloatArray) -> FloatArray:
    """Output law (n, B, M) of ``redrawn apart``."""
    kept = np.minimum(p, q)
    residual_b, residual_k = (_marginal(p.sum(axis=a), q.sum(axis=a))[1] for a in (2, 1))
    missing = np.maximum(1.0 - kept.sum(axis=(1, 2)), 0.0)[:, None, None]
    out: FloatArray = kept + missing * residual_b[:, :, None] * residual_k[:, None, :]
    return out


def _marginal(p: FloatArray, q: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(acceptance min(1, p/q), normalised (p - q)+) of tables (n, T); where there is no residual, p stands in: it is never drawn."""
    accepted = np.divide(p, q, out=np.ones_like(q), where=q > 0)
    excess = np.maximum(p - q, 0.0)
    total = excess.sum(axis=1, keepdims=True)
    return np.minimum(accepted, 1.0), np.where(total > 0, excess / np.where(total > 0, total, 1.0), p)


def distance(p: FloatArray, q: FloatArray) -> FloatArray:
    """Total variation of tables, (n, ...) -> (n,)."""
    out: FloatArray = 0.5 * np.abs(p - q).reshape(len(p), -1).sum(axis=1)
    return out


def coupling(p: FloatArray) -> FloatArray:
    """Mutual information of bucket and type in nats, (n, B, M) -> (n,)."""
    product = p.sum(axis=2)[:, :, None] * p.sum(axis=1)[:, None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(p > 0, p * np.log(p / product), 0.0)
    out: FloatArray = np.maximum(terms.sum(axis=(1, 2)), 0.0)
    return out
