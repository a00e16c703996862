"""Pairs: a target, its shipped draft and its stress draft, by name or by folder. ``names`` and ``card`` need no torch.

Toy pairs are float64 numpy. The shipped pairs live in ``reference_impls/checkpoints/<name>``; a folder written by ``train`` works alike;
``release:ENCODER:DATASET:FOLDER`` names a pair of the public release's state dicts (see ``reference_impls.release``), and
``tokens:STRATEGY:N:PAIR`` a continuous pair in N time buckets (see ``reference_impls.tokens.named``).
"""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from reference_impls.drafts.files import FOLDER, Drafts, draft_names
from reference_impls.untrained import UNTRAINED, untrained_pair
from tppsd_bench.errors import InputError

CHECKPOINTS = Path(__file__).parent / "checkpoints"

Kind = Literal["speculative", "speculative_recompute", "target_only", "target_only_recompute", "draft_only"]

_TOYS: dict[str, dict[str, Any]] = {
    "toy-marked": {
        "title": "Toy: three types, independent of the gap",
        "n_types": 3,
        "types_given_gap": False,
        "strength": 0.75,
    },
    "toy-gap-types": {"title": "Toy: three types, conditioned on the gap", "n_types": 3, "types_given_gap": True},
    "toy-univariate": {"title": "Toy: one type", "n_types": 1, "types_given_gap": False},
    "toy-many-types": {"title": "Toy: fifty types, independent of the gap", "n_types": 50, "types_given_gap": False},
    "toy-slow-clock": {
        "title": "Toy: three types, gaps of e^101 time units",
        "n_types": 3,
        "types_given_gap": False,
        "log_unit": 101.0,
    },
    "toy-tokens": {
        "title": "Toy: three types, time in 60 quantile buckets",
        "n_types": 3,
        "types_given_gap": False,
        "strength": 0.75,
        "buckets": 60,
    },
}

CLOSE = 0.15
"""Strength of the toys' third draft, so close to the target that rejection sampling of its residual takes long."""
RELEASE, TOKENS = "release:", "tokens:"
_RELEASE_TYPES = {"hawkes": 1, "poisson": 1, "multi": 2}
"""Number of types of the release's data sets."""


def names() -> list[str]:
    """The shipped neural pairs, then the toys."""
    return [*sorted(p.parent.name for p in CHECKPOINTS.glob("*/card.json")), *_TOYS]


def card(name: str) -> dict[str, Any]:
    """What is known about a pair (see ``training.pair.write_card``); InputError where there is no such pair."""
    if name in _TOYS:
        toy = _TOYS[name]
        return {"name": name, "title": toy["title"], "n_types": toy["n_types"], "process": None, "train_median_events": 100,
                "data": {"name": "closed form"}, "nll": {}, "size": "toy"}  # fmt: skip
    if name.startswith(RELEASE):
        return _release_card(name)
    if name.startswith(TOKENS):
        from reference_impls.tokens.named import card_of_tokens

        return card_of_tokens(name)
    folder = Path(name) if Path(name).is_dir() else CHECKPOINTS / name
    path = folder / "card.json"
    if not path.is_file():
        from difflib import get_close_matches

        near = get_close_matches(name, names(), n=1, cutoff=0.3)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise InputError(f"There is no pair {name!r}; known pairs: {', '.join(names())}, or a folder written by `train`.{hint}")
    out: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return out


def drafts_of(name: str) -> list[str]:
    """The drafts a pair has, by name, its weights unread: ``shipped``, ``stress``, and what lies beside its target."""
    if name in _TOYS:
        return ["shipped", "stress", "close"]
    folder = Path(name) if Path(name).is_dir() else CHECKPOINTS / name
    return ["shipped", "stress", *draft_names(folder)]


def draft_cards(name: str) -> dict[str, Any]:
    """What is known of a pair's drafts since their training, by name: ``nll``, ``nll_minus_target``, ...; empty where nothing is."""
    folder = Path(name) if Path(name).is_dir() else CHECKPOINTS / name
    path = folder / FOLDER / "card.json"
    if not path.is_file():
        return {}
    known = json.loads(path.read_text(encoding="utf-8"))
    return {**known["drafts"], **({"shipped": known["shipped"]} if known.get("shipped") else {})}


def _release_card(name: str) -> dict[str, Any]:
    """What is known about a pair of the public release before its files are opened."""
    parts = name.split(":", 3)
    if len(parts) != 4 or parts[2] not in _RELEASE_TYPES:
        raise InputError(f"{name!r}: expected release:ENCODER:DATASET:FOLDER with DATASET one of {', '.join(_RELEASE_TYPES)}.")
    _, encoder, dataset, _ = parts
    return {"name": f"release-{encoder}-{dataset}", "title": f"Public release, {encoder.upper()} on {dataset}",
            "n_types": _RELEASE_TYPES[dataset], "train_median_events": 160, "data": {"name": f"public release, {dataset}"},
            "nll": {}, "process": None}  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """A target with its drafts, and the samplers they make."""

    name: str
    title: str
    target: Any
    drafts: MutableMapping[str, Any]
    """``shipped``, ``stress``, and the others that lie beside the target, each loaded when first asked for."""
    card: dict[str, Any] = field(default_factory=dict)
    process: Any = None
    """The true process where it is known: a ``Target``."""

    def sampler(
        self, kind: Kind, *, draft: str = "shipped", k: int = 5, rule: str = "leviathan_two_step", batch_size: int | None = None,
        memory_limit: int | None = None,
    ) -> Any:  # fmt: skip
        """A reference sampler of this pair; a ``SamplerUnderTest``. ``memory_limit``: bytes for the work in flight."""
        from reference_impls.samplers.policy import AdaptiveK, FixedK
        from reference_impls.samplers.residual import ExactResidual
        from reference_impls.samplers.residual_tokens import TokenResidual
        from reference_impls.samplers.speculative import Speculative
        from reference_impls.samplers.target_only import TargetOnly
        from reference_impls.samplers.verification import Joint, TwoStep

        one_by_one = partial(TargetOnly, batch_size=batch_size, memory_limit=memory_limit)
        if kind == "target_only":
            return one_by_one(self.target)
        if kind == "target_only_recompute":
            return one_by_one(self.target, recompute=True)
        if kind == "draft_only":
            return one_by_one(self.drafts[draft])
        rules: dict[str, type[TwoStep | Joint]] = {"leviathan_two_step": TwoStep, "leviathan_joint": Joint}
        if kind not in ("speculative", "speculative_recompute") or rule not in rules or draft not in self.drafts:
            raise InputError(
                f"Pair {self.name!r} has no sampler (kind {kind!r}, rule {rule!r}, draft {draft!r}); "
                f"kinds: speculative, speculative_recompute, target_only, target_only_recompute, draft_only; rules: {', '.join(rules)}; "
                f"drafts: {', '.join(self.drafts)}."
            )
        policy = FixedK(k) if k > 0 else AdaptiveK()
        residual = ExactResidual() if getattr(self.target, "buckets", None) is None else TokenResidual()
        target, proposing = self.target, self.drafts[draft]
        if kind == "speculative_recompute":
            from reference_impls.samplers.recompute import Recomputing

            target, proposing = Recomputing(target), Recomputing(proposing)
        return Speculative(target, proposing, policy, rules[rule](), residual, batch_size, memory_limit)


def load_pair(name: str, device: str = "cpu") -> Pair:
    """A pair by name or folder, ready to sample."""
    from reference_impls.stress import StressDraft

    if name in _TOYS:
        from reference_impls.toys import toy_draft, toy_target

        toy = _TOYS[name]
        target = toy_target(toy["n_types"], toy["types_given_gap"], name, toy.get("log_unit", 0.0))
        toy_shipped = toy_draft(target, toy.get("strength", 1.0))
        drafts = {"shipped": toy_shipped, "stress": StressDraft(toy_shipped), "close": toy_draft(target, CLOSE)}
        pair = Pair(name, toy["title"], target, drafts, card(name))
        if "buckets" in toy:
            from reference_impls.tokens.discretise import discretised_pair
            from reference_impls.tokens.fitting import buckets_of_model

            tokens = discretised_pair(pair, buckets_of_model(target, toy["buckets"]))
            return replace(tokens, name=name, title=toy["title"])
        return pair
    if name.startswith(RELEASE):
        from reference_impls.release import release_pair

        return release_pair(name)
    if name.startswith(TOKENS):
        from reference_impls.tokens.named import pair_of_tokens

        return pair_of_tokens(name, device)
    if name.startswith(UNTRAINED):
        return untrained_pair(name, device)
    from reference_impls.tokens.stress import TokenStress
    from reference_impls.training.pair import load_network
    from tppsd_bench.simulate import make

    about = card(name)
    folder = Path(name) if Path(name).is_dir() else CHECKPOINTS / name
    load = partial(load_network, device=device)
    target_network, shipped = load(folder / "target.safetensors"), load(folder / "draft.safetensors")
    poor = StressDraft if shipped.buckets is None else TokenStress
    stress = poor(shipped, **about["recipe"]["stress"])
    process = about.get("process")
    known = make(process["kind"], **process["params"]) if process else None
    later = {draft: partial(_load_draft, folder, draft, target_network, device) for draft in draft_names(folder)}
    zoo = Drafts({"shipped": shipped, "stress": stress}, later)
    return Pair(about["name"], about["title"], target_network, zoo, about, known)


def _load_draft(folder: Path, name: str, target: Any, device: str) -> Any:
    from reference_impls.drafts.files import load_draft

    return load_draft(folder / FOLDER / f"{name}.safetensors", target, device)
