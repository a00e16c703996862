"""Published advice about buckets, held to the hypotheses of the suite file: what became of each, and the numbers that say so. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tppsd_bench.report.wording import number
from tppsd_bench.studies.buckets.reading import Results, about, at_start, points
from tppsd_bench.studies.outcomes import Found, agreed


@dataclass(frozen=True)
class Judged:
    """One piece of advice."""

    claim: str
    """Number of the claim it is part of."""
    said: str
    found: Found
    measured: str


def beyond(estimate: Mapping[str, float], limit: float) -> bool | None:
    """Whether an interval lies wholly above (True) or not above (False) a limit."""
    return True if estimate["low"] > limit else False if estimate["high"] <= limit else None


def judged(results: Results) -> list[Judged]:
    """Everything the run has measured, in the order of the claims."""
    parts = (_unstable, _quantile, _start, _crowded, _lowered, _apart, _redrawn, _joint_rule, _factorised)
    return [found for part in parts if (found := part(results)) is not None]


def _range(of: Sequence[Mapping[str, Any]], path: str, scale: float = 1.0, say: Callable[[float], str] = number) -> str:
    """``least to largest`` of a number that lies at ``path`` in each figure, estimates by their value."""
    values = []
    for found in of:
        for key in path.split("."):
            found = found[key]
        values.append(scale * (found["value"] if isinstance(found, Mapping) else found))
    return " to ".join(dict.fromkeys(say(v) for v in (min(values), max(values))))


def _share(x: float) -> str:
    """A small share, in per cent with two digits."""
    return f"{number(100 * x, 2)} %"


def _unstable(results: Results) -> Judged | None:
    if not results.ratios:
        return None
    h = results.hypotheses
    mine = [c.figures["drafts"][c.draft] for c in results.ratios.values()]
    poor = [d for c in results.ratios.values() for name, d in c.figures["drafts"].items() if name != c.draft]
    found = agreed([beyond(d["continuous"]["beyond"], h.unstable_share) for d in mine])
    most = max(d["continuous"]["beyond"]["high"] for d in mine)
    said = (
        f"Share of proposals with a ratio beyond {number(h.extreme_ratio)} or its inverse: "
        f"{_range(mine, 'continuous.beyond', say=_share)} on {len(mine)} pairs (95 % up to {_share(most)}). Standard deviation of the log "
        f"ratio after one history: {_range(mine, 'continuous.sd')} in continuous time, {_range(mine, 'tokens.sd')} over {h.start} quantile "
        f"buckets. float32 turns {_range(mine, 'float32.turned', say=_share)} of the decisions in log space; outside it "
        f"{_range(mine, 'float32.not_finite', say=_share)} of the ratios are not finite."
    )
    if poor:
        said += (
            f" With the poor draft {_range(poor, 'continuous.beyond', say=_share)} are extreme, but "
            f"{_range(poor, 'continuous.above', say=_share)} above {number(h.extreme_ratio)}: the others are proposals that the "
            "target hardly ever makes, and their refusal is what verification is for."
        )
    return Judged("6", "In continuous time density ratios are unstable, so that time must be bucketed.", found, said)


def _quantile(results: Results) -> Judged | None:
    compared, logs = (_less_quantile(results, strategy) for strategy in ("equal_width", "log_width"))
    if not compared:
        return None
    better = [b for *_, b in compared]
    exceptions: dict[str, list[str]] = {}
    for pair, n, b in compared:
        if b is not True:
            exceptions.setdefault(pair, []).append(str(n))
    otherwise = "; ".join(f"{pair} with {', '.join(numbers)} buckets" for pair, numbers in exceptions.items())
    said = (
        f"Nats an event lost at equal numbers, paired by context: quantile buckets lose less in {better.count(True)} of {len(better)} "
        f"comparisons, equal width in {better.count(False)}."
    )
    said += f" Not so on {otherwise}." if otherwise else ""
    if logs:
        less = sum(b is False for *_, b in logs)
        said += f" Equal width in log gap loses less than quantile buckets in {less} of {len(logs)}."
    return Judged("6", "Quantile buckets are better than equal width.", agreed(better), said)


def _less_quantile(results: Results, strategy: str) -> list[tuple[str, int, bool | None]]:
    """(pair, buckets, whether the strategy loses more nats than quantile buckets) of every comparison."""
    return [
        (pair, int(p["buckets"]), beyond(p["less_quantile"]["information"], 0.0))
        for pair, cell in results.maps.items()
        for p in points(cell, strategy)
        if "less_quantile" in p
    ]


def _start(results: Results) -> Judged | None:
    h = results.hypotheses
    there = {pair: p for pair, cell in results.maps.items() if (p := at_start(cell, h.start)) is not None}
    if not there:
        return None
    every = list(there.values())
    coarse = [[beyond(p[name], h.small_error) for name in ("information", "ks")] for p in every]
    fine = [False if True in c else None if None in c else True for c in coarse]
    fewest = [f"{_fewest(points(results.maps[pair], 'quantile'), h.small_error)} on {pair}" for pair in there]
    said = (
        f"{h.start} quantile buckets lose {_range(every, 'information')} nats an event, with a Kolmogorov distance of "
        f"{_range(every, 'ks')} (fine enough: {number(h.small_error)} of either). The fewest that are fine enough: {', '.join(fewest)}."
    )
    return Judged("6", f"50 to 200 buckets, {h.start} to start with.", agreed(fine), said)


def _fewest(of: Sequence[Mapping[str, Any]], limit: float) -> str:
    """The smallest number whose errors lie below the limit with all their intervals."""
    fine = (p["buckets"] for p in of if max(p[name]["high"] for name in ("information", "ks")) <= limit)
    return str(next(fine, "none tried"))


def _crowded(results: Results) -> Judged | None:
    quantile = [of for cell in results.maps.values() if (of := points(cell, "quantile"))]
    if not quantile:
        return None
    few, many = [of[0] for of in quantile], [of[-1] for of in quantile]
    crowded, still = ([p["middles"]["tie"] <= results.hypotheses.tied_within for p in of] for of in (few, many))
    found = Found.REFUTED if not any(crowded) else Found.BOUNDED if any(still) or not all(crowded) else Found.REPRODUCED
    least, most = (f"at {of[0]['buckets']} buckets" for of in (few, many))
    tied, seen = ([_range(of, f"middles.{what}", say=about) for of in (few, many)] for what in ("tie", "notice"))
    said = (
        f"A decoder that emits one gap a bucket ties two of {tied[0]} events with probability .95 {least}, two of {tied[1]} {most}: more "
        f"buckets do not cure it. A Kolmogorov test of level .001 needs {seen[0]} events {least}, {seen[1]} {most}. With a law inside the "
        "buckets there are no ties at any number."
    )
    return Judged("6", "Too few buckets crowd events on edges.", found, said)


def _lowered(results: Results) -> Judged | None:
    h = results.hypotheses
    pairs = {pair: of for pair, cell in results.maps.items() if len(of := points(cell, "quantile")) > 1}
    found = []
    for pair, of in pairs.items():
        against = [s for s in results.maps[pair].figures.get("start", ()) if s["buckets"] == of[-1]["buckets"]]
        found += [(of[0], of[-1], s["joint"]) for s in against]
    if not found:
        return None
    falls = [{"value": -d["value"], "low": -d["high"], "high": -d["low"]} for *_, d in found]
    whole = [{"fall": few["joint"]["value"] - many["joint"]["value"]} for few, many, _ in found]
    few, many, _ = found[0]
    said = (
        f"From {h.start} to {many['buckets']} quantile buckets joint acceptance falls by {_range([{'x': f} for f in falls], 'x', 100)} "
        f"points (95 % up to {number(100 * max(f['high'] for f in falls))}), from {few['buckets']} to {many['buckets']} by "
        f"{_range(whole, 'fall', 100)}. At {many['buckets']} it stands {_range([m for _, m, _ in found], 'gain_joint', 100)} points above "
        "that of continuous time, below which no buckets can bring it."
    )
    return Judged("6", "Too many buckets lower acceptance.", agreed([beyond(f, h.lower_acceptance) for f in falls]), said)


def _drafts(results: Results) -> list[tuple[str, Mapping[str, Any]]]:
    """(pair, figures) of every draft that was asked about verification apart."""
    return [(pair, found) for pair, cell in results.apart.items() for found in cell.figures["drafts"].values()]


def _apart(results: Results) -> Judged | None:
    every = _drafts(results)
    if not every:
        return None
    broken = [beyond(f["apart"], results.hypotheses.broken) for _, f in every]
    exact = list(dict.fromkeys(pair for (pair, _), b in zip(every, broken, strict=True) if b is False))
    wrong = [
        {**f, "left": f["coupling_apart"]["value"] / f["coupling_target"]["value"]}
        for (_, f), b in zip(every, broken, strict=True)
        if b is True
    ]
    said = f"The law that comes out, by exact sums over tokens: broken in {len(wrong)} of {len(every)} cases"
    if wrong:
        said += f", by TV {_range(wrong, 'apart')}; of what bucket and type say about each other {_range(wrong, 'left', 100)} % are left"
    said += f". It is exact on {', '.join(exact)}, where neither law couples type and gap after a history." if exact else "."
    return Judged("7", "Verifying bucket and type apart, each redrawn on its own, breaks the joint law.", agreed(broken), said)


def _redrawn(results: Results) -> Judged | None:
    every = [{**f, "share": f["redrawn"]["value"] / max(1 - f["joint"]["value"], 1e-12)} for _, f in _drafts(results)]
    if not every:
        return None
    said = (
        f"Verified jointly, but redrawn from the two marginal residuals: TV {_range(every, 'redrawn')} from the target's law with "
        f"{len(every)} drafts of {len(results.apart)} pairs, {_range(every, 'share', 100)} % of the rejected mass; of buckets alone "
        f"{_range(every, 'redrawn_buckets')}, of types alone {_range(every, 'redrawn_types')}."
    )
    broken = [beyond(f["redrawn"], results.hypotheses.broken) for f in every]
    return Judged("7", "So does redrawing them apart after joint verification.", agreed(broken), said)


def _joint_rule(results: Results) -> Judged | None:
    several = [f for pair, f in _drafts(results) if results.apart[pair].figures["n_types"] > 1]
    if not several:
        return None
    said = (
        f"Joint verification accepts {_range(several, 'lost_two_step', 100)} points more than bucket, then type given the bucket, which is "
        "exact as well."
    )
    return Judged("7", "The token is to be verified jointly.", agreed([beyond(f["lost_two_step"], 0.0) for f in several]), said)


def _factorised(results: Results) -> Judged | None:
    found = [
        (pair, d["like"], cell.figures["drafts"][d["like"]], d)
        for pair, cell in results.drafts.items()
        for d in cell.figures["drafts"].values()
        if "like" in d and (d["head"], cell.figures["drafts"][d["like"]]["head"]) == ("joint", "factorised")
    ]
    if not found:
        return None
    parts = []
    for pair, like, mine, d in found:
        joint, two_step = d["less"]["joint"], d["less"]["two_step"]
        parts.append(
            f"{like} on {pair}: factorised less joint {number(-100 * joint['value'], 2)} points under joint verification "
            f"({number(-100 * joint['high'], 2)} to {number(-100 * joint['low'], 2)}), {number(-100 * two_step['value'], 2)} under two "
            f"steps; roughness {number(mine['roughness']['value'], 2)} against {number(d['roughness']['value'], 2)}"
        )
    lower = [beyond(d["less"]["joint"], 0.0) for *_, d in found]
    inside = [None if worse is None else not worse for worse in lower]
    return Judged(
        "7", "A draft that factorises bucket and type is smoother and accepted more.", agreed(inside), "; ".join(parts) + "."
    )
