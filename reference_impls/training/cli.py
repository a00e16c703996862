"""The ``train`` verb: a recipe, or a user's own data, to a pair folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from reference_impls.training.draft_recipe import is_draft_recipe, load_draft_recipe
from reference_impls.training.recipe import Recipe, load_recipe
from tppsd_bench.errors import InputError
from tppsd_bench.settings import parse_setting

USER_RECIPE = "user"
_UNTELLING = ("train", "events", "data", "sequences")
"""File names that say nothing of their data; the folder's name does."""


def train(
    recipe: str | None = None,
    data: str | None = None,
    out: str | None = None,
    resume: bool = False,
    seed: int | None = None,
    set: list[str] | None = None,
    quiet: bool = False,
    roles: tuple[str, ...] = ("target", "draft"),
    read: dict[str, Any] | None = None,
    tell: Callable[[str], None] | None = None,
) -> Path:
    """Train a pair; returns its folder. With ``data`` and no recipe the recipe ``user`` is used.

    ``read``: arguments of ``tppsd_bench.data.read_events``, as ``data.read.*`` of the recipe. ``tell`` is handed a sentence
    for everything that was chosen while the data were read, and what the pair came to.
    """
    import torch

    from reference_impls.training.files import file_data
    from reference_impls.training.pair import process_data, train_pair
    from tppsd_bench.progress import reporter

    torch.set_num_threads(1)
    if recipe is not None and is_draft_recipe(recipe):
        own = dict(parse_setting(text, "fit.epochs=20") for text in set or [])
        return _drafts(recipe, data, out, resume, seed, own, quiet, tell)
    spec, folder = _spec(
        recipe, data, out, seed, dict(parse_setting(text, "target.fit.epochs=20") for text in set or []), read or {}
    )
    if recipe is None and not resume and (folder / "card.json").is_file():
        raise InputError(f"{folder} already holds a trained pair; choose another --out, or delete it to train anew.")
    source = process_data(spec) if spec.data.process else file_data(spec, str(spec.data.file))
    say = tell or (lambda _sentence: None)
    for note in source.notes:
        say(note)
    with reporter(quiet) as progress:
        card = train_pair(spec, source, folder, roles=roles, resume=resume, progress=progress)
    if card:
        say(summary(card))
    return folder


def _drafts(
    recipe: str, data: str | None, out: str | None, resume: bool, seed: int | None, overrides: dict[str, Any], quiet: bool,
    tell: Callable[[str], None] | None,
) -> Path:  # fmt: skip
    """Train the drafts of a recipe; returns the pair folder that holds them, pairs/NAME unless the pair is a folder itself."""
    from reference_impls.training.drafts import pair_data, train_drafts
    from tppsd_bench.progress import reporter

    named = {"data.file": data, "seed": seed}
    spec = load_draft_recipe(recipe, {name: value for name, value in named.items() if value is not None} | overrides)
    folder = Path(out or (spec.pair if Path(spec.pair).is_dir() else Path("pairs") / spec.pair))
    with reporter(quiet) as progress:
        card = train_drafts(spec, pair_data(spec), folder, resume=resume, progress=progress)
    for name, draft in card["drafts"].items():
        event = draft["acceptance"]["event"]
        (tell or (lambda _sentence: None))(
            f"{name}: {draft['nll']['value']:.4f} nats/event held out, events accepted "
            f"{event['value']:.4f} ({event['low']:.4f} to {event['high']:.4f}), {draft['step_us']:g} microseconds a step."
        )
    return folder


def summary(card: dict[str, Any]) -> str:
    """What a trained pair came to, in one sentence."""
    nll, ahead = card["nll"], card["nll"]["draft_minus_target"]
    said = {"target": "target", "draft": "draft", "renewal": "i.i.d. renewal fit", "true": "true process"}
    figures = ", ".join(f"{text} {nll[name]['value']:.4f}" for name, text in said.items() if name in nll)
    verdict = card["sentence"] or (
        f"the target is ahead of its draft by {ahead['value']:.4f} ({ahead['low']:.4f} to {ahead['high']:.4f})"
    )
    if nll["target"]["value"] > nll["renewal"]["value"]:
        verdict += "; the target is worse than the renewal fit, so it has not learnt the history: train longer (--set target.fit.epochs)"
    return f"Held-out nats/event on {card['test']['sequences']} sequences: {figures}; {verdict}."


def _spec(
    recipe: str | None, data: str | None, out: str | None, seed: int | None, overrides: dict[str, Any], read: dict[str, Any]
) -> tuple[Recipe, Path]:
    """The recipe as it will be trained, and the folder of the pair."""
    if recipe is None and data is None:
        raise InputError("train needs a RECIPE or --data FILE; `python -m tppsd_bench list` names the shipped recipes.")
    if data is not None:
        overrides["data.file"] = data
    if seed is not None:
        overrides["seed"] = seed
    overrides |= {f"data.read.{name}": value for name, value in read.items()}
    if recipe is not None:
        spec = load_recipe(recipe, overrides)
        return spec, Path(out) if out else Path("pairs") / spec.name
    name = _label(Path(str(data)))
    folder = Path(out) if out else Path("pairs") / name
    named = {"name": name, "title": f"THP 4 × 4 on {name}", "data.name": name}
    return load_recipe(USER_RECIPE, named | overrides), folder


def _label(path: Path) -> str:
    """A name for the pair of a user's file: the file's, or its folder's where that says nothing."""
    stem = path.name.split(".")[0]
    telling = path.resolve().parent.name if stem in _UNTELLING else stem
    return "".join(c if c.isalnum() or c in "-_" else "-" for c in telling).strip("-") or "pair"
