"""What produced a number: versions, processor, threads, git revision, command. Nothing heavy is imported to find out."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from tppsd_bench import __version__

_PACKAGES = ("torch", "numpy", "scipy", "statsmodels", "pandas", "matplotlib", "pydantic", "safetensors")
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def collect(seed: int, jobs: int, device: str, argv: list[str] | None = None) -> dict[str, Any]:
    """Everything a reader needs to repeat a run; written before the first cell starts."""
    return {
        "started": now(),
        "command": shlex.join(["python", "-m", "tppsd_bench", *(sys.argv[1:] if argv is None else argv)]),
        "seed": seed,
        "jobs": jobs,
        "device": device,
        "python": platform.python_version(),
        "versions": versions(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpu": cpu_name(),
        "cores": os.cpu_count() or 1,
        "threads": 1,
        "thread_variables": {v: os.environ[v] for v in _THREAD_VARIABLES if v in os.environ},
        "git": git_revision(Path(__file__).resolve().parent),
        "fingerprint": fingerprint(),
    }


def now() -> str:
    """The time, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """Installed version of every package that touches a number; absent packages are left out."""
    found = {"tppsd_bench": __version__}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def cpu_name() -> str:
    """Model name of the processor, as far as the system tells."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def fingerprint() -> str:
    """Short hash of what float32 decisions depend on: processor, threads, torch and numpy builds."""
    v = versions()
    words = (cpu_name(), platform.machine(), "threads=1", v.get("torch", ""), v.get("numpy", ""), platform.python_version())
    return hashlib.blake2b("\x1f".join(words).encode(), digest_size=6).hexdigest()


def git_revision(folder: Path) -> str | None:
    """Revision of the checkout the package runs from, with a note on local changes; None outside a checkout."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=10, check=True)
        return done.stdout.strip()

    try:
        # A wheel installed somewhere below another project's checkout must not be given that project's revision.
        git("ls-files", "--error-unmatch", Path(__file__).name)
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "HEAD") + (" with local changes" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None
