"""Discretised pairs by name: ``tokens:STRATEGY:N:PAIR`` or ``tokens:STRATEGY:N:WITHIN:PAIR``, e.g. ``tokens:quantile:100:thp-hawkes``.

PAIR is any continuous pair, and may itself be a scheme's name or a folder. The buckets are fitted to sequences that the target draws on
a stream of its own, so that a name always means the same tokens. The card needs no torch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args

from reference_impls.tokens.buckets import Strategy, Within
from tppsd_bench.errors import InputError

if TYPE_CHECKING:
    from reference_impls.pairs import Pair

_FORM = "tokens:STRATEGY:N:PAIR, or tokens:STRATEGY:N:WITHIN:PAIR"


class Named(NamedTuple):
    """The parts of a name."""

    strategy: Strategy
    n_buckets: int
    within: Within
    pair: str


def parse(name: str) -> Named:
    """The parts of ``name``; InputError where it has another form."""
    parts = name.split(":", 3)
    if len(parts) != 4 or not parts[3]:
        raise InputError(
            f"{name!r} is no name of a discretised pair; expected {_FORM}, such as tokens:quantile:100:thp-hawkes."
        )
    _, strategy, number, pair = parts
    if strategy not in get_args(Strategy):
        raise InputError(f"{name!r}: there is no strategy {strategy!r}; expected one of {', '.join(get_args(Strategy))}.")
    if not number.isdecimal() or int(number) < 2:
        raise InputError(f"{name!r}: {number!r} is no number of buckets; expected 2 or more (10 to 500 are usual).")
    head, _, rest = pair.partition(":")
    within = head if head in get_args(Within) and rest else "uniform"
    return Named(cast(Strategy, strategy), int(number), cast(Within, within), rest if within == head else pair)


def card_of_tokens(name: str) -> dict[str, Any]:
    """The card of the continuous pair, under the name of its tokens."""
    from reference_impls.pairs import card

    parts = parse(name)
    about = card(parts.pair)
    title = f"{about['title']}; {parts.n_buckets} {parts.strategy} buckets, {parts.within}"
    return {**about, "name": _label(parts, about["name"]), "title": title}


def pair_of_tokens(name: str, device: str = "cpu") -> Pair:
    """The pair, ready to sample. InputError where its target speaks tokens already."""
    from reference_impls.pairs import load_pair
    from reference_impls.tokens.discretise import discretised_pair
    from reference_impls.tokens.fitting import buckets_of_model

    parts = parse(name)
    pair = load_pair(parts.pair, device)
    if getattr(pair.target, "buckets", None) is not None:
        raise InputError(f"{name!r}: {parts.pair!r} is a pair over tokens already; name a continuous one.")
    tokens = discretised_pair(pair, buckets_of_model(pair.target, parts.n_buckets, parts.strategy, parts.within))
    return replace(tokens, name=_label(parts, pair.name))


def _label(parts: Named, pair: str) -> str:
    within = () if parts.within == "uniform" else (parts.within,)
    return "-".join(("tokens", parts.strategy, str(parts.n_buckets), *within, pair))
