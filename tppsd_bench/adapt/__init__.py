"""What spares the author of an adapter the bookkeeping. Nothing here has to be used; ``protocols`` says what certify needs.

Numpy only; torch tensors on the CPU are taken as arrays.
"""

from __future__ import annotations

from tppsd_bench.adapt.law import LawRows, LawTarget, stopped
from tppsd_bench.adapt.trace import TraceBuilder

__all__ = ["LawRows", "LawTarget", "TraceBuilder", "stopped"]
