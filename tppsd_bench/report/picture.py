"""What a figure is to the template, and the small arithmetic that figures share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tppsd_bench.report.canvas import ACCENT, INK, PAPER, REFERENCE
from tppsd_bench.report.wording import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Arrays = Mapping[str, NDArray[Any]]
Ticks = list[tuple[float, str]]
OURS = ("o", ACCENT, ACCENT, "sampler under test")
THEIRS = ("s", PAPER, REFERENCE, "target-only")


@dataclass(frozen=True)
class Picture:
    """One figure: what it shows, how to read it, and the SVG (already escaped; nothing else of a report is marked safe)."""

    title: str
    caption: str
    svg: str


def nice_ticks(low: float, high: float, at_most: int = 5) -> Ticks:
    """Round tick values inside [low, high]: steps of 1, 2 or 5 times a power of ten."""
    spread = high - low
    if not spread > 0:
        return [(low, number(low))]
    rough = spread / at_most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    first = math.ceil(low / step - 1e-9)
    values = [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]
    return [(v, f"{v:,.{decimals}f}".replace("-", "−")) for v in values]


def log_ticks(low: float, high: float) -> Ticks:
    """1, 2, 5 times powers of ten inside [low, high]; only the powers of ten beyond two decades."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    mantissas = (1,) if math.log10(high / low) > 2 else (1, 2, 5)
    values = [m * 10.0**d for d in decades for m in mantissas if low <= m * 10.0**d <= high]
    return [(v, f"{v:,g}" if 1e-4 <= v < 1e6 else number(v)) for v in values]


def legend(axes: Axes, *entries: tuple[str, str, str, str], apart: float = 132.0) -> None:
    """Above the axes, in words: (marker or "--", face, edge, text) of each series, ``apart`` units from one to the next."""
    width, y = axes.bbox.width, 1 + 12 / axes.bbox.height
    for i, (marker, face, edge, text) in enumerate(entries):
        x = i * apart / width
        style: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False}
        if marker == "--":
            axes.plot([x, x + 16 / width], [y, y], color=edge, linewidth=1.2, dashes=(2, 2), **style)
        else:
            axes.plot(x + 6 / width, y, marker, ms=5.5, mfc=face, mec=edge, mew=1.4, **style)
        axes.text(
            x + (22 if marker == "--" else 14) / width,
            y - 0.5 / axes.bbox.height,
            text,
            va="center",
            color=INK,
            fontsize=10,
            **style,
        )


def column(arrays: Arrays, name: str) -> NDArray[np.float64] | None:
    """A non-empty 1-d numeric array of the cell, non-finite values dropped; None where absent."""
    if name not in arrays:
        return None
    values = np.asarray(arrays[name])
    if values.dtype.kind not in "fiub" or values.ndim != 1:
        return None
    out = values.astype(np.float64)
    out = out[np.isfinite(out)]
    return out if len(out) else None


def together(arrays: Arrays, *names: str) -> list[NDArray[np.float64]] | None:
    """Several columns of equal length (rows with a non-finite entry dropped), or None."""
    if any(name not in arrays or np.asarray(arrays[name]).dtype.kind not in "fiub" for name in names):
        return None
    stack = [np.asarray(arrays[name], dtype=np.float64) for name in names]
    if any(s.ndim != 1 or len(s) != len(stack[0]) for s in stack):
        return None
    keep = np.all([np.isfinite(s) for s in stack], axis=0)
    return [s[keep] for s in stack] if keep.any() else None


def wilson(hits: NDArray[np.float64], n: NDArray[np.float64], z: float = 1.96) -> tuple[NDArray[Any], NDArray[Any]]:
    """The Wilson score interval of a proportion (Wilson 1927)."""
    p, z2n = hits / n, z * z / n
    centre = (p + z2n / 2) / (1 + z2n)
    half = z * np.sqrt(p * (1 - p) / n + z2n / (4 * n)) / (1 + z2n)
    return centre - half, centre + half


def spread(values: Sequence[float], pad: float = 0.08) -> tuple[float, float]:
    """Limits that hold all values with a little air."""
    low, high = min(values), max(values)
    air = pad * (high - low) if high > low else max(abs(high), 1.0) * pad
    return low - air, high + air
