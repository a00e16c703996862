"""CPU time by line of the reference's code, for what no wrapper sees: numpy's operators, normalisation, exponentials, copies.

A line is timed from its start to the next one's (``sys.settrace``), functions of libraries with the line that called them. What tracing
costs is measured on empty lines and taken off; caches are colder than there, so that the sum still exceeds the untraced time, by how much
is reported. Good for ranking lines, not for shares to the per cent.
"""

from __future__ import annotations

import linecache
import re
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

_ROOT = Path(__file__).parents[2]
OWN = tuple(f"{_ROOT / name}/" for name in ("reference_impls", "tppsd_bench"))
_LOOKS_LIKE_A_PRODUCT = re.compile(r"\b(dot|matmul|vdot|inner|tensordot|einsum|linear|bmm|mm|addmm)\(|\S @ \S")
Place = tuple[str, int]
"""File and line."""
_Key = tuple[CodeType, int]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of code: its seconds less the cost of tracing, how often it ran, the function it is in."""

    file: str
    number: int
    function: str
    seconds: float
    runs: int

    @property
    def place(self) -> Place:
        return self.file, self.number

    @property
    def text(self) -> str:
        return linecache.getline(self.file, self.number).strip()

    @property
    def short(self) -> str:
        path = Path(self.file)
        return str(path.relative_to(_ROOT)) if path.is_relative_to(_ROOT) else path.name


@dataclass
class LineTracer:
    """Seconds of each line of the files below ``roots``, and how many events of tracing fell on it."""

    roots: tuple[str, ...] = OWN
    _seconds: dict[_Key, float] = field(default_factory=dict)
    _runs: dict[_Key, int] = field(default_factory=dict)
    _events: dict[_Key, int] = field(default_factory=dict)
    _at: _Key | None = None
    _outer: list[_Key | None] = field(default_factory=list)
    _since: float = 0.0

    @contextmanager
    def tracing(self) -> Iterator[LineTracer]:
        before = sys.gettrace()
        self._since = time.perf_counter()
        sys.settrace(self._call)
        try:
            yield self
        finally:
            sys.settrace(before)

    def lines(self, cost: float = 0.0) -> list[Line]:
        """Slowest first; ``cost``: seconds of one event of tracing."""
        out = [
            Line(code.co_filename, number, code.co_qualname, s - cost * self._events[code, number], self._runs[code, number])
            for (code, number), s in self._seconds.items()
        ]
        return sorted(out, key=lambda line: -line.seconds)

    @property
    def n_events(self) -> int:
        return sum(self._events.values())

    def _charge(self) -> None:
        at, now = self._at, time.perf_counter()
        if at is not None:
            self._seconds[at] = self._seconds.get(at, 0.0) + now - self._since
            self._events[at] = self._events.get(at, 0) + 1

    def _call(self, frame: FrameType, event: str, _arg: Any) -> Any:
        self._charge()
        local = None
        if frame.f_code.co_filename.startswith(self.roots):
            self._outer.append(self._at)
            local = self._line
        self._since = time.perf_counter()
        return local

    def _line(self, frame: FrameType, event: str, _arg: Any) -> Any:
        self._charge()
        if event == "line":
            self._at = at = (frame.f_code, frame.f_lineno)
            self._runs[at] = self._runs.get(at, 0) + 1
        elif event == "return":
            self._at = self._outer.pop()
        self._since = time.perf_counter()
        return self._line


def tracing_cost(repeats: int = 20_000) -> float:
    """Seconds that one event of tracing costs, over lines that do nothing."""

    def loop() -> None:
        for _ in range(repeats):
            _ = 1
            _ = 2
            _ = 3

    begun = time.perf_counter()
    loop()
    bare = time.perf_counter() - begun
    tracer = LineTracer(roots=(__file__,))
    with tracer.tracing():
        loop()
    return max(0.0, sum(line.seconds for line in tracer.lines()) - bare) / tracer.n_events


def missed(lines: Sequence[Line], recorded: Collection[Place]) -> list[Line]:
    """Lines that ran, read like a matrix product, and where none was recorded."""
    return [x for x in lines if x.place not in recorded and _LOOKS_LIKE_A_PRODUCT.search(x.text.split("#")[0])]
