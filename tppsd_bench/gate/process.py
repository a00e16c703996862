"""A side of the gate in a process of its own (``side.py``), which answers one order at a time."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from tppsd_bench.errors import RunBroken
from tppsd_bench.runner.worker import THREAD_VARIABLES

SCRIPT = Path(__file__).with_name("side.py")


class SideProcess:
    """``with SideProcess(...) as side: side.ask("load", ...)``; the process ends with the block."""

    def __init__(self, name: str, path: Sequence[str], timeout: float) -> None:
        self.name, self._timeout = name, timeout
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        environment = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, "1"), "PYTHONPATH": os.pathsep.join(path)}
        # -P: the script's own folder must not come first on the import path.
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env=environment
        )  # fmt: skip

    def __enter__(self) -> SideProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()

    def ask(self, order: str, **arguments: Any) -> Any:
        """The answer to one order. RunBroken where the side raises, dies or takes longer than its time."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps([order, arguments]).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise RunBroken(self._died()) from None
        if not select.select([self._process.stdout], [], [], self._timeout)[0]:
            raise RunBroken(
                f"The {self.name} took longer than {self._timeout:g} s to {order}; raise cell_timeout in the suite."
            )
        line = self._process.stdout.readline()
        if not line:
            raise RunBroken(self._died())
        well, answer = json.loads(line)
        if not well:
            raise RunBroken(f"The {self.name} broke when asked to {order}: {answer}")
        return answer

    def _died(self) -> str:
        self._process.wait(10)
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip().splitlines()
        return f"The process of the {self.name} ended (exit code {self._process.returncode}): {said[-1] if said else 'without a word'}"
