"""The drawing surface: matplotlib figures as inline SVG that takes its colours and type face from the page.

Figures are drawn with the placeholder colours below; ``Canvas.finish`` replaces them by CSS variables, so that the same SVG is
right in the light and the dark theme and in print. Text stays text: small files, and the reader's own fonts.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, MUTED, GRID, ACCENT, REFERENCE, BAND, FAIL, PAPER = (f"#0102{i:02x}" for i in range(1, 9))
_VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--line)",
    ACCENT: "var(--accent)",
    REFERENCE: "var(--reference)",
    BAND: "var(--band)",
    FAIL: "var(--fail)",
    PAPER: "var(--paper)",
}
WIDTH = 360.0
"""Figure width in SVG units; 11 units of type stay legible on a 390 px phone."""

_RC: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tppsd_bench",
    "font.size": 11,
    "text.color": INK,
    "text.parse_math": False,  # a "$" in somebody's label is a dollar
    "lines.linewidth": 1.6,
    "lines.solid_capstyle": "round",
}
_DROP = re.compile(
    r"<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>|font-family:[^;\"]*;?\s?|"
    r" transform=\"rotate\(-0 [^\"]*\"|xmlns:xlink=\"[^\"]*\" |xlink:(?=href)",
    re.DOTALL,
)
_NUMBER = re.compile(r"-?\d+\.\d{2,}")
_COLOUR = re.compile(r"#0102\d\d")
_ID = re.compile(r'id="([^"]*)"')
_REFERENCE = re.compile(r'#([\w.]+)(?=[")])')
_TAG = re.compile(r"<[^>]*>")


class Canvas:
    """A drawing surface of fixed width for one figure after the other. Use ``open_canvas()``."""

    def __init__(self, prefix: str = "") -> None:
        self._count, self._prefix = 0, prefix
        self.start(216.0)

    def start(self, height: float) -> None:
        """An empty figure of ``WIDTH`` × ``height`` units. (A new one: clearing a figure costs more than making it.)"""
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure

        self._figure = Figure(figsize=(WIDTH / 72, height / 72), dpi=72, frameon=False)
        FigureCanvasSVG(self._figure)
        self._height = height

    def axes(
        self,
        box: tuple[float, float, float, float],
        *,
        x: tuple[float, float],
        y: tuple[float, float],
        x_ticks: Sequence[tuple[float, str]] = (),
        y_ticks: Sequence[tuple[float, str]] = (),
        x_label: str = "",
        log_x: bool = False,
        grid: str = "y",
        base: bool = True,
        y_size: float = 11,
    ) -> Axes:
        """Axes in ``box`` = (left, top, right, bottom) margins in units; labelled ticks, light grid lines, no frame.

        Labels and lines are drawn as plain text and lines: matplotlib's own axis objects would take most of a report's time.
        """
        left, top, right, bottom = box
        h = self._height
        axes = self._figure.add_axes((left / WIDTH, bottom / h, (WIDTH - left - right) / WIDTH, (h - top - bottom) / h))
        if log_x:
            axes.set_xscale("log")
        axes.set_axis_off()
        axes.set_xlim(*x)
        axes.set_ylim(*y)
        width, height = WIDTH - left - right, h - top - bottom
        for at, name in y_ticks:
            axes.text(
                -6 / width, at, name, transform=axes.get_yaxis_transform(), ha="right", va="center", color=MUTED, size=y_size
            )
        for at, name in x_ticks:
            axes.text(at, -6 / height, name, transform=axes.get_xaxis_transform(), ha="center", va="top", color=MUTED)
        if x_label:
            axes.text(0.5, -23 / height, x_label, transform=axes.transAxes, ha="center", va="top", color=MUTED)
        style: dict[str, Any] = {"color": GRID, "linewidth": 0.7, "zorder": 0}
        if "y" in grid and y_ticks:
            axes.hlines([at for at, _ in y_ticks], *x, **style)
        if "x" in grid and x_ticks:
            axes.vlines([at for at, _ in x_ticks], *y, **style)
        if base:
            axes.hlines(y[0], *x, color=GRID, linewidth=1.4, zorder=0)
        return axes

    def finish(self, label: str) -> str:
        """The figure as inline SVG with the accessible name ``label``."""
        buffer = io.StringIO()
        self._figure.savefig(buffer, format="svg", metadata={"Date": None})
        self._count += 1
        return _inline(buffer.getvalue(), label, f"{self._prefix}g{self._count}")


@contextmanager
def open_canvas(prefix: str = "") -> Iterator[Canvas]:
    """A canvas under the report's own matplotlib settings; the caller's settings come back afterwards. ``prefix``: of its figures' ids."""
    import matplotlib as mpl

    with mpl.rc_context(_RC):  # type: ignore[arg-type]  # newer stubs want literal keys
        yield Canvas(prefix)


def _inline(svg: str, label: str, prefix: str) -> str:
    body = _COLOUR.sub(lambda m: _VARIABLES[m[0]], _DROP.sub("", svg[svg.index("<svg") :]))
    referenced = {name: f"{prefix}-{i}" for i, name in enumerate(dict.fromkeys(_REFERENCE.findall(body)))}
    body = _REFERENCE.sub(lambda m: "#" + referenced[m[1]], body)
    # ids that nothing refers to would only collide with those of other figures
    body = _ID.sub(lambda m: f'id="{referenced[m[1]]}"' if m[1] in referenced else "", body)
    body = _TAG.sub(lambda m: _NUMBER.sub(_tenth, m[0]), body)
    body = re.sub(r"\s+", " ", body).replace("> <", "><").replace(" >", ">")
    body = body.replace(' xmlns="http://www.w3.org/2000/svg" version="1.1"', "")  # inline SVG needs neither
    head = f'<svg class="fig" role="img" aria-label="{html.escape(label, quote=True)}" viewBox="0 0'
    return re.sub(r'<svg .*?viewBox="0 0', lambda _: head, body, count=1)


def _tenth(match: re.Match[str]) -> str:
    """A coordinate to a tenth of a unit, finer than a phone's pixel."""
    return f"{float(match[0]):.1f}".removesuffix(".0")
