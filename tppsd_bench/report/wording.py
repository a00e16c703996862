"""Numbers and outcomes as words: the one place that decides how a p-value, an interval or a verdict reads."""

from __future__ import annotations

import math
from typing import Any

from tppsd_bench.results import Axis, Evidence, Outcome

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_SUBSCRIPT = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
NONE = "–"

ICONS = {
    Outcome.PASS.value: "pass",
    Outcome.FAIL.value: "fail",
    Outcome.INCONCLUSIVE.value: "inconclusive",
    Outcome.INVALID.value: "invalid",
    Outcome.NOT_APPLICABLE.value: "none",
}
"""Outcome → icon of the template's sprite; every other word (``broken``, ``incomplete``, ``not run``) has its own below."""

QUESTIONS = {
    Axis.VALIDITY: "Can this evidence be trusted?",
    Axis.LAW: "Are the sequences drawn from the target's law?",
    Axis.MECHANISM: "Does it do what its declared rule says?",
    Axis.EFFICIENCY: "How many target forwards does an event cost?",
    Axis.SPEED: "Is it faster in time?",
}
KINDS = {
    "law": "law, stopped by event count",
    "horizon": "law, stopped at a time horizon",
    "screen": "range screen on fixed seeds",
    "speed": "time",
    "fit": "the model's fit to its data, apart from the sampler",
}
_FAMILIES = {
    "pit_time": "gap PIT",
    "pit_type": "type PIT",
    "completed_pit": "gap PIT, completed at the horizon",
    "draft_direction": "leak of the draft",
    "blackbox": "against target-only",
    "acceptance_identity": "acceptance identity",
    "density_agreement": "density agreement",
    "draft_law": "draft law",
    "role_law": "role law",
    "cross_sequence": "between sequences",
    "first_events": "first events",
    "e_process": "e-process",
    "count": "count at the horizon",
}
_LEGENDRE = {"1": "location", "2": "scale", "3": "skew", "4": "kurtosis"}


def finite(value: Any) -> float | None:
    """``value`` as a float, or None where it is missing, not a number or not finite."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) else None


def number(value: Any, digits: int = 3) -> str:
    """Three significant digits; thousands set apart; powers of ten below 0.001 and from ten million."""
    x = finite(value)
    if x is None:
        return NONE
    if x == 0:
        return "0"
    size = math.floor(math.log10(abs(x)))
    if size < -3 or size >= 7:
        return power_of_ten(x)
    if isinstance(value, int) or size >= digits:
        return f"{x:,.0f}".replace("-", "−")
    return f"{x:.{max(digits - 1 - size, 0)}f}".replace("-", "−")


def power_of_ten(x: float) -> str:
    """``3 × 10⁻⁷``."""
    exponent = math.floor(math.log10(abs(x)))
    mantissa = f"{x / 10.0**exponent:.1f}".removesuffix(".0")
    return f"{mantissa} × 10{str(exponent).translate(_SUPERSCRIPT)}".replace("-", "−")


def p_value(p: Any) -> str:
    x = finite(p)
    if x is None:
        return NONE
    return f"{x:.2f}" if x >= 0.1 else f"{x:.3f}" if x >= 1e-3 else "< 10⁻³⁰⁰" if x < 1e-300 else power_of_ten(x)


def span(interval: Any, digits: int = 3) -> tuple[float, float] | None:
    """The two finite ends of an interval, or None."""
    if not isinstance(interval, (tuple, list)) or len(interval) != 2:
        return None
    low, high = finite(interval[0]), finite(interval[1])
    return None if low is None or high is None else (low, high)


def interval(ends: Any, digits: int = 3) -> str:
    pair = span(ends)
    return NONE if pair is None else f"{number(pair[0], digits)} to {number(pair[1], digits)}"


def effect(value: Any, ends: Any = None) -> tuple[str, str]:
    """An effect and its interval with as many decimals as the interval's width supports: ``("0.022", "0.000 to 0.044")``."""
    x, pair = finite(value), span(ends)
    if x is None or pair is None or not pair[1] > pair[0]:
        return number(value, 2), interval(ends, 2) if pair else ""
    decimals = max(0, 1 - math.floor(math.log10(pair[1] - pair[0])))
    if decimals > 6:
        return number(value), interval(ends)
    shown = [f"{v:,.{decimals}f}".replace("-", "−") for v in (x, *pair)]
    return shown[0], f"{shown[1]} to {shown[2]}"


def times(value: Any) -> str:
    """A speedup: ``4.31×``; three digits above 10 need no decimals for a reader."""
    x = finite(value)
    return NONE if x is None else f"{x:.2f}×" if x < 10 else f"{x:.1f}×" if x < 100 else f"{x:,.0f}×"


def percent(value: Any) -> str:
    x = finite(value)
    return NONE if x is None else f"{100 * x:.1f} %".replace("-", "−")


def estimate(figure: Any) -> tuple[float, tuple[float, float] | None] | None:
    """``{value, low, high}`` of a run's figures as (value, interval)."""
    value = finite(figure.get("value")) if isinstance(figure, dict) else finite(figure)
    if value is None:
        return None
    return value, span((figure.get("low"), figure.get("high"))) if isinstance(figure, dict) else None


def unit(evidence: Evidence) -> str:
    """The scale an effect is measured on: ``theta``, ``length`` (of the four θ), ``KS``, ``lambda`` or "" (its own)."""
    name = evidence.effect_name.lower()
    starts = {"theta": ("theta", "θ"), "length": ("length of (theta",), "KS": ("ks", "kolmogorov"), "lambda": ("lambda", "λ")}
    return next((key for key, words in starts.items() if name.startswith(words)), "")


def effect_label(evidence: Evidence) -> str:
    """``gap PIT θ₁ location``, ``λ of the types``, ``acceptance identity, gap``."""
    family, *rest = evidence.name.split(".")
    if family == "strata" and rest:
        family, *rest = rest
    scale = unit(evidence)
    if scale == "lambda":
        component = next((c for c in ("gap", "type", "event") if c in rest), "")
        return f"λ of the {component}s" if component else "λ"
    of_scale = {"theta": "theta", "length": "neyman", "KS": "ks"}.get(scale, "\0")
    parts = " ".join(r for r in rest if not r.startswith(of_scale)).replace("_", " ")
    words = ", ".join(w for w in (_FAMILIES.get(family, family.replace("_", " ")), parts) if w)
    match scale:
        case "theta":
            order = "".join(c for c in evidence.effect_name[:9] if c.isdigit())[:1]
            return f"{words} θ{order.translate(_SUBSCRIPT)} {_LEGENDRE.get(order, '')}".rstrip()
        case "length":
            return f"{words} |θ|"
        case "KS" if not parts:
            return f"{words} KS distance"
    return words


def stratum(evidence: Evidence) -> dict[str, str]:
    """The predictable stratum the evidence belongs to; empty for pooled evidence and for what only says where it peaks."""
    peaks = evidence.name.startswith(("blackbox.", "screen."))
    return {} if peaks else {k: v for k, v in evidence.where.items() if k != "cell"}


def where(evidence: Evidence) -> str:
    """Stratum or peak in words; every cell knows its own name."""
    return ", ".join(f"{k.replace('_', ' ')} {v.replace('_', ' ')}" for k, v in evidence.where.items() if k != "cell")


def clause(sentence: str) -> str:
    """A sentence with its final stop, ready to stand among others."""
    text = sentence.strip()
    return text if not text or text[-1] in ".!?" else text + "."
