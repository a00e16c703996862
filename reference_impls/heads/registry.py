"""Heads by the name that a configuration gives them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from reference_impls.heads.network import MixtureHead
from reference_impls.tokens.head import TokenHead

HEADS: dict[str, Callable[..., Any]] = {
    "mixture": MixtureHead,
    "token_joint": partial(TokenHead, joint=True),
    "token_factorised": partial(TokenHead, joint=False),
}
"""All offer ``forward``, ``log_likelihood``, ``log_survival``, ``law`` and the linear layer ``raw``."""
