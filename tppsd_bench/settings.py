"""``key=value`` settings of the command line: dotted keys, TOML values."""

from __future__ import annotations

import tomllib
from typing import Any

from tppsd_bench.errors import InputError


def parse_setting(text: str, example: str) -> tuple[str, Any]:
    """(dotted key, value) of one ``--set``; the value is TOML, a bare word is a string."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InputError(f"--set {text!r}: expected key=value, e.g. --set {example}.")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value
