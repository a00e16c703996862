"""Measures everything the diagnosis reads on one pair and draft, in about the seconds it is given. Nothing is judged here.

Order: laws (untimed), calibrations on seeds of their own, then paired times on fresh ones, then histories, cache and batches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tppsd_bench.doctor import laws, passes
from tppsd_bench.doctor.base import Estimate
from tppsd_bench.doctor.measurements import Acceptance, Cache, Costs, Measurements, Speed
from tppsd_bench.errors import InputError
from tppsd_bench.measure.throughput import best_k
from tppsd_bench.protocols import ConditionalTarget, Rule, SampleRequest, SampleRun, Stop
from tppsd_bench.runner.calibration import Clock, calibrate, clock_of
from tppsd_bench.streams import StreamKey
from tppsd_bench.suite import nearest

Say = Callable[[str, float], None]
"""(what is being done, share done)."""
SEQUENCES = 64
KS = (1, 2, 4, 8, 16, 24)
"""K's at which verification is timed; between them v(K) is interpolated."""
CALIBRATIONS = 3
LONGEST_DEFAULT = 100
HISTORIES = (64, 256, 1024)
BATCHES = (4, 8, 32)
SHORT_RUN = 32
"""Events of runs against the recomputing baseline and of batches."""
TARGET = "target"
"""``--draft target``: the target drafts for itself."""
SHARES = {"calibrations": 0.33, "speed": 0.28, "cache": 0.08, "batch": 0.1}
"""Of the time budget; laws and histories take what they take."""


@dataclass(frozen=True)
class Request:
    """What is to be diagnosed, and how."""

    name: str
    """Of the pair, as its loader knows it."""
    draft: str = "shipped"
    k: int = 5
    n_events: int = LONGEST_DEFAULT
    rule: Rule = "leviathan_two_step"
    seed: int = 0
    seconds: float = 30.0
    device: str = "cpu"

    @property
    def ks(self) -> list[int]:
        """K's to calibrate: a run must be longer than its drafts."""
        return sorted({k for k in (*KS, self.k) if k < self.n_events})


def draft_of(pair: Any, name: str) -> Any:
    """The draft of that name, ``target`` among them from then on; InputError where there is none."""
    if name == TARGET and TARGET not in pair.drafts:
        pair.drafts[TARGET] = pair.target
    if name not in pair.drafts:
        raise InputError(f"Pair {pair.name!r} has no draft {name!r};{nearest(name, [*pair.drafts, TARGET])}")
    return pair.drafts[name]


def examine(pair: Any, request: Request, clock: Clock | None = None, say: Say = lambda _text, _done: None) -> Measurements:
    """Everything about one pair and draft. ``clock`` reads seconds (the process's CPU time unless given)."""
    if not 1 <= request.k < request.n_events:
        raise InputError(
            f"K = {request.k} drafts do not fit in sequences of {request.n_events} events; give --k below --length."
        )
    return _Examination(pair, request, clock).run(say)


class _Examination:
    """One examination: the pair, the request, keys and clocks that its parts share."""

    def __init__(self, pair: Any, request: Request, clock: Clock | None) -> None:
        from tppsd_bench.runner.speed_cell import synchroniser

        self.pair, self.request = pair, request
        self.draft = draft_of(pair, request.draft)
        self.synchronise = synchroniser(request.device)
        self.clock = clock or clock_of(request.device, self.synchronise)
        self.key = StreamKey(seed=request.seed, suite="doctor", cell=f"{request.name}.{request.draft}")

    def run(self, say: Say) -> Measurements:
        pair, r = self.pair, self.request
        if not all(isinstance(model, ConditionalTarget) for model in (pair.target, self.draft)):
            raise InputError(
                f"Pair {r.name!r}: target and draft need conditionals(batch), the law of every event given its history."
            )
        say("laws: acceptance by quadrature, predictions", 0.0)
        events = self._draw("target_only", SEQUENCES, "laws").events
        histories = laws.Histories.of(events)
        joint = r.rule == "leviathan_joint"
        accepted = laws.acceptance(histories, pair.target, self.draft, joint=joint)
        accepted, used = self._traced(accepted)
        say("calibrations: step costs", 0.15)
        costs = self._costs(accepted)
        say("paired times", 0.5)
        speed = self._speed(accepted, costs)
        say("histories, cache, batches", 0.8)
        steppable = all(hasattr(m, name) for m in (pair.target, self.draft) for name in ("start", "extend"))
        half = max(1, r.n_events // 2)
        points = passes.by_history(pair.target, self.draft, events, HISTORIES, costs, half, self.clock) if steppable else ()
        tokens = laws.buckets(histories, pair.target, self.draft)
        card = getattr(pair, "card", {}) or {}
        return Measurements(
            r.name, r.draft, r.k, r.n_events, pair.target.n_types, f"measured here, seed {r.seed}", joint,
            laws.accuracy(events, pair.target, self.draft), accepted, tokens, tokens is None, costs, speed, points,
            self._cache(used), self._batch(), held_out(card, r.draft),
            others=tuple(name for name in pair.drafts if name not in (r.draft, TARGET, "stress")), notes=(speed.note,),
        )  # fmt: skip

    def _draw(self, kind: str, n: int, arm: str, *, trace: bool = False, **options: Any) -> SampleRun:
        sampler = self.pair.sampler(kind, batch_size=n, **options)
        key = self.key.replace(stage="laws", arm=arm)
        run: SampleRun = sampler.sample(
            SampleRequest(n, Stop(n_events=self.request.n_events), key, device=self.request.device, want_trace=trace)
        )
        return run

    def _traced(self, accepted: Acceptance) -> tuple[Acceptance, SampleRun]:
        """Acceptance by position from the largest K, and a run of the K in use."""
        r = self.request
        deep = self._draw("speculative", SEQUENCES, "deep", trace=True, draft=r.draft, k=max(r.ks), rule=r.rule)
        used = self._draw("speculative", SEQUENCES, "used", trace=True, draft=r.draft, k=r.k, rule=r.rule)
        alpha, verified, largest = laws.positions(deep)
        return replace(
            accepted, by_position=alpha, verified=verified, largest_log_ratio=largest,
            accepted_per_round=laws.accepted_per_round(used, r.k),
        ), used  # fmt: skip

    def _costs(self, accepted: Acceptance) -> Costs:
        r, found, begun = self.request, [], self.clock()
        for i in range(CALIBRATIONS):
            key = self.key.replace(cell=f"{self.key.cell}.{i}")
            found.append(calibrate(self.pair, r.ks, r.rule, r.n_events, key, r.device, self.clock, draft=r.draft))
            spent = self.clock() - begun
            if spent * (i + 2) / (i + 1) > SHARES["calibrations"] * r.seconds:
                break
        parameters = parameters_of(self.pair.target), parameters_of(self.draft)
        return passes.step_costs(found, accepted.alpha, r.k, parameters, max(1, r.n_events // 2))

    def _speed(self, accepted: Acceptance, costs: Costs) -> Speed:
        """The K in use, the law's best, and K = 1 (claim 4)."""
        r = self.request
        best = best_k(accepted.alpha, costs.law, n_events=r.n_events).k
        rng = self.key.replace(purpose="timing").generator()
        ks = sorted({1, best, r.k})
        seconds = SHARES["speed"] * r.seconds
        return passes.paired_speed(self.pair, r.draft, ks, r.k, r.rule, r.n_events, r.device, rng, seconds, self.synchronise)

    def _cache(self, used: SampleRun) -> Cache:
        r, n = self.request, min(self.request.n_events, SHORT_RUN)
        sides = {
            "recomputing": passes.side(self.pair.sampler("target_only_recompute"), n, r.device),
            "cached": passes.side(self.pair.sampler("target_only"), n, r.device),
        }
        rng = self.key.replace(purpose="cache").generator()
        gain = passes.few_pairs(sides, "recomputing", rng, SHARES["cache"] * r.seconds, self.synchronise)["cached"]
        each, hits = laws.cache_use(used)
        return Cache(gain, n, each, hits)

    def _batch(self) -> dict[int, Estimate]:
        r, n = self.request, min(self.request.n_events, SHORT_RUN)
        sampler = self.pair.sampler("speculative", draft=r.draft, k=min(r.k, n - 1), rule=r.rule)
        sides = {str(b): passes.side(sampler, n, r.device, b) for b in (1, *BATCHES)}
        rng = self.key.replace(purpose="batch").generator()
        found = passes.few_pairs(sides, "1", rng, SHARES["batch"] * r.seconds, self.synchronise)
        return {int(b): e for b, e in found.items()}


def parameters_of(model: Any) -> int | None:
    """Number of parameters where a model, or the model it is made from, says so."""
    while model is not None:
        found = getattr(model, "n_parameters", None)
        if found is not None:
            return int(found)
        model = getattr(model, "base", None)
    return None


def held_out(card: dict[str, Any], draft: str) -> Estimate | None:
    """Draft less target on the card's test sequences; it knows the shipped draft only."""
    found = (card.get("nll") or {}).get("draft_minus_target") if draft == "shipped" else None
    return Estimate(found["value"], found["low"], found["high"]) if found else None


def default_length(card: dict[str, Any]) -> int:
    """Events of a sequence where none is asked for: the training median, at most 100."""
    return min(int(card.get("train_median_events") or LONGEST_DEFAULT), LONGEST_DEFAULT)
