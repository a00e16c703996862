"""Benchmark and statistical validation of speculative sampling for temporal point processes."""

from __future__ import annotations

__version__ = "0.1.0"
