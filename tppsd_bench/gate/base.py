"""What a gate says: checks, each of one level and one cell, and the exit code that they add up to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tppsd_bench.errors import Exit
from tppsd_bench.results import Outcome

COUNTS, VERDICTS, DRIFT, TIME = "L0 counts", "L1 verdicts", "L1 drift", "L2 time"
LEVELS = (COUNTS, VERDICTS, DRIFT, TIME)


@dataclass(frozen=True)
class Check:
    """One answer. ``INVALID``: what the baseline has was not measured, so nothing can be said."""

    level: str
    cell: str
    outcome: Outcome
    sentence: str
    effect: float | None = None
    """Log growth of forwards (L0), total variation (drift), log speed over the baseline's (time)."""
    interval: tuple[float, float] | None = None
    margin: float | None = None
    advisory: bool = False
    """Told, but without a say in the exit code."""

    @property
    def word(self) -> str:
        """The outcome for people."""
        said = "not measured" if self.outcome is Outcome.INVALID else self.outcome.value
        return f"{said} (advisory)" if self.advisory else said


@dataclass(frozen=True)
class GateResult:
    """Everything that one gate said."""

    run: str
    baseline: str
    """What was compared with, in one sentence."""
    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> Exit:
        """A proven regression before missing measurements before undecided ones; nothing measured is never a pass."""
        outcomes = {c.outcome for c in self.checks if not c.advisory}
        measured = [c for c in self.checks if c.level != VERDICTS and c.outcome is not Outcome.INVALID]
        if Outcome.FAIL in outcomes:
            return Exit.FAIL
        if not measured or Outcome.INVALID in outcomes:
            return Exit.BROKEN
        return Exit.INCONCLUSIVE if Outcome.INCONCLUSIVE in outcomes else Exit.PASS

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        code = self.exit_code
        failed = [c for c in self.checks if c.outcome is Outcome.FAIL and not c.advisory]
        if code is Exit.FAIL:
            return f"FAIL at {_levels(failed)}: {failed[0].cell}: {failed[0].sentence}"
        if code is Exit.BROKEN:
            missing = next((c for c in self.checks if c.outcome is Outcome.INVALID), None)
            return (
                f"BROKEN: {f'{missing.cell}: {missing.sentence}' if missing else 'nothing was measured that can be compared.'}"
            )
        if code is Exit.INCONCLUSIVE:
            open_ = next(c for c in self.checks if c.outcome is Outcome.INCONCLUSIVE and not c.advisory)
            return f"INCONCLUSIVE at {open_.level}: {open_.cell}: {open_.sentence}"
        passed = [c for c in self.checks if c.outcome is Outcome.PASS and not c.advisory]
        return f"PASS: {len(passed)} checks of {_levels(passed)}; nothing got worse beyond its margin."


def _levels(checks: Iterable[Check]) -> str:
    found = {c.level for c in checks}
    return ", ".join(level for level in LEVELS if level in found)
