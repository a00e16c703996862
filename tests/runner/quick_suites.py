"""Suites over the fake pairs."""

from __future__ import annotations

from typing import Any

from tppsd_bench.suite import Suite, check_suite


def quick_suite(*pairs: str, **tables: Any) -> Suite:
    """Instant fit cells only, unless a table says otherwise."""
    off = {"enabled": False}
    table = {"name": "quick", "loader": "fake_pair:load_pair", "pairs": list(pairs), "law": off, "speed": off, **tables}
    return check_suite(table, "quick")
