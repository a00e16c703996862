"""Where the files that travel with the package are: suites and report templates, in a checkout or in a wheel."""

from __future__ import annotations

from pathlib import Path

from tppsd_bench.errors import InputError

_PACKAGE = Path(__file__).resolve().parent


def roots() -> list[Path]:
    """Folders searched, in order: package data of a wheel, then the checkout around the package."""
    checkout = _PACKAGE.parent
    return [_PACKAGE, checkout] if (checkout / "pyproject.toml").is_file() else [_PACKAGE]


def path(*parts: str) -> Path:
    """The file or folder named by ``parts``, e.g. ``path("suites", "smoke.toml")``.

    Raises InputError where no installed copy has it.
    """
    for root in roots():
        found = root.joinpath(*parts)
        if found.exists():
            return found
    wanted = "/".join(parts)
    raise InputError(
        f"{wanted} is not in this installation (looked in {', '.join(str(r) for r in roots())}); "
        "reinstall the package, or run from a complete checkout."
    )


def suite_files() -> dict[str, Path]:
    """Name -> file of every suite that ships with the package."""
    found: dict[str, Path] = {}
    for root in roots():
        for file in sorted((root / "suites").glob("*.toml")):
            found.setdefault(file.stem, file)
    return found
