"""A time cell measured once more, in a fresh process, from the plan of its run."""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tppsd_bench import store
from tppsd_bench.errors import RunBroken
from tppsd_bench.gate.speed import Speed, speed_of
from tppsd_bench.runner.plan import Job, make_plan
from tppsd_bench.runner.worker import CellBroken, initialise, run_job, thread_environment
from tppsd_bench.suite import check_suite


def jobs_of(run: Mapping[str, Any]) -> tuple[Job, ...]:
    """The jobs of a run, planned again from what its run.json says."""
    how = run["provenance"]
    pairs = [p["source"] for p in run["pairs"].values()]
    return make_plan(check_suite(run["suite"], "run.json"), pairs=pairs, seed=how["seed"], device=how["device"]).jobs


def timed_again(folder: Path, name: str) -> Speed:
    """The speedup of time cell ``name`` of a run, measured now by a process of its own. RunBroken where it breaks."""
    jobs = jobs_of(store.read_json(folder / "run.json"))
    job, cell = next((job, cell) for job in jobs for cell in job.cells if cell.id == name)
    with tempfile.TemporaryDirectory() as scratch, thread_environment():
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, context, initialise, (list(sys.path),)) as pool:
            try:
                pool.submit(run_job, replace(job, cells=(cell,)), scratch).result()
            except (CellBroken, BrokenProcessPool) as problem:
                raise RunBroken(f"{name} broke when it was measured again in a fresh process: {problem}") from problem
        with np.load(Path(scratch) / "cells" / f"{name}.npz", allow_pickle=False) as stored:
            return speed_of(stored["log_ratio_cpu"], stored["log_ratio_again"])
