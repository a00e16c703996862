"""How often does an unchanged tree pass its gate? Runs and gates a suite again and again, each in processes of its own, and counts.

    python tests/gate/repeat.py --times 50 --set 'study.gate.pairs=["toy-marked"]' --set study.gate.n_events=8192

The first run writes the baseline; every later run is gated against it. Nothing is run twice until it passes: each verdict counts.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def command(*words: str) -> tuple[int, str, float]:
    """(exit code, standard output, seconds) of one command of the suite."""
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "tppsd_bench", *words], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 3):
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.returncode, done.stdout, time.perf_counter() - started


def once(folder: Path, run: list[str], baseline: str) -> dict[str, Any]:
    """One run and its gate."""
    _, _, drawing = command("run", *run, "--out", str(folder), "--quiet")
    code, said, gating = command("gate", str(folder), "--baseline", baseline, "--json")
    answer = json.loads(said)
    again = sum("again in a fresh process" in c["sentence"] for c in answer["gate"]["checks"])
    return {"exit_code": code, "sentence": answer["sentence"], "second_looks": again, "run_seconds": drawing,
            "gate_seconds": gating, "load": os.getloadavg()[0]}  # fmt: skip


def main() -> None:
    """Repeat, tell each verdict as it comes and the counts at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--suite", default="gate")
    parser.add_argument("--set", action="append", default=[], dest="settings")
    parser.add_argument("--baseline", help="A file or revision; left out: a first run writes the file.")
    parser.add_argument("--out", type=Path, help="Write every verdict here, as JSON.")
    asked = parser.parse_args()
    # One process a run: nothing is imported twice.
    run = ["--suite", asked.suite, "--jobs", "1", *(word for setting in asked.settings for word in ("--set", setting))]
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        baseline = asked.baseline
        if baseline is None:
            baseline = str(Path(scratch) / "baseline.json")
            command("run", *run, "--out", f"{scratch}/first", "--quiet")
            code, said, _ = command("gate", f"{scratch}/first", "--write-baseline", baseline)
            print(said, flush=True)
            if code:
                raise SystemExit(code)
        for i in range(asked.times):
            found.append(once(Path(scratch) / f"run{i}", run, baseline))
            print(f"{i + 1}: {json.dumps(found[-1])}", flush=True)
            if asked.out:
                asked.out.write_text(json.dumps(found, indent=1), encoding="utf-8")
    codes = collections.Counter(f["exit_code"] for f in found)
    print(f"{codes[0]} of {asked.times} passed; exit codes {dict(codes)}; {sum(f['second_looks'] for f in found)} second looks")


if __name__ == "__main__":
    main()
