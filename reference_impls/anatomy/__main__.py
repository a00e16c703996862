"""``python -m reference_impls.anatomy --pair NAME``: the cost model of a round, printed."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from reference_impls.anatomy.measure import COVERAGE, Anatomy, Span, anatomy
from reference_impls.pairs import Pair, load_pair

FEWEST = 6
"""Repeats that an interval of 95 % takes."""


def said(value: Span, unit: str = "", factor: float = 1.0) -> str:
    return "{:.3g}{u} ({:.3g} to {:.3g})".format(*(factor * x for x in value), u=unit)


def table(a: Anatomy, n_lines: int) -> Iterator[str]:
    """The anatomy of one sampler, line by line."""
    total = sum(row.seconds for row in a.rows if not row.part)
    yield f"{a.sampler}, batch {a.batch}: {a.events:,} events in {a.rounds:,} rounds, {a.runs} seeds, {a.repeats} repeats"
    yield f"  CPU time, ms/event            {said(a.seconds, factor=1000 / a.events)}"
    yield f"  CPU time, ms/round            {said(a.seconds, factor=1000 / a.rounds)}"
    yield f"  matrix products               {said(a.share, ' %', 100)} of it"
    yield f"  overhead outside them         {said(a.overhead, ' %', 100)}"
    yield f"  products, BLAS sums and dots  {said(a.share_with_sums, ' %', 100)} of it"
    if "compiled kernel" in a.products:
        yield f"  whole compiled kernels        {said(a.kernel_share, ' %', 100)} of it"
    kinds = ", ".join(f"{n:,} {kind}s" for kind, n in sorted(a.products.items()))
    yield f"  {kinds or 'no products'}; products {a.flops / 1e9:.3g} GFLOP at {a.flops / 1e9 / max(a.replay_seconds, 1e-9):.3g} GFLOP/s"
    yield f"  the wrapped run takes {said(a.inflation)} times as long; below without the wrappers' cost"
    yield f"  {'':<28}{'us/round':>10}{'us/event':>10}{'share':>9}{'products us/round':>20}{'of the phase':>14}"
    for row in a.rows:
        name = f"  {row.part}" if row.part else row.section
        share = f"{100 * row.products / row.seconds:.1f} %" if row.products and row.seconds > 0 else ""
        yield (
            f"  {name:<28}{1e6 * row.seconds / a.rounds:>10.1f}{1e6 * row.seconds / a.events:>10.2f}"
            f"{100 * row.seconds / total:>7.1f} %{1e6 * row.products / a.rounds:>20.1f}{share:>14}"
        )
    yield from _slowest(a, n_lines)
    for check in a.checks:
        yield f"  {'ok  ' if check.passed else 'FAIL'} {check.name}: {check.said}"


def _slowest(a: Anatomy, n: int) -> Iterator[str]:
    whole = sum(line.seconds for line in a.lines)
    if n:
        yield f"  slowest lines, products marked *, of {whole:.3g} s traced ({whole / a.seconds[0]:.2f} times the plain run)"
    for line in a.lines[:n]:
        mark = "*" if line.place in a.product_lines else " "
        yield f"  {100 * line.seconds / whole:>5.1f} % {mark} {line.short}:{line.number}  {line.text}"


def as_dict(a: Anatomy, n_lines: int) -> dict[str, Any]:
    """Plain values for a file; spans are {"value", "low", "high"}."""
    out = asdict(a)
    for name in ("seconds", "share", "share_with_sums", "kernel_share", "inflation"):
        out[name] = dict(zip(("value", "low", "high"), out[name], strict=True))
    out["overhead"] = dict(zip(("value", "low", "high"), a.overhead, strict=True))
    out["lines"] = [
        {"file": x.short, "line": x.number, "text": x.text, "seconds": x.seconds, "runs": x.runs, "product": x.place in a.product_lines}
        for x in a.lines[:n_lines]
    ]  # fmt: skip
    del out["product_lines"]
    return out


def samplers(pair: Pair, draft: str, ks: Sequence[int]) -> Iterator[Any]:
    yield pair.sampler("target_only")
    for k in ks:
        yield pair.sampler("speculative", draft=draft, k=k)


def _at_least(least: int) -> Any:
    def number(text: str) -> int:
        if int(text) < least:
            raise argparse.ArgumentTypeError(f"{text} is too small; expected at least {least}")
        return int(text)

    return number


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1 where a check fails: the numbers then do not belong together."""
    parser = argparse.ArgumentParser(prog="python -m reference_impls.anatomy", description=(__doc__ or "").split("``: ")[1])
    parser.add_argument("--pair", required=True, help="any name that the loader knows, or a folder")
    parser.add_argument("--draft", default="shipped")
    parser.add_argument("--k", type=_at_least(1), nargs="*", default=[5, 10, 20], help="none: target-only alone")
    parser.add_argument("--batch", type=_at_least(1), nargs="+", default=[1, 64])
    parser.add_argument("--events", type=_at_least(1), default=100, help="of each sequence, from an empty history")
    parser.add_argument("--repeats", type=_at_least(FEWEST), default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lines", type=_at_least(0), default=12, help="how many of the slowest lines of code to show")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    pair, found = load_pair(given.pair), []
    before = os.getloadavg()
    print(f"{pair.title}; one thread, intervals {100 * COVERAGE:g} % or more; load {before[0]:.2f}")
    with threadpool_limits(limits=1):
        for batch in given.batch:
            for sampler in samplers(pair, given.draft, given.k):
                a = anatomy(sampler, batch, given.events, repeats=given.repeats, seed=given.seed)
                print("\n".join(table(a, given.lines)), flush=True)
                found.append(a)
    if given.json:
        written = {
            "pair": given.pair,
            "load": [before[0], os.getloadavg()[0]],
            "anatomies": [as_dict(a, given.lines) for a in found],
        }
        given.json.write_text(json.dumps(written, indent=1), encoding="utf-8")
    return int(not all(check.passed for a in found for check in a.checks))


if __name__ == "__main__":
    raise SystemExit(main())
