"""Drafts on disk, beside their target: ``drafts/NAME.safetensors``. Names need no torch; weights are read when first asked for.

An early exit's file holds only what is its own; the layers are its target's. An n-gram's holds counts, over its target's buckets.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tppsd_bench.errors import InputError

if TYPE_CHECKING:
    from reference_impls.drafts.ngram import NGram
    from reference_impls.network import NeuralModel

FOLDER = "drafts"


def draft_names(pair: Path) -> list[str]:
    """The drafts that lie in a pair's folder, beside its shipped one."""
    return sorted(p.stem for p in (pair / FOLDER).glob("*.safetensors"))


class Drafts(MutableMapping[str, Any]):
    """Drafts by name: some at hand, the others made when first asked for."""

    def __init__(self, at_hand: Mapping[str, Any], later: Mapping[str, Callable[[], Any]]) -> None:
        self._at_hand, self._later = dict(at_hand), dict(later)

    def __getitem__(self, name: str) -> Any:
        if name not in self._at_hand and name in self._later:
            self._at_hand[name] = self._later[name]()
        return self._at_hand[name]

    def __setitem__(self, name: str, draft: Any) -> None:
        self._at_hand[name] = draft

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._at_hand.pop(name, None)
        self._later.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._at_hand or name in self._later

    def __iter__(self) -> Iterator[str]:
        yield from self._at_hand
        yield from (name for name in self._later if name not in self._at_hand)

    def __len__(self) -> int:
        return len(self._at_hand.keys() | self._later.keys())


def network_of(config: dict[str, Any], target: NeuralModel | None = None) -> NeuralModel:
    """An untrained network of the kind its configuration says; ``target`` is whose layers an early exit takes."""
    from reference_impls.drafts.network import EarlyExit, StepNetwork
    from reference_impls.encoders import ENCODERS
    from reference_impls.encoders.stepwise import StepEncoder
    from reference_impls.network import NeuralModel

    if "exit_after" in config:
        if target is None:
            raise InputError(f"{config.get('name', 'draft')}: an early exit needs its target, whose layers it takes.")
        return EarlyExit(target, config)
    return (StepNetwork if issubclass(ENCODERS[config["encoder"]], StepEncoder) else NeuralModel)(config)


def save_draft(model: NeuralModel | NGram, path: Path, **about: Any) -> None:
    """Weights of its own (or counts), and in the file's metadata the configuration and ``about`` (JSON values by name)."""
    import safetensors.numpy
    import safetensors.torch

    from reference_impls.drafts.ngram import NGram

    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".part")
    metadata = {name: json.dumps(value) for name, value in {"config": model.config, **about}.items()}
    if isinstance(model, NGram):
        safetensors.numpy.save_file(model.arrays(), temporary, metadata)
    else:
        own = getattr(model, "is_own", lambda _name: True)
        weights = {name: w.contiguous() for name, w in model.state_dict().items() if own(name)}
        safetensors.torch.save_file(weights, temporary, metadata)
    os.replace(temporary, path)


def about_draft(path: Path) -> dict[str, Any]:
    """What ``save_draft`` wrote about a draft: ``config`` and so on."""
    from safetensors import safe_open

    with safe_open(path, framework="np") as f:
        return {name: json.loads(value) for name, value in (f.metadata() or {}).items()}


def load_draft(path: Path, target: NeuralModel, device: str = "cpu") -> NeuralModel | NGram:
    """A draft from its file, in evaluation mode; InputError where the file is none, or of another target."""
    import safetensors.numpy
    from safetensors.torch import load_file

    about = about_draft(path)
    if "config" not in about:
        raise InputError(f"{path}: no network configuration in the file's metadata; expected a draft written by `train`.")
    if "order" in about["config"]:
        from reference_impls.drafts.ngram import NGram

        if target.buckets is None:
            raise InputError(f"{path}: an n-gram over tokens, but the target {target.name} is in continuous time.")
        return NGram.from_arrays(about["config"], safetensors.numpy.load_file(path), target.buckets)
    model = network_of(about["config"], target)
    own = getattr(model, "is_own", lambda _name: True)
    kept = {name: w for name, w in model.state_dict().items() if not own(name)}
    model.load_state_dict(kept | load_file(path))
    return model.to(device).eval()
