"""Attention of the networks without the causal mask over a block: every query sees the block to its end."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from reference_impls.encoders.base import Attend, EventInputs, KeyValueCache
from reference_impls.mutants.faults.noncausal_verify import NonCausal
from tppsd_bench.protocols import FloatArray, IntArray


class BlockCache(KeyValueCache):
    """A key/value cache that masks what is beyond a row's end, and nothing else."""

    def append(self, gaps: FloatArray, types: IntArray, counts: IntArray) -> tuple[EventInputs, Attend]:
        inputs, causal = super().append(gaps, types, counts)
        return inputs, causal if gaps.shape[1] == 1 else self._whole_block(inputs.index)

    def _whole_block(self, index: IntArray) -> Attend:
        (n, m), heads, d = index.shape, self._encoder.n_heads, self._encoder.d_attention
        columns = torch.as_tensor(index + self._null, device=self._device)[:, None, :].expand(n, d, m)
        ends = torch.as_tensor(self.lengths + self._null, device=self._device).clamp(min=1)
        width = int(ends.max())
        hidden = torch.arange(width, device=self._device) >= ends[:, None]

        def attend(layer: int, qkv: Tensor) -> Tensor:
            keys, values = self.store[layer].unbind(0)
            q, k, v = qkv.view(n, m, 3 * d).chunk(3, dim=-1)
            keys.scatter_(2, columns, k.transpose(1, 2))
            values.scatter_(2, columns, v.transpose(1, 2))
            seen = [t[..., :width].reshape(n, heads, d // heads, width) for t in (keys, values)]
            scores = torch.einsum("nmhd,nhdc->nhmc", q.reshape(n, m, heads, d // heads), seen[0]) * math.log(2.0)
            weights = torch.softmax(scores.masked_fill(hidden[:, None, None], -torch.inf), dim=-1)
            return torch.einsum("nhmc,nhdc->nmhd", weights, seen[1]).reshape(*qkv.shape[:-1], d)

        return attend


class SeesWholeBlock(NonCausal):
    """A network whose passes of several events attend to all of them."""

    inner: Any

    def start(self, n: int, capacity: int) -> BlockCache:
        return BlockCache(self.inner.encoder, n, capacity, self.inner.device)
