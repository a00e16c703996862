"""Errors that are sentences, and the exit codes of the command line."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    PASS = 0
    FAIL = 1
    USAGE = 2
    INCONCLUSIVE = 3
    BROKEN = 4


class InputError(ValueError):
    """Bad input or usage: one sentence that says what was found, where, what was expected and how to mend it (exit 2)."""


class InvalidEvidence(InputError):
    """The evidence cannot support any verdict (duplicate sequences, a target whose density is not one, ...)."""


class RunBroken(RuntimeError):
    """The run itself broke (exit 4)."""
