"""A revision of the repository as a folder of its own, and the import path under which its code is found instead of the present one."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tppsd_bench.errors import InputError, RunBroken


def toplevel() -> Path:
    """The repository around the current folder."""
    return Path(_git("rev-parse", "--show-toplevel")).resolve()


@contextlib.contextmanager
def worktree(revision: str) -> Iterator[Path]:
    """A temporary work tree of ``revision``; gone with the block. Only what git tracks is in it."""
    with tempfile.TemporaryDirectory(prefix="gate-") as scratch:
        tree = Path(scratch).resolve() / "tree"
        _git("worktree", "add", "--detach", "--quiet", str(tree), revision)
        try:
            yield tree
        finally:
            with contextlib.suppress(RunBroken):
                _git("worktree", "remove", "--force", str(tree))


def path_in(tree: Path, here: Path, path: Sequence[str] | None = None) -> list[str]:
    """The import path with every folder of the repository ``here`` replaced by the same one of ``tree``.

    Installed packages stay, also where the environment lies inside the repository.
    """
    out = []
    for entry in sys.path if path is None else path:
        place = Path(entry or ".").resolve()
        inside = place.is_relative_to(here) and "site-packages" not in place.parts
        out.append(str(tree / place.relative_to(here)) if inside else str(place))
    return list(dict.fromkeys(out))


def check_provenance(before: dict[str, str], now: dict[str, str], tree: Path, here: Path) -> None:
    """Both sides must have run different files: InputError where the revision's process imported what is not in its tree.

    ``before`` and ``now``: module -> file, as the two processes imported them.
    """
    own = [module for module, file in now.items() if file and Path(file).resolve().is_relative_to(here)]
    if not own:
        raise InputError(
            f"None of {', '.join(now)} lies in the repository {here}, so its revisions do not differ in what is measured; run in the "
            "repository of the sampler, or compare with a file (--baseline FILE)."
        )
    for module in own:
        file = before.get(module, "")
        if not Path(file).resolve().is_relative_to(tree):
            raise InputError(
                f"The revision's process imported {module} from {file or 'nowhere'}, not from the revision: an installed copy came "
                "first. Install the package as editable, or put its folder on PYTHONPATH."
            )


def _git(*words: str) -> str:
    try:
        done = subprocess.run(["git", *words], capture_output=True, text=True, timeout=600, check=True)
    except (OSError, subprocess.SubprocessError) as problem:
        said = getattr(problem, "stderr", "") or str(problem)
        raise RunBroken(f"git {words[0]} {words[1]} failed: {said.strip()}") from problem
    return done.stdout.strip()
