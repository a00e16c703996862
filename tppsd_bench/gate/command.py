"""What the commands ``gate`` and ``compare`` do: files written, the answer shown, the exit code given."""

from __future__ import annotations

import os
from pathlib import Path

import click

from tppsd_bench import store
from tppsd_bench.errors import Exit, InputError, RunBroken
from tppsd_bench.gate.base import GateResult
from tppsd_bench.gate.baseline import write_baseline
from tppsd_bench.gate.judge import gate
from tppsd_bench.gate.junit import junit_xml
from tppsd_bench.gate.words import as_markdown, as_text
from tppsd_bench.runner.present import as_text as as_json_text

SUMMARY = "GITHUB_STEP_SUMMARY"
"""GitHub's variable that names the file of a step's summary."""


def run_gate(
    folder: Path, baseline: str | None, write: Path | None, junit: Path | None, markdown: Path | None, *, as_json: bool
) -> int:
    """Judge, write the baseline, or both; a gate that breaks still leaves its XML and its summary."""
    if baseline is None and write is None:
        raise InputError("Give --baseline FILE or REV to compare with, or --write-baseline FILE to make one of this run.")
    code = Exit.PASS
    if baseline is not None:
        try:
            result = gate(folder, baseline)
        except RunBroken as problem:
            _leave(GateResult(str(folder), baseline, (), (str(problem),)), junit, markdown)
            raise
        _leave(result, junit, markdown)
        code = result.exit_code
        click.echo(
            as_json_text({"exit_code": int(code), "sentence": result.sentence, "gate": result}) if as_json else as_text(result)
        )
    if write is not None and code is Exit.PASS:
        lines = write_baseline(store.locate(folder), write)
        click.echo("\n".join([*lines, f"Written: {write}; review it and commit it."]), err=as_json)
    elif write is not None:
        click.echo(
            f"{write} was not written: the run does not pass its gate. Leave --baseline away to accept the change.", err=True
        )
    return int(code)


def _leave(result: GateResult, junit: Path | None, markdown: Path | None) -> None:
    """JUnit XML and Markdown where they were asked for; the step summary of GitHub is added to without asking."""
    if junit is not None:
        store.write_whole(junit, lambda file: file.write(junit_xml(result).encode()))
    text = as_markdown(result)
    if markdown is not None:
        store.write_whole(markdown, lambda file: file.write(text.encode()))
    summary = os.environ.get(SUMMARY)
    if summary:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(text)


def run_compare(first: Path, second: Path, *, as_json: bool) -> int:
    """Show two runs side by side."""
    from tppsd_bench.gate.compare import as_table, compare

    found = compare(store.locate(first), store.locate(second))
    click.echo(as_json_text(found) if as_json else as_table(found))
    return int(Exit.PASS)
