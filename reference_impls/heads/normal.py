"""The standard normal's CDF and quantile; scipy is loaded at the first call, for listings name models and compute nothing."""

from __future__ import annotations

from typing import Any

from tppsd_bench.protocols import FloatArray


def ndtr(x: FloatArray) -> FloatArray:
    """Phi(x), accurate in both tails."""
    from scipy import special

    out: FloatArray = special.ndtr(x)
    return out


def ndtri(u: FloatArray | float) -> Any:
    """Phi^-1(u), of the shape of ``u``."""
    from scipy import special

    return special.ndtri(u)
