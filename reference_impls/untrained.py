"""Pairs of a given size with random weights: what a step costs does not depend on training, and weights of that size need not ship.

``untrained:ENCODER:LAYERSxWIDTHxHEADS:LAYERSxWIDTHxHEADS`` names target and draft, e.g. ``untrained:sahp:6x512x8:2x128x4``. Beside the
Transformer draft (``shipped``, also ``transformer``) there are an LSTM of one layer and a causal convolution of four, of its width.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tppsd_bench.errors import InputError

if TYPE_CHECKING:
    from reference_impls.pairs import Pair

UNTRAINED = "untrained:"
_SIZE = re.compile(r"(\d+)x(\d+)x(\d+)")
_N_TYPES, _COMPONENTS, _SEED = 3, 16, 0


def untrained_pair(name: str, device: str = "cpu") -> Pair:
    """The pair that ``name`` describes; InputError where it describes none."""
    import torch

    from reference_impls.drafts.files import network_of
    from reference_impls.pairs import Pair

    _, encoder, *sizes = name.split(":")
    found = [_SIZE.fullmatch(size) for size in sizes]
    if len(found) != 2 or encoder not in ("thp", "sahp", "attnhp") or not all(found):
        raise InputError(
            f"{name!r}: expected untrained:ENCODER:6x512x8:2x128x4 (layers x width x heads of target and draft; thp, sahp or attnhp)."
        )
    target, draft = ([int(part) for part in match.groups()] for match in found if match)
    width = draft[1]
    configs: dict[str, dict[str, Any]] = {
        "target": _transformer(encoder, *target),
        "transformer": _transformer(encoder, *draft),
        "lstm": _config("lstm", n_layers=1, d=width),
        "convolution": _config("convolution", n_layers=4, d=width, kernel=3),
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        networks = {key: network_of(config).to(device).eval() for key, config in configs.items()}
    drafts = {"shipped": networks["transformer"], **{key: networks[key] for key in configs if key != "target"}}
    return Pair(name, f"Untrained {encoder.upper()}, {sizes[0]} and {sizes[1]}", networks["target"], drafts)


def _transformer(encoder: str, layers: int, width: int, heads: int) -> dict[str, Any]:
    inner = {} if encoder == "attnhp" else {"d_inner": 4 * width}
    return _config(encoder, n_layers=layers, d=width, n_heads=heads, **inner)


def _config(encoder: str, **size: int) -> dict[str, Any]:
    head = {"n_components": _COMPONENTS, "types_given_gap": False}
    return {"name": encoder, "encoder": encoder, "n_types": _N_TYPES, "encoder_args": size, "head_args": head}
