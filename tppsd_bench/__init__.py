"""Benchmark and statistical validation of speculative sampling for temporal point processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tppsd_bench.certificate import Certificate, certify
    from tppsd_bench.store import load_run

__version__ = "0.1.0"
__all__ = ["Certificate", "__version__", "certify", "load_run"]

_HOMES = {"Certificate": "certificate", "certify": "certificate", "load_run": "store"}


def __getattr__(name: str) -> Any:
    """Names of the public interface, imported when first used: the command line must start in milliseconds."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
