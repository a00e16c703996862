"""Peak memory of this process over a stretch of work, as the operating system counts it."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def forget_peak() -> bool:
    """Start the peak anew at what is held now; False where the system cannot (elsewhere than on Linux)."""
    with contextlib.suppress(OSError):
        _CLEAR.write_text("5", encoding="ascii")
        return True
    return False


def peak_bytes() -> int:
    """Largest resident size since ``forget_peak``, or since the process began."""
    with contextlib.suppress(OSError):
        for line in _STATUS.read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
