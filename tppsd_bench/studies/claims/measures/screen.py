"""Does a look at 200 fixed-seed sequences show what is wrong? Every fault of the zoo against what its users compared it with."""

from __future__ import annotations

import importlib
from typing import Annotated, Any

from pydantic import Field

from tppsd_bench.protocols import SampleRequest, SamplerUnderTest, Stop
from tppsd_bench.stats.blackbox import blackbox_battery
from tppsd_bench.streams import StreamKey
from tppsd_bench.studies.base import StudyTable
from tppsd_bench.studies.claims.measures.base import Context, Measured, Quantity, share


class Settings(StudyTable):
    zoo: Annotated[str, Field(pattern=r"^[\w.]+$")] = "reference_impls.mutants"
    n_sequences: Annotated[int, Field(ge=20)] = 200
    n_permutations: Annotated[int, Field(ge=99)] = 999
    level: Annotated[float, Field(gt=0, lt=1)] = 0.01
    """Of one look."""
    mutants: list[str] = []
    """Only these; empty: all faults and controls."""


def measure(context: Context, settings: Settings) -> Measured:
    """Share of faults that one look catches, and of exact controls that it accuses.

    The look is generous to the advice: marginal gaps and types, counts, autocorrelations and more at once, by permutations of whole
    sequences (maxT) at ``level``, each fault on the pair, draft and length on which it shows.
    """
    zoo: Any = importlib.import_module(settings.zoo)
    loaded: dict[str, Any] = {context.name: context.pair}
    caught: list[str] = []
    missed: list[str] = []
    accused: list[str] = []
    controls = 0
    for name in settings.mutants or [*zoo.names(), *zoo.controls()]:
        mutant = zoo.mutant(name)
        witness = mutant.witness
        pair = loaded.setdefault(witness.pair, None) or context.load(witness.pair)
        loaded[witness.pair] = pair
        key = context.key.replace(arm=name)
        arms = (
            _drawn(mutant.sampler(pair), settings, witness.stop, key.replace(stage="under test")),
            _drawn(mutant.baseline(pair), settings, witness.stop, key.replace(stage="target-only")),
        )
        rng = key.replace(purpose="permutations").generator()
        p = next(
            e.p_value
            for e in blackbox_battery({name: arms}, rng, n_permutations=settings.n_permutations)
            if e.name == "blackbox.maxT"
        )
        alarm = p is not None and p <= settings.level
        if mutant.control:
            controls += 1
            accused += [name] * alarm
        else:
            (caught if alarm else missed).append(name)
    n = len(caught) + len(missed)
    where = f"{n} faults, {settings.n_sequences} sequences an arm, level {settings.level:g}"
    found = [Quantity("faults_seen", "faults seen by the look", *share(len(caught), n), where, n, "percent")]
    if controls:
        found.append(
            Quantity("controls_accused", "exact controls accused", *share(len(accused), controls), where, controls, "percent")
        )
    return Measured(tuple(found), f"Not seen: {', '.join(missed)}." if missed else "Every fault was seen.")


def _drawn(sampler: SamplerUnderTest, settings: Settings, stop: Stop, key: StreamKey) -> Any:
    return sampler.sample(SampleRequest(settings.n_sequences, stop, key, want_trace=False)).events
