"""The asv benchmarks: lower is better everywhere. What they measure and how the history is filled: docs/history.md.

The same files measure every commit, so what belongs to the project is imported where it is used: a commit that lacks one thing
then loses the benchmarks of that thing only. Definitions stay as they are; one that changes gets a new ``version``, which
takes its old points off the pages.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

from threadpoolctl import threadpool_limits

TREE = "TPPSD_BENCH_TREE"
"""Set by ``fill_history.py``: the work tree of the commit that is to be measured."""

# One thread, so that CPU time is work and not waiting: by environment for what is loaded later and for child processes, by
# threadpoolctl for numpy, which asv has loaded before this file.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"
threadpool_limits(limits=1)


def check_tree(tree: str) -> None:
    """ImportError unless both packages come from ``tree``: an installed copy would be measured once for every commit."""
    for package in ("tppsd_bench", "reference_impls"):
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            raise ImportError(f"The commit in {tree} has no package {package!r}: it came before the benchmarks' time.")
        if not Path(spec.origin).resolve().is_relative_to(Path(tree).resolve()):
            raise ImportError(
                f"{package!r} would come from {spec.origin}, not from the commit in {tree}; asv drops PYTHONPATH, set ASV_PYTHONPATH."
            )


def forget_editable_installs() -> None:
    """Take their finders off the import path: they would fill in, from the checkout, what a commit does not have."""
    sys.meta_path[:] = [f for f in sys.meta_path if not getattr(f, "__module__", "").startswith("__editable__")]


if TREE in os.environ:
    forget_editable_installs()
    check_tree(os.environ[TREE])
