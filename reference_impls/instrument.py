"""Switches of the torch backend."""

from __future__ import annotations

import torch


class small_operations:
    """Within it oneDNN is off: its per-call set-up costs seven times a small GELU. Restored on leaving."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = torch._C._get_mkldnn_enabled()
        torch._C._set_mkldnn_enabled(False)

    def __exit__(self, *exc: object) -> None:
        torch._C._set_mkldnn_enabled(self._before)
