"""Exact draws from the residual of two token laws: it lives on finitely many tokens, so no tries and no quadrature.

Two-step rule: a bucket from (P_b - Q_b)+ by inverse CDF, then the gap from the within law that target and draft share. Joint rule: a token
(bucket, type) from (P_bk - Q_bk)+, drawn together; then the gap. The within law cancels in p - q on every bucket, hence this is the
residual of the densities, exactly.
"""

from __future__ import annotations

import numpy as np

from reference_impls.base import Law
from reference_impls.samplers.residual import RESOLUTION, ResidualDraw, Uniforms
from reference_impls.tokens.law import TokenLaw
from tppsd_bench.errors import InputError
from tppsd_bench.protocols import BoolArray, FloatArray, IntArray


def shared_tokens(p: Law, q: Law) -> tuple[TokenLaw, TokenLaw]:
    """Both laws, known to speak of the same tokens; InputError where they do not, for the residual would be another one."""
    for who, law in (("target", p), ("draft", q)):
        if not isinstance(law, TokenLaw):
            raise InputError(
                f"The {who} hands out {type(law).__name__}, no law over tokens; wrap it in tokens.Discretised with the other's buckets."
            )
    assert isinstance(p, TokenLaw)
    assert isinstance(q, TokenLaw)
    if not p.buckets.same_as(q.buckets):
        raise InputError(
            f"The target's tokens are {p.buckets.name}, the draft's {q.buckets.name}; they must share edges and within law: "
            "fit buckets once and give them to both."
        )
    return p, q


def invert(mass: FloatArray, u: FloatArray) -> tuple[IntArray, BoolArray]:
    """(index, empty) of each row's draw from unnormalised ``mass`` (n, T) at levels ``u`` (n,); empty below resolution."""
    cumulative = np.cumsum(mass, axis=1)
    total = cumulative[:, -1]
    wanted = np.minimum(u * total, np.nextafter(total, 0.0))
    index = np.array([c.searchsorted(w, side="right") for c, w in zip(cumulative, wanted, strict=True)], dtype=np.int64)
    return np.minimum(index, mass.shape[1] - 1), ~(total > RESOLUTION)


class TokenResidual:
    """The rule described above; a ``ResidualRule``."""

    def draw(self, p: Law, q: Law, rows: IntArray, uniforms: Uniforms, joint: bool) -> ResidualDraw:
        p, q = shared_tokens(p, q)
        u = uniforms(rows, 2)
        bucket, types, empty = self.draw_token(p, q, u[:, 0], joint)
        none = np.zeros(len(rows), dtype=bool)
        return ResidualDraw(p.buckets.gap_at(bucket, u[:, 1]), types, empty, none, none)

    def draw_token(self, p: TokenLaw, q: TokenLaw, u: FloatArray, joint: bool) -> tuple[IntArray, IntArray, BoolArray]:
        """(bucket, type, empty) of each row; type -1 unless ``joint``."""
        if not joint:
            bucket, empty = invert(excess(p.log_bucket_probs, q.log_bucket_probs), u)
            return bucket, np.full(len(bucket), -1, dtype=np.int64), empty
        token, empty = invert(excess(p.log_token_probs(), q.log_token_probs()).reshape(len(u), -1), u)
        return token // p.n_types, token % p.n_types, empty


def excess(log_p: FloatArray, log_q: FloatArray) -> FloatArray:
    """(p - q)+ elementwise."""
    out: FloatArray = np.maximum(np.exp(log_p) - np.exp(log_q), 0.0)
    return out
