"""The command ``sample``, apart from the others: its options and what a size in bytes looks like."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from tppsd_bench.errors import RunBroken

UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


class Size(click.ParamType[int]):
    """``500MB``, ``1GB``, ``1.5GiB`` or plain bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", str(value).strip().lower())
        if not found or found[2] not in UNITS or float(found[1]) <= 0:
            self.fail(f"{value!r} is not a size; expected e.g. 500MB or 1GB.", param, ctx)
        return int(float(found[1]) * UNITS[found[2]])


@click.option("--pair", required=True, metavar="NAME|DIR", help="Whose sequences ('list' names the pairs).")
@click.option(
    "--sampler", type=click.Choice(["speculative", "target_only", "draft_only"]), default="speculative", show_default=True
)
@click.option("--draft", default="shipped", show_default=True, help="Draft of the pair.")
@click.option("--k", type=click.IntRange(1, 64), default=5, show_default=True, help="Events drafted in a round.")
@click.option("--n", "n_sequences", type=click.IntRange(1), default=1024, show_default=True, help="Sequences.")
@click.option("--length", type=click.IntRange(1), metavar="N", help="Events of a sequence.  [default: the pair's median]")
@click.option("--horizon", type=click.FloatRange(0, min_open=True), help="Stop sequences at this time instead.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder of the events.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--chunk", type=click.IntRange(1), default=64, show_default=True, help="Sequences drawn and written at a time.")
@click.option("--memory-limit", type=Size(), metavar="1GB", help="For the sequences in work: rows that do not fit wait.")
@click.option("--device", default="cpu", show_default=True, help="Torch device.")
@click.option("--resume", is_flag=True, help="Go on with an interrupted folder.")
@click.option("--quiet", is_flag=True, help="No progress.")
def sample(out: Path, resume: bool, quiet: bool, **order: Any) -> None:
    """Draw sequences into a folder, chunk by chunk, in bounded memory. 'data check' and 'train' read it.

    \b
    python -m tppsd_bench sample --pair thp-hawkes --n 1024 --length 1000 --out events
    """
    from tppsd_bench.progress import reporter
    from tppsd_bench.runner import sampling

    try:
        with reporter(quiet) as say:
            drawn = sampling.draw(sampling.Order(**order), out, resume=resume, say=say)
    except KeyboardInterrupt:
        raise RunBroken("Interrupted; finished chunks are kept. Go on with the same command and --resume.") from None
    click.echo(drawn.sentence)
