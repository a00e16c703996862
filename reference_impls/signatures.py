"""Write the table of known faults' signatures: ``python -m reference_impls.signatures`` (minutes; after the zoo changes).

Each mutant runs on its own witness and, where the fault can show there at all, on others (another toy, another K and draft), so that a
signature is the fault's and not its witness's. Seeds are of this table alone; the power suite ranks on others.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from reference_impls.mutants import Mutant, Witness, mutant, names
from reference_impls.pairs import load_pair
from tppsd_bench.certificate import certify
from tppsd_bench.progress import reporter
from tppsd_bench.results import Axis, Evidence, Outcome
from tppsd_bench.stats import signatures

SEED, SEEDS, EVENTS = 20_261_130, 3, 12_000
_pair = lru_cache(load_pair)


def witnesses(fault: Mutant) -> Iterator[Witness]:
    """The fault's own, and the same request with other rounds and on the other marked toy."""
    own = fault.witness
    yield own
    yield replace(own, k=3 if own.k != 3 else 4)
    for pair in ("toy-marked", "toy-gap-types"):
        if own.pair in ("toy-marked", "toy-gap-types") and pair != own.pair:
            yield replace(own, pair=pair)


def examine(fault: Mutant, witness: Witness, seed: int, n_events: int = EVENTS) -> list[Evidence] | None:
    """The evidence of one run, as a user would get it; None where the run did not show the fault."""
    pair = _pair(witness.pair)
    certificate = certify(
        fault.sampler(pair, witness=witness), pair.target, n_events=n_events, draft=pair.drafts[witness.draft], seed=seed,
        stop=witness.stop,
    )  # fmt: skip
    shown = any(v.outcome in (Outcome.FAIL, Outcome.INVALID) for v in certificate.verdicts if v.axis is not Axis.EFFICIENCY)
    return list(certificate.evidence) if shown else None


def table(say: Callable[[str, float], None], n_seeds: int = SEEDS) -> dict[str, signatures.Known]:
    """Signatures of the whole zoo."""
    runs: dict[str, tuple[str, list[list[Evidence]]]] = {}
    members = names()
    for i, name in enumerate(members):
        say(name, i / len(members))
        fault = mutant(name)
        found = (examine(fault, witness, SEED + s) for witness in witnesses(fault) for s in range(n_seeds))
        runs[name] = fault.broken, [evidence for evidence in found if evidence is not None]
    return signatures.learn(runs)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m reference_impls.signatures", description=(__doc__ or "").split(":")[0])
    parser.add_argument("--seeds", type=int, default=SEEDS, help="runs a witness")
    given = parser.parse_args(arguments)
    path = Path(signatures.__file__).with_name("signatures.json")
    with reporter() as say:
        text = signatures.to_json(table(say, given.seeds))
    path.write_text(text, encoding="utf-8")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
