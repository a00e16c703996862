"""What the command line shows: listings, plans, results, certificates. Text or JSON; nothing is computed here."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from tppsd_bench import resources, store
from tppsd_bench.errors import Exit, InputError
from tppsd_bench.results import CellResult, to_json
from tppsd_bench.runner import plan, power_plan, power_summary, summary
from tppsd_bench.studies.base import module_of, study_of

RUNS = Path("reports") / "runs"


def as_text(record: Any) -> str:
    return json.dumps(to_json(record), indent=1, ensure_ascii=False, default=str)


def planned(
    suite: str, settings: Sequence[str], pairs: Sequence[str], seed: int | None, device: str, events: int | None,
    seconds: float | None, profile: str = "",
) -> plan.Plan:  # fmt: skip
    """The plan that the options of ``run`` describe."""
    from tppsd_bench.suite import load_suite

    if events is not None and seconds is not None:
        raise InputError("Give --events or --time-budget, not both: each fixes the size of the run.")
    loaded = load_suite(suite, settings, profile)
    if events is not None:
        loaded = plan.scale_events(loaded, events)
    if seconds is not None:
        loaded = plan.scale_to_budget(loaded, seconds)
    # A confirmation round is four times the first; within a time budget it may take an eighth of it.
    return plan.make_plan(loaded, pairs=pairs, seed=seed, device=device, round_seconds=None if seconds is None else seconds / 8)


def stored_plan(name: Path, suite: str) -> plan.Plan:
    """The plan of the run in this folder, so that going on with it needs no option repeated."""
    from tppsd_bench.suite import check_suite

    run = store.read_json(store.locate(name) / "run.json")
    stored, how = check_suite(run["suite"], f"{name}/run.json"), run["provenance"]
    if suite not in (stored.name, "calibration") and Path(suite).stem != stored.name:
        raise InputError(f"{name} is a run of suite {stored.name!r}, not of {suite!r}; leave --suite away to go on with it.")
    pairs = [p["source"] for p in run["pairs"].values()]
    return plan.make_plan(stored, pairs=pairs, seed=how["seed"], device=how["device"], round_seconds=run.get("round_seconds"))


def default_folder(suite: str, *, resume: bool) -> Path:
    """A new folder named by suite and time, or the newest one of this suite that is not finished."""
    suite = Path(suite).stem if suite.endswith(".toml") else suite
    if not resume:
        return RUNS / f"{suite}-{datetime.now():%Y%m%d-%H%M%S}"
    candidates = [p for p in RUNS.glob(f"{suite}-*{store.PARTIAL}") if (p / "run.json").is_file()]
    if not candidates:
        raise InputError(f"No interrupted run of suite {suite!r} is in {RUNS}; name it with --out, or leave --resume away.")
    newest = max(candidates, key=lambda p: p.stat().st_mtime)
    return newest.with_name(newest.name.removesuffix(store.PARTIAL))


def show_result(folder: Path, cells: Sequence[CellResult], *, as_json: bool) -> int:
    """One sentence a pair, the verdict of the run, where to read on; gives the exit code."""
    pairs, code = summary.summarise(cells), summary.exit_code(cells)
    if as_json:
        run = store.read_json(folder / "run.json")
        click.echo(as_text({"folder": str(folder), "exit_code": int(code), "pairs": pairs, "run": run, "cells": cells}))
        return int(code)
    for pair in pairs:
        click.echo(f"\n{pair.sentence}")
    click.echo(f"\n{_closing_line(code, cells)}")
    report = folder / "report.html"
    click.echo(f"Report: {report}" if report.is_file() else f"Results: {folder}")
    if code is Exit.BROKEN:
        click.echo(f"Mend what broke, then run the broken cells alone with: --out {folder} --resume")
    return int(code)


def _closing_line(code: Exit, cells: Sequence[CellResult]) -> str:
    if cells and all(c.kind in power_summary.KINDS for c in cells):
        return power_summary.closing_line(code)
    if cells and not any(c.kind in ("law", "horizon") for c in cells) and code is Exit.PASS:
        return "DONE: every cell was measured; what was found is above."
    return {
        Exit.PASS: "PASS: every sampler draws from its target's law as far as this run can tell.",
        Exit.FAIL: "FAIL: at least one sampler does not draw from its target's law, or not by the rule it declares.",
        Exit.USAGE: "INVALID: the evidence for at least one pair supports no verdict.",
        Exit.INCONCLUSIVE: "INCONCLUSIVE: nothing contradicts exactness, but at least one cell is too small to show it.",
        Exit.BROKEN: "BROKEN: at least one cell did not finish; the others are whole.",
    }[code]


def listing(as_json: bool) -> str:
    """Suites and shipped pairs, each with one line."""
    import tomllib

    suites: dict[str, str] = {}
    for name, file in resources.suite_files().items():
        table = tomllib.loads(file.read_text(encoding="utf-8"))
        suites[name] = str(table.get("title", ""))
    module = plan.loader_module(_default_loader())
    pairs = {name: str(module.card(name).get("title", "")) for name in module.names()}
    if as_json:
        return as_text({"suites": suites, "pairs": pairs})
    width = max(map(len, [*suites, *pairs]), default=0)
    lines = ["Suites (run --suite NAME):", *(f"  {n:<{width}}  {t}" for n, t in suites.items())]
    return "\n".join([*lines, "Pairs (run --pair NAME):", *(f"  {n:<{width}}  {t}" for n, t in pairs.items())])


def shown(name: str, settings: Sequence[str], as_json: bool, profile: str = "") -> str:
    """A suite's plan, a run's sentences, or a pair's card."""
    if name in resources.suite_files() or name.endswith(".toml"):
        return _suite(name, settings, as_json, profile)
    folder = Path(name)
    if (folder / "results.json").is_file() or (folder.with_name(folder.name + store.PARTIAL) / "run.json").is_file():
        cells = list(store.read_cells(store.locate(folder)).values())
        pairs = summary.summarise(cells)
        return as_text({"pairs": pairs, "cells": cells}) if as_json else "\n".join(p.sentence for p in pairs)
    module = plan.loader_module(_default_loader())
    if name in module.names() or folder.is_dir():
        card = module.card(name)
        return as_text(card) if as_json else _tree(card)
    from tppsd_bench.suite import nearest

    raise InputError(f"There is no suite, pair or run {name!r};{nearest(name, [*resources.suite_files(), *module.names()])}")


def _suite(name: str, settings: Sequence[str], as_json: bool, profile: str) -> str:
    from tppsd_bench.suite import load_suite

    suite = load_suite(name, settings, profile)
    planned = plan.make_plan(suite)
    if as_json:
        return as_text({"suite": suite.model_dump(mode="json"), "cells": planned.cells})
    lines = [f"{suite.name}: {suite.title}", suite.description.strip(), plan.detectable(planned), ""]
    for job in planned.jobs:
        lines += [f"  {cell.id:<40} {_size(job)}" for cell in job.cells]
    return "\n".join(line.rstrip() for line in lines)


def _size(job: plan.Job) -> str:
    if job.kind == "law":
        return f"{plan.law_sizes(job)[1]:,} events, sequences of {job.length}"
    study = study_of(job.kind)
    return str(module_of(study, "jobs").size(job)) if study else power_plan.size(job)


def _default_loader() -> str:
    # The constant lives beside the schema; reading it there would import pydantic for a listing.
    return "reference_impls.pairs:load_pair"


def _tree(value: Any, indent: str = "") -> str:
    """A card as indented lines."""
    if not isinstance(value, dict):
        return f"{indent}{value}"
    lines = []
    for key, inner in value.items():
        lines += [f"{indent}{key}:", _tree(inner, indent + "  ")] if isinstance(inner, dict) else [f"{indent}{key}: {inner}"]
    return "\n".join(lines)


def certify_factory(
    dotted: str, access: Any, events: int | None, seconds: float | None, length: int | None, horizon: float | None, seed: int,
    timeout: float, out: Path | None, *, as_json: bool, quiet: bool, sequential: bool = False,
) -> int:  # fmt: skip
    """Certify what the user's factory returns, in a process of its own; show the certificate; gives the exit code."""
    from tppsd_bench.certificate import Certificate, needs
    from tppsd_bench.protocols import Stop
    from tppsd_bench.runner.trial import Order, trial

    if ":" not in dotted:
        raise InputError(f"--sampler {dotted!r} is not MODULE:FACTORY, e.g. mypackage.mymodule:make_sampler.")
    stop = Stop(horizon=horizon) if horizon is not None else Stop(n_events=length) if length is not None else None
    with trial(Order(dotted, access, events, seconds, stop, seed, timeout, sequential)) as running:
        n = running.size()
        if not (quiet or as_json):
            click.echo(needs(n))
        certificate = Certificate(running.certify(n))
    if out is not None:
        store.write_json(out, certificate.cell)
    if as_json:
        click.echo(as_text(certificate.cell))
    elif quiet:
        click.echo(certificate.sentence)
    else:
        lines = [f"  {v.axis.value:<10} {v.outcome.value:<14} {v.sentence}" for v in certificate.verdicts]
        missing = [f"  not possible: {m}" for m in certificate.cell.not_possible]
        guess = [f"  {certificate.looks_like}"] * bool(certificate.looks_like)
        click.echo("\n".join([certificate.sentence, *lines, *guess, *missing]))
    return int(certificate.exit_code)


def reading(options: dict[str, Any]) -> dict[str, Any]:
    """The reader's arguments from the options that were given."""
    out = {key: value for key, value in options.items() if value not in (None, ())}
    if "type_column" in out and len(out["type_column"]) == 1:
        out["type_column"] = out["type_column"][0]
    with contextlib.suppress(KeyError, ValueError):
        out["origin"] = float(out["origin"])
    return out


@contextlib.contextmanager
def option_words() -> Iterator[None]:
    """Sentences of the reader that name its arguments (ties='drop') name the options of the command line (--ties drop)."""
    try:
        yield
    except InputError as problem:
        raise type(problem)(in_options(str(problem))) from problem


def in_options(sentence: str) -> str:
    names = "format|split|time_column|sequence_column|type_column|origin|horizon|ties|first_type|n_types|sort"
    sentence = re.sub(r"(ties='jitter') with rng", r"\1", sentence)
    return re.sub(
        rf"\b({names})=('?)([\w.+-]*\w)\2",
        lambda m: f"--{m[1].replace('_', '-')}" + ("" if m[3] == "True" else f" {m[3]}"),
        sentence,
    )


def checked_data(file: str, as_json: bool, options: dict[str, Any]) -> int:
    """Show the data report; exit 2 where the file is refused."""
    from tppsd_bench.data import check_data, render

    if options.get("ties") == "jitter":
        import numpy as np

        options["rng"] = np.random.default_rng(0)
    report = check_data(file, **options)
    click.echo(as_text(report) if as_json else in_options(render(report)))
    return int(Exit.PASS if report.usable else Exit.USAGE)
