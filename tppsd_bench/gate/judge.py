"""A gate from end to end: the run's verdicts (L1), then counts, drift and time against a file or against a revision."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tppsd_bench import store
from tppsd_bench.errors import InputError, RunBroken
from tppsd_bench.gate.base import COUNTS, DRIFT, LEVELS, TIME, VERDICTS, Check, GateResult
from tppsd_bench.gate.baseline import read_baseline
from tppsd_bench.gate.counts import Counted, judge_counts
from tppsd_bench.gate.drift import Effects, judge_drift
from tppsd_bench.gate.measured import Measured, Side, gate_table, read_run, side_of_run
from tppsd_bench.gate.speed import Speed, judge_speed
from tppsd_bench.results import Axis, CellResult, Outcome
from tppsd_bench.studies.base import study_of
from tppsd_bench.studies.gate.jobs import part_of
from tppsd_bench.studies.gate.table import Gate

JUDGED = (Axis.VALIDITY, Axis.LAW, Axis.MECHANISM)
_LEVEL = {"counts": COUNTS, "law": DRIFT, "time": TIME}


def gate(folder: Path, baseline: str) -> GateResult:
    """Judge the run in ``folder`` against a baseline: a file, or a revision of the git repository that one stands in.

    Raises RunBroken where the run measured nothing, InputError where the two cannot be compared.
    """
    folder = store.locate(folder)
    run, cells = read_run(folder)
    if not any(study_of(c.kind) == "gate" for c in cells.values()):
        raise RunBroken(f"{folder} holds no cell of a gate, so nothing was measured: run a suite with [study.gate], e.g. gate.")
    table = gate_table(run, folder)
    verdicts = verdict_checks(cells)
    if Path(baseline).is_file():
        candidate, against = side_of_run(folder, run, cells), read_baseline(Path(baseline))
        checks, notes = against_file(candidate, against, table, folder)
        return GateResult(str(folder), f"file {against.said}", _in_order((*verdicts, *_missing(cells), *checks)), tuple(notes))
    from tppsd_bench.gate.revision import against_revision

    revision = resolved(baseline)
    checks = against_revision(run, cells, table, baseline, revision)
    said = f"revision {baseline} ({revision[:12]}), both sides measured now"
    return GateResult(str(folder), said, _in_order((*verdicts, *_missing(cells), *checks)))


def _in_order(checks: Sequence[Check]) -> tuple[Check, ...]:
    """Level by level, each in the order of the run."""
    return tuple(sorted(checks, key=lambda c: LEVELS.index(c.level)))


def resolved(revision: str) -> str:
    """The full name of a revision; InputError where it is neither a file nor a revision."""
    asked = ["git", "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    except OSError as problem:
        raise InputError(
            f"--baseline {revision!r} is no file, and git cannot be asked for a revision ({problem})."
        ) from problem
    if done.returncode:
        raise InputError(
            f"--baseline {revision!r} is neither a file nor a revision of the git repository here; write a file with "
            "'gate RUN --write-baseline FILE', or fetch the revision (a shallow clone has few: fetch-depth: 0)."
        )
    return done.stdout.strip()


def verdict_checks(cells: Mapping[str, CellResult]) -> list[Check]:
    """The run's own verdicts of law, mechanism and validity. Undecided is no regression: drift has a margin of its own."""
    checks = []
    for name, cell in cells.items():
        mine = [v for v in cell.verdicts if v.axis in JUDGED]
        bad = [v for v in mine if v.outcome in (Outcome.FAIL, Outcome.INVALID)]
        if bad:
            sentence = " ".join(f"{v.axis.value}: {v.sentence}" for v in bad)
            checks.append(Check(VERDICTS, name, Outcome.FAIL, sentence))
        elif mine:
            said = ", ".join(f"{v.axis.value} {v.outcome.value}" for v in mine)
            checks.append(Check(VERDICTS, name, Outcome.PASS, f"No verdict fails ({said})."))
    return checks


def _missing(cells: Mapping[str, CellResult]) -> list[Check]:
    """Cells that broke."""
    return [
        Check(_LEVEL[part_of(name)] if study_of(c.kind) == "gate" else VERDICTS, name, Outcome.INVALID, f"The cell broke: {c.error}")
        for name, c in cells.items()
        if c.error
    ]  # fmt: skip


def against_file(candidate: Side, baseline: Side, table: Gate, folder: Path) -> tuple[list[Check], list[str]]:
    """Counts paired by seed, drift with both errors, within-job speedups; across fingerprints time is advisory."""
    notes = []
    here = candidate.fingerprint == baseline.fingerprint
    if not here:
        notes.append(
            f"The baseline is from another machine or other versions (fingerprint {baseline.fingerprint}, here "
            f"{candidate.fingerprint}): counts are compared by ratio, time is told but not judged."
        )
    paired = candidate.seed == baseline.seed
    if not paired:
        notes.append(
            f"The run has seed {candidate.seed}, the baseline {baseline.seed}: nothing is paired, intervals are wider."
        )
    checks = []
    for name, theirs in baseline.cells.items():
        mine = candidate.cells.get(name)
        if mine is None:
            checks.append(_absent(name))
            continue
        _comparable(name, candidate, baseline)
        checks.append(_judged(name, mine, theirs, table, baseline, paired=paired, here=here, folder=folder))
    new = [name for name in candidate.cells if name not in baseline.cells]
    if new:
        notes.append(f"Not in the baseline, so not compared: {', '.join(new)}; write it anew to have them gated.")
    return checks, notes


def _absent(name: str) -> Check:
    return Check(
        _LEVEL[part_of(name)], name, Outcome.INVALID,
        "The baseline has this cell, the run has not measured it; run the same suite, or write the baseline anew.",
    )  # fmt: skip


def _comparable(name: str, candidate: Side, baseline: Side) -> None:
    mine, theirs = candidate.design[name], baseline.design.get(name, {})
    other = [key for key in mine if mine[key] != theirs.get(key)]
    if other:
        said = ", ".join(f"{key} {mine[key]!r} against {theirs.get(key)!r}" for key in other)
        raise InputError(f"{name}: run and baseline differ in {said}; run the same suite, or write the baseline anew.")


def _judged(
    name: str, mine: Measured, theirs: Measured, table: Gate, baseline: Side, *, paired: bool, here: bool, folder: Path
) -> Check:
    cells = sum(type(c) is type(theirs) for c in baseline.cells.values())
    if isinstance(mine, Counted) and isinstance(theirs, Counted):
        same_size = len(mine.forwards) == len(theirs.forwards)
        golden = here and any(f".{pair}." in f"{name}." for pair in table.goldens)
        return judge_counts(name, mine, theirs, table.margins, paired=paired and same_size, cells=cells, golden=golden)
    if isinstance(mine, Effects) and isinstance(theirs, Effects):
        if len(mine.theta) != len(theirs.theta):
            raise InputError(f"{name}: the run's target and the baseline's differ in having several types; write it anew.")
        return judge_drift(name, mine, theirs, table.margins, paired=False, cells=cells)
    assert isinstance(mine, Speed)
    assert isinstance(theirs, Speed)

    def look(i: int) -> Speed:
        from tppsd_bench.gate.again import timed_again

        return (mine if i == 1 else timed_again(folder, name)).over(theirs)

    return judge_speed(name, look, table.margins, what="CPU speedup over target-only", advisory=not here)
