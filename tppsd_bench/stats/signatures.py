"""Which known fault looks like this? Evidence against the signatures of the mutant zoo, ranked.

A signature says, for every statistic and place, how strongly and in which direction it speaks: 0 nothing (p > 1e-4), 1 clearly, 2
beyond doubt (p <= 1e-20, or a proof), with the sign of the effect where the sign means something. A fault's signature is the mean over
runs of its mutant on several witnesses (``reference_impls.signatures`` makes the file). The score of a fault is a weighted Jaccard
similarity over the features f that the evidence could measure, sum_f w_f min(|x_f|, |m_f|) where signs agree over
sum_f w_f max(|x_f|, |m_f|); w_f grows with the rarity of f among the faults (inverse document frequency), for what every fault shows
tells none from another.

The ranking is a help for people, no test: it never enters a verdict.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from tppsd_bench.results import Evidence

Signature = Mapping[str, float]
CLEAR, CERTAIN = 1e-4, 1e-20
SILENT = 0.05
"""Mean strength below which a feature is left out of a signature."""
SHOWN, SIMILAR = 3, 0.15
"""How many suspects people are shown, and how similar they must be at least."""
_SIGNED = (
    "draft_direction",
    "acceptance_identity",
    "counts",
    "score.",
    "serial.",
    "tail.",
    "cross_sequence",
    "role_law",
    "draft_law",
)
"""Statistics whose effect has a direction; the sign of a tail's effect is taken against its neutral value 1."""
_APART = ("screen.", "reference.", "blackbox.", "e_process")
_SHOWN_ONLY = ("theta_", "ks", "anderson_darling", "ljung_box")
_PLACES = {"position", "batch_row"}
"""Strata that say something about the sampler; those by history say it about the model."""


@dataclass(frozen=True)
class Suspect:
    """A known fault and how much of its signature this evidence shows."""

    name: str
    what: str
    """The fault in one sentence."""
    score: float
    """1: the same signature; 0: nothing in common."""


@dataclass(frozen=True)
class Known:
    """A fault's place in the table."""

    what: str
    signature: Signature


def features(evidence: Iterable[Evidence]) -> dict[str, float]:
    """The signature of one run: feature -> strength in [-2, 2]. What was not measured has no entry."""
    out: dict[str, float] = {}
    for e in evidence:
        key = _key(e)
        value = _strength(e) if key else None
        if key and value is not None and abs(value) >= abs(out.get(key, 0.0)):
            out[key] = value
    return out


def _key(e: Evidence) -> str:
    """Name of the feature; empty for what is for display or says where in the history, not where in the sampler.

    By name, not by ``display``: in a run that stopped early nothing decides, and everything still tells.
    """
    if e.name.startswith(_APART) or e.name.rpartition(".")[2].startswith(_SHOWN_ONLY):
        return ""
    if not e.where:
        return e.name
    if len(e.where) > 1:
        return ""
    cut, value = next(iter(e.where.items()))
    if cut == "event" and value == "1":
        return f"{e.name}@event=1"
    if cut not in _PLACES:
        return ""
    if cut == "position" and value.isdigit():
        value = "first" if value == "0" else "inner"
    return f"{e.name}@{cut}={value}"


def _strength(e: Evidence) -> float | None:
    if e.passed is not None:
        return 0.0 if e.passed else 2.0
    if e.p_value is None:
        return None
    size = 0.0 if e.p_value > CLEAR else 1.0 if e.p_value > CERTAIN else 2.0
    neutral = 1.0 if "tail" in e.name else 0.0
    signed = e.name.startswith(_SIGNED) or "tail" in e.name
    return -size if signed and e.effect is not None and e.effect < neutral else size


def learn(runs: Mapping[str, tuple[str, Sequence[Sequence[Evidence]]]]) -> dict[str, Known]:
    """Signatures from runs: name -> (the fault in one sentence, evidence of each run)."""
    table: dict[str, Known] = {}
    for name, (what, found) in runs.items():
        seen = [features(evidence) for evidence in found]
        keys = sorted({key for one in seen for key in one})
        mean = {key: math.fsum(one.get(key, 0.0) for one in seen) / sum(key in one for one in seen) for key in keys}
        table[name] = Known(what, {key: round(value, 3) for key, value in mean.items() if abs(value) >= SILENT})
    return table


def rank(evidence: Iterable[Evidence], table: Mapping[str, Known] | None = None) -> list[Suspect]:
    """All known faults, most similar first; empty where the evidence shows nothing at all."""
    table = known() if table is None else table
    seen = features(evidence)
    if not any(seen.values()):
        return []
    weights = _weights(table)
    suspects = [Suspect(name, entry.what, _similarity(seen, entry.signature, weights)) for name, entry in table.items()]
    return sorted(suspects, key=lambda s: (-s.score, s.name))


def looks_like(evidence: Iterable[Evidence]) -> str:
    """One sentence for people: the most similar known faults, at most three; empty where none is similar."""
    close = [s for s in rank(evidence)[:SHOWN] if s.score >= SIMILAR]
    if not close:
        return ""
    named = "; ".join(f"{s.name} ({s.what.rstrip('.')}; similarity {s.score:.2f})" for s in close)
    return f"Of the known faults this looks most like {named}."


def _weights(table: Mapping[str, Known]) -> dict[str, float]:
    """log(1 + faults / faults that show the feature)."""
    shown: dict[str, float] = {}
    for entry in table.values():
        for key, value in entry.signature.items():
            shown[key] = shown.get(key, 0.0) + min(abs(value), 1.0)
    return {key: math.log1p(len(table) / max(total, 1.0)) for key, total in shown.items()}


def _similarity(seen: Signature, mine: Signature, weights: Mapping[str, float]) -> float:
    common, either = 0.0, 0.0
    for key, a in sorted(seen.items()):
        b, w = mine.get(key, 0.0), weights.get(key, 1.0)
        if a * b > 0:
            common += w * min(abs(a), abs(b))
            either += w * max(abs(a), abs(b))
        else:
            either += w * (abs(a) + abs(b))
    return common / either if either else 0.0


def to_json(table: Mapping[str, Known]) -> str:
    """The file's text: names and keys sorted."""
    plain = {
        name: {"what": entry.what, "signature": dict(sorted(entry.signature.items()))} for name, entry in sorted(table.items())
    }
    return json.dumps(plain, indent=1) + "\n"


@cache
def known() -> dict[str, Known]:
    """The table that ships."""
    text = resources.files("tppsd_bench.stats").joinpath("signatures.json").read_text(encoding="utf-8")
    return {name: Known(entry["what"], entry["signature"]) for name, entry in json.loads(text).items()}
