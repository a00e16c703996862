"""The command ``doctor``: a run folder read, or a pair measured; the diagnosis shown; the exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tppsd_bench.doctor import show
from tppsd_bench.doctor.diagnosis import Diagnosis, diagnose
from tppsd_bench.doctor.examine import Request, Say, default_length, examine
from tppsd_bench.doctor.from_run import Silent, read_run
from tppsd_bench.doctor.measurements import SHIPPED
from tppsd_bench.errors import InputError, RunBroken
from tppsd_bench.runner.worker import describe, one_thread, resolve
from tppsd_bench.suite import DEFAULT_LOADER

K = 5
SECONDS = 30.0


def of_run(
    folder: Path, pair: str | None, draft: str | None, k: int | None, measuring: dict[str, Any]
) -> list[Diagnosis | Silent]:  # fmt: skip
    """A diagnosis of every pair in a run folder that has enough; ``measuring``: the options that only a measurement knows."""
    given = [f"--{name.replace('_', '-')}" for name, value in measuring.items() if value is not None]
    if given:
        raise InputError(f"A run has been measured: {' and '.join(given)} apply to --pair NAME alone.")
    return [m if isinstance(m, Silent) else diagnose(m) for m in read_run(folder, pair=pair, draft=draft, k=k)]


def of_pair(
    name: str, draft: str | None, k: int | None, *, say: Say, length: int | None = None, seed: int | None = None,
    time_budget: float | None = None, device: str | None = None, loader: str = DEFAULT_LOADER,
) -> Diagnosis:  # fmt: skip
    """Load the pair, measure, diagnose; one thread. Raises RunBroken where model or sampler do."""
    with one_thread():
        on = device or "cpu"
        pair = resolve(loader)(name, device=on)
        torch = sys.modules.get("torch")
        if torch is not None:
            torch.set_num_threads(1)
        n = length or default_length(getattr(pair, "card", {}) or {})
        request = Request(
            name, draft or SHIPPED, k or min(K, n - 1), n, seed=seed or 0, seconds=time_budget or SECONDS, device=on
        )
        try:
            found = examine(pair, request, say=say)
        except (InputError, RunBroken, KeyboardInterrupt):
            raise
        except Exception as problem:
            raise RunBroken(f"The examination of {name} broke: {describe(problem)}") from problem
    return diagnose(replace(found, length_given=length is not None))


def output(found: Sequence[Diagnosis | Silent], *, as_json: bool) -> tuple[str, int]:
    """(what is printed, exit code). Of several pairs the verdicts come once more at the end, side by side."""
    code = show.exit_code(found)
    if as_json:
        import json

        return json.dumps(show.as_json(found, code), indent=1, ensure_ascii=False), int(code)
    said = [d.sentence if isinstance(d, Silent) else show.text(d) for d in found]
    if len(found) > 1:
        said.append(show.overview(found))
    return "\n\n".join(said), int(code)
