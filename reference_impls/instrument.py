"""Threads, counters and backend switches of the reference systems."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


def pin_threads(threads: int = 1) -> None:
    """One thread per process unless told otherwise: on small networks a second one costs more than it brings."""
    torch.set_num_threads(threads)


class small_operations:
    """Within it oneDNN is off: its per-call set-up costs seven times a small GELU. Restored on leaving."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = torch._C._get_mkldnn_enabled()
        torch._C._set_mkldnn_enabled(False)

    def __exit__(self, *exc: object) -> None:
        torch._C._set_mkldnn_enabled(self._before)


@contextmanager
def head_call_counter(model: Any) -> Iterator[dict[str, int]]:
    """A second, independent counter of passes: a module hook on the model's head; yields {"calls", "positions"}."""
    seen = {"calls": 0, "positions": 0}

    def hook(_module: Any, inputs: tuple[torch.Tensor, ...], _output: Any) -> None:
        seen["calls"] += 1
        seen["positions"] += inputs[0].numel() // inputs[0].shape[-1]

    handle = model.head.register_forward_hook(hook)
    try:
        yield seen
    finally:
        handle.remove()


def synchronise(device: str) -> None:
    """Wait for an accelerator's queued work, so that a clock read means something."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()
