"""What everybody waits for first: CPU time of a fresh interpreter, start and end of the process included."""

from __future__ import annotations

import resource
import subprocess
import sys

COMMANDS = {
    "import tppsd_bench": ("-c", "import tppsd_bench"),
    "tppsd_bench --help": ("-m", "tppsd_bench", "--help"),
    "tppsd_bench list": ("-m", "tppsd_bench", "list"),
}


def children_cpu() -> float:
    """CPU seconds of the child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Startup:
    """asv runs this in an empty folder, so that the interpreter finds the commit under test and nothing beside it."""

    version = "1"
    unit = "seconds"
    timeout = 60
    timer = staticmethod(children_cpu)
    repeat = (5, 10, 5.0)
    params = (tuple(COMMANDS),)
    param_names = ("command",)

    def time_command(self, command: str) -> None:
        subprocess.run([sys.executable, *COMMANDS[command]], check=True, capture_output=True)
