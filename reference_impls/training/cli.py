"""The ``train`` verb: a recipe, or a user's own data, to a pair folder."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from reference_impls.training.pair import file_data, process_data, train_pair
from reference_impls.training.recipe import Recipe, load_recipe
from tppsd_bench.errors import InputError


def parse_overrides(settings: list[str]) -> dict[str, Any]:
    """``key=value`` strings to dotted keys and TOML values."""
    out: dict[str, Any] = {}
    for item in settings:
        key, equals, value = item.partition("=")
        if not equals:
            raise InputError(f"--set {item!r}: expected key=value, e.g. --set target.fit.epochs=20.")
        try:
            out[key.strip()] = tomllib.loads(f"v = {value}")["v"]
        except tomllib.TOMLDecodeError:
            out[key.strip()] = value
    return out


def train(
    recipe: str | None = None,
    data: str | None = None,
    out: str | None = None,
    resume: bool = False,
    seed: int | None = None,
    set: list[str] | None = None,
    quiet: bool = False,
    roles: tuple[str, ...] = ("target", "draft"),
) -> Path:
    """Train a pair; returns its folder. With ``data`` and no recipe the recipe ``user`` is used."""
    import torch

    from tppsd_bench.progress import reporter

    torch.set_num_threads(1)
    if recipe is None and data is None:
        raise InputError("train needs a RECIPE or --data FILE; `python -m tppsd_bench list` names the shipped recipes.")
    overrides = parse_overrides(list(set or []))
    if data is not None:
        overrides.setdefault("data.file", data)
    if seed is not None:
        overrides["seed"] = seed
    spec: Recipe = load_recipe(recipe or "user", overrides)
    folder = Path(out) if out else Path("pairs") / (Path(data).stem if data and recipe is None else spec.name)
    source = process_data(spec) if spec.data.process else file_data(spec, str(data or spec.data.file))
    with reporter(quiet) as say:
        train_pair(spec, source, folder, roles=roles, resume=resume, progress=say)
    return folder
