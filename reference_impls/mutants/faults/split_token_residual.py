"""A joint token rejected, its bucket and its type redrawn each from its own marginal residual."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from reference_impls.base import Law
from reference_impls.mutants.base import Mutant, Witness
from reference_impls.samplers.residual import ResidualDraw, Uniforms
from reference_impls.samplers.residual_tokens import TokenResidual, excess, invert, shared_tokens
from tppsd_bench.protocols import FloatArray, IntArray


class MarginalResiduals(TokenResidual):
    """Bucket from (P_b - Q_b)+, type from (P_k - Q_k)+, independently: neither is a marginal of the joint residual."""

    def draw(self, p: Law, q: Law, rows: IntArray, uniforms: Uniforms, joint: bool) -> ResidualDraw:
        p, q = shared_tokens(p, q)
        u = uniforms(rows, 3)
        bucket, _ = invert(excess(p.log_bucket_probs, q.log_bucket_probs), u[:, 0])
        types, _ = invert(excess(_of_types(p.log_token_probs()), _of_types(q.log_token_probs())), u[:, 2])
        none = np.zeros(len(rows), dtype=bool)
        return ResidualDraw(p.buckets.gap_at(bucket, u[:, 1]), types, none, none, none)


def _of_types(log_tokens: FloatArray) -> FloatArray:
    """(n, M) log P(k | H) of a table (n, B, M)."""
    out: FloatArray = np.logaddexp.reduce(log_tokens, axis=1)
    return out


MUTANT = Mutant(
    name="split_token_residual",
    broken="A rejected token is replaced by a bucket and a type drawn independently, each from its marginal residual.",
    precedent="vllm-ascend issue 7807; tokens verified jointly and redrawn apart, as blog posts on point processes warn",
    change=lambda sampler, _: replace(sampler, residual=MarginalResiduals()),
    killers=("pair.gap_type", "pit_time", "pit_type", "role_law.gap.residual", "role_law.type.residual"),
    blessed_by=("acceptance",),
    witness=Witness("toy-tokens", rule="leviathan_joint"),
)
