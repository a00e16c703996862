"""Reads the public TPP-SD release's state dicts (THP, SAHP, AttNHP; arXiv 2507.09252) into models of ours.

Written from a description of what the files compute. SAHP (all) and unmarked THP are causal and map onto our encoders. Marked THP and
all AttNHP files were trained with masks that let a context see later events; they load only with ``quirks="release"``, as a
model that reproduces those contexts, and every check of prefix invariance refuses it. With causal masks the same file is a
*different* model from the one that was trained, so it is not offered.

The files hold no log-gap standardisation; it is the mean and standard deviation of ln gap on the data set's test split.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from reference_impls.encoders.base import EventInputs, interleaved_encoding, sinusoid_rates
from reference_impls.network import NeuralModel
from reference_impls.pairs import Pair, card
from reference_impls.stress import StressDraft
from tppsd_bench.errors import InputError
from tppsd_bench.protocols import FloatArray, IntArray

CONSTANTS = {
    "hawkes": (-2.3124914, 1.4008657),
    "poisson": (-2.4700451, 1.3956543),
    "multi": (-1.9238137, 1.4961251),
}
"""(mean, standard deviation) of ln gap with which the release's networks were trained, by data set."""

_NAME = re.compile(r"(?P<heads>\d+)_heads_(?P<layers>\d+)_layers")
_D, _COMPONENTS = 64, 64


def load_release(path: Path | str, constants: tuple[float, float], quirks: Literal["none", "release"] = "none") -> NeuralModel:
    """A model from one ``.pth`` state dict; heads and layers are read from the file's name.

    Raises InputError for a file whose networks are not causal, unless ``quirks="release"``.
    """
    path = Path(path)
    found = _NAME.search(path.name)
    if found is None:
        raise InputError(f"{path}: the file name does not say `H_heads_L_layers`; heads cannot be read from the weights.")
    heads, layers = int(found["heads"]), int(found["layers"])
    state: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    encoder = next((e for e in ("thp", "sahp", "attnhp") if any(k.startswith(f"{e}_encoder.") for k in state)), None)
    if encoder is None:
        raise InputError(f"{path}: no thp_encoder, sahp_encoder or attnhp_encoder weights; expected the release's state dict.")
    n_types = int(state["mark_linear.weight"].shape[0])
    causal = encoder == "sahp" or (encoder == "thp" and n_types == 1)
    if not causal and quirks == "none":
        raise InputError(
            f"{path}: the release's {'marked THP' if encoder == 'thp' else 'AttNHP'} networks were trained with attention that sees "
            "later events, so they define no law of the next event; load with quirks='release' to look at them."
        )
    if not causal:
        model: NeuralModel = _QuirkModel(encoder, n_types, heads, layers, state)
    else:
        args: dict[str, Any] = {"n_layers": layers, "n_heads": heads, "d": _D, "time_scale": 1.0}
        if encoder == "sahp":
            args |= {"d_inner": 0, "first_gap": False, "output_projection": False}
        model = NeuralModel({"name": f"release-{encoder}-{layers}x{heads}", "encoder": encoder, "n_types": n_types,
                             "encoder_args": args, "head_args": {"n_components": _COMPONENTS}})  # fmt: skip
        rename = _thp_weights if encoder == "thp" else _sahp_weights
        model.encoder.load_state_dict(rename(state, layers, n_types))
    _load_head(model, state, constants)
    return model.eval()


def _load_head(model: NeuralModel, state: dict[str, Tensor], constants: tuple[float, float]) -> None:
    weight, bias = state["linear.weight"], state["linear.bias"]
    if model.n_types > 1:
        weight = torch.cat([weight, state["mark_linear.weight"]])
        bias = torch.cat([bias, state["mark_linear.bias"]])
    with torch.no_grad():
        model.head.raw.weight.copy_(weight)
        model.head.raw.bias.copy_(bias)
        model.initial_context.copy_(state["context_init"])
        model.head.log_mean.fill_(constants[0])
        model.head.log_std.fill_(constants[1])


def _thp_weights(state: dict[str, Tensor], layers: int, n_types: int) -> dict[str, Tensor]:
    out: dict[str, Tensor] = {}
    for i in range(layers):
        old, new = f"thp_encoder.layer_stack.{i}.", f"layers.{i}."
        out[new + "qkv.weight"] = torch.cat([state[f"{old}slf_attn.w_{p}s.weight"] for p in "qkv"])
        names = {"out": "slf_attn.fc", "norm1": "slf_attn.layer_norm", "inner": "pos_ffn.w_1", "outer": "pos_ffn.w_2",
                 "norm2": "pos_ffn.layer_norm"}  # fmt: skip
        for ours, theirs in names.items():
            for kind in ("weight", "bias"):
                out[f"{new}{ours}.{kind}"] = state[f"{old}{theirs}.{kind}"]
    return out


def _sahp_weights(state: dict[str, Tensor], layers: int, n_types: int) -> dict[str, Tensor]:
    out = {
        "gap_rates": state["sahp_encoder.position_emb.layer_time_delta.weight"][:, 0],
        "norm.weight": state["sahp_encoder.norm.weight"],
        "norm.bias": state["sahp_encoder.norm.bias"],
    }
    if n_types > 1:
        out["type_embedding.weight"] = state["sahp_encoder.type_emb.weight"]
    for i in range(layers):
        old, new = f"sahp_encoder.stack_layers.{i}.", f"layers.{i}."
        for kind in ("weight", "bias"):
            out[f"{new}norm1.{kind}"] = state[f"{old}sublayer.0.norm.{kind}"]
            out[f"{new}qkv.{kind}"] = torch.cat([state[f"{old}self_attn.linears.{j}.{kind}"] for j in range(3)])
    return out


class _QuirkModel(NeuralModel):
    """The release's non-causal networks as they are: teacher-forced contexts only, no cache, no sampling."""

    def __init__(self, encoder: str, n_types: int, heads: int, layers: int, state: dict[str, Tensor]) -> None:
        stand_in = {"n_layers": 1, "n_heads": 1, "d": _D}
        super().__init__({"name": f"release-{encoder}-{layers}x{heads}-quirks", "encoder": "thp", "n_types": n_types,
                          "encoder_args": stand_in, "head_args": {"n_components": _COMPONENTS}})  # fmt: skip
        self._kind, self._heads, self._layers, self._state = encoder, heads, layers, state

    def _contexts(self, gaps: FloatArray, types: IntArray) -> Tensor:
        inputs = EventInputs(np.cumsum(gaps, axis=1), gaps, torch.from_numpy(types), np.broadcast_to(0, gaps.shape))
        return (self._thp if self._kind == "thp" else self._attnhp)(inputs, torch.ones(gaps.shape))

    def start(self, n: int, capacity: int) -> Any:
        raise InputError(f"{self.name}: contexts of this network depend on later events, so nothing can be sampled from it.")

    def _encoding(self, inputs: EventInputs) -> Tensor:
        return torch.from_numpy(interleaved_encoding(inputs.times, sinusoid_rates(_D))).float()

    def _thp(self, inputs: EventInputs, mask: Tensor) -> Tensor:
        """Marked THP: type 0 is taken for padding as a key; a row whose keys are all blocked averages over every column."""
        s, length = self._state, inputs.types.shape[1]
        time = self._encoding(inputs) * mask[..., None]
        blocked = torch.ones(length, length).triu(1).bool()[None] | (inputs.types == 0)[:, None, :]
        x = F.embedding(inputs.types, s["thp_encoder.event_emb.weight"])
        for i in range(self._layers):
            p = f"thp_encoder.layer_stack.{i}."
            x = x + time
            q, k, v = (F.linear(x, s[f"{p}slf_attn.w_{w}s.weight"]) for w in "qkv")
            a = F.linear(
                _blocked_attention(q, k, v, blocked, self._heads), s[p + "slf_attn.fc.weight"], s[p + "slf_attn.fc.bias"]
            )
            norm = (s[p + "slf_attn.layer_norm.weight"], s[p + "slf_attn.layer_norm.bias"])
            y = F.layer_norm(a + x, (_D,), *norm, 1e-6) * mask[..., None]
            z = F.gelu(F.linear(y, s[p + "pos_ffn.w_1.weight"], s[p + "pos_ffn.w_1.bias"]))
            z = F.linear(z, s[p + "pos_ffn.w_2.weight"], s[p + "pos_ffn.w_2.bias"])
            norm = (s[p + "pos_ffn.layer_norm.weight"], s[p + "pos_ffn.layer_norm.bias"])
            x = F.layer_norm(z + y, (_D,), *norm, 1e-6) * mask[..., None]
        return x

    def _attnhp(self, inputs: EventInputs, mask: Tensor) -> Tensor:
        """AttNHP: valid keys are the blocked ones and nothing is causal; stacks are averaged."""
        s = self._state
        x0 = self._encoding(inputs)
        if self.n_types > 1:
            x0 = x0 + F.embedding(inputs.types, s["attnhp_encoder.type_emb.weight"])
        blocked = mask.bool()[:, None, :].expand(-1, mask.shape[1], -1)
        total = torch.zeros_like(x0)
        for h in range(self._heads):
            x = x0
            for i in range(self._layers):
                p = f"attnhp_encoder.heads.{h}.{i}."
                y = F.layer_norm(x, (_D,), s[p + "sublayer.0.norm.weight"], s[p + "sublayer.0.norm.bias"], 1e-5)
                q, k, v = (
                    F.linear(y, s[f"{p}self_attn.linears.{j}.weight"], s[f"{p}self_attn.linears.{j}.bias"]) for j in range(3)
                )
                a = _blocked_attention(q, k, v, blocked, 1)
                x = x + F.linear(a, s[p + "self_attn.linears.3.weight"], s[p + "self_attn.linears.3.bias"])
            total = total + x
        return F.layer_norm(
            total / self._heads, (_D,), s["attnhp_encoder.layer_norm.weight"], s["attnhp_encoder.layer_norm.bias"], 1e-5
        )


def _blocked_attention(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor, heads: int) -> Tensor:
    """Softmax attention in which blocked scores are -1e9, not -inf: rows with nothing to see become uniform averages."""
    n, m, d = q.shape
    q, k, v = (t.view(n, m, heads, d // heads).transpose(1, 2) for t in (q, k, v))
    scores = (q @ k.transpose(2, 3) / math.sqrt(d // heads)).masked_fill(blocked[:, None], -1e9)
    return (torch.softmax(scores, dim=-1) @ v).transpose(1, 2).reshape(n, m, d)


_DATASETS = {"hawkes": "_hawkes_2", "poisson": "inhomogeneous_poisson", "multi": "multi_hawkes"}


def release_files(folder: Path | str, encoder: str, dataset: str) -> dict[int, Path]:
    """layers -> file, for one encoder and data set of the release's checkpoint folder."""
    found = {}
    for path in sorted(Path(folder).glob(f"**/{encoder}/*.pth")):
        match = _NAME.search(path.name)
        stem = path.name.replace("multi_hawkes", "MULTI") if dataset != "multi" else path.name
        if match and _DATASETS[dataset] in stem:
            found[int(match["layers"])] = path
    return found


def release_pair(name: str) -> Pair:
    """``release:ENCODER:DATASET:FOLDER``: the deepest network as target, the shallowest as draft."""
    about = card(name)
    _, encoder, dataset, folder = name.split(":", 3)
    files = release_files(folder, encoder, dataset)
    if len(files) < 2:
        raise InputError(
            f"{folder}: found {len(files)} {encoder} files for {dataset}; a pair needs a deep and a one-layer one."
        )
    target, draft = (load_release(files[n], CONSTANTS[dataset]) for n in (max(files), min(files)))
    return Pair(about["name"], about["title"], target, {"shipped": draft, "stress": StressDraft(draft)}, about)
