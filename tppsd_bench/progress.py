"""Progress with an estimate: one bar, written to standard error, silent where nobody looks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def reporter(quiet: bool = False) -> Iterator[Callable[[str, float], None]]:
    """A function (text, fraction done) that shows a bar with the time left on a terminal, plain lines elsewhere."""
    if quiet:
        yield lambda _text, _done: None
        return
    if not sys.stderr.isatty():
        yield lambda text, done: print(f"[{done:4.0%}] {text}", file=sys.stderr, flush=True)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=1.0)

        def say(text: str, done: float) -> None:
            bar.update(task, completed=done, description=text)

        yield say
