"""Fill the performance history: ``python suites/asv/fill_history.py --last 10`` measures ten commits and publishes the pages.

Every commit is checked out into a work tree of its own and measured by today's benchmarks in the interpreter that runs this
script: nothing is built or installed, so dependencies stay the same along the history. What a commit cannot run is named, and
so is every measured point that is missing on the pages. Exit code: 0 all measured and published, 1 something is missing,
2 wrong use. See docs/history.md.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from asv.benchmarks import Benchmarks
from asv.config import Config
from asv.results import iter_results

CONFIG = Path(__file__).resolve().parents[2] / "asv.conf.json"
TREE = "TPPSD_BENCH_TREE"
"""Tells the benchmarks which work tree they must import from (``benchmarks/__init__.py``)."""


class Point(NamedTuple):
    """One value of the history."""

    benchmark: str
    commit: str
    case: int
    """Number of the benchmark's parameter combination."""


@dataclass(frozen=True)
class Measured:
    """What one commit gave."""

    commit: str
    subject: str
    exit_code: int
    """asv's: 0 all ran, 2 some benchmarks failed, anything else none ran."""
    values: int
    missing: tuple[str, ...]
    """Benchmarks that ran and gave no value, for some or all of their parameters."""

    @property
    def complete(self) -> bool:
        return self.exit_code == 0 and self.values > 0 and not self.missing

    def line(self) -> str:
        label, values = f"{self.commit[:8]} {self.subject[:60]}", f"{self.values} value{'s' * (self.values != 1)}"
        if self.exit_code not in (0, 2):
            return f"SKIPPED  {label}: no benchmark ran (asv ended with {self.exit_code}; its reason stands above)"
        without = f"no value of {', '.join(self.missing) or 'any benchmark'}"
        return f"measured {label}: {values}" if self.complete else f"PARTLY   {label}: {values}; {without}"


def load_config(path: Path) -> Any:
    """asv's configuration with absolute folders."""
    conf = Config.load(str(path))
    for folder in ("repo", "benchmark_dir", "results_dir", "html_dir"):
        setattr(conf, folder, str((path.parent / getattr(conf, folder)).resolve()))
    return conf


def measured_points(conf: Any) -> dict[Point, float | None]:
    """Every value of the result files, None where a benchmark failed; results of other versions of a benchmark are left out."""
    benchmarks, out = Benchmarks.load(conf), {}
    for result in iter_results(conf.results_dir):
        for name in result.get_result_keys(benchmarks):
            values = result.get_result_value(name, benchmarks[name]["params"]) or [None]
            for index, value in enumerate(values):
                if value is None or not math.isnan(value):  # NaN: not asked for
                    out[Point(name, result.commit_hash, index)] = value
    return out


def published_points(html_dir: Path) -> set[Point]:
    """Every value of the pages' graphs, counted from the files that a browser reads."""
    index = json.loads((html_dir / "index.json").read_text(encoding="utf-8"))
    commits, out = index["revision_to_hash"], set()
    for path in (html_dir / "graphs").rglob("*.json"):
        if path.stem not in index["benchmarks"] or path.parent.name == "summary":
            continue
        for revision, value in json.loads(path.read_text(encoding="utf-8")):
            series = value if isinstance(value, list) else [value]
            out |= {Point(path.stem, commits[str(revision)], i) for i, v in enumerate(series) if v is not None}
    return out


def lost_points(conf: Any) -> list[Point]:
    """Measured values that are not on the pages."""
    measured = {point for point, value in measured_points(conf).items() if value is not None}
    return sorted(measured - published_points(Path(conf.html_dir)))


def git(repo: str, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=repo, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"git {' '.join(words)} failed in {repo}: {done.stderr.strip()}")
    return done.stdout.strip()


def last_commits(conf: Any, n: int) -> list[str]:
    """The branch's last ``n`` commits, oldest first; first parents only, as asv shows no others."""
    return git(conf.repo, "rev-list", "--first-parent", "--reverse", f"--max-count={n}", conf.branches[0], "--").split()


@contextmanager
def work_tree(repo: str, commit: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tppsd-history-") as folder:
        tree = Path(folder) / "tree"
        git(repo, "worktree", "add", "--detach", str(tree), commit)
        try:
            yield tree
        finally:
            git(repo, "worktree", "remove", "--force", str(tree))


def asv(config: Path, *words: str, **environment: str) -> int:
    """asv's exit code; what it says goes to the terminal. ``--config`` also makes the configuration's folder its own."""
    command = [sys.executable, "-m", "asv", words[0], "--config", str(config), *words[1:]]
    return subprocess.run(command, env={**os.environ, **environment}, check=False).returncode


def measure(config: Path, conf: Any, commit: str, options: Sequence[str]) -> Measured:
    """Run the benchmarks on one commit. Results in an existing environment are kept only with ``--set-commit-hash``."""
    with work_tree(conf.repo, commit) as folder:
        tree = str(folder)
        # asv takes PYTHONPATH from its benchmarks; processes that these start find the commit by it.
        where = {"ASV_PYTHONPATH": tree, "PYTHONPATH": tree, TREE: tree}
        words = ("--python=same", f"--set-commit-hash={commit}", "--show-stderr", *options)
        code = asv(config, "run", *words, **where)
    ran = code in (0, 2)
    points = {p: v for p, v in measured_points(conf).items() if p.commit == commit} if ran else {}
    missing = {p.benchmark for p, v in points.items() if v is None}
    values = sum(v is not None for v in points.values())
    return Measured(commit, git(conf.repo, "show", "-s", "--format=%s", commit), code, values, tuple(sorted(missing)))


def publish(config: Path, conf: Any) -> str:
    """Write the pages; a sentence that names what is missing on them, empty where nothing is."""
    if asv(config, "publish", "--no-pull"):
        return "asv publish failed; its reason stands above."
    lost = lost_points(conf)
    if not lost:
        return ""
    commits = sorted({p.commit[:8] for p in lost})
    return (
        f"{len(lost)} of the measured values are not on the pages, those of {', '.join(commits)}: asv shows first parents of branch "
        f"{conf.branches[0]!r} only (asv.conf.json, branches). What a rebase left behind can be removed from {conf.results_dir}."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python suites/asv/fill_history.py", description=(__doc__ or "").split(":")[0])
    parser.add_argument("--last", type=int, default=5, metavar="N", help="commits of the branch to measure (default 5)")
    parser.add_argument("--quick", action="store_true", help="one sample of every time: for trying out")
    parser.add_argument("--bench", action="append", default=[], metavar="REGEX", help="only benchmarks that match; repeatable")
    parser.add_argument("--config", type=Path, default=CONFIG, help="asv.conf.json of another checkout")
    given = parser.parse_args(arguments)
    if given.last < 1:
        parser.error(f"--last {given.last}: expected at least one commit")
    config = given.config.resolve()
    conf = load_config(config)
    if not (Path.home() / ".asv-machine.json").exists():
        asv(config, "machine", "--yes")
    options = [*(["--quick"] if given.quick else []), *(f"--bench={regex}" for regex in given.bench)]
    commits, done = last_commits(conf, given.last), []
    for i, commit in enumerate(commits, 1):
        # asv itself names the branch's tip, whichever commit it is told to record.
        print(f"\n== commit {i} of {len(commits)}: {git(conf.repo, 'show', '-s', '--format=%h %s', commit)}", flush=True)
        done.append(measure(config, conf, commit, options))
    missing = publish(config, conf) if any(m.values for m in done) else "Nothing was measured, so nothing is published."
    print("", *(m.line() for m in done), missing or f"Every measured value is on the pages in {conf.html_dir}.", sep="\n")
    return 0 if all(m.complete for m in done) and not missing else 1


if __name__ == "__main__":
    sys.exit(main())
