"""How far an exact sampler lies from its target at fixed seeds, and what it costs to look."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from .sampling import PAIRS, draw, key

if TYPE_CHECKING:
    from tppsd_bench.protocols import SampleRun, Scores
    from tppsd_bench.results import Evidence

N_SEQUENCES = {"toy-marked": 200, "thp-hawkes": 24}
N_EVENTS = 100


def stress_run(name: str) -> tuple[Any, SampleRun, Scores]:
    """(pair, run, the target's scores) with the stress draft at K = 5, whose residuals have the most to do."""
    from reference_impls.pairs import load_pair

    pair = load_pair(name)
    run = draw(pair.sampler("speculative", draft="stress", k=5), N_SEQUENCES[name], N_EVENTS, trace=True)
    return pair, run, pair.target.score(run.events)


def grey_box(run: SampleRun, scores: Scores) -> list[Evidence]:
    from tppsd_bench.stats.grey import grey_battery

    assert run.trace is not None
    position, k_round = run.trace.event_position, run.trace.event_k
    return grey_battery(run.events, scores, key("pit").generator(), position=position, k_round=k_round)


class MaxTheta:
    """max |theta_k| over the pooled smooth tests of gaps and types: 0 + chance of size 1/sqrt(events) for an exact sampler.

    Redrawn by any change in how random numbers are used, so it may double without a fault; it is the gate's and the law
    cells' business to judge.
    """

    version = "1"
    unit = "theta"
    timeout = 60
    params = (PAIRS,)
    param_names = ("pair",)

    def track_max_theta(self, name: str) -> float:
        _, run, scores = stress_run(name)
        effects = {e.name: e.effect for e in grey_box(run, scores) if e.name.startswith(("pit_time.theta_", "pit_type.theta_"))}
        found = [abs(effect) for effect in effects.values() if effect is not None]
        if len(found) < 4:
            raise RuntimeError(f"The grey box gave {len(found)} thetas; expected four for the gaps and four for several types.")
        return max(found)


class Battery:
    """CPU seconds of the law battery on 200 x 100 events of three types, scores at hand."""

    version = "1"
    unit = "seconds"
    timeout = 60
    timer = time.process_time
    repeat = (3, 8, 6.0)

    def setup(self) -> None:
        self.pair, self.drawn, self.scores = stress_run("toy-marked")

    def time_grey_box(self) -> None:
        grey_box(self.drawn, self.scores)

    def time_white_box(self) -> None:
        from tppsd_bench.stats.whitebox import inspect_run

        draft = self.pair.drafts["stress"]
        inspect_run(self.drawn, self.pair.target, draft, "leviathan_two_step", key("white box").generator(), tol=1e-6)
