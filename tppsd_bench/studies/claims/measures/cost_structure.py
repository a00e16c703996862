"""What a pair of given size could gain at best: step costs c and v(K) of untrained networks, speed bounded over acceptance."""

from __future__ import annotations

import time
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from tppsd_bench.measure.throughput import StepCosts, best_k, speedup
from tppsd_bench.studies.base import StudyTable
from tppsd_bench.studies.claims.measures.base import Context, Measured, Quantity, exactly


class Settings(StudyTable):
    k: list[Annotated[int, Field(ge=1)]] = [1, 2, 4, 6, 8, 12, 16, 24]
    history: Annotated[int, Field(ge=1)] = 100
    repeats: Annotated[int, Field(ge=7)] = 25
    claimed: dict[str, float]
    """Draft -> speed that is claimed with it."""


def measure(context: Context, settings: Settings) -> Measured:
    """Steps timed on the networks themselves after ``history`` events: one event in, a law out. Weights do not matter for time.

    S(K, alpha) = E[N] / (c K + v(K)), the rest of a round taken as free: an upper bound. ``acceptance_needed``: the least alpha
    at which some K of the grid reaches the claimed speed by that bound; above 1: at no acceptance.
    """
    pair, ks = context.pair, sorted(settings.k)
    size = {name: _parameters(model) for name, model in [("target", pair.target), *pair.drafts.items()]}
    columns = [0, *ks]
    steps = np.array([_passes(pair.target, settings, k + 1, context) for k in columns])
    unit = float(np.median(steps[0]))
    verify = np.interp(np.arange(ks[-1] + 1), columns, np.median(steps, axis=1) / unit)
    found: list[Quantity] = []
    for name, claimed in settings.claimed.items():
        drafting = _passes(pair.drafts[name], settings, 1, context) / unit
        low, c, high = (float(x) for x in np.quantile(drafting, [0.25, 0.5, 0.75]))
        costs = StepCosts(c, tuple(float(v) for v in verify))
        where = f"{name} draft"
        found.append(
            Quantity("draft_step", "draft step over target step, c (quartiles)", c, low, high, where, settings.repeats)
        )
        found.append(exactly("parameter_ratio", "parameters, draft over target", size[name] / size["target"], where))
        found += [
            exactly("draft_share", "share of drafting in a round's time", costs.draft * k / costs.round(k), f"{where}, K = {k}")
            for k in ks
            if 4 <= k <= 8
        ]
        needed, ideal = acceptance_needed(claimed, costs), 1.0 - 1.0 / claimed
        found.append(
            exactly("acceptance_needed", "least acceptance for the speed claimed", needed, f"{where}, {claimed:g} times")
        )
        found.append(
            exactly(
                "acceptance_needed_free",
                "the same if drafting and verifying cost nothing more than a step",
                ideal,
                f"{where}, {claimed:g} times",
            )
        )
        found += [
            exactly("speed_bound", "most speed at this acceptance", best_k(a, costs).speedup, f"{where}, acceptance {a:g}", unit="times")
            for a in (0.6, 0.8, 0.9, 0.95)
        ]  # fmt: skip
    at = min(8, ks[-1])
    sizes = ", ".join(f"{n} {s:,}" for n, s in size.items() if n in settings.claimed or n == "target")
    step = f"a target step takes {1000 * unit:.2g} ms, {at + 1} positions {verify[at]:.2f} times that"
    return Measured(tuple(found), f"Parameters: {sizes}; {step}.")


def acceptance_needed(claimed: float, costs: StepCosts) -> float:
    """Least constant acceptance at which the best K reaches ``claimed``; 1.01 where even certainty does not."""

    def best(alpha: float) -> float:
        return max(speedup(alpha, k, costs) for k in range(1, costs.k_max + 1))

    if best(1.0) < claimed:
        return 1.01
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if best(middle) >= claimed else (middle, high)
    return high


def _parameters(model: Any) -> int:
    return int(sum(p.numel() for p in model.parameters())) if hasattr(model, "parameters") else 0


def _passes(model: Any, settings: Settings, n_new: int, context: Context) -> np.ndarray[Any, np.dtype[np.float64]]:
    """CPU seconds of passes over ``n_new`` events after the history, the law computed, the cache rolled back each time."""
    m, rng = settings.history, context.key.replace(purpose="history").generator()
    gaps, types = rng.exponential(size=(1, m + n_new)), rng.integers(model.n_types, size=(1, m + n_new))
    cache = model.start(1, m + n_new + 1)
    model.extend(cache, gaps[:, :m], types[:, :m], np.array([m]))
    seconds = []
    for _ in range(settings.repeats + 3):
        begun = time.process_time()
        law = model.extend(cache, gaps[:, m:], types[:, m:], np.array([n_new]))
        law.log_prob(np.ones(n_new))
        seconds.append(time.process_time() - begun)
        cache.rollback(np.array([m]))
    return np.array(seconds[3:])
