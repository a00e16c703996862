"""Benchmark and statistical validation of speculative sampling for temporal point processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tppsd_bench.adapt import LawRows, LawTarget, TraceBuilder, stopped
    from tppsd_bench.certificate import Certificate, certify
    from tppsd_bench.events import EventBatch
    from tppsd_bench.protocols import Counts, Declaration, SampleRequest, SampleRun, Scores, Stop, Trace
    from tppsd_bench.store import load_run
    from tppsd_bench.streams import StreamKey, UniformStreams

__version__ = "0.1.0"
__all__ = [
    "Certificate",
    "Counts",
    "Declaration",
    "EventBatch",
    "LawRows",
    "LawTarget",
    "SampleRequest",
    "SampleRun",
    "Scores",
    "Stop",
    "StreamKey",
    "Trace",
    "TraceBuilder",
    "UniformStreams",
    "__version__",
    "certify",
    "load_run",
    "stopped",
]

_HOMES = {
    "adapt": ("LawRows", "LawTarget", "TraceBuilder", "stopped"),
    "certificate": ("Certificate", "certify"),
    "events": ("EventBatch",),
    "protocols": ("Counts", "Declaration", "SampleRequest", "SampleRun", "Scores", "Stop", "Trace"),
    "store": ("load_run",),
    "streams": ("StreamKey", "UniformStreams"),
}


def __getattr__(name: str) -> Any:
    """Names of the public interface, imported when first used: the command line must start in milliseconds."""
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
