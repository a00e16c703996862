"""Certify a sampler in Python: sampler and target in, verdicts out, at whatever level of access they offer."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from tppsd_bench import budget
from tppsd_bench.errors import Exit, InputError
from tppsd_bench.protocols import (
    ConditionalTarget,
    Declaration,
    Rule,
    SampleRequest,
    SampleRun,
    SamplerUnderTest,
    Stop,
    Target,
)
from tppsd_bench.results import CellResult, Evidence, Outcome, Verdict
from tppsd_bench.runner.answers import ask
from tppsd_bench.runner.design import Access, Design
from tppsd_bench.runner.worker import describe
from tppsd_bench.streams import StreamKey

if TYPE_CHECKING:
    import pandas as pd

    from tppsd_bench.runner.examine import Finding
    from tppsd_bench.runner.rounds import Rounds

LABEL = "sampler"
DEFAULT_EVENTS = 20_000
DEFAULT_LENGTH = 100


@dataclass(frozen=True)
class Certificate:
    """What was found about one sampler. Falsy unless the sampler passed."""

    cell: CellResult

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        return self.cell.verdicts

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        return self.cell.evidence

    @property
    def outcome(self) -> Outcome:
        """Worst of validity, law and mechanism."""
        from tppsd_bench.runner.summary import summarise_pair

        return summarise_pair(self.cell.pair, [self.cell]).outcome

    @property
    def exit_code(self) -> Exit:
        from tppsd_bench.runner.summary import exit_code

        return exit_code([self.cell])

    @property
    def sentence(self) -> str:
        """The verdict in one sentence: exact or not, how sure, what could still hide."""
        from tppsd_bench.runner.summary import summarise_pair

        return summarise_pair(self.cell.pair, [self.cell]).sentence

    @property
    def looks_like(self) -> str:
        """The known faults that a failure resembles, in one sentence; empty where nothing failed."""
        return str(self.cell.figures.get("looks_like", ""))

    def __bool__(self) -> bool:
        return self.outcome is Outcome.PASS

    def to_frame(self) -> pd.DataFrame:
        """The evidence as a table: name, axis, p_value, passed, effect with interval, margin, where, ...; worst first."""
        import pandas as pd

        columns = ("name", "axis", "p_value", "passed", "statistic", "n", "effect", "effect_name", "margin", "min_detectable",
                   "primary", "display", "detail")  # fmt: skip
        rows: list[dict[str, Any]] = []
        for e in self.evidence:
            low, high = e.interval or (None, None)
            where = ", ".join(f"{k} {v}" for k, v in e.where.items())
            rows.append({c: getattr(e, c) for c in columns} | {"axis": e.axis.value, "low": low, "high": high, "where": where})
        table = pd.DataFrame(rows, columns=[*columns, "low", "high", "where"])
        return table.sort_values(["display", "p_value"], kind="stable", ignore_index=True)

    def __repr__(self) -> str:
        return f"<Certificate {self.sentence}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th scope='row' style='text-align:left'>{v.axis.value}</th><td><b>{v.outcome.value}</b></td>"
            f"<td style='text-align:left'>{html.escape(v.sentence)}</td></tr>"
            for v in self.verdicts
        )
        missing = "".join(f"<li>{html.escape(m)}</li>" for m in self.cell.not_possible)
        missing = f"<p>Not possible at this access:</p><ul>{missing}</ul>" if missing else ""
        return f"<div><p>{html.escape(self.sentence)}</p><table>{rows}</table>{missing}</div>"


class ProcessSampler:
    """A known process as the reference arm: exact simulation of the target itself."""

    def __init__(self, process: Any) -> None:
        self._process = process
        self.declares = Declaration("target_only", reproducible=True, name="exact simulation of the target process")

    def sample(self, request: SampleRequest) -> SampleRun:
        return SampleRun(self._process.simulate(request.n_sequences, request.stop, request.key))


def certify(
    sampler: SamplerUnderTest,
    target: Target,
    *,
    n_events: int = DEFAULT_EVENTS,
    access: Access | Literal["auto"] = "auto",
    draft: ConditionalTarget | None = None,
    reference: SamplerUnderTest | None = None,
    seed: int = 0,
    stop: Stop | None = None,
    level: float = budget.RUN_LEVEL,
    name: str = "",
    timeout: float | None = None,
    sequential: bool = False,
) -> Certificate:
    """Does ``sampler`` draw from the law of ``target``?

    Args:
        sampler: ``sample(request) -> SampleRun`` and ``declares``; with a trace and a declared rule its mechanism is tested.
        target: ``score(batch)`` suffices; ``conditionals(batch)`` opens the white-box checks.
        n_events: events of the first round; confirmation rounds on fresh seeds use four times as many.
        access: "black" (sequences against a reference), "grey" (+ target scores), "white" (+ trace); "auto": all there is.
            What a lower level does not use, such as a trace, is ignored.
        draft: the draft's conditional law, for the deepest checks.
        reference: a sampler known to draw from the target, for two-sample tests; a process that simulates is its own.
        seed: names the streams. stop: default sequences of 100 events (fewer if ``n_events`` is small).
        level: probability that an exact sampler fails, over all families. name: instead of the declared one.
        timeout: seconds after which one call of a sampler counts as hanging.
        sequential: watch the sampler while it draws and stop at proof of a fault; ``n_events`` is then the most that is drawn in
            the first round. An exact sampler's certificate is the same either way, if its sequences do not depend on batches.

    Raises InputError with one sentence where sampler or target break, hang or do not keep their contract.
    """
    from tppsd_bench.runner.design import Subject
    from tppsd_bench.runner.examine import examine
    from tppsd_bench.runner.rounds import Rounds

    simulates = getattr(target, "simulate", None) is not None
    reference = reference or (ProcessSampler(target) if simulates else None)
    if access == "auto":
        access = "white" if hasattr(target, "score") or reference is None else "black"
    _check(sampler, target, draft, reference, n_events, access)
    if sequential and access == "black":
        raise InputError(
            "A sequential certificate bets on the target's own scores; give a target with score(batch), or leave it."
        )
    label = name or sampler.declares.name or type(sampler).__name__
    try:
        design = _design(sampler, target, n_events, stop, StreamKey(seed=seed, suite="certify", cell=label), access, timeout)
        levels = _levels(level)
        design = replace(design, watch_level=levels.eprocess if sequential else None)
        rounds = Rounds(target, {LABEL: Subject(sampler, draft)}, reference, design)
        finding = examine(rounds, levels)[LABEL]
    except TimeoutError as problem:
        raise InputError(str(problem)) from problem
    if finding.error:
        cause = rounds.problems.get(LABEL)
        said = str(cause) if isinstance(cause, InputError) else f"The sampler under test raised {finding.error}"
        raise InputError(said) from cause
    n = finding.arm.run.events.n_events if finding.arm else 0
    missing = finding.not_possible + (("two-sample tests: no reference sampler was given",) if reference is None else ())
    cell = CellResult(
        f"certify.{label}", "law", label, "", f"Certificate of {label}", label, None, _plain(design.stop), seed,
        design.n_sequences, n, finding.verdicts, finding.evidence, not_possible=missing,
        figures=_figures(finding, rounds, levels.eprocess),
    )  # fmt: skip
    return Certificate(cell)


def _figures(finding: Finding, rounds: Rounds, alpha: float) -> dict[str, Any]:
    from tppsd_bench.runner.monitor import figures

    if finding.arm is None:
        return {}
    return figures(rounds.wealth(LABEL), alpha) | ({"looks_like": finding.looks_like} if finding.looks_like else {})


def needs(n_events: int, level: float = budget.RUN_LEVEL) -> str:
    """One sentence, before the data: what ``n_events`` events let a certificate see."""
    from tppsd_bench.runner.plan import min_detectable_theta

    theta = min_detectable_theta(n_events, _levels(level).analytic)
    return (
        f"{n_events:,} events: with power .95 a shift theta of {theta:.3f} from the target's law is found at level {level:.0e}, and "
        f"nothing passes with a Kolmogorov distance of {budget.delta_ks(n_events):.3f}; smaller faults may hide."
    )


def _levels(level: float) -> Any:
    from tppsd_bench.runner.plan import Levels

    share = level / budget.RUN_LEVEL
    return Levels(
        budget.LAW_ANALYTIC_LEVEL * share, budget.PERMUTATION_LEVEL * share, budget.MECHANISM_LEVEL * share,
        budget.EPROCESS_LEVEL * share,
    )  # fmt: skip


def _plain(stop: Stop) -> dict[str, float]:
    pairs: Mapping[str, float | None] = {"n_events": stop.n_events, "horizon": stop.horizon}
    return {k: float(v) for k, v in pairs.items() if v is not None}


def _check(sampler: Any, target: Any, draft: Any, reference: Any, n_events: int, access: str) -> None:
    needed = [("sampler", sampler, "sample"), ("sampler", sampler, "declares"), ("target", target, "n_types")]
    needed += [("draft", draft, "conditionals")] * (draft is not None)
    needed += [("reference", reference, "sample")] * (reference is not None)
    for what, has, method in needed:
        if not hasattr(has, method):
            raise InputError(
                f"The {what} ({type(has).__name__}) has no {method!r}; see tppsd_bench/protocols.py for what it must offer."
            )
    rules = get_args(Rule)
    if getattr(sampler.declares, "rule", None) not in rules:
        raise InputError(
            f"The sampler declares {sampler.declares!r}; expected tppsd_bench.Declaration with a rule among {', '.join(rules)}."
        )
    if access not in ("auto", "black", "grey", "white"):
        raise InputError(f"access is {access!r}; expected auto, black, grey or white.")
    if access == "black" and reference is None:
        raise InputError("Black-box access compares two samplers: give reference=, a sampler known to draw from the target.")
    if access != "black" and not hasattr(target, "score"):
        raise InputError(
            f"The target ({type(target).__name__}) has no score(batch); without it only access='black' is possible."
        )
    if n_events < 1:
        raise InputError(f"n_events is {n_events}; expected a positive number (20,000 gives a Kolmogorov margin of .025).")


def _design(
    sampler: SamplerUnderTest, target: Target, n_events: int, stop: Stop | None, key: StreamKey, access: Access,
    timeout: float | None,
) -> Design:  # fmt: skip
    if stop is None:
        stop = Stop(n_events=max(1, min(DEFAULT_LENGTH, n_events // 20)))
    design = Design(stop, 2, key, access, refuse_repeats=True, call_seconds=timeout)
    if stop.n_events is not None:
        return replace(design, n_sequences=max(2, math.ceil(n_events / stop.n_events)))
    request = SampleRequest(40, stop, key.replace(stage="size", arm=LABEL), want_trace=False)
    try:
        pilot = ask(sampler, request, target.n_types, seconds=timeout).events
    except (InputError, TimeoutError, MemoryError):
        raise
    except Exception as problem:
        raise InputError(f"The sampler under test raised {describe(problem)}") from problem
    return replace(design, n_sequences=max(20, math.ceil(n_events * len(pilot) / max(pilot.n_events, 1))), pilot_sequences=60)
