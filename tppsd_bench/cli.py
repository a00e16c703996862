"""The command line. Every import that costs time waits inside the command that needs it."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn

import click

from tppsd_bench import __version__
from tppsd_bench.cli_sample import sample
from tppsd_bench.errors import Exit, InputError, RunBroken

_PATIENCE = 5.0
TRAIN = "reference_impls.training.cli:train"


def guarded(command: Callable[..., int | None]) -> Callable[..., None]:
    """Errors as one sentence on standard error, and the exit codes of the house."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            code = command(*args, **kwargs)
        except InputError as problem:
            _end(Exit.USAGE, str(problem))
        except RunBroken as problem:
            _end(Exit.BROKEN, str(problem))
        except KeyboardInterrupt:
            _end(Exit.BROKEN, "Interrupted.")
        sys.exit(code or 0)

    return run


def _end_soon(code: Exit, sentence: str) -> NoReturn:
    """``_end``, in ``_PATIENCE`` seconds at the latest: the interpreter waits for the pool's thread, which waits for ever where a
    worker was killed halfway through sending its result. Everything worth keeping is on disk by now."""
    watch = threading.Timer(_PATIENCE, os._exit, (int(code),))
    watch.daemon = True
    watch.start()
    _end(code, sentence)


def _end(code: Exit, sentence: str) -> NoReturn:
    click.echo(f"error: {sentence}", err=True)
    sys.exit(int(code))


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="tppsd-bench")
def main() -> None:
    """Does an accelerated event-sequence sampler still draw from its target model's law, and what does it gain?

    \b
    First contact:   python -m tppsd_bench run --suite calibration
    Your sampler:    python -m tppsd_bench certify --sampler package.module:factory

    Exit codes: 0 pass, 1 a verdict failed, 2 bad usage or input, 3 inconclusive, 4 the run itself broke.
    """
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # a user's own module beside the shell, as with python -m


class Duration(click.ParamType[float]):
    """``90s``, ``2m``, ``1h`` or plain seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|h)?", str(value).strip())
        if not found or float(found[1]) <= 0:
            self.fail(f"{value!r} is not a duration; expected e.g. 90s, 2m or 1h.", param, ctx)
        return float(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2] or "s"]


@main.command()
@click.option(
    "--suite", default="calibration", show_default=True, metavar="NAME|FILE", help="Suite to run ('list' names them)."
)
@click.option("--pair", "pairs", multiple=True, metavar="NAME|DIR", help="Only these pairs; a folder is one that 'train' made.")
@click.option("--jobs", type=click.IntRange(1, 256), help="Processes for law cells.  [default: 2, or fewer cores]")
@click.option("--executor", type=click.Choice(["local", "dask"]), default="local", show_default=True, help="Who does the jobs.")
@click.option("--scheduler", metavar="ADDRESS", help="Of the Dask cluster, e.g. tcp://10.0.0.1:8786.")
@click.option("--out", type=click.Path(path_type=Path), help="Run folder.  [default: reports/runs/SUITE-TIME]")
@click.option("--seed", type=click.IntRange(0), help="Instead of the suite's seed.")
@click.option("--device", default="cpu", show_default=True, help="Torch device.")
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change one key of the suite, e.g. law.n_events=16384."
)
@click.option("--events", type=click.IntRange(1), metavar="N", help="Events of every law cell.")
@click.option("--time-budget", "seconds", type=Duration(), metavar="2m", help="Size the run for this much time on two cores.")
@click.option("--profile", default="", metavar="NAME", help="A profile of the suite: quick (as written), or e.g. full.")
@click.option("--sequential", is_flag=True, help="Watch each sampler while it draws; its cell ends at proof of a fault.")
@click.option("--resume", is_flag=True, help="Go on with an interrupted run (the newest of the suite, or --out).")
@click.option("--json", "as_json", is_flag=True, help="Results as JSON on standard output.")
@click.option("--quiet", is_flag=True, help="No progress.")
@guarded
def run(suite: str, pairs: tuple[str, ...], jobs: int | None, executor: str, scheduler: str | None, out: Path | None,
        seed: int | None, device: str, settings: tuple[str, ...], events: int | None, seconds: float | None, profile: str,
        sequential: bool, resume: bool, as_json: bool, quiet: bool) -> int:  # fmt: skip
    """Run a suite: verdicts here, results and an HTML report in the run folder."""
    from tppsd_bench.progress import reporter
    from tppsd_bench.runner import execute, plan, present

    settings += ("law.sequential=true",) * sequential
    name = out or present.default_folder(suite, resume=resume)
    if resume and not (pairs or settings or seed is not None or events or seconds or profile):
        planned = present.stored_plan(name, suite)
    else:
        planned = present.planned(suite, settings, pairs, seed, device, events, seconds, profile)
    if not as_json:
        click.echo(plan.detectable(planned), err=quiet)
    try:
        with execute.executor_of(executor, scheduler, jobs) as doing, reporter(quiet) as say:
            folder, cells = execute.execute(planned, name, resume=resume, say=say, executor=doing)
    except KeyboardInterrupt:
        _end_soon(Exit.BROKEN, f"Interrupted; finished cells are kept. Go on with: run --suite {suite} --out {name} --resume")
    return present.show_result(folder, cells, as_json=as_json)


main.command()(guarded(sample))


@main.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@guarded
def list_(as_json: bool) -> None:
    """Name the suites and the pairs that ship."""
    from tppsd_bench.runner import present

    click.echo(present.listing(as_json))


@main.command()
@click.argument("name")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="As in 'run'.")
@click.option("--profile", default="", metavar="NAME", help="As in 'run'.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@guarded
def show(name: str, settings: tuple[str, ...], profile: str, as_json: bool) -> None:
    """Show a suite's plan, a pair's card or a run's verdicts, without running anything."""
    from tppsd_bench.runner import present

    click.echo(present.shown(name, settings, as_json, profile))


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
@guarded
def report(folder: Path) -> None:
    """Build the HTML report of a run folder again (no model is loaded)."""
    from tppsd_bench import store
    from tppsd_bench.report.build import build_report
    from tppsd_bench.runner.execute import default_jobs

    click.echo(build_report(store.locate(folder), default_jobs()))


@main.command()
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--baseline", metavar="FILE|REV", help="A baseline's file, or a git revision, which is drawn and timed beside.")
@click.option("--write-baseline", "write", metavar="FILE", type=click.Path(path_type=Path), help="Make this run the baseline.")
@click.option("--junit", metavar="FILE", type=click.Path(path_type=Path), help="The checks as JUnit XML.")
@click.option("--markdown", metavar="FILE", type=click.Path(path_type=Path), help="The checks as a Markdown table.")
@click.option("--json", "as_json", is_flag=True, help="As JSON on standard output.")
@guarded
def gate(folder: Path, baseline: str | None, write: Path | None, junit: Path | None, markdown: Path | None,
         as_json: bool) -> int:  # fmt: skip
    """Judge a RUN of a suite with [study.gate] against a baseline: counts, law, drift, speed.

    \b
    python -m tppsd_bench run --suite gate --out reports/runs/now
    python -m tppsd_bench gate reports/runs/now --baseline suites/baselines/gate.json
    python -m tppsd_bench gate reports/runs/now --baseline main
    """
    from tppsd_bench.gate.command import run_gate

    return run_gate(folder, baseline, write, junit, markdown, as_json=as_json)


@main.command()
@click.argument("first", metavar="RUN_A", type=click.Path(path_type=Path))
@click.argument("second", metavar="RUN_B", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@guarded
def compare(first: Path, second: Path, as_json: bool) -> int:
    """Two runs side by side: verdicts, counts, effects, speedups, and differences with intervals."""
    from tppsd_bench.gate.command import run_compare

    return run_compare(first, second, as_json=as_json)


@main.command(name="plan")
@click.argument("folder", required=False, metavar="[RUN]", type=click.Path(path_type=Path))
@click.option("--tv", type=float, help="A total variation between the sampler's next event and the target's.")
@click.option("--ks", type=float, help="A Kolmogorov-Smirnov distance of the PIT.")
@click.option("--theta", type=float, help="A shift: one of the Legendre effects of the PIT.")
@click.option("--lambda", "lam", type=float, help="A share of the draft's law in the output (with --draft-tv).")
@click.option("--draft-tv", type=float, help="Total variation between draft and target.")
@click.option("--events", type=click.IntRange(1), metavar="N", help="The other way round: what do N events find?")
@click.option("--length", type=click.IntRange(1), default=100, show_default=True, metavar="N", help="Events of a sequence.")
@click.option("--types", type=click.IntRange(1), default=3, show_default=True, metavar="M", help="Event types.")
@click.option("--k", type=click.IntRange(1), default=5, show_default=True, help="Events drafted in a round.")
@click.option(
    "--access",
    type=click.Choice(["grey", "white"]),
    default="white",
    show_default=True,
    help="white: the draft's law is there too.",
)
@click.option("--level", type=float, help="The cell's share of the error level.  [default: 2e-05, a run of one cell]")
@click.option("--power", type=float, default=0.95, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@guarded
def plan_(folder: Path | None, as_json: bool, power: float, access: str, level: float | None, **asked: Any) -> None:
    """How many sequences do I need, and what could this RUN have missed?

    \b
    python -m tppsd_bench plan --tv .02 --length 100
    python -m tppsd_bench plan --lambda .05 --draft-tv .3
    python -m tppsd_bench plan reports/runs/calibration-20250301-091204
    """
    from tppsd_bench.runner import planning

    if folder is not None:
        if level is not None or any(asked[name] is not None for name in ("tv", "ks", "theta", "lam", "events")):
            raise InputError("A run has fixed its sizes and levels: with a run folder only --power and --json apply.")
        click.echo(planning.of_run(folder, power, as_json=as_json))
        return
    own: dict[str, Any] = {} if level is None else {"level": level}
    question = planning.Question(**asked, **own, white=access == "white", power=power)
    click.echo(planning.answer(question, as_json=as_json))


READING = (
    click.option("--format", help="Format, where it is not recognised by itself (e.g. easytpp for a folder of pickles)."),
    click.option("--split", help="One split of a file or folder that has several."),
    click.option("--time-column", help="Which of several time columns counts."),
    click.option("--sequence-column", help="Column that names the sequence (tables)."),
    click.option("--type-column", multiple=True, help="Column of the type (tables); several are crossed."),
    click.option("--origin", help="Start of the clock: start, first_event or a number.  [default: auto]"),
    click.option("--horizon", type=float, help="End of observation."),
    click.option("--ties", help="What to do with equal times: refuse, drop or jitter.  [default: refuse]"),
    click.option("--first-type", type=int, help="Smallest type id, where ids do not run from 0."),
    click.option("--n-types", type=click.IntRange(1), help="Number of types, where some do not occur."),
    click.option("--sort", is_flag=True, default=None, help="Sort unsorted events."),
)  # fmt: skip


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """How to read a file of events; the same for everything that reads one."""
    for option in reversed(READING):
        command = option(command)
    return command


@main.command()
@click.argument("recipe", required=False)
@click.option("--data", metavar="FILE", help="Event sequences: EasyTPP pickle or JSON lines, csv, parquet, npz, ...")
@click.option("--out", metavar="DIR", help="Folder of the pair.  [default: pairs/NAME]")
@click.option("--seed", type=click.IntRange(0), help="Instead of the recipe's seed.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change one key of the recipe.")
@click.option("--resume", is_flag=True, help="Go on with interrupted training.")
@click.option("--quiet", is_flag=True, help="No progress and no notes.")
@reading_options
@guarded
def train(recipe: str | None, data: str | None, out: str | None, seed: int | None, settings: tuple[str, ...], resume: bool,
          quiet: bool, **reading: Any) -> None:  # fmt: skip
    """Train a pair (target and draft) from a RECIPE, or from your own sequences.

    The options from --format on say how to read --data, as for 'data check'.
    """
    from tppsd_bench.runner import present
    from tppsd_bench.runner.worker import resolve

    try:
        with present.option_words():
            folder = resolve(TRAIN)(
                recipe=recipe, data=data, out=out, resume=resume, seed=seed, set=list(settings), quiet=quiet,
                read=present.reading(reading), tell=lambda text: None if quiet else click.echo(present.in_options(text), err=True),
            )  # fmt: skip
    except KeyboardInterrupt:
        _end(Exit.BROKEN, "Interrupted; finished epochs are kept. Go on with the same command and --resume.")
    click.echo(f"{folder}\nNow: python -m tppsd_bench run --suite calibration --pair {folder}")


@main.command()
@click.option(
    "--sampler",
    required=True,
    metavar="MODULE:FACTORY",
    help="factory() -> (sampler, target[, draft[, reference]]), or one object that samples and scores.",
)
@click.option(
    "--access",
    type=click.Choice(["auto", "black", "grey", "white"]),
    default="auto",
    show_default=True,
    help="How deep to look.",
)
@click.option("--events", type=click.IntRange(1), metavar="N", help="Events of the first round.  [default: 20000]")
@click.option("--time-budget", "seconds", type=Duration(), metavar="2m", help="As many events as fit.")
@click.option("--length", type=click.IntRange(1), metavar="N", help="Events of a sequence.  [default: 100]")
@click.option("--horizon", type=float, help="Stop sequences at this time instead.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option(
    "--timeout", type=Duration(), default="10m", show_default=True, help="A call of the sampler longer than this hangs."
)
@click.option("--sequential", is_flag=True, help="Watch the sampler while it draws and stop at proof of a fault.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the certificate's JSON here.")
@click.option("--json", "as_json", is_flag=True, help="The certificate as JSON on standard output.")
@click.option("--quiet", is_flag=True, help="The sentence alone.")
@guarded
def certify(sampler: str, access: str, events: int | None, seconds: float | None, length: int | None, horizon: float | None,
            seed: int, timeout: float, sequential: bool, out: Path | None, as_json: bool, quiet: bool) -> int:  # fmt: skip
    """Certify your own sampler against its target, at whatever access it offers."""
    from tppsd_bench.runner import present

    if events is not None and seconds is not None:
        raise InputError("Give --events or --time-budget, not both: each fixes the size of the test.")
    if length is not None and horizon is not None:
        raise InputError("Give --length or --horizon, not both: sequences end in one way.")
    return present.certify_factory(
        sampler, access, events, seconds, length, horizon, seed, timeout, out, as_json=as_json, quiet=quiet,
        sequential=sequential,
    )  # fmt: skip


@main.command()
@click.argument("folder", required=False, metavar="[RUN]", type=click.Path(path_type=Path))
@click.option("--pair", metavar="NAME|DIR", help="Measure this pair; with RUN, only this pair of the run.")
@click.option(
    "--draft", help="Draft of the pair; 'target': the target drafts for itself.  [default: shipped, else the first of RUN]"
)
@click.option("--k", type=click.IntRange(1), help="K in use.  [default: 5, or the K that the run shows]")
@click.option("--length", type=click.IntRange(2), metavar="N", help="Events of a sequence.  [default: the pair's, at most 100]")
@click.option("--seed", type=click.IntRange(0), help="[default: 0]")
@click.option("--time-budget", type=Duration(), metavar="1m", help="About how long to measure.  [default: 30s]")
@click.option("--device", help="Torch device.  [default: cpu]")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--quiet", is_flag=True, help="No progress.")
@guarded
def doctor(
    folder: Path | None, pair: str | None, draft: str | None, k: int | None, as_json: bool, quiet: bool, **measuring: Any
) -> int:
    """Why does speculation not pay? The ordered diagnosis of a finished RUN, or of a pair, measured here.

    \b
    python -m tppsd_bench doctor --pair thp-hawkes
    python -m tppsd_bench doctor reports/runs/calibration-20250301-091204

    Exit codes: 0 healthy, 1 acceptance is low or speculation does not pay (the cause is named), 3 undecided.
    """
    from tppsd_bench.doctor import command
    from tppsd_bench.progress import reporter

    if folder is None and pair is None:
        raise InputError("Say what to look at: the folder of a run, or --pair NAME ('list' names the pairs).")
    if folder is not None:
        shown, code = command.output(command.of_run(folder, pair, draft, k, measuring), as_json=as_json)
    else:
        with reporter(quiet or as_json) as say:
            measured = command.of_pair(str(pair), draft, k, say=say, **measuring)
        shown, code = command.output([measured], as_json=as_json)
    click.echo(shown)
    return code


@main.group()
def data() -> None:
    """Look at event data."""


@data.command()
@click.argument("file")
@reading_options
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@guarded
def check(file: str, as_json: bool, **reading: Any) -> int:
    """Read FILE as the trainer would and say what is in it, or why it is refused."""
    from tppsd_bench.runner import present

    with present.option_words():
        return present.checked_data(file, as_json, present.reading(reading))
